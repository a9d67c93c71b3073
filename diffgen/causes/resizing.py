"""Resizing: kernel, antialias, size, crop, letterbox."""

from __future__ import annotations

from collections.abc import Iterator

from diffgen.causes.base import Cause, Change, Seen, Stage
from diffgen.causes.geometry import Geometry, Kernel
from diffgen.config import Preprocessing, replace

_FIELDS = ("size", "crop", "interpolation", "antialias")
_KERNELS: tuple[tuple[Kernel, bool, str], ...] = (
    ("nearest", False, "takes the nearest pixel"),
    ("nearest-floor", False, "takes the nearest pixel, rounded down"),
    ("bicubic", True, "resizes bicubic"),
    ("bicubic", False, "resizes bicubic without antialias"),
    ("bilinear", True, "resizes bilinear"),
    ("bilinear", False, "resizes bilinear without antialias"),
    ("area", True, "takes the mean of whole pixels (area)"),
    ("aligned", False, "resizes bilinear with aligned corners"),
    ("legacy", False, "resizes bilinear without half a pixel, as TensorFlow 1"),
)
# of the shares that the middle has, those of torchvision's and timm's models
_SHARES = (1.0, 0.875, 0.95, 0.9)
_SHIFTS = ((1, 1), (-1, -1), (0, 1), (1, 0), (0, -1), (-1, 0), (1, -1), (-1, 1))
_SIDES = {-1: {0: "above", 1: "left of"}, 1: {0: "below", 1: "right of"}}


class Resizing(Cause):
    """How the picture is brought to the size that the model takes; another size before."""

    name = "resizing"

    def changes(self, seen: Seen) -> Iterator[Change]:
        own = Geometry.of(seen.preprocessing, (seen.shape[1], seen.shape[2]))
        if seen.resizes or own.crop:
            yield from _kernels(own)
        height, width = own.size
        for share, words in ((1 / 2, "half"), (7 / 8, "7/8 of"), (3 / 4, "3/4 of")):
            smaller = Geometry((max(1, round(height * share)), max(1, round(width * share))))
            back = Geometry(own.size)
            yield Change(
                f"size: {words} the size",
                f"sees pictures that were made smaller, to {words} the size, and larger again",
                Stage.PIXELS,
                lambda pixels, smaller=smaller, back=back: back(smaller(pixels)),  # type: ignore[misc]
                "resize once, to the size that the model takes",
                _as_other,
            )


def _kernels(own: Geometry) -> Iterator[Change]:
    advice = "resize with the kernel that the other model's pictures are resized with"
    if own.kernel in ("bilinear", "bicubic"):
        what = "without antialias" if own.antialias else "with antialias"
        yield _change(
            f"antialias: resizes {what}", f"resizes {what}", replace(own, antialias=not own.antialias), advice
        )
    for kernel, antialias, words in _KERNELS:
        if (kernel, antialias) not in ((own.kernel, own.antialias), (own.kernel, not own.antialias)):
            yield _change(f"resizing: {words}", words, replace(own, kernel=kernel, antialias=antialias), advice)


class Cropping(Cause):
    """Which part of the picture the model sees."""

    name = "cropping"

    def changes(self, seen: Seen) -> Iterator[Change]:
        own = Geometry.of(seen.preprocessing, (seen.shape[1], seen.shape[2]))
        advice = "cut out the part that the other model sees"
        parts = {"stretches the whole picture": replace(own, crop=0.0)} if own.crop else {}
        for share in _SHARES:
            if share != own.crop:
                parts[f"sees {share:.1%} of the shorter side, from the middle"] = replace(own, crop=share)
                if share < 1:
                    parts[f"cuts out {share:.1%} and then resizes"] = replace(own, crop=share, crop_first=True)
        if own.crop:
            parts["cuts out before it resizes"] = replace(own, crop_first=True)
        for words, changed in parts.items():
            yield _change(f"crop: {words}", words, changed, advice)
        for down, right in _SHIFTS:
            where = " and ".join(f"one pixel {_SIDES[step][axis]}" for axis, step in ((0, down), (1, right)) if step)
            words = f"cuts out {where} the middle"
            yield _change(f"crop offset: {words}", words, replace(own, shift=(down, right)), advice)


class Letterbox(Cause):
    """All of the picture with its proportions, and one colour beside it."""

    name = "letterbox"

    def changes(self, seen: Seen) -> Iterator[Change]:
        own = Geometry.of(seen.preprocessing, (seen.shape[1], seen.shape[2]))
        height, width = seen.image_shape[1:]
        if height * own.size[1] == width * own.size[0]:
            return  # the proportions are those of the model
        for fill, words in ((0, "black"), (114, "grey (114)"), (255, "white"), (128, "grey (128)")):
            for corner, where in ((False, "beside it"), (True, "below or right of it")):
                says = f"keeps the proportions, with {words} {where} (letterbox)"
                changed = replace(own, fill=fill, corner=corner)
                yield _change(f"letterbox: {words} {where}", says, changed, "leave out the letterbox")


def _change(name: str, says: str, geometry: Geometry, advice: str) -> Change:
    return Change(name, says, Stage.RESIZE, geometry, advice, _as_other, geometry.as_preprocessing)


def _as_other(own: Preprocessing, other: Preprocessing) -> list[Preprocessing]:
    """As the other model's pictures are resized, where the two differ in it."""
    changed = replace(own, **{name: getattr(other, name) for name in _FIELDS if getattr(other, name) is not None})
    return [] if changed == own else [changed]
