"""The settings of a comparison or check that a Python program names as the command line's options are named."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, Literal, TypedDict

from diffgen.config.budget import Budget
from diffgen.config.compare import CompareConfig
from diffgen.config.layers import Layer, nested
from diffgen.config.parts import with_path
from diffgen.config.schema import every_setting, unknown


class NamedSettings(TypedDict, total=False):
    """Every option that sets a setting, for type checkers; None is as good as leaving it out.

    ``technique``, ``generator`` and ``filters`` take objects too, so that verbs name them as parameters.
    """

    preset: str | None
    budget: str | Budget | None
    until: Literal["budget", "saturated"] | None
    stop_after: Literal["real", "variations", "search"] | None
    seed: int | None
    device: str | None
    batch_size: int | None
    resize: int | tuple[int, int] | str | None
    task: Literal["auto", "classification", "detection", "segmentation"] | None
    score_threshold: float | None
    moved_below: float | None
    moved_pixels: float | None
    iou_below: float | None
    class_share: float | None
    data_labels: Literal["auto", "use", "ignore"] | None
    ask: Literal["all", "staged"] | None
    workers: int | None
    ray: str | None
    fit: Literal["crop", "pad", "stretch"] | None
    skip_broken: bool | None
    exif: Literal["ignore", "apply"] | None
    source: str | None
    gan: str | os.PathLike[str] | None
    gan_schedule: Literal["quick", "default", "thorough"] | None
    gan_steps: int | None
    gan_seed: int | None
    generator_encoder: str | os.PathLike[str] | None
    latent_dim: int | None
    prior: Literal["normal", "uniform"] | None
    generator_pixels: Literal["auto", "-1..1", "0..1", "0..255"] | None
    discriminator: str | os.PathLike[str] | None
    objectives: Literal["both", "divergence", "diversity"] | None
    divergence: str | None
    diversity: Literal["pixels", "features"] | None
    validity: Literal["auto", "post", "constraint"] | None
    reducer: Literal["pca", "umap"] | None
    false_alarm_rate: float | None
    learned_from: str | None
    tune: int | None
    tune_seconds: float | None
    select: bool | None
    oracle: str | os.PathLike[str] | None
    jury: str | os.PathLike[str] | None


class NamedCheckSettings(NamedSettings, total=False):
    """Those of a check, for type checkers: its limits, and everything that its comparison has."""

    max_disagreement: float | str | None
    max_accuracy_drop: float | str | None
    max_new_behaviours: int | None
    max_regression_faults: int | None
    max_new_faults: int | None
    max_variation_faults: float | str | None
    max_shift: float | str | None
    max_class_accuracy_drop: float | str | None
    max_lost: float | str | None
    max_pixels_changed: float | str | None
    max_classes_lost: float | str | None
    max_miou_drop: float | str | None
    max_renamed: float | str | None
    max_map_drop: float | str | None
    random_images: int | None
    variations: int | None


def keys(kind: type[Any] = CompareConfig) -> dict[str, str]:
    """The full name of each setting that has an option, by the option's name in Python; ``kind`` is of which verb."""
    every = [each for each in every_setting(kind) if each.option is not None]
    return {str(each.option).removeprefix("--").replace("-", "_"): each.key for each in every}


def layer(named: Mapping[str, Any], kind: type[Any] = CompareConfig) -> Layer:
    """Settings by their options' names as a table.

    Args:
        named: None stands for a setting that is not named.
        kind: of settings; those of a check are beside those of its comparison, as in its file.

    Raises:
        SettingError: a name that no option has.
    """
    known = keys(kind)
    for name in named:
        if name not in known:
            raise unknown(name, sorted(known))
    return nested(with_path({known[name]: value for name, value in named.items() if value is not None}))
