"""The exceptions of diffgen: one root, and one class for each exit code that an error can lead to."""

from __future__ import annotations

import difflib
from collections.abc import Collection


class DiffgenError(Exception):
    """Root of every error that diffgen raises on purpose.

    Attributes:
        exit_code: what the command line ends with when this error reaches it.
    """

    exit_code = 3


class UserError(DiffgenError):
    """Something the user gave cannot be used.

    The message is one sentence that says what is wrong and how to mend it. The command line prints it without a
    traceback and ends with 2; nothing has been written by then.
    """

    exit_code = 2


class RunError(DiffgenError):
    """A run broke off for a reason that lies outside the user's arguments: a model raised, a disk is full, ...

    What was found until then is in the run folder.
    """

    exit_code = 3


class ServiceError(RunError):
    """The server of a remote model does not answer, refuses, or may not be asked about more images.

    Other images, or the same ones in another form, would fare no better; asking later may.
    """


class Stopped(KeyboardInterrupt):
    """Somebody stopped the work (:class:`diffgen.events.StopToken`) where it cannot end in good order.

    What can be gone on with is kept. As after Ctrl-C, which it is a kind of, nothing on its way takes it for a failure.
    """


class StoppedBetweenBatches(Stopped):
    """A stop came while a model had more batches to answer; the search leaves them unasked, and ends in good order."""


def did_you_mean(given: object, known: Collection[str], *, quoted: bool = False) -> str:
    """The end of a sentence about a name that is not known: the one that was probably meant, or all there are."""
    near = difflib.get_close_matches(str(given), known, n=1)
    shown = repr if quoted else str
    if near:
        return f"did you mean {shown(near[0])}?"
    return f"give one of {', '.join(map(repr, known))}." if quoted else f"known are {', '.join(sorted(set(known)))}."
