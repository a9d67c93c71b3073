"""What a pool does, what a call in it has of the process that started it, and what is heard of the call."""

from __future__ import annotations

import queue
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from diffgen.errors import DiffgenError, UserError
from diffgen.events import Event, Message, StopToken

# What is called: a function of a module, whose first argument is a Link; what it raises is what is heard of it.
Function = Callable[..., Any]


@dataclass(frozen=True)
class Said:
    """A sentence for the user."""

    text: str
    warning: bool


@dataclass(frozen=True)
class Failed:
    """Why a call did not come to its end.

    Attributes:
        text: as a clause with a subject.
        by_user: it is something that the user can mend.
        died: it said nothing of it: its process was killed, or its machine is gone.
    """

    text: str
    by_user: bool = False
    died: bool = False


@dataclass(frozen=True)
class Ended:
    """A call is over; its process is gone. What it failed of, or None."""

    failure: Failed | None = None


class Link:
    """What a call has of the process that started it; a listener of events, which hands sentences on.

    Args:
        say: hands something on to the process that started the call.

    Attributes:
        told: what the call was told and has not looked at, in the order in which it was told.
        stop: the call is to end in good order.
    """

    def __init__(self, say: Callable[[Any], None]) -> None:
        self.say, self.stop = say, StopToken()
        self.told: queue.SimpleQueue[Any] = queue.SimpleQueue()

    def __call__(self, event: Event) -> None:
        """Hand a sentence on; of other events nothing is heard."""
        if isinstance(event, Message) and event.level != "detail":
            self.say(Said(event.text, event.level == "warning"))


class Pool(Protocol):
    """Calls that run elsewhere, each with a number."""

    def start(self, number: int, function: Function, *arguments: Any) -> None:
        """Call ``function(link, *arguments)`` elsewhere; all of it can be sent to another process."""
        ...

    def tell(self, number: int, message: Any) -> None:
        """Put something into what a call was told; one that is over does not mind."""
        ...

    def stop(self) -> None:
        """Let all calls end in good order."""
        ...

    def events(self, seconds: float) -> list[tuple[int, Any]]:
        """What the calls said, and an :class:`Ended` of each that is over, after so many ``seconds`` at most."""
        ...

    def end(self, number: int) -> None:
        """End a call that is not over, whatever it is doing; nothing more is heard of it."""
        ...

    def close(self) -> None:
        """End all calls."""
        ...


def attempt(link: Link, function: Function, arguments: tuple[Any, ...]) -> Ended:
    """Call it here."""
    try:
        function(link, *arguments)
    except Exception as error:  # whatever it is, whoever started the call says it and goes on
        return Ended(failed(error))
    return Ended()


def failed(error: Exception) -> Failed:
    """The error as the process that started the call hears of it; of one that nobody meant, where it happened too."""
    if isinstance(error, UserError):
        return Failed(str(error), by_user=True)
    if isinstance(error, DiffgenError):
        return Failed(str(error))
    from diffgen.models.wording import reason  # of a package that needs torch, which a call may not

    frames = traceback.extract_tb(error.__traceback__)
    return Failed(reason(error) + "".join(f" (at {each.filename}:{each.lineno})" for each in frames[-1:]))
