"""What the driver asks of whatever runs the workers."""

from __future__ import annotations

from typing import Protocol

from diffgen.islands.messages import Begin, Epoch, Event


class Crew(Protocol):
    """The workers of a run, one for each island."""

    def start(self, number: int) -> None:
        """Start the worker of an island; a :class:`Ready` or a :class:`Failed` says what came of it."""
        ...

    def tell(self, number: int, message: Begin | Epoch) -> None:
        """Hand a worker its next task; tasks are done in their order."""
        ...

    def stop(self) -> None:
        """Let all workers end their search in good order, and report."""
        ...

    def events(self, seconds: float) -> list[tuple[int, Event]]:
        """What the workers have to say, after so many ``seconds`` at most. Who has :class:`Failed` is gone."""
        ...

    def end(self, number: int) -> None:
        """End a worker, whatever it is doing."""
        ...

    def close(self) -> None:
        """End all workers."""
        ...
