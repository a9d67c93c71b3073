"""One process at a time writes to a folder: a run's, or a store."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import socket
import sys
import time
from pathlib import Path
from typing import BinaryIO

from diffgen.errors import UserError
from diffgen.runs.opening import check_regular, open_in_place

LOCK_NAME = "lock"
_PAUSE = 0.02  # seconds between two tries
_LARGEST_PID = 2**31 - 1


class RunLock:
    """Holds a folder; a context manager.

    The file ``lock`` says who holds it. What counts is the system's own lock on that file, which ends with its process
    however that ended, so a ``kill -9`` leaves a file behind but nothing that stands in the way. Where the system has
    no such lock (Windows, some network file systems) the file alone counts: it is taken over when no process of that
    number runs any more.

    Args:
        folder: the folder; made if missing.
        what: the folder is, for people.
        option: of the command line that names another one.
        patience: seconds to wait for another process that holds it.
    """

    def __init__(self, folder: Path, *, what: str = "run folder", option: str = "-o", patience: float = 0.0) -> None:
        self._path = folder / LOCK_NAME
        self._what, self._option, self._patience = what, option, patience
        self._file: BinaryIO | None = None

    def __enter__(self) -> RunLock:
        self.acquire()
        return self

    def __exit__(self, *about: object) -> None:
        self.release()

    def acquire(self) -> None:
        """Take the lock.

        Raises:
            UserError: another process works in this folder, also at the end of the patience, or the folder cannot be
                made.
        """
        until = time.monotonic() + self._patience
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            while self._file is None:
                file = open_in_place(self._path)
                if not self._take(file):
                    holder = _holder(file)
                    file.close()
                    if time.monotonic() >= until:
                        raise self._busy(holder)
                    time.sleep(_PAUSE)
                elif self._is_current(file):
                    self._file = file
                else:  # whoever held it before removed it between our opening and our locking
                    file.close()
            self._file.seek(0)
            self._file.truncate()
            self._file.write(json.dumps({"pid": os.getpid(), "host": socket.gethostname()}).encode())
        except OSError as error:
            if self._file is not None:
                self.release()
            raise self._unusable(error) from error

    def release(self) -> None:
        """Give the lock back and remove its file."""
        if self._file is None:
            return
        with contextlib.suppress(OSError):  # a folder that somebody removed, or that can no longer be written
            self._path.unlink(missing_ok=True)
        self._file.close()
        self._file = None

    def _unusable(self, error: OSError) -> UserError:
        if error.filename == str(self._path) and error.errno in (errno.EINVAL, errno.EMLINK):
            return _no_lock(self._path, error)
        mend = "free some space" if error.errno == errno.ENOSPC else f"name another with {self._option}"
        return UserError(f"The {self._what} {self._path.parent} cannot be written ({error.strerror}); {mend}.")

    def _busy(self, holder: dict[str, object]) -> UserError:
        who = f"process {holder['pid']} on {holder['host']}" if holder else "another process"
        return UserError(
            f"The {self._what} {self._path.parent} is in use by {who}; wait for it or end it, "
            f"and if it is certain that nothing runs there, remove {self._path}."
        )

    def _is_current(self, file: BinaryIO) -> bool:
        try:
            return os.path.samestat(os.fstat(file.fileno()), self._path.lstat())
        except FileNotFoundError:
            return False

    @staticmethod
    def _take(file: BinaryIO) -> bool:
        if sys.platform != "win32":
            import fcntl

            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return True
            except BlockingIOError:
                return False
            except OSError:
                pass  # this file system has no locks; the file alone counts
        return not _alive(_holder(file))


def check_free(folder: Path) -> None:
    """Say before anything is computed that another process works in a folder; makes nothing. UserError if one does."""
    try:
        check_regular(folder / LOCK_NAME, links=False)
    except (FileNotFoundError, NotADirectoryError):
        return
    except OSError as error:
        raise _no_lock(folder / LOCK_NAME, error) from error
    with RunLock(folder):
        pass


def _no_lock(path: Path, error: OSError) -> UserError:
    return UserError(
        f"The lock {path} cannot be used ({error.strerror}); diffgen made no such thing there, so remove it."
    )


def _holder(file: BinaryIO) -> dict[str, object]:
    """Who wrote the lock file: ``pid`` and ``host``; empty when it does not say."""
    file.seek(0)
    try:
        holder = json.loads(file.read(1000))
        pid, host = holder["pid"], holder["host"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return {}
    # it may come from a stranger, and is printed
    if type(pid) is not int or not 0 < pid <= _LARGEST_PID or not isinstance(host, str) or not host.isprintable():
        return {}
    return {"pid": pid, "host": host}


def _alive(holder: dict[str, object]) -> bool:
    """Whether the process still runs; one on another machine cannot be seen and counts as running."""
    pid = holder.get("pid")
    if not isinstance(pid, int):
        return False
    if holder["host"] != socket.gethostname():
        return True
    if pid == os.getpid():
        return False
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True
