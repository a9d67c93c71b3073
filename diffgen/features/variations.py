"""Changes of real images that a jury is trained on: those after which a picture is still named, and those after which
nobody could.

Everything is drawn from the generator that is handed in, one image apart from the next. Images are float32
(N, C, h, w) in [-1, 1].
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F

_TURN, _ZOOM, _SHIFT, _SHEAR = 15.0, 0.15, 0.1, 0.25  # degrees; shares of the size
_BEND = 0.06  # of the image's half side: standard deviation of the largest displacements
_KNOTS = 5  # a side, of smooth random fields
_STROKES, _BLURRED = 0.25, 0.3  # shares of images whose strokes are made wider, thinner; that are blurred
_LEFT = 0.15  # share of the area that a fragment keeps


def varied(images: torch.Tensor, rng: torch.Generator) -> torch.Tensor:
    """Images as somebody else might have drawn or taken them: what they show is still there."""
    values = _moved(images, rng)
    count, channels = values.shape[:2]
    share = _uniform((count, 1, 1, 1), 0, 1, rng)
    kind = _uniform((count, 1, 1, 1), 0, 1, rng)
    if channels == 1:  # strokes
        wide, thin = F.max_pool2d(values, 3, 1, 1), -F.max_pool2d(-values, 3, 1, 1)
        values = torch.where(kind < _STROKES, values.lerp(wide, share), values)
        values = torch.where(kind > 1 - _STROKES, values.lerp(thin, share), values)
    soft = F.avg_pool2d(values, 3, 1, 1, count_include_pad=False)
    blurred = _uniform((count, 1, 1, 1), 0, 1, rng) < _BLURRED
    return torch.where(blurred, values.lerp(soft, _uniform((count, 1, 1, 1), 0, 1, rng)), values)


def fragments(images: torch.Tensor, rng: torch.Generator) -> torch.Tensor:
    """A few spots of each image, the rest in its darkest value: too little to be named."""
    count, _, height, width = images.shape
    relief = F.interpolate(
        torch.randn(count, 1, _KNOTS, _KNOTS, generator=rng),
        (height, width),
        mode="bicubic",
        align_corners=True,
    )
    covered = max(1, round((1 - _LEFT) * height * width))
    level = relief.flatten(1).kthvalue(covered, dim=1).values[:, None, None, None]
    return torch.where(relief > level, images, images.amin((1, 2, 3), keepdim=True))


def _moved(values: torch.Tensor, rng: torch.Generator) -> torch.Tensor:
    """Each image turned, zoomed, sheared, shifted and bent by its own random amounts; edges are repeated."""
    count, _, height, width = values.shape
    turn = _uniform((count,), -1, 1, rng) * (_TURN * math.pi / 180)
    zoom = 1 + _uniform((count,), -1, 1, rng) * _ZOOM
    shift = _uniform((count, 2), -1, 1, rng) * (2 * _SHIFT)  # affine_grid spans [-1, 1]
    shear = _uniform((count,), -1, 1, rng) * _SHEAR
    cosine, sine = torch.cos(turn) / zoom, torch.sin(turn) / zoom
    affine = torch.stack(
        [torch.stack([cosine, shear - sine, shift[:, 0]], dim=1), torch.stack([sine, cosine, shift[:, 1]], dim=1)],
        dim=1,
    )
    knots = torch.randn(count, 2, _KNOTS, _KNOTS, generator=rng)
    knots = knots * _uniform((count, 1, 1, 1), 0, _BEND, rng)
    bend = F.interpolate(knots, (height, width), mode="bicubic", align_corners=True)
    grid = F.affine_grid(affine, list(values.shape), align_corners=False) + bend.permute(0, 2, 3, 1)
    return F.grid_sample(values, grid, padding_mode="border", align_corners=False)


def _uniform(shape: tuple[int, ...], low: float, high: float, rng: torch.Generator) -> torch.Tensor:
    return low + (high - low) * torch.rand(shape, generator=rng)
