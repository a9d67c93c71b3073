"""Label sheets, and sets of labelled finds."""

from __future__ import annotations

from typing import Any

from diffgen.config.schema import Maybe, setting, settings

_SHARE: dict[str, Any] = {"ge": 0.0001, "le": 0.9999}


@settings("labels")
class LabelConfig:
    """How many triggers a person is asked to label, and which."""

    count: Maybe[int] = setting(
        None, "Pictures on the sheet (default: what --margin asks for).", option="--count", metavar="N", ge=1
    )
    confidence: float = setting(
        0.95,
        "Confidence with which a share among all valid triggers shall be known within the margin.",
        option="--confidence",
        metavar="P",
        **_SHARE,
    )
    margin: float = setting(0.05, "Margin of error of a share.", option="--margin", metavar="P", **_SHARE)
    seed: int = setting(0, "Seed of the choice of pictures and of their order.", option="--seed", metavar="N", ge=0)


@settings("training_set")
class TrainingSetConfig:
    """How the labelled finds of a run are divided into pictures to train with and pictures to test on."""

    test_share: float = setting(
        0.2,
        "Share of the pictures of each label that are to test on, at most.",
        option="--test-share",
        metavar="X",
        ge=0.01,
        le=0.9,
    )
    seed: int = setting(0, "Seed of the choice of pictures to test on.", option="--seed", metavar="N", ge=0)
