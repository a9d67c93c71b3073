"""Rounding: pixels or inputs in fewer steps, or cut off at the ends of a smaller range."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch

from diffgen.causes.base import Cause, Change, Seen, Stage


class Rounding(Cause):
    name = "rounding"

    def changes(self, seen: Seen) -> Iterator[Change]:
        advice = "keep the pixels as exact as the other model gets them"
        for name, says, stage, apply in (
            ("pixels to whole numbers", "rounds resized pixels to whole numbers", Stage.PIXELS, torch.round),
            ("pixels down", "rounds resized pixels down to whole numbers", Stage.PIXELS, torch.floor),
            ("pixels to 5 bits", "gets pixels of 5 bits (RGB565)", Stage.PIXELS, lambda x: (x / 8).floor() * 8),
            ("bfloat16", "is handed bfloat16 numbers", Stage.INPUT, lambda x: x.bfloat16().float()),
            ("steps of 1/16", "is handed numbers in steps of 1/16", Stage.INPUT, lambda x: (x * 16).round() / 16),
        ):
            yield Change(f"rounding: {name}", says, stage, apply, advice)
        for share in _SHARES:
            yield _cut_off(share, lambda share=share: tuple(map(_cut_off, (share - 0.1, share - 0.05, share + 0.05))))  # type: ignore[misc]
        for bound in (1.0, 2.0):
            yield _clamped(f"{bound:g}", lambda x, bound=bound: x.clamp(-bound, bound))  # type: ignore[misc]


_SHARES = (0.5, 0.7, 0.9)  # of the largest input of the batch's pictures, which nobody else knows


def _cut_off(share: float, nearby: Callable[[], tuple[Change, ...]] = tuple) -> Change:
    # by each picture alone the bound would follow the picture
    bound: list[float] = []

    def clamped(x: torch.Tensor) -> torch.Tensor:
        if not bound:
            bound.append(share * float(x.abs().max()))
        return x.clamp(-bound[0], bound[0])

    return _clamped(f"{share:.0%} of the range", clamped, nearby)


def _clamped(
    words: str, apply: Callable[[torch.Tensor], torch.Tensor], nearby: Callable[[], tuple[Change, ...]] = tuple
) -> Change:
    return Change(
        f"saturation: input cut off at {words}",
        f"is handed numbers that are cut off at {words}, as by an 8-bit input of too small a range",
        Stage.INPUT,
        apply,
        "calibrate the 8-bit input on pictures that are fed as in use",
        nearby=nearby,
    )
