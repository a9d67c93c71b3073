"""Scale, mean and std: another range of values than the model was trained with, and tone curves."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch

from diffgen.causes.base import Cause, Change, Seen, Stage
from diffgen.config import Preprocessing, replace

Values = tuple[float, ...]

# name -> scale of the grey levels, mean and std after it
_IMAGENET = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
_CIFAR = (0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616)
_MNIST = (0.1307,), (0.3081,)
_CAFFE = (123.675, 116.28, 103.53)


class Levels(Cause):
    name = "levels"

    def changes(self, seen: Seen) -> Iterator[Change]:
        right = _Normalisation.of(seen)
        for what, says, given in _others(right, seen.shape[0]):
            factor, offset = given.after(right)
            yield Change(
                f"{what}: {says}",
                f"is handed pixels {says}" if what != "mean and std" else f"is handed pixels normalised with {says}",
                Stage.LEVELS,
                _affine(factor, offset),
                "scale and normalise the pixels as the other model is fed",
                lambda own, other, factor=factor, offset=offset: _undone(own, other, factor, offset),  # type: ignore[misc]
                (lambda own: None) if seen.takes_bytes else given.as_preprocessing,
            )
        for name, says, apply in _TONES:
            yield Change(f"tone: {name}", says, Stage.PICTURE, apply, "take the grey levels as the decoder gives them")


_TONES: tuple[tuple[str, str, Callable[[torch.Tensor], torch.Tensor]], ...] = (
    ("gamma applied twice", "is handed pictures made brighter by a gamma of 2.2", lambda x: _power(x, 1 / 2.2)),
    ("linear light", "is handed linear light in place of sRGB values", lambda x: _power(x, 2.2)),
    ("video range", "is handed grey levels from 16 to 235 in place of 0 to 255", lambda x: 16 + x * (219 / 255)),
    (
        "video range stretched",
        "stretches grey levels from 16..235 to 0..255, though they have the whole range",
        lambda x: ((x - 16) * (255 / 219)).clamp(0, 255),
    ),
)


class _Normalisation:
    """(factor * grey level - mean) / std, float64 (C,) each."""

    def __init__(self, factor: float, mean: Values, std: Values, channels: int) -> None:
        self.factor = torch.full((channels,), factor, dtype=torch.float64)
        self.mean = torch.tensor(mean or (0.0,), dtype=torch.float64).expand(channels)
        self.std = torch.tensor(std or (1.0,), dtype=torch.float64).expand(channels)

    @classmethod
    def of(cls, seen: Seen) -> _Normalisation:
        own, channels = seen.preprocessing, seen.shape[0]
        if seen.takes_bytes:  # the file normalises by itself; nearly all of these files were trained with -1..1
            return cls(1 / 127.5, (1.0,), (), channels)
        # in the order R, G, B, as the pixels are before they are handed over
        mean, std = _in_order(own, own.mean or ()), _in_order(own, own.std or ())
        return cls(1 / 255 if own.scale == "0..1" else 1.0, mean, std, channels)

    def as_preprocessing(self, own: Preprocessing) -> Preprocessing:
        factor = float(self.factor[0])
        whole = 255 * factor if factor < 0.5 else factor
        values = (tuple(round(float(each) / whole, 6) for each in channel) for channel in (self.mean, self.std))
        mean, std = (_in_order(own, each) for each in values)
        plain = not any(mean) and set(std) == {1.0}
        return replace(
            own, scale="0..1" if factor < 0.5 else "0..255", mean=() if plain else mean, std=() if plain else std
        )

    def after(self, right: _Normalisation) -> tuple[torch.Tensor, torch.Tensor]:
        """Factor and offset, float64 (C,), of grey levels that the right one then makes what this one makes."""
        factor = self.factor / self.std * right.std / right.factor
        return factor, (right.mean - self.mean / self.std * right.std) / right.factor


def _others(right: _Normalisation, channels: int) -> Iterator[tuple[str, str, _Normalisation]]:
    """The known ways to scale and normalise; what comes to the right one is passed over where inputs are compared."""
    own_mean, own_std = tuple(right.mean.tolist()), tuple(right.std.tolist())
    own_factor = float(right.factor[0])

    def made(factor: float, mean: Values = (), std: Values = ()) -> _Normalisation:
        return _Normalisation(factor, mean, std, channels)

    yield "scale", "from 0 to 255", made(1.0)
    yield "scale", "from 0 to 1", made(1 / 255)
    yield "scale", "from -1 to 1", made(1 / 127.5, (1.0,))
    yield "scale", "that were divided by 255 twice", made(own_factor / 255, own_mean, own_std)
    yield "scale", "that were not divided by 255 before mean and std", made(own_factor * 255, own_mean, own_std)
    yield "mean and std", "the mean alone, without the std", made(own_factor, own_mean)
    yield "mean and std", "the std alone, without the mean", made(own_factor, (), own_std)
    if channels == 3:
        yield "mean and std", "those of ImageNet", made(1 / 255, *_IMAGENET)
        yield "mean and std", "those of CIFAR-10", made(1 / 255, *_CIFAR)
        yield "mean and std", "the mean of ImageNet in grey levels", made(1.0, _CAFFE)
        yield "mean and std", "the values in the order BGR", made(own_factor, own_mean[::-1], own_std[::-1])
    yield "mean and std", "those of MNIST", made(1 / 255, *_MNIST)
    twice = right.mean + right.mean * right.std, right.std**2
    yield "mean and std", "its own, twice", made(own_factor, tuple(twice[0].tolist()), tuple(twice[1].tolist()))


def _in_order(own: Preprocessing, values: Values) -> Values:
    """Values of R, G, B in the order in which a model is handed its channels, and the other way round."""
    return values[::-1] if own.channels == "bgr" else values


def _affine(factor: torch.Tensor, offset: torch.Tensor):  # type: ignore[no-untyped-def]
    a, b = (each.float().view(-1, 1, 1) for each in (factor, offset))
    return lambda pixels: pixels * a.to(pixels.device) + b.to(pixels.device)


def _power(pixels: torch.Tensor, exponent: float) -> torch.Tensor:
    return 255 * (pixels / 255).clamp(0, 1) ** exponent


def _undone(
    own: Preprocessing, other: Preprocessing, factor: torch.Tensor, offset: torch.Tensor
) -> list[Preprocessing]:
    """As the other model is fed; or scale, mean and std that make up for factor * x + offset of the grey levels."""
    as_other = replace(own, scale=other.scale, mean=other.mean, std=other.std)
    bare = [replace(own, scale=scale, mean=(), std=()) for scale in ("0..1", "0..255")]
    whole = 1 / 255 if own.scale == "0..1" else 1.0
    mean, std = (torch.tensor(each or usual).double() for each, usual in ((own.mean, (0.0,)), (own.std, (1.0,))))
    if own.channels == "bgr":
        factor, offset = factor.flip(0), offset.flip(0)
    exact = replace(
        own,
        mean=tuple(round(float(each), 6) for each in (factor * mean + whole * offset).expand(len(factor))),
        std=tuple(float(f"{each:.6g}") for each in (factor * std).expand(len(factor))),
    )
    return list(dict.fromkeys(each for each in (as_other, *bare, exact) if each != own))
