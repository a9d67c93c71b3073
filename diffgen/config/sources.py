"""Where images come from; what one family alone uses is declared beside it, in :mod:`diffgen.sources`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from diffgen.config.schema import Maybe, OpenTables, SettingError, setting, settings
from diffgen.config.tables import with_table

_FAMILY = "source.family"
# settings that a path behind a family's name and a colon is for
_PATHS = {"file": "generator.file", "diffusers": "source.diffusers.folder"}


def with_path(given: Mapping[str, Any]) -> dict[str, Any]:
    """Settings by full name, of which ``source.family`` may hold a path, as in ``diffusers:FOLDER``: each for itself.

    Raises:
        SettingError: the family takes no path, or its path is empty.
    """
    name, colon, path = str(given.get(_FAMILY, "")).partition(":")
    if not colon:
        return dict(given)
    if name not in _PATHS or not path:
        known = " or ".join(f"{each}:PATH" for each in _PATHS)
        raise SettingError(_FAMILY, f"is '{given[_FAMILY]}'; only {known} takes a path behind the name.", "--source")
    return {**given, _FAMILY: name, _PATHS[name]: path}


@settings("source")
class SourceConfig:
    """Which family of sources draws the images."""

    family: Maybe[str] = setting(
        None,
        "Where images come from: a GAN trained on the data; vae or vq, the codes of an auto-encoder trained on it; "
        "denoiser, real images with noise, restored by a network trained on it; file:FILE, a generator of your own; "
        "diffusers:FOLDER, a diffusion model of others; seeds, real images with operators (default: file where "
        "--generator names one, gan where --gan does, else what suits the technique: seeds for diffgan, vae or vq for "
        "searches from encoded images).",
        option="--source",
        metavar="NAME[:PATH]",
        common=True,
        brief="Where pictures come from (default: what suits the technique).",
    )
    families: OpenTables = setting(factory=dict, about="Settings of single families, each in a table of its own.")

    def with_family(self, settings: Any) -> SourceConfig:
        """The same with the settings of one family, such as ``SeedsSettings(steps=1)``."""
        return replace(self, families=with_table(self.families, settings))
