"""Which real images nothing is trained on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from diffgen.config.schema import setting, settings

SEEDS = 2**32 - 1  # largest seed that every random generator takes


@settings("split")
class SplitConfig:
    """The split of the real images into those that networks are trained on, and those held out.

    It belongs to the data: sources and filters that are trained on the same data see the same images.
    """

    holdout: float = setting(
        0.1,
        "Share of the real images on which nothing is trained; they calibrate the filters and guard the GAN.",
        gt=0,
        lt=1,
    )
    seed: int = setting(0, "Seed of the choice of the held-out images.", ge=0, le=SEEDS)


def split_of_its_own(values: Mapping[str, Any]) -> dict[str, Any]:
    """Settings as tables, where those of version 0.1, in which the GAN's decided about the split, say it as now."""
    gan = values.get("gan")
    if not isinstance(gan, Mapping) or "holdout" not in gan or "split" in values:
        return dict(values)
    rest = {name: value for name, value in gan.items() if name != "holdout"}
    return {**values, "gan": rest, "split": {"holdout": gan["holdout"], "seed": gan.get("seed", 0)}}
