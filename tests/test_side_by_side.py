"""Parts of a comparison at the same time: as each by itself, heard by whoever waits, and given up with the block."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError
from typing import TypeVar

import pytest
import torch

from diffgen.data import load
from diffgen.errors import Stopped, UserError
from diffgen.events import Event, Progress, StageAdvanced, StageEnded, StageStarted, StopToken
from diffgen.features import jury, vae
from diffgen.numerics import torch_threads
from diffgen.side_by_side import SideBySide
from tests.own_threads import own_threads

CPU = torch.device("cpu")
T = TypeVar("T")


@pytest.fixture(params=[1, 3], ids=["one thread", "three threads"])
def threads(request: pytest.FixtureRequest) -> Iterator[int]:
    """As many as torch may use."""
    with own_threads(request.param):
        yield request.param


def begun(side: SideBySide, work: Callable[[Progress], T], threads: int) -> Callable[[], T]:
    """Begin a part; where there are threads for it, one of them is at it when this returns."""
    at_it = threading.Event()

    def noted(own: Progress) -> T:
        at_it.set()
        return work(own)

    result = side.begin(noted)
    assert threads == 1 or at_it.wait(1200)
    return result


def test_networks_are_what_each_would_be_by_itself(threads: int) -> None:
    digits = load("digits:train")
    images, labels = torch.from_numpy(digits.images), torch.from_numpy(digits.labels)
    with SideBySide(CPU, Progress()) as side:
        drawn = side.begin(lambda own: vae.train(images, steps=8, progress=own))
        another = side.begin(lambda own: jury.train(images, labels, shown=320, seed=1, progress=own))
        judged = jury.train(images, labels, shown=320)
        together = [drawn(), another(), judged]
    with torch_threads(1):
        alone = [
            vae.train(images, steps=8),
            jury.train(images, labels, shown=320, seed=1),
            jury.train(images, labels, shown=320),
        ]
    for one, other in zip(together, alone, strict=True):
        for (name, mine), yours in zip(one.state_dict().items(), other.state_dict().values(), strict=True):
            assert torch.equal(mine, yours), name


def test_who_asks_does_what_no_thread_has_begun() -> None:
    go = threading.Event()
    with own_threads(2), SideBySide(CPU, Progress()) as side:
        first = side.begin(lambda own: go.wait(1200))  # keeps the only other thread
        last = side.begin(lambda own: threading.current_thread())
        assert last() is threading.current_thread()
        go.set()
        assert first()


def test_what_was_given_up_with_the_block_is_not_begun_afterwards() -> None:
    go, asked = threading.Event(), list[int]()
    with own_threads(2), SideBySide(CPU, Progress()) as side:
        begun(side, lambda own: go.wait(1200), threads=2)
        last = side.begin(lambda own: asked.append(1))
        threading.Timer(0.1, go.set).start()
    with pytest.raises(CancelledError):
        last()
    assert asked == []


def test_torchs_threads_are_as_before_when_the_block_ends(threads: int) -> None:
    with pytest.raises(ZeroDivisionError), SideBySide(CPU, Progress()) as side:
        assert torch.get_num_threads() == 1
        assert side.begin(lambda own: torch.get_num_threads())() == 1
        raise ZeroDivisionError
    assert torch.get_num_threads() == threads


def test_who_waits_hears_whole_stages_in_order(threads: int) -> None:
    heard: list[Event] = []

    def work(own: Progress) -> int:
        for name in ("first", "second"):
            with own.stage(name, total=50) as task:
                for _ in range(50):
                    task.advance()
        return 7

    with SideBySide(CPU, Progress(heard.append)) as side:
        assert begun(side, work, threads)() == 7
    stages = [event for event in heard if not isinstance(event, StageAdvanced)]
    each = [StageStarted("first", 50), StageEnded("first"), StageStarted("second", 50), StageEnded("second")]
    assert stages == each
    assert [event.done for event in heard if isinstance(event, StageAdvanced)][-1] == 50


def test_an_error_reaches_who_waits(threads: int) -> None:
    def work(own: Progress) -> None:
        raise UserError("no such thing")

    with SideBySide(CPU, Progress()) as side, pytest.raises(UserError, match="no such thing"):
        begun(side, work, threads)()


def test_what_nobody_waited_for_ends_with_the_block() -> None:
    began, ended = threading.Event(), threading.Event()

    def work(own: Progress) -> None:
        with own.stage("for ever") as task:
            try:
                while True:
                    began.set()
                    task.advance()
            finally:
                ended.set()

    with own_threads(2), SideBySide(CPU, Progress()) as side:
        side.begin(work)
        assert began.wait(1200)
    assert ended.is_set()


def test_where_memory_is_short_each_part_waits_until_it_is_asked_for(threads: int) -> None:
    begun = []
    with SideBySide(CPU, Progress(), at_once=False) as side:
        parts = [side.begin(lambda own, number=number: begun.append(number)) for number in (1, 2)]
        assert begun == []
        assert torch.get_num_threads() == threads
        parts[1]()
        assert begun == [2]


def test_waiting_is_ended_by_the_users_stop() -> None:
    stop, began = StopToken(), threading.Event()

    def work(own: Progress) -> None:
        with own.stage("for ever") as task:
            while True:
                began.set()
                task.advance()

    with own_threads(2), pytest.raises(Stopped), SideBySide(CPU, Progress(stop=stop)) as side:
        answer = side.begin(work)
        assert began.wait(1200)
        stop.stop()
        answer()
