"""Whether a jury of small classifiers recognises the picture, as a filter."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch

from diffgen.features.jury import Jury, certainty


class RecognitionFilter:
    """Passes what a jury of small classifiers can name for sure.

    The score is minus the entropy of the jury's mean answer, in nats.

    Args:
        jury: gives the jury trained on the real images that it is handed.
        threshold: lowest score that passes, or NaN to have it calibrated.
        batch_size: images scored at once.
    """

    name = "jury"

    def __init__(
        self, jury: Callable[[torch.Tensor], Jury], *, threshold: float = math.nan, batch_size: int = 256
    ) -> None:
        self._make = jury
        self._jury: Jury | None = None
        self._batch_size = batch_size
        self.threshold = threshold
        self.description = "How sure a jury of small classifiers is of what the image shows."

    @property
    def jury(self) -> Jury:
        """The jury that :meth:`fit` made.

        Raises:
            RuntimeError: there is none yet.
        """
        if self._jury is None:
            raise RuntimeError("fit() the filter before it is asked")
        return self._jury

    def fit(self, real: torch.Tensor) -> None:
        """Train the jury on real images, uint8 (N, C, H, W), or have it found."""
        self._jury = self._make(real)
        self.description = (
            f"How sure a jury of {len(self.jury.members)} small classifiers of {len(real)} real images (all but the "
            "held-out ones) is of what the image shows: minus the entropy of its mean answer."
        )

    def score(self, images: torch.Tensor, *, enough: float = math.inf) -> torch.Tensor:
        """float32 (N,), at most 0, on the CPU, for uint8 (N, C, H, W)."""
        return torch.from_numpy(certainty(self.jury.answers(images, batch_size=self._batch_size)))
