"""A command of diffgen in this process, its seconds and its memory shared out among its stages.

    python -m benchmarks.stage_clock OUT.json STARTED WORDS...

WORDS are those of the command line. Until the command begins nothing is imported that it would import itself: what it
imports is its own time, and what it sets before that has its effect.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.process_tree import peaks, processor_seconds

START, OTHERWISE = "start", "otherwise"


@dataclass
class StageClock:
    """Shares seconds out among stages, the innermost one that runs.

    Attributes:
        spent: name of a stage -> seconds of the clock and of the processor.
        began: name of a stage -> when it began first, both clocks.
    """

    start: tuple[float, float]
    spent: dict[str, tuple[float, float]] = field(default_factory=lambda: defaultdict(lambda: (0.0, 0.0)))
    began: dict[str, tuple[float, float]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._running: list[str] = []
        self._last = self.start
        self._heard = False

    @property
    def running(self) -> str:
        """The stage that what is spent now belongs to."""
        return self._running[-1] if self._running else (OTHERWISE if self._heard else START)

    def hear(self, change: str, name: str, now: tuple[float, float]) -> None:
        """A stage ``name`` has "started" or "ended" at ``now``, both clocks."""
        self.end(now)
        self._heard = True
        if change == "started":
            self.began.setdefault(name, now)
            self._running.append(name)
        elif name in self._running:
            # the inner ones of a stage that broke off are over, too
            del self._running[self._running.index(name) :]

    def end(self, now: tuple[float, float]) -> None:
        """The command is over."""
        clock, processor = self.spent[self.running]
        self.spent[self.running] = clock + now[0] - self._last[0], processor + now[1] - self._last[1]
        self._last = now


def main() -> None:
    """Run the command line here and write what its stages took."""
    out, started, words = Path(sys.argv[1]), float(sys.argv[2]), sys.argv[3:]
    from diffgen import events
    from diffgen.cli import main as run

    clock = StageClock((started, 0.0))
    highest: dict[str, tuple[float, float]] = defaultdict(lambda: (0.0, 0.0))
    send = events.Progress.send

    def now() -> tuple[float, float]:
        own, models = peaks(os.getpid())
        before = highest[clock.running]
        highest[clock.running] = max(before[0], own), max(before[1], models)
        return time.time(), processor_seconds(os.getpid())

    def listened(progress: events.Progress, event: events.Event) -> None:
        # what is prepared at the side is told a second time, by the thread that waits for it
        mine = threading.current_thread() is threading.main_thread()
        if mine and isinstance(event, events.StageStarted | events.StageEnded):
            clock.hear("started" if isinstance(event, events.StageStarted) else "ended", event.name, now())
        if isinstance(event, events.Answered):
            clock.began.setdefault(f"answer: {event.stage}", now())
        send(progress, event)

    events.Progress.send = listened  # type: ignore[assignment, method-assign]  # the command line has no place for a listener
    code = run(words)
    clock.end(now())
    began = {name: [when[0] - started, when[1]] for name, when in clock.began.items()}
    figures = {"spent": clock.spent, "highest": highest, "began": began, "exit_code": code}
    out.write_text(json.dumps(figures), encoding="utf-8")
    raise SystemExit(code)


if __name__ == "__main__":
    main()
