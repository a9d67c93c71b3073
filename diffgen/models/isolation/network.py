"""A generator or discriminator of the user's own behind the wall."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from diffgen.models.isolation.model import Said, request
from diffgen.models.isolation.process import Child
from diffgen.models.model_settings import ModelSettings
from diffgen.models.sniffing import FileKind


def open_isolated(
    path: Path, kind: FileKind, settings: ModelSettings, *, timeout: float
) -> tuple[Callable[[torch.Tensor], Any], list[int | None] | None, int | None]:
    """What computes, the sides of the input that the file declares, and the largest batch that it allows.

    Raises:
        UserError: the file cannot be opened, or its process died or took too long.
    """
    child = Child(settings.name, kind.name, timeout)
    said = Said(child.open({**request(path, kind), "as": "network"}), settings.name)
    return lambda batch: child.ask(batch.to(torch.float32), ""), said.sides("sides"), said.count("largest")
