"""Keeps in a file how far the work is, for a program that watches it: one JSON object, replaced as a whole."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from diffgen.cli.signals import INTERRUPTED
from diffgen.errors import DiffgenError
from diffgen.events import BehaviourFound, Event, Listener, Message, StageAdvanced, StageEnded, StageStarted
from diffgen.runs.files import write_whole

_SECONDS = 0.3  # between two files at least
_MESSAGES = 60  # the last ones are kept


class StateFile:
    """A listener that keeps ``stage``, ``done``, ``total``, ``figures``, ``messages`` and how the work ended.

    That is ``ended``, ``problem`` (a sentence, or nothing) and ``exit_code``.

    Args:
        path: the file.
        listener: hears every event too.
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
        elif isinstance(event, Message):
            self._messages = [*self._messages, {"level": event.level, "text": event.text}][-_MESSAGES:]
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
