"""Calls in this process, one after the other."""

from __future__ import annotations

from collections import deque
from typing import Any

from diffgen.events import Event, Message
from diffgen.workers.calls import Ended, Function, attempt
from diffgen.workers.messages import Said


class Here:
    """See :class:`diffgen.workers.calls.Calls`."""

    def __init__(self) -> None:
        self._events: deque[tuple[int, Said | Ended]] = deque()

    def start(self, number: int, function: Function, *arguments: Any) -> None:
        def listen(event: Event) -> None:
            if isinstance(event, Message):
                self._events.append((number, Said(event.text, event.level == "warning")))

        self._events.append((number, attempt(listen, function, arguments)))

    def events(self, seconds: float) -> list[tuple[int, Said | Ended]]:
        return [self._events.popleft()] if self._events else []

    def close(self) -> None:
        self._events.clear()
