"""The chain of validity filters and its presets; what one filter alone uses is declared beside it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from diffgen.config.schema import FileName, Many, OpenTables, setting, settings
from diffgen.config.tables import with_table
from diffgen.errors import UserError


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

    def with_filter(self, settings: Any) -> FilterConfig:
        """The same with the settings of one filter, such as ``JurySettings(shown=6_000)``."""
        return replace(self, filters=with_table(self.filters, settings))


# "paper" is DiffGAN, section 3.6: SSIM of at least 0.4, and a discriminator whose threshold the paper leaves open
FILTER_PRESETS = {
    "default": FilterConfig(),
    "paper": FilterConfig(names=("discriminator", "ssim"), filters={"ssim": {"threshold": 0.4}}),
    "none": FilterConfig(names=()),
}
