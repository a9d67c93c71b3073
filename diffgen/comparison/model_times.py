"""How long an image takes each model, measured while all models are asked about the real images anyway."""

from __future__ import annotations

import time
from collections.abc import Sequence

from diffgen.models import BlackBox
from diffgen.models.answer_table import AnswerTable
from diffgen.sampling import random_rows
from diffgen.types import Float32Array, ImageSet, UInt8Array

_TIMED, _PASSES, _SECONDS = 64, 5, 0.5  # images, and how often at most, and for how long about


class ModelTimes:
    """The least time an image took each model in any batch: other work on the machine only ever adds to it.

    Args:
        models: prepared, so that their first answer is past.
    """

    def __init__(self, models: Sequence[BlackBox]) -> None:
        self._models = tuple(models)
        self._least: dict[int, float] = {}

    def ask(self, index: int, images: UInt8Array) -> Float32Array:
        """float32 (N, K): what a model says of uint8 (N, C, H, W), N >= 1; noted is how long that took."""
        started = time.perf_counter()
        answers = self._models[index].predict(images)
        spent = (time.perf_counter() - started) / len(images)
        self._least[index] = min(spent, self._least.get(index, spent))
        return answers

    def forget(self, index: int) -> None:
        """Begin anew with a model that is asked in another way from now on."""
        self._least.pop(index, None)

    def milliseconds(self, data: ImageSet) -> tuple[float | None, ...]:
        """Of each model; None where a server or a table answers.

        A model that was not asked, since its answers were in the cache, is asked about some of the images now.
        """
        return tuple(self._of(index, data) for index in range(len(self._models)))

    def _of(self, index: int, data: ImageSet) -> float | None:
        model = self._models[index]
        if model.url is not None or isinstance(model, AnswerTable):
            return None
        if index not in self._least:
            images, begun = data.images[random_rows(len(data), _TIMED)], time.perf_counter()
            for _ in range(_PASSES):
                self.ask(index, images)
                if time.perf_counter() - begun >= _SECONDS:
                    break
        return round(1000 * self._least[index], 4)
