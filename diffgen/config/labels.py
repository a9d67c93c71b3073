"""Label sheets."""

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
    seed: int = setting(0, "Which pictures are drawn, and their order.", option="--seed", metavar="N", ge=0)
