"""What happens while something runs, in raw numbers, and how another thread ends it.

Every verb takes ``events``, a function that is called with each event, and ``stop``, a :class:`StopToken`:

>>> import diffgen, threading
>>> stop = diffgen.StopToken()
>>> work = threading.Thread(
...     target=diffgen.compare, args=("a.onnx", "b.onnx"), kwargs={"data": "val/", "events": print, "stop": stop}
... )  # doctest: +SKIP
>>> work.start()  # doctest: +SKIP
>>> stop.stop()  # doctest: +SKIP

Events are sent by the thread that works, one after the other. A listener that raises ends the work.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from diffgen.errors import Stopped


@dataclass(frozen=True)
class StageStarted:
    """A part of the work begins.

    Attributes:
        name: what is done, as a heading.
        total: how far ``StageAdvanced.done`` will go, or None: that is not known.
    """

    name: str
    total: float | None


@dataclass(frozen=True)
class StageAdvanced:
    """A stage has got further.

    Attributes:
        name: of the stage.
        done: from 0 to the stage's total (a search by time may end a little later), in its own unit: images, steps,
            bytes, seconds or queries.
        figures: measured so far, by name; names that end with ``_per_s`` are rates, with ``_share`` shares in [0, 1].
    """

    name: str
    done: float
    figures: Mapping[str, float | int] = field(default_factory=dict)


@dataclass(frozen=True)
class StageEnded:
    """A stage is over, also when it broke off."""

    name: str


@dataclass(frozen=True)
class TriggersFound:
    """The search has found more triggering inputs, or has written more of them.

    Attributes:
        count: distinct ones so far.
        written: how many of them can be read from the run folder by now.
        queries: asked so far.
        run: the run folder; :class:`diffgen.runs.folder.RunFolder` reads it while the search goes on.
    """

    count: int
    written: int
    queries: int
    run: Path


@dataclass(frozen=True)
class BehaviourFound:
    """The search has found a behaviour that it did not know.

    Attributes:
        count: different ones so far.
        queries: asked so far.
    """

    count: int
    queries: int


@dataclass(frozen=True)
class Message:
    """A sentence for the user.

    Attributes:
        level: "detail" is for those who want to know more.
        text: one line, without markup.
    """

    level: Literal["detail", "info", "warning"]
    text: str


@dataclass(frozen=True)
class Answered:
    """A first, or a better, answer stands, whatever becomes of the rest of the work.

    Attributes:
        stage: what it rests on: real images as they are, plain variations of them, or the search.
        text: one sentence.
        seconds: since the work was begun.
    """

    stage: Literal["real", "variations", "search"]
    text: str
    seconds: float


Event = StageStarted | StageAdvanced | StageEnded | TriggersFound | BehaviourFound | Message | Answered
Listener = Callable[[Event], None]


class StopToken:
    """Ends the work that it was given to; any thread, and a signal handler, may call :meth:`stop`.

    A search ends in good order: what it found is judged and reported, and the run can be resumed. All other work raises
    :class:`diffgen.errors.Stopped` the next time that it says how far it is.

    Attributes:
        heeded: whether a search is going on that will end in good order.
        stopped_at: when :meth:`stop` was called first, as ``time.monotonic()`` says it, or None.
    """

    def __init__(self) -> None:
        # plain attributes and no lock: a signal handler may come between any two instructions of the same thread
        self.heeded = False
        self.stopped_at: float | None = None
        self._obeyed = False

    @property
    def stopped(self) -> bool:
        """Whether :meth:`stop` was called."""
        return self.stopped_at is not None

    def stop(self) -> None:
        """End the work; a second call changes nothing."""
        if self.stopped_at is None:
            self.stopped_at = time.monotonic()

    @contextmanager
    def heeding(self) -> Iterator[None]:
        """While the block runs, it looks at ``stopped`` itself and ends in good order."""
        self.heeded = True
        try:
            yield
        finally:
            self.heeded = False
            self._obeyed = self.stopped

    def check(self) -> None:
        """Go on, or not.

        Raises:
            Stopped: somebody wants the work to end, and nobody has ended or is ending it in good order.
        """
        if self.stopped and not self.heeded and not self._obeyed:
            raise Stopped("The work was stopped before its end.")


class Progress:
    """What long work is handed: it sends events to a listener and carries the stop token.

    Args:
        listener: is called with every event, or None: nobody listens.
        stop: ends the work, or None: nobody does.

    Attributes:
        warned: what it has warned of until now, each sentence once.
        answers: the latest of each stage.
    """

    def __init__(self, listener: Listener | None = None, stop: StopToken | None = None) -> None:
        self.listener = listener
        self.stop = StopToken() if stop is None else stop
        self.warned: list[str] = []
        self.answers: dict[str, Answered] = {}
        self._begun = time.monotonic()

    def send(self, event: Event) -> None:
        """Tell the listener."""
        if isinstance(event, Message) and event.level == "warning" and event.text not in self.warned:
            self.warned.append(event.text)
        if self.listener is not None:
            self.listener(event)

    @contextmanager
    def stage(self, name: str, total: float | None = None) -> Iterator[Stage]:
        """A part of the work, while the block runs; ``total`` None means that the end is not known.

        Raises:
            Stopped: see :class:`StopToken`.
        """
        self.stop.check()
        self.send(StageStarted(name, total))
        try:
            yield Stage(self, name)
        finally:
            self.send(StageEnded(name))

    def answer(self, stage: Literal["real", "variations", "search"], text: str) -> None:
        """Give an answer that stands."""
        self.answers[stage] = Answered(stage, text, round(time.monotonic() - self._begun, 1))
        self.send(self.answers[stage])

    def say(self, text: str) -> None:
        """Say a sentence to the user."""
        self.send(Message("info", text))

    def detail(self, text: str) -> None:
        """Say a sentence to a user who wants to know more."""
        self.send(Message("detail", text))

    def warn(self, text: str) -> None:
        """Warn the user."""
        self.send(Message("warning", text))


class Stage:
    """A running part of the work; made by :meth:`Progress.stage`."""

    def __init__(self, progress: Progress, name: str) -> None:
        self._progress = progress
        self._name = name
        self._done = 0.0

    def advance(self, amount: float = 1.0, **figures: float) -> None:
        """Say that ``amount`` more is done.

        Raises:
            Stopped: see :class:`StopToken`.
        """
        self.reach(self._done + amount, **figures)

    def reach(self, done: float, **figures: float) -> None:
        """Say how much is done, and what was measured.

        Raises:
            Stopped: see :class:`StopToken`.
        """
        self._done = done
        self._progress.send(StageAdvanced(self._name, done, figures))
        self._progress.stop.check()
