"""Asks several models about the same images, those that compute in processes of their own at the same time."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, wait

import torch

from diffgen.models import BlackBox
from diffgen.search.memory import BatchHalver
from diffgen.threads import torch_threads


class Asking:
    """What models say, in the order of the models.

    A model that is isolated (:mod:`diffgen.models.isolation`) leaves this process nothing to do but to wait for it, so
    that each has a thread that waits; the others are asked meanwhile, one after the other, by the caller's thread, and
    compute with as many threads as torch had when this was made.

    Args:
        models: prepared black boxes.
        memory: hands a batch over in pieces where memory is too small for all of it.
    """

    def __init__(self, models: Sequence[BlackBox], memory: BatchHalver) -> None:
        self._models = tuple(models)
        self._memory = memory
        self._threads = torch.get_num_threads()
        apart = sum(model.isolated for model in self._models)
        self._pool = ThreadPoolExecutor(apart, "asking") if apart else None

    def about(self, images: torch.Tensor, numbers: Sequence[int] | None = None) -> list[torch.Tensor]:
        """The answers of each model, float32 (N, K), about uint8 (N, C, H, W).

        Args:
            images: as given to :meth:`diffgen.models.BlackBox.predict`.
            numbers: of the models that are asked; None: all.

        Raises:
            RunError: a model raised or gave something that is not a probability; of several that did, the first's.
        """
        asked = [self._models[number] for number in (range(len(self._models)) if numbers is None else numbers)]
        begun = {
            place: self._pool.submit(self._memory.call, model.predict, images)
            for place, model in enumerate(asked)
            if model.isolated and self._pool is not None
        }
        others = {}
        try:
            for place, model in enumerate(asked):
                if place not in begun:
                    with torch_threads(self._threads):
                        others[place] = self._memory.call(model.predict, images)
        finally:
            wait(begun.values())  # nobody else may ask these models before
        return [begun[place].result() if place in begun else others[place] for place in range(len(asked))]
