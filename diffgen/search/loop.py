"""The search's one loop: a technique proposes images, the models are asked, the technique is told their answers."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from diffgen.config import Budget
from diffgen.errors import RunError, StoppedBetweenBatches
from diffgen.events import StopToken
from diffgen.models import BlackBox
from diffgen.search.evaluator import Evaluator
from diffgen.search.proposal import Answers, Proposal
from diffgen.search.proposal_check import Parts, check_parts, check_proposal, parts_of

_SHARES = 8  # of a batch, at least one is asked about
_MOST_EMPTY = 1_000  # proposals in a row; techniques whose scorer lets nothing pass say so sooner, and why


class Proposer(Protocol):
    """What the loop knows of a technique; :class:`diffgen.techniques.Technique` says what each part means."""

    @property
    def between_generations(self) -> bool: ...

    @property
    def finished(self) -> bool: ...

    def propose(self, room: int) -> Proposal: ...

    def learn(self, proposal: Proposal, answers: Answers) -> None: ...

    def welcome(self, proposal: Proposal, answers: Answers) -> None: ...

    def outcomes(self) -> Mapping[str, Any]: ...

    def checkpoint(self) -> dict[str, Any]: ...

    def restore(self, state: Mapping[str, Any]) -> None: ...


class SearchLoop:
    """Owns the budget and everything else that ends a search.

    It ends between two proposals: when seconds or queries are used up, when nothing new is found any more, when
    somebody stops it, or when a model may not be asked any further. What was asked until then is in the archive. A
    generation that was begun stays unfinished; a search that is resumed proposes it again, from the state after the one
    before.

    Args:
        evaluator: asks the models; counts queries and behaviours.
        budget: of seconds and queries; whichever is reached first.
        saturation_queries: the search ends when so many queries found no new behaviour; None: it does not.
        stop: ends the search before its next proposal, as if the budget were used up.
        clock: seconds; a parameter for tests.

    Attributes:
        exhausted_model: the model whose own limit of images ended the search, or None.
        empty: how many of the latest proposals in a row held no picture.
    """

    def __init__(
        self,
        technique: Proposer,
        evaluator: Evaluator,
        *,
        budget: Budget,
        batch_size: int,
        saturation_queries: int | None = None,
        stop: StopToken | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.technique = technique
        self.evaluator = evaluator
        self.budget = budget
        self.batch_size = batch_size
        self.saturation_queries = saturation_queries
        self.stop = StopToken() if stop is None else stop
        self.exhausted_model: BlackBox | None = None
        self.empty = 0
        self._name = type(technique).__name__
        self._clock = clock
        self._started: float | None = None
        self._parts: Parts | None = None  # of the first proposal that held pictures; later ones must have them too

    def start(self, *, queries: int = 0, seconds: float = 0.0) -> None:
        """Start the clock; a resumed search says how many ``queries`` and ``seconds`` were used before."""
        self._started = self._clock() - seconds
        self.evaluator.queries = queries

    @property
    def seconds(self) -> float:
        """Seconds since :meth:`start`."""
        return 0.0 if self._started is None else self._clock() - self._started

    @property
    def saturated(self) -> bool:
        """Whether too long nothing new was found."""
        behaviours = self.evaluator.behaviours
        if self.saturation_queries is None or behaviours is None:
            return False
        return self.evaluator.queries - behaviours.latest_query >= self.saturation_queries

    def run(
        self,
        *,
        on_generation: Callable[[], None] | None = None,
        on_answer: Callable[[], None] | None = None,
    ) -> None:
        """Search to the end.

        Args:
            on_generation: called after every whole generation, when the technique's state can be kept.
            on_answer: called after every proposal that the models were asked about.

        Raises:
            RunError: a model failed, or the technique has nothing more to propose; without a budget in seconds also
                when it proposed nothing 1,000 times in a row.
            UserError: the technique proposes what nobody can be asked about.
        """
        while self.generation(on_answer):
            if on_generation is not None:
                on_generation()

    def generation(self, on_answer: Callable[[], None] | None = None) -> bool:
        """Ask until a generation is over; False when the search ends before. RunError, UserError as :meth:`run`."""
        while not self.technique.finished and (room := self.room()) > 0:
            proposal = self.technique.propose(room)
            check_proposal(
                proposal,
                self._name,
                room=room,
                image_shape=self.evaluator.archive.image_shape,
                real_images=self.evaluator.real_images,
            )
            if len(proposal):
                self._parts = self._parts or parts_of(proposal)
                check_parts(proposal, self._parts, self._name)
            self._count_empty(proposal)
            try:
                answers = self.evaluator.ask(proposal)
            except StoppedBetweenBatches:
                return False  # of large pictures one proposal may take a minute, and it is played again at a resume
            if on_answer is not None:
                on_answer()
            self.technique.learn(proposal, answers)
            if self.technique.between_generations:
                return True
        return False

    def _count_empty(self, proposal: Proposal) -> None:
        """Note whether there is anything to ask about: queries that are never asked use up no budget."""
        self.empty = 0 if len(proposal) else self.empty + 1
        if self.empty >= _MOST_EMPTY and self.budget.seconds is None:
            raise RunError(
                f"The technique {self._name} proposed no image {_MOST_EMPTY:,} times in a row; let its propose() give "
                "some, its finished be True where nothing is left, or give the budget a limit in seconds."
            )

    def room(self) -> int:
        """How many images may be asked about now; 0 when the search ends."""
        budget, queries = self.budget, self.evaluator.queries
        if self.stop.stopped or self.saturated or (budget.seconds is not None and self.seconds >= budget.seconds):
            return 0
        room = min(self.batch_size, self._in_time())
        for model in self.evaluator.black_boxes:
            afforded = self._affordable(model)
            if afforded < 1:
                self.exhausted_model = model
                return 0
            room = min(room, afforded)
        return room if budget.queries is None else max(0, min(room, budget.queries - queries))

    def _in_time(self) -> int:
        """How many images can be asked about before the seconds are used up, at the pace until now.

        Of two networks for large photographs 512 images take most of a minute, by which a search would outlast its
        budget. No fewer than a part of a batch, so that a pace that was slow for a moment holds nothing up.
        """
        seconds, queries = self.seconds, self.evaluator.queries
        if self.budget.seconds is None or queries == 0 or seconds == 0:
            return self.batch_size
        return max(self.batch_size // _SHARES, int(queries / seconds * (self.budget.seconds - seconds)), 1)

    def _affordable(self, model: BlackBox) -> int:
        """How many images a model may be asked about so that it can still be asked again about every trigger."""
        left = model.answers.images_left
        if left is None:
            return self.batch_size
        # a batch is padded to the fixed size of the model's, in the search and when triggers are asked again one by one
        padded = model.fixed_batch or 1
        each, filled_up = (padded, 0) if model.alone else (1, padded - 1)
        return (left - len(self.evaluator.archive) * padded - filled_up) // (each + padded)
