"""Calls in this process, one after the other."""

from __future__ import annotations

from collections import deque
from typing import Any

from diffgen.pool.calls import Function, Link, attempt


class Here:
    """See :class:`diffgen.pool.calls.Pool`."""

    def __init__(self) -> None:
        self._events: deque[tuple[int, Any]] = deque()

    def start(self, number: int, function: Function, *arguments: Any) -> None:
        link = Link(lambda event: self._events.append((number, event)))
        self._events.append((number, attempt(link, function, arguments)))

    def tell(self, number: int, message: Any) -> None:
        raise AssertionError("what is over cannot be told anything")

    def stop(self) -> None:
        return

    def events(self, seconds: float) -> list[tuple[int, Any]]:
        return [self._events.popleft()] if self._events else []

    def end(self, number: int) -> None:
        return

    def close(self) -> None:
        self._events.clear()
