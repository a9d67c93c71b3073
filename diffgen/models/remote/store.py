"""What a remote model was sent, what it may still be sent, and its answers, so that no image is paid for twice."""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch

from diffgen.errors import RunError, ServiceError, UserError
from diffgen.models.answer_store import AnswerStore
from diffgen.models.wording import counted
from diffgen.types import Float32Array


class RemoteStore(AnswerStore):
    """Counts images as they are sent, and keeps the answers once it is told to.

    Args:
        name: of the model, for messages.
        budget: images that may be sent, or None: any number.
        retried: says how many requests were made again so far.
        fixed_batch: says the only batch size that the model takes, or None.
    """

    def __init__(
        self, name: str, budget: int | None, *, retried: Callable[[], int], fixed_batch: Callable[[], int | None]
    ) -> None:
        self._name = name
        self._budget = budget
        self._retried = retried
        self._fixed_batch = fixed_batch
        self._rows, self._remembers = KeptRows(), False
        self._reserved = 0
        self.occasion = ""

    @property
    def images_left(self) -> int | None:
        if self._budget is None:
            return None
        left, fixed = self._budget - self.images_sent - self._reserved, self._fixed_batch()
        return max(left - left % fixed if fixed else left, 0)

    def reserve(self, images: int) -> None:
        self._reserved = images

    @property
    def images_sent(self) -> int:
        """Images that were sent so far, repeated and padding ones counted each time."""
        return self._rows.images_sent

    @property
    def cost_summary(self) -> str:
        budget = "" if self._budget is None else f" of the {self._budget:,} allowed"
        again = counted(self._retried(), "request")
        return f"Model {self._name}: {self.images_sent:,} images{budget} sent, {again} made again."

    def attach(self, file: Path | None) -> None:
        self._remembers = True
        if file is not None:
            self._rows.move_to(file)

    def detach(self) -> None:
        before, self._rows, self._remembers = self._rows, KeptRows(), False
        self.count(before.images_sent)
        before.close()

    @contextmanager
    def bypass(self, occasion: str) -> Iterator[None]:
        before, self.occasion = self.occasion, occasion
        try:
            yield
        finally:
            self.occasion = before

    def asked(self, pixels: np.ndarray, about: str, ask: Callable[[np.ndarray], object]) -> object:
        """The answers to images, of which only those that are not remembered are asked about.

        Args:
            pixels: (N, ...), as they are sent.
            about: whatever else the answer depends on.

        Returns:
            float32 (N, K), or what ``ask`` gave where that is something else.
        """
        if not self._remembers:
            return ask(pixels)
        keys = keys_of(pixels, f"{about}\n{self.occasion}")
        known = self._rows.find(keys)
        rows = {key: row for row, key in enumerate(keys) if key not in known}
        if rows:
            given = ask(pixels[list(rows.values())])
            if not _are_rows(given, len(rows)):
                return given
            assert isinstance(given, torch.Tensor)
            new = dict(zip(rows, given.to(torch.float32).numpy(), strict=True))
            # NaN may be the fault of a moment; a resumed run asks again
            self._rows.keep({key: row for key, row in new.items() if np.isfinite(row).all()})
            known |= new
        return _stacked(known, keys)

    def spend(self, images: int) -> None:
        """Count images before they are sent. ServiceError if they are more than may be sent."""
        if self._budget is not None and self.images_sent + images > self._budget:
            raise ServiceError(
                f"The query budget of {self._budget:,} images of model {self._name} is spent ({self.images_sent:,} "
                f"were sent, and {counted(images, 'image')} more would be needed now); give a larger --query-budget."
            )
        self.count(images)

    def count(self, images: int) -> None:
        """Count images that were sent, or fewer than none for those that were not after all."""
        self._rows.count_sent(images)


def _are_rows(answer: object, count: int) -> bool:
    return isinstance(answer, torch.Tensor) and answer.ndim == 2 and len(answer) == count and answer.is_floating_point()


def _stacked(known: dict[Key, Float32Array], keys: list[Key]) -> torch.Tensor:
    rows = [known[key] for key in keys]
    if len({len(row) for row in rows}) > 1:
        raise ServiceError("The server gives rows of different lengths for different images; see its log.")
    return torch.from_numpy(np.stack(rows))


# -- the table of answers, and how many images were sent -------------------------------------------------------------

_SCHEMA = """
CREATE TABLE IF NOT EXISTS answers (key BLOB PRIMARY KEY, row BLOB NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS sent (id INTEGER PRIMARY KEY CHECK (id = 0), images INTEGER NOT NULL);
INSERT OR IGNORE INTO sent VALUES (0, 0);
"""
_AT_ONCE = 500  # parameters of one statement; SQLite allows 999 and more

Key = bytes


class KeptRows:
    """A table from keys to rows of float32, and the count of the images that were sent.

    In memory at first; :meth:`move_to` brings it to a file. Every change is a transaction of its own: whatever kills
    the process, the file holds all answers that were kept and every image that was sent. A power cut may take the last
    ones.
    """

    def __init__(self) -> None:
        self._path: Path | None = None
        self._connection = sqlite3.connect(":memory:", check_same_thread=False)  # one thread at a time asks a model
        self._connection.executescript(_SCHEMA)

    def move_to(self, path: Path) -> None:
        """Go on in a file; what it holds already stays, and goes before what is here.

        Raises:
            UserError: the file is damaged.
            RunError: the disk is full.
        """
        with _worded(path):
            target = sqlite3.connect(path, check_same_thread=False)
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
