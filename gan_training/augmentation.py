"""The five label-preserving transformations that enlarge the GAN's training set (paper, section 3.1).

Rotation, shift, shear, brightness and blur, each applied once to every image, so that n images become 6 n. The paper
names no parameters and the published code used a shift of 0.2 *pixels* and mid-grey borders; here every parameter is
in percent of the image or in degrees, drawn for each group of images, and what comes into view at a border is
background.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch

ROTATION_DEGREES = 12.0
SHIFT_PERCENT = 8.0
SHEAR_DEGREES = 12.0
BRIGHTNESS_PERCENT = 20.0
BLUR_PERCENT = (10 / 7, 20 / 7)  # standard deviation of the Gaussian, least and most: 0.4 to 0.8 pixels of 28

# torchvision draws one set of parameters for a whole batch; images are dealt into this many groups, each with its own
_GROUPS = 64
# A border whose grey levels mostly lie within this distance of their median is plain background. What is shown may
# touch the border: the share is 0.74 for the digits of scikit-learn, 0.88 for Fashion-MNIST, and 0.09 for CIFAR-10.
_PLAIN_BORDER_LEVELS = 8
_PLAIN_BORDER_SHARE = 0.6
_SMALLEST_SHARE = 0.4  # of the largest rotation, shift, ...: a transformation that changes nothing adds nothing


Strengths = dict[str, float]
Background = list[float] | None


@dataclass(frozen=True)
class Transformation:
    """One way to change an image so that its label stays.

    Attributes:
        draw: random strengths, by name, for images of (H, W).
        apply: does it: uint8 (N, C, H, W), their plain background, the strengths -> as many images.
    """

    draw: Callable[[torch.Size, torch.Generator], Strengths]
    apply: Callable[[torch.Tensor, Background, Mapping[str, float]], torch.Tensor]


def augment(images: torch.Tensor, *, generator: torch.Generator) -> torch.Tensor:
    """The images and their five transformations.

    Args:
        images: uint8 (N, C, H, W).
        generator: source of the random parameters.

    Returns:
        uint8 (6 N, C, H, W): the originals first, then the N images of each of :data:`TRANSFORMATIONS`.
    """
    background = plain_background(images)
    parts = [images]
    for transformation in TRANSFORMATIONS.values():
        part = torch.empty_like(images)
        for rows in torch.randperm(len(images), generator=generator).chunk(_GROUPS):
            strengths = transformation.draw(images.shape[-2:], generator)
            part[rows] = transformation.apply(images[rows], background, strengths)
        parts.append(part)
    return torch.cat(parts)


def plain_background(images: torch.Tensor) -> list[float] | None:
    """The grey level (one per channel) of a plain background, or None when the pictures run to their edges.

    Args:
        images: uint8 (N, C, H, W).
    """
    border = torch.cat(
        [images[:, :, 0], images[:, :, -1], images[:, :, :, 0], images[:, :, :, -1]], dim=2
    )  # (N, C, 2 H + 2 W)
    levels = border.transpose(0, 1).flatten(1).to(torch.float32)
    median = levels.median(dim=1, keepdim=True).values
    plain = ((levels - median).abs() <= _PLAIN_BORDER_LEVELS).float().mean()
    return median.squeeze(1).tolist() if plain >= _PLAIN_BORDER_SHARE else None


def _magnitude(generator: torch.Generator) -> float:
    """A number in [-1, -0.4] or [0.4, 1]."""
    size = _SMALLEST_SHARE + (1 - _SMALLEST_SHARE) * torch.rand((), generator=generator).item()
    return size if torch.rand((), generator=generator).item() < 0.5 else -size


def _affine(
    images: torch.Tensor,
    background: Background,
    *,
    angle: float = 0.0,
    translate: tuple[int, int] = (0, 0),
    shear: float = 0.0,
) -> torch.Tensor:
    from torchvision.transforms.v2 import functional as transform  # takes as long as torch, and few runs need it

    height, width = images.shape[-2:]
    level = torch.zeros(1) if background is None else torch.tensor(background).reshape(-1, 1, 1)
    if background is None:
        # no plain background to fill with: mirror the picture at its edges, transform, cut the middle out again
        left = max(height, width) // 4
        while left > 0:  # where one side is four times the other, a mirror image is mirrored again
            margin = min(left, min(images.shape[-2:]) - 1)
            images = transform.pad(images, [margin] * 4, padding_mode="reflect")
            left -= margin
    moved = transform.affine(
        # background becomes zero, which torchvision fills with; any other fill leaves a dark seam at the old border
        images - level,
        angle=angle,
        translate=list(translate),
        scale=1.0,
        shear=[shear, 0.0],
        interpolation=transform.InterpolationMode.BILINEAR,
    )
    moved = moved.add_(level).round_().clamp_(0, 255).to(torch.uint8)
    return transform.center_crop(moved, [height, width])


def _draw_rotation(sides: torch.Size, generator: torch.Generator) -> Strengths:
    return {"degrees": ROTATION_DEGREES * _magnitude(generator)}


def _rotate(images: torch.Tensor, background: Background, strengths: Mapping[str, float]) -> torch.Tensor:
    return _affine(images, background, angle=strengths["degrees"])


def _draw_shift(sides: torch.Size, generator: torch.Generator) -> Strengths:
    # at least one pixel each way: torchvision's shift counts whole pixels
    pixels = [SHIFT_PERCENT / 100 * size * _magnitude(generator) for size in sides]
    down, right = (max(1, round(abs(value))) * (1 if value > 0 else -1) for value in pixels)
    return {"right": right, "down": down}


def _shift(images: torch.Tensor, background: Background, strengths: Mapping[str, float]) -> torch.Tensor:
    return _affine(images, background, translate=(int(strengths["right"]), int(strengths["down"])))


def _draw_shear(sides: torch.Size, generator: torch.Generator) -> Strengths:
    return {"degrees": SHEAR_DEGREES * _magnitude(generator)}


def _shear(images: torch.Tensor, background: Background, strengths: Mapping[str, float]) -> torch.Tensor:
    return _affine(images, background, shear=strengths["degrees"])


def _draw_brightness(sides: torch.Size, generator: torch.Generator) -> Strengths:
    return {"factor": 1.0 + BRIGHTNESS_PERCENT / 100 * _magnitude(generator)}


def _brighten(images: torch.Tensor, background: Background, strengths: Mapping[str, float]) -> torch.Tensor:
    from torchvision.transforms.v2 import functional as transform

    return transform.adjust_brightness(images, strengths["factor"])


def _blur_range(width: int) -> tuple[float, float]:
    """Least and largest standard deviation, in pixels."""
    low, high = (percent / 100 * width for percent in BLUR_PERCENT)
    return low, high


def _draw_blur(sides: torch.Size, generator: torch.Generator) -> Strengths:
    low, high = _blur_range(sides[-1])
    return {"sigma": low + (high - low) * torch.rand((), generator=generator).item()}


def _blur(images: torch.Tensor, background: Background, strengths: Mapping[str, float]) -> torch.Tensor:
    from torchvision.transforms.v2 import functional as transform

    # what lies further away weighs less than a hundredth; torch mirrors no more than there is
    reach = min(round(2.5 * _blur_range(images.shape[-1])[1]), min(images.shape[-2:]) - 1)
    return transform.gaussian_blur(images, kernel_size=[2 * reach + 1] * 2, sigma=[strengths["sigma"]] * 2)


TRANSFORMATIONS: dict[str, Transformation] = {
    "rotation": Transformation(_draw_rotation, _rotate),
    "shift": Transformation(_draw_shift, _shift),
    "shear": Transformation(_draw_shear, _shear),
    "brightness": Transformation(_draw_brightness, _brighten),
    "blur": Transformation(_draw_blur, _blur),
}
