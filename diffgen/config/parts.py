"""Where images come from, and the chain of validity filters; what one part alone uses is declared beside it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from diffgen.config.plain import with_table
from diffgen.config.schema import FileName, Many, Maybe, OpenTables, SettingError, replace, setting, settings
from diffgen.errors import UserError

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
        "Where pictures come from, such as seeds, gan, file:FILE or diffusers:FOLDER (default: file where --generator "
        "names one, gan where --gan does, else what suits the technique).",
        option="--source",
        metavar="NAME[:PATH]",
        common=True,
        brief="Where pictures come from (default: what suits the technique).",
    )
    families: OpenTables = setting(factory=dict, about="Settings of single families, each in a table of its own.")

    def with_family(self, settings: Any) -> SourceConfig:
        """The same with the settings of one family, such as ``SeedsSettings(steps=1)``."""
        return replace(self, families=with_table(self.families, settings))


@settings("filters")
class FilterConfig:
    """The validity filters (DiffGAN, section 3.6; ``FILTER_PRESETS`` has the published ones).

    Each of them has a table of its own, in which its threshold can be given; others are found so that ``false_alarm``
    is kept.

    Raises:
        UserError: a filter that is named twice, or a number out of its range.
    """

    names: Many[str] | None = setting(
        None,
        "The filters, in the order in which they are asked (default: neighbors, jury and ssim; without a jury "
        "reconstruction and ssim, and discriminator before them where the run has one anyway).",
    )
    false_alarm: float = setting(
        0.02,
        "Share of held-out real images that all filters together may reject; it sets the thresholds.",
        option="--false-alarm-rate",
        metavar="X",
        ge=0,
        lt=1,
    )
    near_duplicate: float = setting(
        0.95,
        "Two triggers of one label pair count as one when their thumbnails correlate at least this much.",
        gt=0,
        le=1,
    )
    learned_from: FileName = setting(
        None,
        "What the filter learned learns from: a run whose pictures people labelled, or an .npz file with images and "
        "valid.",
        option="--learned-from",
        metavar="RUN|NPZ",
    )
    filters: OpenTables = setting(factory=dict, about="Settings of single filters, each in a table of its own.")

    def __post_init__(self) -> None:
        names = self.names or ()
        if len(set(names)) < len(names):
            raise UserError(
                f"The filters {', '.join(names)} name one of them twice; name each once, and give objects of one class "
                "a name each."
            )


# "paper" is DiffGAN, section 3.6: SSIM of at least 0.4, and a discriminator whose threshold the paper leaves open
FILTER_PRESETS = {
    "default": FilterConfig(),
    "paper": FilterConfig(names=("discriminator", "ssim"), filters={"ssim": {"threshold": 0.4}}),
    "none": FilterConfig(names=()),
}
