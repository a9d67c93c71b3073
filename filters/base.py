"""The protocol that every validity filter keeps."""

from __future__ import annotations

import math
from typing import Protocol

import torch


class Filter(Protocol):
    """Tells real pictures from others by a score.

    Attributes:
        name: one word, as in reports and files.
        description: one sentence that says what is scored and against which real images; complete after ``fit``.
        threshold: lowest score that passes. NaN until the pipeline has found it on held-out real images
            (:mod:`diffgen.filters.calibration`); a filter that is made with a number keeps that.
    """

    name: str
    description: str
    threshold: float

    def fit(self, real: torch.Tensor) -> None:
        """Take in the real images to compare with, uint8 (N, C, H, W); never those that thresholds are found on."""
        ...

    def score(self, images: torch.Tensor, *, enough: float = math.inf) -> torch.Tensor:
        """float32 (N,), on the CPU, for uint8 (N, C, H, W); higher is more real.

        The score of an image depends on no other image that is scored with it. Where it is at least ``enough``, any
        number from ``enough`` up to the score may be given instead, if that is found sooner.
        """
        ...


def in_batches(images: torch.Tensor, batch_size: int) -> tuple[torch.Tensor, ...]:
    """Images, (N, ...), in batches; none for no images, where ``Tensor.split`` gives one that is empty."""
    return images.split(batch_size) if len(images) else ()
