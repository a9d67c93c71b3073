"""How far the work is: on stderr as bars, or as a plain line now and then in a log; in a file for a program."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rich.console import Console, RenderableType
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn
from rich.text import Text

from diffgen.cli.signals import INTERRUPTED
from diffgen.cli.streams import spelled_out
from diffgen.errors import DiffgenError
from diffgen.events import Answered, BehaviourFound, Event, Listener, Message, StageAdvanced, StageEnded, StageStarted
from diffgen.runs.files import write_whole
from diffgen.wording import percent

_LOG_SECONDS = 10.0  # between two lines of one stage in a log
_SILENT_SECONDS = 2.0  # a stage that is over sooner leaves no line in a log
_PER_SECOND, _SHARE = "_per_s", "_share"


class Bars(Progress):
    """rich's bars; a task's field ``figures`` is shown below its bar."""

    @classmethod
    def get_default_columns(cls) -> tuple[TextColumn | BarColumn | TaskProgressColumn | TimeRemainingColumn, ...]:
        return (
            TextColumn("{task.description}", markup=False),  # it may hold the name of a stranger's file
            BarColumn(bar_width=24),
            TaskProgressColumn(),
            TimeRemainingColumn(compact=True),
        )

    def get_renderables(self) -> Iterable[RenderableType]:
        for task in self.tasks:
            yield self.make_tasks_table([task])
            if task.fields["figures"]:
                yield Text(f"  {task.fields['figures']}", overflow="fold")


class TerminalListener:
    """Shows events to people (a terminal) or in a log (anything else); when ``quiet`` warnings alone."""

    def __init__(self, *, quiet: bool = False, verbose: bool = False) -> None:
        self._quiet = quiet
        self._verbose = verbose
        self._shown: dict[str, _Bar | _Lines] = {}
        self._console = Console(stderr=True, highlight=False)

    def __call__(self, event: Event) -> None:
        """Show an event, or pass it over."""
        if isinstance(event, Message):
            self._say(event)
        elif isinstance(event, Answered):
            self._say(Message("info", event.text))
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


class _Bar:
    def __init__(self, console: Console, event: StageStarted) -> None:
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
    def __init__(self, console: Console, event: StageStarted) -> None:
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


_SECONDS = 0.3  # between two files at least
_MESSAGES = 60  # the last ones are kept


class StateFile:
    """A listener that keeps ``stage``, ``done``, ``total``, ``figures``, ``messages`` and how the work ended.

    That is ``ended``, ``problem`` (a sentence, or nothing) and ``exit_code``.
    """

    def __init__(self, path: Path, listener: Listener) -> None:
        self._path, self._listener = path, listener
        self._stages: list[dict[str, Any]] = []
        self._figures: dict[str, float] = {}
        self._messages: list[dict[str, str]] = []
        self._exit_code: int | None = None
        self._written = -float("inf")
        self._started = time.time()
        self._write()

    def __call__(self, event: Event) -> None:
        """Note an event and hand it on."""
        self._listener(event)
        at_once = True
        if isinstance(event, StageStarted):
            self._stages.append({"name": event.name, "done": 0.0, "total": event.total, "since": time.time()})
        elif isinstance(event, StageEnded):
            self._stages = [each for each in self._stages if each["name"] != event.name]
        elif isinstance(event, StageAdvanced):
            for each in self._stages:
                if each["name"] == event.name:
                    each["done"] = event.done
            self._figures.update(event.figures)
            at_once = False
        elif isinstance(event, Message | Answered):
            level = event.level if isinstance(event, Message) else "answer"
            self._messages = [*self._messages, {"level": level, "text": event.text}][-_MESSAGES:]
        elif isinstance(event, BehaviourFound):
            self._figures["behaviours"] = event.count
            at_once = False
        if at_once or time.monotonic() - self._written >= _SECONDS:
            self._write()

    def came_to(self, code: int) -> int:
        """Note the exit code of work that came to its end, and give it back."""
        self._exit_code = code
        return code

    @contextmanager
    def ending(self) -> Iterator[None]:
        """Note at the end of the block how it came out."""
        try:
            yield
        except BaseException as error:
            notes = getattr(error, "__notes__", ())
            # what main makes of it
            usual = INTERRUPTED if isinstance(error, KeyboardInterrupt) else DiffgenError.exit_code
            self._exit_code = getattr(error, "exit_code", usual)
            said = str(error) or ("interrupted" if isinstance(error, KeyboardInterrupt) else type(error).__name__)
            self._write(ended=True, problem="; ".join([said, *notes]))
            raise
        self._write(ended=True)

    def _write(self, *, ended: bool = False, problem: str = "") -> None:
        self._written = time.monotonic()
        stage = self._stages[-1] if self._stages else {}
        state = {
            "started": self._started,
            "updated": time.time(),
            "stage": stage.get("name", ""),
            "since": stage.get("since"),
            "done": stage.get("done"),
            "total": stage.get("total"),
            "figures": self._figures,
            "messages": self._messages,
            "ended": ended,
            "problem": problem,
            "exit_code": self._exit_code,
        }
        text = json.dumps(state)
        write_whole(self._path, lambda temporary: temporary.write_text(text, encoding="utf-8"), durable=False)
