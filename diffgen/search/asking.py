"""Asks several models about the same images, those that compute in processes of their own at the same time."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextvars import copy_context

import torch

from diffgen.errors import Stopped
from diffgen.models import BlackBox
from diffgen.numerics import all_threads, torch_threads
from diffgen.search.memory import BatchHalver


class Asking:
    """What models say, in the order of the models.

    A model that is isolated (:mod:`diffgen.models.isolation`) leaves this process nothing to do but to wait for it, so
    that each has a thread that waits; the others are asked meanwhile, one after the other, by the caller's thread, and
    compute with as many threads as torch has outside of every block that says otherwise.

    Args:
        models: prepared black boxes.
        memory: hands a batch over in pieces where memory is too small for all of it.
    """

    def __init__(self, models: Sequence[BlackBox], memory: BatchHalver) -> None:
        self._models = tuple(models)
        self._memory = memory
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
        answers: dict[int, Future[torch.Tensor]] = {}
        try:
            for place, model in enumerate(asked):
                if self._pool is not None and model.isolated:
                    # with the variables of this thread: they say whether somebody asked to stop
                    answers[place] = self._pool.submit(copy_context().run, self._memory.pieces, model.predict, images)
            for place, model in enumerate(asked):
                if place not in answers:
                    answers[place] = self._here(model, images)
            wait(answers.values())
        except BaseException:
            # an interruption: nobody will ask for the other answers, and they may never come
            for place in answers:
                asked[place].give_up()
            wait(answers.values())
            raise
        self._memory.tell()
        return [answers[place].result() for place in range(len(asked))]

    def _here(self, model: BlackBox, images: torch.Tensor) -> Future[torch.Tensor]:
        """The answer of a model of this process, or its error, which waits for those of the models before it."""
        answer: Future[torch.Tensor] = Future()
        try:
            with torch_threads(all_threads()):
                answer.set_result(self._memory.call(model.predict, images))
        except (Exception, Stopped) as error:
            # at a stop the others end by themselves, and soon: they know of it
            answer.set_exception(error)
        return answer
