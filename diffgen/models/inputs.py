"""Turns the bytes of images into the numbers that a model is asked about."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Literal, get_args

import numpy as np
import torch
from torch.nn import functional

from diffgen.config import DEFAULT_PREPROCESSING, Preprocessing
from diffgen.errors import UserError
from diffgen.models.wording import counted, shape_text
from diffgen.types import UInt8Array

# (N, C, H, W), (N, H, W, C), and one row of values per image: (N, C * H * W) and (N, C * H * W, 1).
Layout = Literal["nchw", "nhwc", "flat", "flat-1"]
LAYOUTS: tuple[Layout, ...] = get_args(Layout)  # in the order in which they are tried
ImageShape = tuple[int, int, int]

_PADDING = 114  # the grey level beside a letterboxed picture, of YOLOv5 and all that came after it
_GREY_WEIGHTS = (0.299, 0.587, 0.114)
# Channels of the data that a way of handing them over needs, and channels that come out.
_CHANNELS_IN_OUT = {"bgr": (3, 3), "grey-to-rgb": (1, 3), "rgb-to-grey": (3, 1)}


def model_shape(preprocessing: Preprocessing, image_shape: ImageShape, name: str) -> ImageShape:
    """(C, H, W) of what a model is handed for images of a shape.

    Raises:
        UserError: the images have another number of channels than ``channels`` needs.
    """
    channels, height, width = image_shape
    way = preprocessing.channels or "rgb"
    wanted, given = _CHANNELS_IN_OUT.get(way, (channels, channels))
    if wanted != channels:
        raise UserError(
            f"The pre-processing of model {name} has channels {way!r}, which needs images of "
            f"{counted(wanted, 'channel')}, but the data has {shape_text(image_shape)}; leave it out."
        )
    if preprocessing.size:
        height, width = preprocessing.size
    return given, height, width


def batch_sides(layout: Layout, shape: ImageShape) -> tuple[int, ...]:
    """The sides of one image, (C, H, W), in a batch of a layout; a row of values goes channel by channel."""
    channels, height, width = shape
    match layout:
        case "nchw":
            return shape
        case "nhwc":
            return height, width, channels
        case "flat":
            return (channels * height * width,)
        case "flat-1":
            return channels * height * width, 1


def before_crop(size: tuple[int, int], crop: float) -> tuple[int, int]:
    """Height and width that an image is brought to before the middle of a size is cut out; the size where none is."""
    # 224 of 232 is a share that is no float, and 224 / (224 / 232) not 232
    return (int(size[0] / crop + 1e-6), int(size[1] / crop + 1e-6)) if crop else size


class PixelTransform:
    """One model's pre-processing of images of one shape.

    Args:
        preprocessing: its layout and outputs are not looked at.
        layout: the axes that the model takes.
        image_shape: (C, H, W) of the images.
        device: where the model's input is made.
        name: of the model, for messages.

    Raises:
        UserError: mean or std have neither one finite value nor one per channel that the model takes, a std is zero,
            or the images have another number of channels than ``channels`` needs.

    Attributes:
        own: (H, W) of the images.
        shape: (C, H, W) of what the model is handed.
        scale: how many pixels of these a pixel of the image is wide and high.
        origin: column and row in these of the image's upper left corner; negative where it was cut off.
    """

    def __init__(
        self, preprocessing: Preprocessing, layout: Layout, image_shape: ImageShape, device: torch.device, name: str
    ) -> None:
        preprocessing = preprocessing.over(DEFAULT_PREPROCESSING)
        self._device = device
        self._layout = layout
        self._nhwc = layout == "nhwc"
        self._channels = preprocessing.channels
        self._invert = bool(preprocessing.invert)
        self._antialias = bool(preprocessing.antialias)
        self.shape = model_shape(preprocessing, image_shape, name)
        own, wanted = image_shape[1:], self.shape[1:]
        self.own = own
        self._crop, resized = bool(preprocessing.crop), wanted
        fitting = preprocessing.fitting or "stretch"
        if preprocessing.crop:
            height, width = before_crop(wanted, preprocessing.crop)
            # by the side that needs more; the other one keeps the proportions, as torchvision rounds it
            by_height = height * own[1] >= width * own[0]
            resized = (height, height * own[1] // own[0]) if by_height else (width * own[0] // own[1], width)
        self._letterbox = fitting != "stretch"
        if self._letterbox:
            if preprocessing.crop:
                raise UserError(
                    f"The pre-processing of model {name} has a crop, and keeps the whole picture ({fitting}); give one "
                    "of the two."
                )
            share = min(wanted[0] / own[0], wanted[1] / own[1])
            # Ultralytics rounds, YOLOX cuts off
            to_whole: Callable[[float], int] = round if fitting == "letterbox" else int
            resized = max(1, to_whole(own[0] * share)), max(1, to_whole(own[1] * share))
        spare = wanted[0] - resized[0], wanted[1] - resized[1]
        # of an odd number of rows the smaller half comes first, as in Ultralytics; where the middle is cut out, halves
        # go to the even number, as in torchvision's CenterCrop
        top_left = fitting == "letterbox-top-left"
        self._top, self._left = (
            0 if top_left else each // 2 if self._letterbox else -round(-each / 2) for each in spare
        )
        self.scale, self.origin = (resized[1] / own[1], resized[0] / own[0]), (self._left, self._top)
        self._size = resized if resized != own else None
        self._mode = {"nearest": "nearest-exact"}.get(preprocessing.interpolation or "", preprocessing.interpolation)
        self._grey_weights = torch.tensor(_GREY_WEIGHTS, dtype=torch.float32, device=device).view(-1, 1, 1)
        # A scalar would do, but on a GPU torch turns the division by a Python number into a multiplication with the
        # rounded reciprocal, which is not x / 255 in every bit.
        whole = torch.tensor(255.0, dtype=torch.float32, device=device)
        self._divisor = whole if preprocessing.scale == "0..1" else None
        self._mean = self._per_channel("mean", preprocessing.mean or (), name)
        self._std = self._per_channel("std", preprocessing.std or (), name)

    def _per_channel(self, what: str, values: tuple[float, ...], name: str) -> torch.Tensor | None:
        if not values:
            return None
        if len(values) not in (1, self.shape[0]):
            raise UserError(
                f"The pre-processing of model {name} has a {what} of {counted(len(values), 'value')} but the model is "
                f"handed {counted(self.shape[0], 'channel')}; give one value per channel."
            )
        if not np.isfinite(values).all() or (what == "std" and 0.0 in values):
            raise UserError(
                f"The pre-processing of model {name} has the {what} {values}; give finite numbers"
                f"{' other than 0' if what == 'std' else ''}."
            )
        tensor = torch.tensor(values, dtype=torch.float32, device=self._device)
        return tensor if self._nhwc else tensor.view(-1, 1, 1)

    def __call__(self, images: torch.Tensor) -> torch.Tensor:
        """What the model gets.

        Args:
            images: uint8 (N, C, H, W) on any device.

        Returns:
            float32, contiguous, memory of its own: (N, C', H', W') in the sides of the layout, see :func:`batch_sides`.
        """
        if images.device != self._device:
            # While they are bytes: together with the change of type, torch would send four times as much.
            images = images.to(self._device)
        images = self._recoloured(images)
        plain = self._size is None and not self._crop and not self._letterbox
        if self._nhwc and plain:
            images = images.permute(0, 2, 3, 1)
        # Not one division of mixed types (uint8 by float32), which is 30 times slower on large batches.
        pixels = images.to(torch.float32, memory_format=torch.contiguous_format)
        if self._size is not None:
            pixels = self._resized(pixels, self._size)
        if self._crop:
            height, width = self.shape[1:]
            top, left = -self._top, -self._left
            pixels = pixels[:, :, top : top + height, left : left + width]
        elif self._letterbox and pixels.shape[2:] != self.shape[1:]:
            padded = pixels.new_full((*pixels.shape[:2], *self.shape[1:]), _PADDING)
            height, width = pixels.shape[2:]
            padded[:, :, self._top : self._top + height, self._left : self._left + width] = pixels
            pixels = padded
        if self._nhwc and not plain:
            pixels = pixels.permute(0, 2, 3, 1)
        pixels = pixels.contiguous()
        if self._divisor is not None:
            pixels.div_(self._divisor)
        if self._mean is not None:
            pixels.sub_(self._mean)
        if self._std is not None:
            pixels.div_(self._std)
        return pixels.view(len(pixels), *batch_sides(self._layout, self.shape))

    def to_image(self, boxes: torch.Tensor) -> torch.Tensor:
        """Boxes in pixels of the image from boxes in pixels of what the model is handed; cut off at its sides.

        Args:
            boxes: float32 (..., 4), x1, y1, x2, y2.
        """
        origin, scale = (torch.tensor(each * 2, device=boxes.device) for each in (self.origin, self.scale))
        height, width = self.own
        ends = torch.tensor((width, height) * 2, dtype=boxes.dtype, device=boxes.device)
        return ((boxes - origin) / scale).clamp(min=0).minimum(ends)

    def places(self, sides: tuple[int, int]) -> torch.Tensor:
        """Where the middles of cells of the image are in what the model is handed.

        Returns:
            float32 (rows, columns, 2), x and y, from -1 to 1 over what the model is handed.
        """
        rows, columns = ((torch.arange(each) + 0.5) / each for each in sides)
        x = (columns * self.own[1] * self.scale[0] + self.origin[0]) / self.shape[2]
        y = (rows * self.own[0] * self.scale[1] + self.origin[1]) / self.shape[1]
        return torch.stack(torch.meshgrid(x, y, indexing="xy"), dim=-1) * 2 - 1

    def _resized(self, pixels: torch.Tensor, size: tuple[int, int]) -> torch.Tensor:
        """float32 (N, C, H, W) grey levels in another size."""
        if self._mode == "nearest-exact":  # the pixel whose middle is nearest, as Pillow does it
            return functional.interpolate(pixels, size=size, mode=self._mode)
        pixels = functional.interpolate(
            pixels, size=size, mode=self._mode or "bilinear", align_corners=False, antialias=self._antialias
        )
        # bicubic weights reach below 0 and beyond 1, and so would what they make
        return pixels.clamp_(0, 255) if self._mode == "bicubic" else pixels

    def _recoloured(self, images: torch.Tensor) -> torch.Tensor:
        """uint8, or float32 where colours are weighed into grey; (N, C', H, W)."""
        if self._channels == "bgr":
            images = images.flip(1)
        elif self._channels == "grey-to-rgb":
            images = images.expand(-1, 3, -1, -1)
        elif self._channels == "rgb-to-grey":
            images = images.to(torch.float32).mul_(self._grey_weights).sum(dim=1, keepdim=True)
        return 255 - images if self._invert else images


def grey_levels_only(preprocessing: Preprocessing, name: str) -> Preprocessing:
    """Pre-processing for a model that takes uint8. UserError if there is a mean or std."""
    if preprocessing.mean or preprocessing.std:
        raise UserError(f"Model {name} takes uint8 images, which a mean or std cannot be applied to; leave them out.")
    # Grey levels are the only thing that it can be meant to get: in [0, 1], bytes could be 0 and 1 only.
    return replace(preprocessing, scale="0..255")


def as_tensor(images: UInt8Array) -> torch.Tensor:
    """A numpy array as a tensor on the CPU; shares its memory unless torch cannot (read-only, negative strides)."""
    if not images.flags.writeable or min(images.strides, default=0) < 0:
        images = images.copy()
    return torch.from_numpy(images)


def check_images(images: object, name: str) -> None:
    """Refuse what is not a batch of images.

    Raises:
        UserError: not a uint8 (N, C, H, W) tensor or array, N >= 0, the other sides at least 1.
    """
    if not isinstance(images, (torch.Tensor, np.ndarray)):
        raise UserError(
            f"Model {name} was asked about a {type(images).__name__}; give a uint8 (N, C, H, W) tensor or numpy array."
        )
    if images.dtype not in (torch.uint8, np.uint8):
        raise UserError(
            f"Model {name} was asked about {images.dtype} images; give uint8 images with values 0 to 255, the model's "
            "own scaling is done by its pre-processing."
        )
    if images.ndim != 4 or 0 in tuple(images.shape[1:]):
        raise UserError(
            f"Model {name} was asked about images of shape {tuple(images.shape)}; give (N, C, H, W): number, "
            "channels, height, width."
        )
