"""How far the work is, on stderr: bars on a terminal, a plain line now and then in a log."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from diffgen.types import Progress, Task

_LOG_SECONDS = 10.0  # between two lines of one task in a log
_SILENT_SECONDS = 2.0  # a task that is over sooner leaves no line in a log


class TerminalProgress(Progress):
    """Progress for people (a terminal) or for a log (anything else).

    Args:
        quiet: warnings only.
        verbose: details too.
    """

    def __init__(self, *, quiet: bool = False, verbose: bool = False) -> None:
        from rich.console import Console

        self._console = Console(stderr=True, highlight=False)
        self._quiet = quiet
        self._verbose = verbose

    @contextmanager
    def task(self, description: str, total: float | None = None) -> Iterator[Task]:
        if self._quiet:
            with super().task(description, total) as silent:
                yield silent
        elif self._console.is_terminal:
            yield from self._bar(description, total)
        else:
            line = _LogTask(description, total)
            yield line
            line.finish()

    def _bar(self, description: str, total: float | None) -> Iterator[Task]:
        from diffgen.cli.bars import Bars

        with Bars(console=self._console, transient=False) as bars:
            yield _BarTask(bars, bars.add_task(description, total=total, figures=""), total)

    def say(self, message: str) -> None:
        if not self._quiet:
            self._console.print(message, markup=False, soft_wrap=True)

    def detail(self, message: str) -> None:
        if self._verbose and not self._quiet:
            self._console.print(message, markup=False, soft_wrap=True, style="dim")

    def warn(self, message: str) -> None:
        self._console.print(f"warning: {message}", markup=False, soft_wrap=True, style="yellow")


def _in_words(figures: dict[str, Any]) -> str:
    return "  ".join(f"{name.replace('_per_s', '/s').replace('_', ' ')} {value}" for name, value in figures.items())


class _BarTask:
    def __init__(self, bars: Any, identifier: Any, total: float | None) -> None:
        self._bars = bars
        self._id = identifier
        self._total = total

    def advance(self, amount: float = 1.0, **figures: Any) -> None:
        self._bars.update(self._id, advance=amount, **self._fields(figures))

    def reach(self, completed: float, **figures: Any) -> None:
        shown = completed if self._total is None else min(completed, self._total)
        self._bars.update(self._id, completed=shown, **self._fields(figures))

    @staticmethod
    def _fields(figures: dict[str, Any]) -> dict[str, str]:
        return {"figures": _in_words(figures)} if figures else {}


class _LogTask:
    def __init__(self, description: str, total: float | None) -> None:
        self._description = description
        self._total = total
        self._completed = 0.0
        self._figures = ""
        self._started = self._said = time.monotonic()

    def advance(self, amount: float = 1.0, **figures: Any) -> None:
        self.reach(self._completed + amount, **figures)

    def reach(self, completed: float, **figures: Any) -> None:
        self._completed = completed
        if figures:
            self._figures = _in_words(figures)
        if time.monotonic() - self._said >= _LOG_SECONDS:
            self._print()

    def finish(self) -> None:
        if time.monotonic() - self._started >= _SILENT_SECONDS:
            self._print(done=True)

    def _left(self) -> str:
        """How long the rest will take if it goes on as until now."""
        share = self._completed / self._total if self._total else 0.0
        if not 0 < share < 1:
            return ""
        return f", about {(time.monotonic() - self._started) * (1 / share - 1):.0f} s left"

    def _print(self, *, done: bool = False) -> None:
        self._said = time.monotonic()
        share = "" if not self._total else f" {min(self._completed / self._total, 1):.0%}"
        seconds = f" in {time.monotonic() - self._started:.0f} s" if done else ""
        left = "" if done or share == "" else self._left()
        print(f"{self._description}:{share}{seconds}{left}  {self._figures}".rstrip(), file=sys.stderr, flush=True)
