"""How often checkpoints are written, and what they cost."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from diffgen.comparison import checkpoints
from diffgen.comparison.checkpoints import Checkpointer, newest_usable
from diffgen.errors import UserError
from diffgen.events import Progress
from diffgen.runs.folder import RunFolder
from diffgen.runs.triggers import TriggerTable
from diffgen.search.archive import Archive
from diffgen.search.behaviours import Behaviours


class Clock:
    """Stands for the module ``time``; a checkpoint takes as long as it is told."""

    def __init__(self) -> None:
        self.now = 1000.0

    def monotonic(self) -> float:
        return self.now


class Counting:
    """Stands for technique, loop and evaluator."""

    def __init__(self, clock: Clock, cost: float) -> None:
        self.clock = clock
        self.cost = cost
        self.written: list[float] = []
        self.queries = self.spared = 0
        self.margin = 0.0
        self.behaviours = None
        self.saturated = False
        self.archive = Archive((1, 2, 2))

    @property
    def evaluator(self) -> Counting:
        return self

    @property
    def seconds(self) -> float:
        return self.clock.now

    def checkpoint(self) -> Mapping[str, Any]:
        self.written.append(self.clock.now)
        self.clock.now += self.cost
        return {"state": len(self.written)}


def make(folder: Path, clock: Clock, cost: float) -> tuple[Checkpointer, Counting, dict[str, list[float]]]:
    run = RunFolder.create(folder, config={}, manifest={}, force=False)
    history: dict[str, list[float]] = {name: [] for name in ("seconds", "queries", "triggers")}
    both = Counting(clock, cost)
    return Checkpointer(run, both, both, history), both, history  # type: ignore[arg-type]


@pytest.mark.parametrize("cost", [0.0, 0.01, 0.2, 3.0])
def test_they_take_no_more_than_their_share(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cost: float) -> None:
    clock = Clock()
    monkeypatch.setattr(checkpoints, "time", clock)
    checkpointer, counting, _ = make(tmp_path / "run", clock, cost)
    while clock.now < 2000:
        clock.now += 0.5  # a generation
        checkpointer.after_generation()
    assert counting.written[0] == 1000.5  # the first generation is safe at once
    gaps = [b - a for a, b in zip(counting.written, counting.written[1:], strict=False)]
    assert min(gaps) >= checkpoints.SECONDS
    assert max(gaps) <= max(checkpoints.SECONDS, cost / checkpoints.SHARE) + cost + 1
    assert cost * len(counting.written) <= 0.02 * (clock.now - 1000) + cost


def test_the_curves_stay_bounded_and_keep_their_last_point(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock()
    monkeypatch.setattr(checkpoints, "time", clock)
    checkpointer, counting, history = make(tmp_path / "run", clock, 0.0)
    for number in range(20_000):
        counting.queries = number
        checkpointer.record()
    assert {len(points) for points in history.values()} == {len(history["queries"])}
    assert 1000 < len(history["queries"]) <= checkpoints._MAX_POINTS
    assert history["queries"] == sorted(history["queries"])
    assert history["queries"][-1] == 19_999


def test_a_finished_search_is_remembered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock()
    monkeypatch.setattr(checkpoints, "time", clock)
    checkpointer, counting, _ = make(tmp_path / "run", clock, 0.0)
    checkpointer.after_generation()
    counting.queries = 77
    checkpointer.finish()
    found = newest_usable(RunFolder.open(tmp_path / "run"), Progress())
    assert found is not None
    assert found[0]["finished"] is True
    assert found[0]["queries"] == 77
    assert len(found[1]) == 0


def test_without_checkpoints_parts_are_forgotten(tmp_path: Path) -> None:
    run = RunFolder.create(tmp_path / "run", config={}, manifest={}, force=False)
    images = np.arange(12, dtype=np.uint8).reshape(3, 1, 2, 2)
    run.write_part(TriggerTable.of(images, np.eye(2, dtype=np.float32)[None].repeat(3, axis=0)))
    assert newest_usable(run, Progress()) is None
    assert len(run.read_triggers()) == 0


def test_no_name_in_a_checkpoint_is_used_twice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A technique's state under a name of the loop's would be overwritten, and found missing only at a resumption."""
    clock = Clock()
    monkeypatch.setattr(checkpoints, "time", clock)
    checkpointer, counting, _ = make(tmp_path / "run", clock, 0.0)
    monkeypatch.setattr(counting, "behaviours", Behaviours(lambda images: np.zeros(len(images), np.int64), 0.9))
    checkpointer.after_generation()
    clock.now += 100
    monkeypatch.setattr(counting, "checkpoint", lambda: {"behaviours": 1, "queries": 2, "mine": 3})
    with pytest.raises(UserError, match=r"technique Counting .*names that are taken: behaviours, queries"):
        checkpointer.after_generation()
