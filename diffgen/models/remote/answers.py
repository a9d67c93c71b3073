"""What a remote model has answered, kept on disk, so that no image is paid for twice; and how many were sent."""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from diffgen.errors import RunError, UserError
from diffgen.types import Float32Array

_SCHEMA = """
CREATE TABLE IF NOT EXISTS answers (key BLOB PRIMARY KEY, row BLOB NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS sent (id INTEGER PRIMARY KEY CHECK (id = 0), images INTEGER NOT NULL);
INSERT OR IGNORE INTO sent VALUES (0, 0);
"""
_AT_ONCE = 500  # parameters of one statement; SQLite allows 999 and more

Key = bytes


class AnswerTable:
    """A table from keys to rows of float32, and the count of the images that were sent.

    In memory at first; :meth:`move_to` brings it to a file. Every change is a transaction of its own: whatever kills
    the process, the file holds all answers that were kept and every image that was sent. A power cut may take the last
    ones.
    """

    def __init__(self) -> None:
        self._path: Path | None = None
        self._connection = sqlite3.connect(":memory:")
        self._connection.executescript(_SCHEMA)

    def move_to(self, path: Path) -> None:
        """Go on in a file; what it holds already stays, and goes before what is here.

        Raises:
            UserError: the file is damaged.
            RunError: the disk is full.
        """
        with _worded(path):
            target = sqlite3.connect(path)
            try:
                # the file may come from a stranger: nothing that its schema defines is run
                target.execute("PRAGMA trusted_schema = OFF")
                target.execute("PRAGMA journal_mode = WAL")
                target.execute("PRAGMA synchronous = NORMAL")
                target.executescript(_SCHEMA)
                rows = self._connection.execute("SELECT key, row FROM answers")
                with target:
                    target.executemany("INSERT OR IGNORE INTO answers VALUES (?, ?)", rows)
                    target.execute("UPDATE sent SET images = images + ?", (self.images_sent,))
            except BaseException:
                target.close()
                raise
        self._connection.close()
        self._connection, self._path = target, path

    @property
    def images_sent(self) -> int:
        """Images that were sent to the server, repeated and padding ones counted each time."""
        with _worded(self._path):
            return int(self._connection.execute("SELECT images FROM sent").fetchone()[0])

    def count_sent(self, images: int) -> None:
        """Count images, before they are sent."""
        with _worded(self._path), self._connection:
            self._connection.execute("UPDATE sent SET images = images + ?", (images,))

    def find(self, keys: Iterable[Key]) -> dict[Key, Float32Array]:
        """The answers that are known, by key."""
        wanted = list(dict.fromkeys(keys))
        found: dict[Key, Float32Array] = {}
        with _worded(self._path):
            for start in range(0, len(wanted), _AT_ONCE):
                some = wanted[start : start + _AT_ONCE]
                marks = ",".join("?" * len(some))
                for key, row in self._connection.execute(f"SELECT key, row FROM answers WHERE key IN ({marks})", some):
                    found[key] = np.frombuffer(row, dtype="<f4").astype(np.float32)
        return found

    def keep(self, answers: Mapping[Key, Float32Array]) -> None:
        """Keep answers, each float32 (K,)."""
        with _worded(self._path), self._connection:
            self._connection.executemany(
                "INSERT OR REPLACE INTO answers VALUES (?, ?)",
                [(key, row.astype("<f4").tobytes()) for key, row in answers.items()],
            )

    def close(self) -> None:
        """Close the file."""
        self._connection.close()


def keys_of(pixels: np.ndarray[Any, Any], said: str) -> list[Key]:
    """What the answers to images are kept under: a digest of exactly the bytes that the model is handed.

    Args:
        pixels: (N, ...), in memory as in C.
        said: whatever else the answer depends on.
    """
    head = hashlib.sha256(f"{said}\n{pixels.dtype.str}{pixels.shape[1:]}\n".encode())
    keys = []
    for image in pixels:
        sha = head.copy()
        sha.update(image)
        keys.append(sha.digest())
    return keys


@contextmanager
def _worded(path: Path | None) -> Iterator[None]:
    try:
        yield
    except sqlite3.OperationalError as error:  # the disk is full, the folder is read-only, ...
        raise RunError(f"The file {path} cannot be written ({error}); free some space and resume.") from error
    except (sqlite3.DatabaseError, ValueError, TypeError) as error:
        raise UserError(
            f"The file {path} with the answers of a remote model is damaged ({error}); remove it to ask and pay anew."
        ) from error
