"""Says of pictures what they show and whether that can be recognised, by a jury with calibrated thresholds."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from diffgen.features.jury import Jury, certainty
from diffgen.types import Float32Array, Int64Array

NO_LABEL = -1  # in place of a label that nobody knows


@dataclass(frozen=True, eq=False)
class Reading:
    """What the jury says of N pictures.

    Attributes:
        named: int64 (N,), the label that it gives.
        certainty: float32 (N,), minus the entropy of its mean answer, in nats; at most 0.
        recognised: bool (N,): it is sure enough, and contradicts no label that is known.
    """

    named: Int64Array
    certainty: Float32Array
    recognised: NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Recogniser:
    """A jury, and how sure it has to be.

    Attributes:
        jury: the small classifiers.
        threshold: lowest certainty that counts where the jury names the label of the real image that a picture was made
            from.
        unaided: lowest certainty that counts for a picture that the jury has to name with no such help; None for the
            same.
    """

    jury: Jury
    threshold: float
    unaided: float | None = None

    @property
    def needs_help(self) -> bool:
        """Whether it can be relied on less where it does not know the label of the real image."""
        return self.unaided is not None and self.unaided > self.threshold

    def read(self, images: torch.Tensor, labels: Int64Array | None = None, *, batch_size: int = 512) -> Reading:
        """What pictures show. What is said of one depends on no other.

        Args:
            images: uint8 (N, C, H, W).
            labels: int64 (N,), the label of the real image that each was made from, or ``NO_LABEL``; None for none.
            batch_size: images asked about at once.
        """
        answers = self.jury.answers(images, batch_size=batch_size)
        named, sure = self.jury.names(answers), certainty(answers)
        recognised = sure >= np.float32(self.threshold if self.unaided is None else self.unaided)
        if labels is not None:
            helped = (sure >= np.float32(self.threshold)) & (named == labels)
            recognised = np.where(labels == NO_LABEL, recognised, helped)
        return Reading(named, sure, np.asarray(recognised))
