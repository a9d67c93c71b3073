"""Whether a jury of small classifiers recognises the picture, as a filter."""

from __future__ import annotations

import math

import torch

from diffgen.config.schema import Maybe, setting, settings
from diffgen.features.jury import Recogniser
from diffgen.filters.base import Filter, FilterContext, threshold_setting


@settings("filters.jury")
class JurySettings:
    """The filter ``jury``: how sure small classifiers are of what an image shows."""

    threshold: Maybe[float] = threshold_setting("certainty of the jury, minus an entropy in nats,", le=0)
    false_alarm: float = setting(
        0.05,
        "Share of held-out real images that the jury alone may fail to recognise.",
        ge=0,
        lt=1,
    )
    shown: Maybe[int] = setting(
        None,
        "Images that every member of the jury is shown in its training, each of the real ones several times (default: "
        "15,000 for grey images, 45,000 for colour ones).",
        ge=64,
        le=10**9,
    )


class RecognitionFilter(Filter):
    """Passes what the jury can name for sure.

    The score is minus the entropy of its mean answer, in nats.

    Args:
        recogniser: the jury of the comparison; its own threshold is not used.
        threshold: lowest score that passes, or NaN to have it calibrated with the other filters.
    """

    name = "jury"
    needs = frozenset({"jury"})
    Settings = JurySettings

    @classmethod
    def make(cls, context: FilterContext) -> RecognitionFilter:
        assert context.recogniser is not None
        return cls(context.recogniser, threshold=context.threshold(cls), batch_size=context.batch_size)

    def __init__(self, recogniser: Recogniser, *, threshold: float = math.nan, batch_size: int = 256) -> None:
        self._recogniser = recogniser
        self._batch_size = batch_size
        self.any_size = recogniser.jury.small
        self.threshold = threshold
        self.description = (
            f"How sure {recogniser.jury.in_words} is of what the image shows: minus the entropy of its mean answer."
        )

    def fit(self, real: torch.Tensor) -> None:
        """Nothing: the jury has learned before."""

    def score(self, images: torch.Tensor, *, enough: float = math.inf) -> torch.Tensor:
        """float32 (N,), at most 0, on the CPU, for uint8 (N, C, H, W)."""
        return torch.from_numpy(self._recogniser.read(images, batch_size=self._batch_size).certainty)
