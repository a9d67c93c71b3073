"""How far the work is, on stderr: bars on a terminal, a plain line now and then in a log."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from functools import cached_property
from typing import Any, Protocol

from diffgen.cli.streams import spelled_out
from diffgen.events import Event, Message, StageAdvanced, StageEnded, StageStarted
from diffgen.wording import percent

_LOG_SECONDS = 10.0  # between two lines of one stage in a log
_SILENT_SECONDS = 2.0  # a stage that is over sooner leaves no line in a log
_PER_SECOND, _SHARE = "_per_s", "_share"


class TerminalListener:
    """Shows events to people (a terminal) or in a log (anything else).

    Args:
        quiet: warnings only.
        verbose: details too.
    """

    def __init__(self, *, quiet: bool = False, verbose: bool = False) -> None:
        self._quiet = quiet
        self._verbose = verbose
        self._shown: dict[str, _Shown] = {}

    @cached_property
    def _console(self) -> Any:
        from rich.console import Console  # slow to import, and many a verb says nothing

        return Console(stderr=True, highlight=False)

    def __call__(self, event: Event) -> None:
        """Show an event, or pass it over."""
        if isinstance(event, Message):
            self._say(event)
        elif self._quiet:
            return
        elif isinstance(event, StageStarted):
            self._shown[event.name] = (_Bar if self._console.is_terminal else _Lines)(self._console, event)
        elif isinstance(event, StageAdvanced):
            self._shown[event.name].advanced(event)
        elif isinstance(event, StageEnded):
            self._shown.pop(event.name).ended()

    def _say(self, message: Message) -> None:
        text = spelled_out(message.text)  # names and sentences may come from a stranger's files
        if message.level == "warning":
            self._console.print(f"warning: {text}", markup=False, soft_wrap=True, style="yellow")
        elif not self._quiet and (self._verbose or message.level == "info"):
            style = "dim" if message.level == "detail" else None
            self._console.print(text, markup=False, soft_wrap=True, style=style)


def in_words(figures: Mapping[str, float | int]) -> str:
    """Figures in one line: shares in per cent, rates after what they are the rate of, whole numbers whole.

    >>> in_words({"queries_per_s": 2550.4, "triggers": 12416, "triggers_per_s": 657.2, "valid_share": 0.81})
    'queries/s 2,550  triggers 12,416 (657/s)  valid 81%'
    >>> in_words({"d_loss": 1.256})
    'd loss 1.26'
    """
    shown = []
    for name, value in figures.items():
        words = name.removesuffix(_PER_SECOND).removesuffix(_SHARE).replace("_", " ")
        if name.endswith(_PER_SECOND):
            if name.removesuffix(_PER_SECOND) not in figures:
                shown.append(f"{words}/s {value:,.0f}")
            continue
        if name.endswith(_SHARE):
            text = percent(value, 0)
        else:
            text = f"{value:,}" if isinstance(value, int) else f"{value:.2f}"
        rate = figures.get(f"{name}{_PER_SECOND}")
        shown.append(f"{words} {text}" + ("" if rate is None else f" ({rate:,.0f}/s)"))
    return "  ".join(shown)


class _Shown(Protocol):
    """A stage on the screen."""

    def advanced(self, event: StageAdvanced) -> None: ...

    def ended(self) -> None: ...


class _Bar:
    def __init__(self, console: Any, event: StageStarted) -> None:
        from diffgen.cli.bars import Bars

        self._bars = Bars(console=console, transient=False)
        self._total = event.total
        self._id = self._bars.add_task(spelled_out(event.name), total=event.total, figures="")
        self._bars.start()

    def advanced(self, event: StageAdvanced) -> None:
        done = event.done if self._total is None else min(event.done, self._total)
        figures: dict[str, Any] = {"figures": in_words(event.figures)} if event.figures else {}
        self._bars.update(self._id, completed=done, **figures)

    def ended(self) -> None:
        self._bars.stop()


class _Lines:
    def __init__(self, console: Any, event: StageStarted) -> None:
        self._name = spelled_out(event.name)
        self._total = event.total
        self._done = 0.0
        self._figures = ""
        self._started = self._said = time.monotonic()

    def advanced(self, event: StageAdvanced) -> None:
        self._done = event.done
        if event.figures:
            self._figures = in_words(event.figures)
        if time.monotonic() - self._said >= _LOG_SECONDS:
            self._print()

    def ended(self) -> None:
        if time.monotonic() - self._started >= _SILENT_SECONDS:
            self._print(ended=True)

    def _left(self) -> str:
        """How long the rest will take if it goes on as until now."""
        share = self._done / self._total if self._total else 0.0
        if not 0 < share < 1:
            return ""
        return f", about {(time.monotonic() - self._started) * (1 / share - 1):.0f} s left"

    def _print(self, *, ended: bool = False) -> None:
        self._said = time.monotonic()
        share = "" if not self._total else f" {percent(min(self._done / self._total, 1), 0)}"
        seconds = f" in {time.monotonic() - self._started:.0f} s" if ended else ""
        left = "" if ended or share == "" else self._left()
        print(f"{self._name}:{share}{seconds}{left}  {self._figures}".rstrip(), file=sys.stderr, flush=True)
