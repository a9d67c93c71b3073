"""Where images come from; what one family alone uses is declared beside it, in :mod:`diffgen.sources`."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Literal

from diffgen.config.schema import Maybe, OpenTables, setting, settings
from diffgen.config.tables import with_table


@settings("source")
class SourceConfig:
    """Which family of sources draws the images."""

    family: Maybe[Literal["gan", "file", "seeds"]] = setting(
        None,
        "Where images come from: a GAN trained on the data, a generator's file, or seeds, real images with operators "
        "(default: file where --generator names one, else gan).",
        option="--source",
        common=True,
    )
    families: OpenTables = setting(factory=dict, about="Settings of single families, each in a table of its own.")

    def with_family(self, settings: Any) -> SourceConfig:
        """The same with the settings of one family, such as ``SeedsSettings(steps=1)``."""
        return replace(self, families=with_table(self.families, settings))
