"""What a worker says: sentences for the user, and what ended it."""

from __future__ import annotations

import signal
import traceback
from dataclasses import dataclass
from multiprocessing.process import BaseProcess

from diffgen.errors import DiffgenError, UserError

_SECONDS_TO_END = 2.0


@dataclass(frozen=True)
class Said:
    """A sentence for the user."""

    text: str
    warning: bool


@dataclass(frozen=True)
class Failed:
    """A worker cannot go on, and is there no more.

    Attributes:
        text: why, as a clause with a subject.
        by_user: it is something that the user can mend.
        died: it said nothing of it: it was killed, or its machine is gone.
    """

    text: str
    by_user: bool = False
    died: bool = False


def failed(error: Exception) -> Failed:
    """The error as the process that started the worker hears of it; of one that nobody meant, where it happened too."""
    if isinstance(error, UserError):
        return Failed(str(error), by_user=True)
    if isinstance(error, DiffgenError):
        return Failed(str(error))
    from diffgen.models.wording import reason  # of a package that needs torch, which a call may not

    frames = traceback.extract_tb(error.__traceback__)
    return Failed(reason(error) + "".join(f" (at {each.filename}:{each.lineno})" for each in frames[-1:]))


def how_it_ended(process: BaseProcess, *, begun: bool = True) -> Failed:
    """What there is to say of a process that ended without a word; ``begun``: it got as far as diffgen's own code."""
    process.join(_SECONDS_TO_END)
    code = process.exitcode
    if code is not None and code < 0:
        name = signal.Signals(-code).name if -code in set(signal.Signals) else str(-code)
        memory = ", as when memory is full" if name == "SIGKILL" else ""
        return Failed(f"its process was ended by the signal {name}{memory}", died=True)
    # a new process imports the script that started it, and must not do there again what started it
    why = "" if begun else ", before it began: a script must call diffgen under 'if __name__ == \"__main__\":'"
    return Failed(f"its process ended with the code {code}{why}", died=True)
