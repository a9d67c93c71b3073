"""Opens the storage of a study: a journal file, which several processes may share, or a database."""

from __future__ import annotations

import json
import re
import warnings
from pathlib import Path

from optuna.exceptions import ExperimentalWarning
from optuna.storages import BaseStorage, JournalStorage, RDBStorage, RetryHeartbeatStaleTrialCallback
from optuna.storages.journal import JournalFileBackend, JournalFileOpenLock

from diffgen.errors import UserError

# a process that has not been heard of for so long is dead, and its trial runs again elsewhere
_HEARTBEAT_SECONDS = 60
_GRACE_SECONDS = 180
_LONGEST_LINE = 1_000_000


def open_storage(given: str | None, journal: Path) -> BaseStorage:
    """The storage of a study.

    Args:
        given: a database's URL (``sqlite:///study.db``, ``postgresql://...``), the path of a journal file, or None.
        journal: the file when nothing is given; its folder is made.

    Raises:
        UserError: it cannot be opened.
    """
    if given is not None and "://" in given:
        return _database(given)
    check_storage(given)
    path = journal if given is None else Path(given)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        # not the lock by symlink, which may stay behind after a kill -9 (optuna issue 5921)
        lock = JournalFileOpenLock(str(path))
        if path.is_file():
            _check(path)
            _mend(path, lock)
        return JournalStorage(JournalFileBackend(str(path), lock_obj=lock))
    except OSError as error:
        raise UserError(f"The journal {path} cannot be opened ({error.strerror}); name another file.") from error
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise UserError(f"The file {path} is no journal of a study; name another file.") from error


def check_storage(given: str | None) -> None:
    """See at once that a journal file can be, or raise UserError; a database is asked when it is opened."""
    if given is None or "://" in given:
        return
    path = Path(given)
    if not path.parent.is_dir():
        raise UserError(f"The folder {path.parent} of the journal {path} does not exist; make it, or name another.")
    if path.is_dir():
        raise UserError(f"The journal {path} is a folder; name a file, or a database's URL such as sqlite:///study.db.")
    if path.exists() and not path.is_file():
        raise UserError(f"The journal {path} is a device, a pipe or a socket and no file; name a file.")


def _check(path: Path) -> None:
    """See that a file is a journal before anything is written to it; an empty one may become one."""
    with path.open("rb") as file:
        first = file.readline(_LONGEST_LINE)
    if first and "op_code" not in json.loads(first):
        raise ValueError("its first line is no entry of a journal")


def _mend(path: Path, lock: JournalFileOpenLock) -> None:
    """Remove a last line that a full disk or a power cut left half-written; Optuna would append to it."""
    lock.acquire()
    try:
        with path.open("r+b") as file:
            content = file.read()
            if not content.endswith(b"\n"):
                file.truncate(content.rfind(b"\n") + 1)
    finally:
        lock.release()


def _shown(url: str) -> str:
    """A database's URL without what may be a password."""
    return re.sub(r"//[^/]*@", "//...@", url)


def _database(url: str) -> BaseStorage:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ExperimentalWarning)  # the heartbeat is one, since 2021
            return RDBStorage(
                url,
                heartbeat_interval=_HEARTBEAT_SECONDS,
                grace_period=_GRACE_SECONDS,
                heartbeat_stale_trial_callback=RetryHeartbeatStaleTrialCallback(max_retry=1),
            )
    except ImportError as error:
        raise UserError(
            f"The database {_shown(url)} needs a driver that is not installed ({error}); install it."
        ) from error
    # OptunaError, SQLAlchemyError, RuntimeError for tables of another version, ...: every driver has its own
    except Exception as error:
        reason = _shown(str(error).splitlines()[0])
        raise UserError(
            f"The database {_shown(url)} cannot be opened ({reason}); see that it runs and that the URL is one of "
            "SQLAlchemy's."
        ) from error
