"""The loop keeps the budget to the image, ends where it should, and asks and tells in turn."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch

from diffgen.config import Budget
from diffgen.errors import RunError, UserError
from diffgen.models import BlackBox
from diffgen.models.answer_store import AnswerStore
from diffgen.search.behaviours import Behaviours
from diffgen.search.evaluator import Evaluator, by_filters
from diffgen.search.loop import SearchLoop
from diffgen.search.proposal import Answers, Proposal
from diffgen.sources.gan import GanSource


class InParts:
    """Generations of random pictures, proposed in parts; every second generation begins with nothing to ask about."""

    def __init__(self, generator: GanSource, size: int) -> None:
        self._generator = generator
        self._size = size
        self._rng = torch.Generator().manual_seed(0)
        self.proposed: list[int] = []
        self.told: list[int] = []
        self.generations = 0
        self.left = size
        self.begun_empty = False

    finished = False

    @property
    def between_generations(self) -> bool:
        return self.left == self._size and not self.begun_empty

    def propose(self, room: int) -> Proposal:
        nothing = self.generations % 2 == 1 and self.between_generations
        count = 0 if nothing else min(room, self.left)
        latents = torch.randn(count, self._generator.space.length, generator=self._rng)
        self.proposed.append(count)
        return Proposal(self._generator.draw(latents), generation=self.generations + 1, genes=latents)

    def learn(self, proposal: Proposal, answers: Answers) -> None:
        assert len(answers) == len(proposal) == self.proposed[-1]
        self.told.append(len(answers))
        self.left -= len(answers)
        self.begun_empty = len(answers) == 0
        if self.left == 0:
            self.left = self._size
            self.generations += 1


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def make_loop(make_evaluator: Callable[..., Evaluator], generator: GanSource) -> Callable[..., SearchLoop]:
    def make(
        budget: str,
        *,
        size: int = 100,
        batch_size: int = 64,
        technique: type[InParts] = InParts,
        **settings: object,
    ) -> SearchLoop:
        own = {name: settings.pop(name) for name in ("saturation_queries",) if name in settings}
        clock = settings.pop("clock", None) or Clock()
        return SearchLoop(
            technique(generator, size),
            make_evaluator(**settings),
            budget=Budget.parse(budget),
            batch_size=batch_size,
            clock=clock,
            **own,
        )

    return make


def test_a_query_budget_is_kept_to_the_image(make_loop: Callable[..., SearchLoop]) -> None:
    loop = make_loop("250q")
    whole, answered = [], []
    loop.start()
    loop.run(on_generation=lambda: whole.append(loop.evaluator.queries), on_answer=lambda: answered.append(1))
    technique = loop.technique
    assert isinstance(technique, InParts)
    assert technique.proposed == technique.told == [64, 36, 0, 64, 36, 50]
    assert loop.evaluator.queries == 250
    # the third generation stays unfinished
    assert whole == [100, 200]
    assert len(answered) == len(technique.told)
    assert loop.room() == 0


def test_a_proposal_larger_than_the_room_is_refused(make_loop: Callable[..., SearchLoop]) -> None:
    class Greedy(InParts):
        def propose(self, room: int) -> Proposal:
            return super().propose(room + 1)

    loop = make_loop("1000q", technique=Greedy)
    loop.start()
    with pytest.raises(UserError, match="Greedy proposes 65 images where there is room for 64; "):
        loop.run()
    assert loop.evaluator.queries == 0


class Runs(InParts):
    """Proposes a picture, nothing 999 times, a picture, and then nothing for ever."""

    between_generations = True

    def propose(self, room: int) -> Proposal:
        if len(self.proposed) in (0, 1_000):
            return super().propose(1)
        assert len(self.proposed) < 10_000, "it goes on for ever"
        return super().propose(0)


def test_a_technique_that_proposes_nothing_any_more_breaks_the_search_off(
    make_loop: Callable[..., SearchLoop], told: Callable[..., None]
) -> None:
    loop = make_loop("100q", technique=Runs)
    loop.start()
    with pytest.raises(RunError) as caught:
        loop.run()
    told("Techniques", "a technique of one's own that proposes nothing any more", caught.value)
    assert loop.evaluator.queries == 2
    assert loop.technique.told == [1, *[0] * 999, 1, *[0] * 999]


def test_a_technique_that_proposes_nothing_has_the_seconds_of_its_budget(make_loop: Callable[..., SearchLoop]) -> None:
    clock = Clock()

    def passes() -> None:
        clock.now += 0.01

    loop = make_loop("50s,100q", technique=Runs, clock=clock)
    loop.start()
    loop.run(on_answer=passes)
    assert loop.evaluator.queries == 2 and len(loop.technique.told) == pytest.approx(5_000, abs=2)


def test_a_time_budget_ends_between_proposals(make_loop: Callable[..., SearchLoop]) -> None:
    clock = Clock()
    loop = make_loop("10s", clock=clock)
    loop.start()
    clock.now = 9.9
    assert loop.room() == 64
    clock.now = 10.0
    assert loop.room() == 0
    assert not loop.generation()
    assert loop.evaluator.queries == 0


def test_near_the_end_of_its_time_a_search_asks_about_as_many_as_it_has_time_for(
    make_loop: Callable[..., SearchLoop],
) -> None:
    """A second for ten images: without that it would end six seconds late."""
    clock = Clock()
    loop = make_loop("10s", clock=clock, size=1000)
    loop.start()
    rooms = []
    while (room := loop.room()) > 0:
        rooms.append(room)
        loop.evaluator.queries += room
        clock.now += room / 10
    assert rooms == [64, 36] and clock.now == 10.0
    # a slow beginning: the rest is asked about in eighths of a batch
    loop = make_loop("10s", clock=clock)
    loop.start(queries=1, seconds=9.0)
    assert loop.room() == 8
    # the first proposal shows the pace, and few queries before it say little
    loop = make_loop("10s", clock=clock)
    loop.start()
    assert loop.room() == 64


def test_time_and_queries_used_before_a_resume_count(make_loop: Callable[..., SearchLoop]) -> None:
    loop = make_loop("10s,100q")
    loop.start(queries=93, seconds=9.0)
    assert (loop.seconds, loop.evaluator.queries, loop.room()) == (9.0, 93, 7)
    loop.start(queries=7, seconds=10.0)
    assert loop.room() == 0


def test_stop_ends_the_search_before_the_next_proposal(make_loop: Callable[..., SearchLoop]) -> None:
    loop = make_loop("1000q")
    loop.start()
    loop.run(on_answer=loop.stop.stop)
    assert (loop.evaluator.queries, loop.stop.stopped) == (64, True)


def test_a_model_that_may_be_asked_about_few_images_ends_the_search(
    make_loop: Callable[..., SearchLoop], black_boxes: tuple[BlackBox, BlackBox], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is left of its images is enough to ask again about every trigger."""
    loop = make_loop("1000q")

    class Limited(AnswerStore):
        @property
        def images_left(self) -> int | None:
            return 200 - loop.evaluator.queries

    monkeypatch.setattr(black_boxes[1], "answers", Limited())
    loop.start()
    loop.run()
    assert loop.exhausted_model is black_boxes[1]
    left = 200 - loop.evaluator.queries
    assert len(loop.evaluator.archive) <= left <= len(loop.evaluator.archive) + 1


def test_what_is_rejected_does_not_put_off_the_end(make_loop: Callable[..., SearchLoop]) -> None:
    """``--until saturated``: only what is counted at the end is new."""
    rejects_all = make_loop(
        "1000q",
        behaviours=Behaviours(lambda images: images[:, 0, 14, 14].to(torch.int64).numpy() // 32, 0.8),
        examine=by_filters(lambda images: np.ones(len(images), np.float32)),
        saturation_queries=150,
    )
    rejects_all.start()
    rejects_all.run()
    assert len(rejects_all.evaluator.archive) > 10
    assert rejects_all.saturated
    assert rejects_all.evaluator.queries == 164
