"""Starts the process that isolated models are forked from; imports nothing heavy, so that this can be done first."""

from __future__ import annotations

import atexit
import os
import select
import socket
import subprocess
import sys
import threading
from collections import deque
from pathlib import Path
from typing import Any

from diffgen.errors import RunError
from diffgen.models.isolation.channel import Gone, ProtocolError, receive_with_descriptors, send

_PROGRAM = (
    "import sys; sys.path[:] = sys.argv[3:]; from diffgen.models.isolation.server import main; "
    "main(int(sys.argv[1]), sys.argv[2])"
)
# What libraries read about numbers and threads, and how they are found; a secret has none of these names.
_KEPT = ("LANG", "LC_ALL", "LC_CTYPE", "TZ", "LD_LIBRARY_PATH", "SYSTEMROOT")
_KEPT_PREFIXES = ("OMP_", "GOMP_", "KMP_", "MKL_", "DNNL_", "ONEDNN_", "ATEN_")
# the child may lock no file, and HDF5 takes that for a failure
_HDF5 = {"HDF5_USE_FILE_LOCKING": "FALSE"}
# torch with Triton, as its builds for CUDA are, asks who runs it; the list of users lies behind the wall
_NOBODY = {"LOGNAME": "nobody", "HOME": "/nonexistent"}
_TO_START = 120.0


class Server:
    """The process that children are made from; there is one, made when it is first needed.

    Args:
        kind: of file that will come, whose libraries it imports before it is asked for a child.
    """

    def __init__(self, kind: str) -> None:
        ours, theirs = socket.socketpair()
        with theirs:
            # not where somebody may have put a file of the same name as a module
            self._process = subprocess.Popen(
                [sys.executable, "-I", "-B", "-c", _PROGRAM, str(theirs.fileno()), kind, *_import_path()],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                env=short_environment(),
                pass_fds=(theirs.fileno(),),
                start_new_session=True,
                cwd="/",
            )
        self._connection = ours
        self._lock = threading.Lock()
        self._forgotten: deque[int] = deque()

    def new(self, kind: str) -> tuple[dict[str, Any], int, socket.socket]:
        """A new child: its number and process, a descriptor of that, and the socket to it.

        Raises:
            RunError: the server does not start.
        """
        ours, theirs = socket.socketpair()
        with theirs, self._lock:
            try:
                send(self._connection, {"verb": "new", "kind": kind}, [theirs.fileno()])
                ready, _, _ = select.select([self._connection], [], [], _TO_START)
                if not ready:
                    raise Gone(f"no answer in {_TO_START:g} s, as on a machine that has too much to do")
                message, (handle,) = receive_with_descriptors(self._connection)
            except (Gone, ProtocolError, OSError) as error:
                ours.close()
                self.end()
                raise RunError(
                    "The process that isolates models does not start; leave them in diffgen's own with --isolate off."
                ) from error
        return message, handle, ours

    def code(self, child: int) -> int | None:
        """How a child that has ended did so: its exit code, negative for a signal; None if that is not known."""
        with self._lock:
            return self._reaped(child)

    def forget(self, child: int) -> None:
        """Reap a child that was killed, now or with the next one; this never waits for the lock.

        The garbage collector calls this at any point of any thread, also where this thread holds the lock and waits
        for an answer; to wait for the lock there would be to wait for ever.
        """
        self._forgotten.append(child)
        if self._lock.acquire(blocking=False):
            try:
                while self._forgotten:
                    self._reaped(self._forgotten.popleft())
            finally:
                self._lock.release()

    def _reaped(self, child: int) -> int | None:
        """See :meth:`code`; the lock is held."""
        try:
            send(self._connection, {"verb": "end", "child": child})
            return int(receive_with_descriptors(self._connection)[0]["code"])
        except (Gone, ProtocolError, OSError):
            return None

    def end(self) -> None:
        """End the server, and with it its children."""
        self._connection.close()
        self._process.kill()
        self._process.wait()

    @property
    def alive(self) -> bool:
        return self._process.poll() is None


_server: Server | None = None
_starting = threading.Lock()


def start(*, torch: bool = False) -> Server:
    """The server; started if there is none.

    Args:
        torch: a file will come that needs it. To import it takes seconds: a program that says so before it imports
            torch itself has both happen at the same time.
    """
    global _server
    with _starting:
        if _server is None or not _server.alive:
            _server = Server("TORCHSCRIPT" if torch else "ONNX")
            atexit.register(_server.end)
        return _server


def _import_path() -> list[str]:
    """Where Python looks for modules, without the current folder unless diffgen itself lies there."""
    own = str(Path(__file__).resolve().parents[3])
    found = [own if not each or Path(each).resolve() == Path(own) else each for each in sys.path]
    here = os.getcwd()
    return [each for each in dict.fromkeys([*found, own]) if each == own or (os.path.isabs(each) and each != here)]


def short_environment() -> dict[str, str]:
    """The variables of the server and its children: what numbers and threads need, and nothing of the user's own."""
    kept = {name: value for name, value in os.environ.items() if name in _KEPT or name.startswith(_KEPT_PREFIXES)}
    # numpy's own threads are of no use in the server, and must not be there when it forks
    return {**kept, "OPENBLAS_NUM_THREADS": "1", "KERAS_BACKEND": "torch", **_NOBODY, **_HDF5}
