"""Starts the process that isolates models before torch is imported here: it imports torch too, on another core."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from diffgen.config import ModelSpec, is_address

# one of these is there where torch may find a GPU, whose models are not isolated
_GPUS = ("/dev/nvidiactl", "/dev/kfd")


def start_isolation(specs: Sequence[ModelSpec], device: str) -> None:
    """Start it where one of the models will be isolated, as far as that can be told from names and settings.

    What is not started here is started when a model is opened; what is started in vain ends with diffgen.

    Args:
        specs: the models, with their paths.
        device: where networks compute, as the user says it.
    """
    from diffgen.models.isolation.starting import start
    from diffgen.models.isolation.wall import walls

    may_be_gpu = device != "cpu" and (device != "auto" or any(Path(each).exists() for each in _GPUS))
    if not may_be_gpu and walls().missing is None and any(_may_be_isolated(each) for each in specs):
        start()


def _may_be_isolated(spec: ModelSpec) -> bool:
    opening = spec.opening
    if opening.isolate == "off" or opening.allow_pickle or opening.arch is not None:
        return False
    # not Path.is_file(), which raises where a folder may not be looked into; opening the model says so in a sentence
    return spec.path is not None and not is_address(spec.path) and os.path.isfile(os.path.expanduser(spec.path))
