"""Filters and jury, as a search asks them about its triggers: the jury once for both."""

from __future__ import annotations

import torch

from diffgen.comparison.plan import Prepared
from diffgen.filters import RecognitionFilter
from diffgen.judging.verdicts import seed_labels
from diffgen.search.evaluator import Examined
from diffgen.types import Int64Array


class Examination:
    """See :class:`diffgen.search.evaluator.Examine`.

    Args:
        prepared: what the search works with.
    """

    def __init__(self, prepared: Prepared) -> None:
        self._pipeline, self._recogniser = prepared.pipeline, prepared.recogniser
        self._labels = prepared.images.labels if prepared.jury.labels is None else prepared.jury.labels

    def __call__(self, images: torch.Tensor, seeds: Int64Array | None) -> Examined:
        if self._recogniser is None:
            return Examined(self._pipeline.violation(images))
        reading = self._recogniser.read(images, seed_labels(seeds, self._labels))
        return Examined(
            self._pipeline.violation(images, {RecognitionFilter.name: reading.certainty}), reading.recognised
        )
