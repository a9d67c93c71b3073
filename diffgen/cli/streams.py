"""Standard output and error that never bring a verb down: any text, closed pipes, full disks."""

from __future__ import annotations

import io
import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

# what a terminal obeys, such as the beginning of an escape sequence; a line may end as on Windows
_OBEYED = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]|\r(?!\n)")


def spelled_out(text: str) -> str:
    """Text with its control characters as ``\\u001b``: names and sentences may come from a stranger's files."""
    return _OBEYED.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


class _Plain(io.TextIOWrapper):
    """A stream that holds text alone."""

    def write(self, text: str) -> int:
        super().write(spelled_out(text))
        return len(text)


class _Outlet(io.RawIOBase):
    """Writes to a file descriptor; what cannot be written is dropped, and the reason kept.

    Attributes:
        failure: why text was lost, or None. A reader that went away (``| head``) has what it wanted and is no failure.
    """

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._open = True
        self.failure: OSError | None = None

    def writable(self) -> bool:
        return True

    def fileno(self) -> int:
        return self._descriptor

    def isatty(self) -> bool:
        return os.isatty(self._descriptor)

    def write(self, data: ReadableBuffer, /) -> int:
        if self._open:
            try:
                return os.write(self._descriptor, data)
            except BrokenPipeError:
                self._open = False
            except OSError as error:
                self._open, self.failure = False, error
        return memoryview(data).nbytes


@contextmanager
def lenient_streams() -> Iterator[list[OSError]]:
    """While the block runs, ``print`` to stdout and stderr neither raises nor ends the program.

    Characters that the terminal's encoding lacks are written as ``\\u65e5``, bytes of file names that are no text as
    ``\\udcff``, control characters in stdout as ``\\u001b``. Streams that somebody has replaced already, as pytest
    does, are only told the former; one that was closed (``>&-``) takes what is written and drops it.

    Yields:
        A list that holds, after the block, why text for stdout was lost: nothing, or one error of the system.
    """
    lost: list[OSError] = []
    before = sys.stdout, sys.stderr
    outlets: list[_Outlet | None] = []
    instead: list[TextIO] = []
    for name in ("stdout", "stderr"):
        stream, own = getattr(sys, name), getattr(sys, f"__{name}__")
        if stream is None:
            # closed by whoever started the program; the number must not go to a file that is opened later
            instead.append(open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115
            setattr(sys, name, instead[-1])
            outlets.append(None)
            continue
        if stream is not own or not isinstance(stream, io.TextIOWrapper):
            outlets.append(None)
            if isinstance(stream, io.TextIOWrapper):
                stream.reconfigure(errors="backslashreplace")
            continue
        outlet = _Outlet(stream.fileno())
        outlets.append(outlet)
        # a line at a time, so that the two streams stay in order in a log
        # what shows progress draws on stderr with escape sequences of its own
        text = (_Plain if name == "stdout" else io.TextIOWrapper)(
            io.BufferedWriter(outlet),
            encoding=stream.encoding,
            errors="backslashreplace",
            line_buffering=True,
        )
        setattr(sys, name, text)
    try:
        yield lost
    finally:
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        sys.stdout, sys.stderr = before
        for each in instead:
            each.close()
        if outlets[0] is not None and outlets[0].failure is not None:
            lost.append(outlets[0].failure)
