"""What a verb says about itself, kept for the tests to look at."""

from __future__ import annotations

from typing import Any

from diffgen.events import Answered, Event, Message, Progress, StageAdvanced, StageStarted, StopToken


class Recording:
    """A listener that keeps every event.

    Args:
        stop: the token that ``progress`` carries, or None: one that nobody sets.

    Attributes:
        events: all of them, in order.
        progress: sends its events here; for what takes a ``Progress``.
    """

    def __init__(self, stop: StopToken | None = None) -> None:
        self.events: list[Event] = []
        self.progress = Progress(self, stop)

    def __call__(self, event: Event) -> None:
        self.events.append(event)

    @property
    def lines(self) -> list[str]:
        """What was said, without details and warnings."""
        return self._said("info")

    @property
    def warnings(self) -> list[str]:
        """What was warned of."""
        return self._said("warning")

    @property
    def heard(self) -> list[str]:
        """What was said and what was warned of."""
        return self._said("info", "warning")

    @property
    def totals(self) -> dict[str, float | None]:
        """The total of each stage, by its name."""
        return {event.name: event.total for event in self.events if isinstance(event, StageStarted)}

    def reached(self, stage: str) -> list[float]:
        """How far a stage said it was, each time."""
        return [event.done for event in self.events if isinstance(event, StageAdvanced) and event.name == stage]

    @property
    def figures(self) -> dict[str, Any]:
        """The last value of every figure of any stage."""
        last: dict[str, Any] = {}
        for event in self.events:
            if isinstance(event, StageAdvanced):
                last |= event.figures
        return last

    def _said(self, *levels: str) -> list[str]:
        said = [event for event in self.events if isinstance(event, Message | Answered)]
        return [event.text for event in said if getattr(event, "level", "info") in levels]
