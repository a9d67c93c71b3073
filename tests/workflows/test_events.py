"""A comparison in a thread of its own, watched and stopped from another one, as a page in a browser does it."""

from __future__ import annotations

import threading
from dataclasses import replace
from pathlib import Path

import pytest

from diffgen.comparison import checkpoints
from diffgen.comparison.stages import CompareResult
from diffgen.config import Budget, CompareConfig
from diffgen.errors import Stopped
from diffgen.events import BehaviourFound, Event, StageEnded, StageStarted, StopToken, TriggersFound
from diffgen.runs.folder import RunFolder
from diffgen.workflows.compare import compare
from diffgen.workflows.resume import resume
from tests.recording import Recording


class Worker(threading.Thread):
    """A comparison; ``each`` is called with every event, in this thread."""

    def __init__(self, *models: object, **arguments: object) -> None:
        super().__init__(daemon=True)
        self.result: CompareResult | None = None
        self.error: BaseException | None = None
        self._models, self._arguments = models, arguments

    def run(self) -> None:
        try:
            self.result = compare(*self._models, **self._arguments)  # type: ignore[arg-type]
        except (Exception, KeyboardInterrupt) as error:
            self.error = error


def test_a_comparison_is_watched_and_stopped_from_another_thread(
    model_files: dict[str, Path],
    small_config: CompareConfig,
    finished: CompareResult,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It would take ten minutes; the pictures are read while it runs."""
    monkeypatch.setattr(checkpoints, "SECONDS", 0.0)
    monkeypatch.setattr(checkpoints, "SHARE", 1e9)
    recording, stop, seen = Recording(), StopToken(), threading.Event()

    def listen(event: Event) -> None:
        recording(event)
        if isinstance(event, TriggersFound) and event.written >= 20:
            seen.set()

    worker = Worker(
        model_files["a"],
        model_files["b"],
        data="digits:test",
        config=replace(small_config, budget=Budget(seconds=600)),
        output=tmp_path / "run",
        events=listen,
        stop=stop,
    )
    worker.start()
    assert seen.wait(1200), worker.error
    found = [event for event in recording.events if isinstance(event, TriggersFound)]
    images = RunFolder.open(found[-1].run).read_triggers().images
    assert worker.is_alive()
    assert len(images) >= found[-1].written >= 20
    stop.stop()
    worker.join(100)
    assert worker.result is not None, worker.error
    assert worker.result.interrupted
    assert worker.result.queries < 100_000
    assert (tmp_path / "run" / "report.html").is_file()

    found = [event for event in recording.events if isinstance(event, TriggersFound)]
    counts = [event.count for event in found]
    assert counts == sorted(counts)
    assert len(set(counts)) > 1
    assert (found[-1].count, found[-1].written, found[-1].queries) == (
        worker.result.triggers,
        worker.result.triggers,
        worker.result.queries,
    )
    behaviours = [event.count for event in recording.events if isinstance(event, BehaviourFound)]
    assert behaviours == sorted(set(behaviours))
    assert behaviours[-1] == worker.result.behaviours
    begun = [event.name for event in recording.events if isinstance(event, StageStarted)]
    assert begun == [event.name for event in recording.events if isinstance(event, StageEnded)]
    assert recording.figures["triggers"] == worker.result.triggers
    assert all(isinstance(value, int | float) for value in recording.figures.values())


def test_a_stop_before_the_search_writes_nothing(
    model_files: dict[str, Path], small_config: CompareConfig, tmp_path: Path
) -> None:
    stop = StopToken()
    stop.stop()
    with pytest.raises(Stopped) as caught:
        compare(
            model_files["a"],
            model_files["b"],
            data="digits:test",
            config=small_config,
            output=tmp_path / "run",
            stop=stop,
        )
    assert "search had not begun" in caught.value.__notes__[0]
    assert not (tmp_path / "run").exists()


def test_a_stop_after_the_search_is_gone_on_from(
    model_files: dict[str, Path], small_config: CompareConfig, finished: CompareResult, tmp_path: Path
) -> None:
    stop = StopToken()

    def listen(event: Event) -> None:
        if isinstance(event, StageStarted) and event.name.startswith("Asking again"):
            stop.stop()

    with pytest.raises(Stopped) as caught:
        compare(
            model_files["a"],
            model_files["b"],
            data="digits:test",
            config=small_config,
            output=tmp_path / "run",
            events=listen,
            stop=stop,
        )
    assert "--resume" in caught.value.__notes__[0]
    assert replace(resume(tmp_path / "run"), run="", seconds=0) == replace(finished, run="", seconds=0)
