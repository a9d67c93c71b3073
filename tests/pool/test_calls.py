"""Calls in processes of their own: what they say, and what is heard of those that fail or die."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from diffgen.errors import UserError
from diffgen.pool.calls import Ended, Failed, Said, failed
from diffgen.pool.processes import Processes
from tests.pool import called


def with_tests() -> dict[str, str]:
    """Where a script finds diffgen and these tests."""
    return {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}


@pytest.fixture
def pool() -> Iterator[Processes]:
    made = Processes()
    yield made
    made.close()


def heard(pool: Processes, count: int) -> dict[int, list[Any]]:
    """What so many calls say until they have ended."""
    found: dict[int, list[Any]] = {number: [] for number in range(count)}
    while sum(isinstance(events[-1], Ended) for events in found.values() if events) < count:
        for number, event in pool.events(60):
            found[number].append(event)
    return found


def test_what_is_heard_of_calls(pool: Processes) -> None:
    for number, (function, *arguments) in enumerate(
        [(called.says, "begun"), (called.breaks_a_pipe,), (called.dies, int(signal.SIGKILL))]
    ):
        pool.start(number, function, *arguments)
    says, breaks, dies = heard(pool, 3).values()
    assert says == [Said("begun", False), Ended()]
    # a broken pipe of its own is no sign that nobody listens
    assert len(breaks) == 1
    assert breaks[0].failure.text.startswith("BrokenPipeError: the server is gone (at ")
    assert dies == [Ended(Failed("its process was ended by the signal SIGKILL, as when memory is full", died=True))]
    assert pool.events(0) == []


def test_a_script_that_calls_diffgen_when_it_is_imported_is_told_so(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        "from diffgen.pool.processes import Processes\n"
        "from tests.pool import called\n"
        "pool = Processes()\n"
        "pool.start(0, called.says, 'x')\n"
        "print(pool.events(60)[0][1].failure.text)\n"
    )
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, env=with_tests())
    assert "the code 1, before it began: a script must call diffgen under 'if __name__ == \"__main__\":'" in done.stdout


def test_calls_that_are_ended(pool: Processes) -> None:
    pool.start(0, called.waits)
    (process, _) = pool._running[0]
    pool.close()
    assert process.exitcode == -signal.SIGKILL


def test_a_call_is_told_things_in_their_order_and_ends_in_good_order(pool: Processes) -> None:
    pool.start(0, called.repeats)
    for word in ("a", "b", "c"):
        pool.tell(0, word)
    found: list[Any] = []
    while not found or not isinstance(found[-1], Ended):
        found += [event for _, event in pool.events(60)]
        if len(found) == 3:
            pool.stop()
    assert found == ["a", "b", "c", Ended()]
    pool.tell(0, "nobody is there")


def test_what_a_worker_says_of_an_error() -> None:
    assert failed(UserError("The file is gone.")).by_user
    internal = failed(KeyError("x"))
    assert not internal.by_user
    assert internal.text.startswith("KeyError: 'x'")
