"""From the bytes of images to the numbers that a model is asked about."""

from __future__ import annotations

from typing import Literal

import numpy as np
import torch

from diffgen.config import Preprocessing
from diffgen.errors import UserError
from diffgen.models.wording import counted
from diffgen.types import UInt8Array

Layout = Literal["nchw", "nhwc"]
ImageShape = tuple[int, int, int]


class PixelTransform:
    """One model's pre-processing of images of one shape.

    Args:
        preprocessing: scale, mean and std; its layout and outputs are not looked at.
        layout: order of the axes that the model takes.
        channels: C of the images.
        device: where the model's input is made.
        name: of the model, for messages.

    Raises:
        UserError: mean or std don't have one finite value per channel, or a std is zero.
    """

    def __init__(
        self, preprocessing: Preprocessing, layout: Layout, channels: int, device: torch.device, name: str
    ) -> None:
        self._device = device
        self._nhwc = layout == "nhwc"
        # A scalar would do, but on a GPU torch turns the division by a Python number into a multiplication with the
        # rounded reciprocal, which is not x / 255 in every bit.
        self._divisor = torch.tensor(255.0, device=device) if preprocessing.scale == "0..1" else None
        self._mean = self._per_channel("mean", preprocessing.mean, channels, name)
        self._std = self._per_channel("std", preprocessing.std, channels, name)

    def _per_channel(self, what: str, values: tuple[float, ...], channels: int, name: str) -> torch.Tensor | None:
        if not values:
            return None
        if len(values) != channels:
            raise UserError(
                f"The pre-processing of model {name} has a {what} of {counted(len(values), 'value')} but the images "
                f"have {counted(channels, 'channel')}; give one value per channel."
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
            float32 (N, C, H, W) or (N, H, W, C), contiguous, memory of its own.
        """
        if images.device != self._device:
            # While they are bytes: together with the change of type, torch would send four times as much.
            images = images.to(self._device)
        if self._nhwc:
            images = images.permute(0, 2, 3, 1)
        # Not one division of mixed types (uint8 by float32), which is 30 times slower on large batches.
        pixels = images.to(torch.float32, memory_format=torch.contiguous_format)
        if self._divisor is not None:
            pixels.div_(self._divisor)
        if self._mean is not None:
            pixels.sub_(self._mean)
        if self._std is not None:
            pixels.div_(self._std)
        return pixels


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
