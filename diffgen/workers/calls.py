"""Calls of functions in processes of their own, here or on a Ray cluster, several at once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from diffgen.events import Listener
from diffgen.workers.messages import Failed, Said, failed

# What is called: a function of a module, whose first argument takes events; what it raises is what is heard of it.
Function = Callable[..., Any]


@dataclass(frozen=True)
class Ended:
    """A call is over; its process is gone.

    Attributes:
        failure: what it failed of, or None.
    """

    failure: Failed | None = None


class Calls(Protocol):
    """Calls that run, each with a number."""

    def start(self, number: int, function: Function, *arguments: Any) -> None:
        """Call ``function(listener, *arguments)`` elsewhere; all of it can be sent to another process."""
        ...

    def events(self, seconds: float) -> list[tuple[int, Said | Ended]]:
        """What is heard of the calls, after so many ``seconds`` at most."""
        ...

    def close(self) -> None:
        """End all calls, whatever they are doing."""
        ...


def attempt(listener: Listener, function: Function, arguments: tuple[Any, ...]) -> Ended:
    """Call it here."""
    try:
        function(listener, *arguments)
    except Exception as error:  # whatever it is, whoever started the call says it and goes on
        return Ended(failed(error))
    return Ended()
