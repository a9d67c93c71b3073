"""Whether a jury of small classifiers recognises the picture, as a filter."""

from __future__ import annotations

import math

import torch

from diffgen.features.recognition import Recogniser


class RecognitionFilter:
    """Passes what a jury of small classifiers can name for sure.

    The score is minus the entropy of the jury's mean answer, in nats.

    Args:
        recogniser: the jury of the comparison; its own threshold is not used.
        threshold: lowest score that passes, or NaN to have it calibrated with the other filters.
        batch_size: images scored at once.
    """

    name = "jury"

    def __init__(self, recogniser: Recogniser, *, threshold: float = math.nan, batch_size: int = 256) -> None:
        self._recogniser = recogniser
        self._batch_size = batch_size
        self.threshold = threshold
        self.description = (
            f"How sure a jury of {len(recogniser.jury.members)} small classifiers is of what the image shows: "
            "minus the entropy of its mean answer."
        )

    def fit(self, real: torch.Tensor) -> None:
        """Nothing: the jury has learned before."""

    def score(self, images: torch.Tensor, *, enough: float = math.inf) -> torch.Tensor:
        """float32 (N,), at most 0, on the CPU, for uint8 (N, C, H, W)."""
        return torch.from_numpy(self._recogniser.read(images, batch_size=self._batch_size).certainty)
