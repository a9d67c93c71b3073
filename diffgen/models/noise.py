"""How much a model's answers move although nothing that matters has changed."""

from __future__ import annotations

import numpy as np
import torch

from diffgen.errors import UserError
from diffgen.models.base import BlackBox
from diffgen.types import UInt8Array

_MOST_IMAGES = 64
_ODD_BATCH = 7


def numeric_noise(black_box: BlackBox, images: torch.Tensor | UInt8Array) -> float:
    """Largest absolute change of a probability between batch sizes and between repeats.

    The first 64 images are asked about all at once, again all at once, in batches of 7 and one at a time. A
    disagreement of two models with a smaller margin than this is noise.

    Args:
        black_box: a prepared model.
        images: uint8 (N, C, H, W), N >= 1, preferably real images.

    Returns:
        The change, in [0, 1]; 0.0 for a model that doesn't depend on the batch.

    Raises:
        UserError, RunError: as ``predict`` raises them; also for no images.
    """
    if len(images) == 0:
        raise UserError(f"The numeric noise of model {black_box.name} cannot be measured without images.")
    images = images[:_MOST_IMAGES]
    together = _in_batches(black_box, images, len(images))
    changes = []
    for size in (len(images), _ODD_BATCH, 1):
        with black_box.asking_again(f"numeric noise in batches of {size}"):
            changes.append(float(np.abs(together - _in_batches(black_box, images, size)).max()))
    return max(changes)


def _in_batches(black_box: BlackBox, images: torch.Tensor | UInt8Array, size: int) -> np.ndarray:
    answers = []
    for start in range(0, len(images), size):
        probabilities = black_box.predict(images[start : start + size])
        answers.append(probabilities.cpu().numpy() if isinstance(probabilities, torch.Tensor) else probabilities)
    return np.concatenate(answers)
