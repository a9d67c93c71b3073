"""What a search has found so far, read from its run folder while it goes on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from diffgen.errors import UserError
from diffgen.report.data import Picture
from diffgen.report.origins import origin_sentence
from diffgen.runs.folder import RunFolder
from diffgen.runs.parts import read_parts
from diffgen.runs.triggers import TriggerTable
from diffgen.types import Int64Array, UInt8Array
from diffgen.workflows.browse import NO_CELL, Find

_POINTS = 120  # of a curve


@dataclass(frozen=True, eq=False)
class Sight:
    """What was written of a search until now. All triggers count; nobody has judged them yet.

    Attributes:
        run: the run folder.
        models: what they are called, A first.
        triggers: written.
        queries: asked when the last of them was found.
        labels: int64 (N, M), what each model says of each trigger.
        kinds: how many different rows these are.
        curve: for some points queries, triggers and kinds by then.
    """

    run: Path
    models: tuple[str, ...]
    triggers: int
    queries: int
    labels: Int64Array
    kinds: int
    curve: tuple[tuple[int, int, int], ...]


class Watcher:
    """Looks at one run again and again; of its triggers it reads each part once, since a part is never changed.

    Raises:
        UserError: there is no run at that place, or it is damaged.
    """

    def __init__(self, run: str | Path) -> None:
        self.path = Path(run)
        self._folder = RunFolder.open(run)
        self._start()

    def _start(self) -> None:
        self._parts: list[dict[str, Any]] = []
        self._tables: list[TriggerTable] = []
        self._sight: Sight | None = None

    def look(self) -> Sight:
        """What is there now.

        Raises:
            UserError: the run is gone or damaged.
        """
        folder = RunFolder.open(self.path)
        folder.check_description()
        parts = folder.manifest["parts"]
        if folder.manifest.get("created") != self._folder.manifest.get("created") or parts[: len(self._parts)] != (
            self._parts
        ):
            self._start()  # another run, or one that was taken up again from an earlier place
        self._folder = folder
        if self._sight is not None and len(parts) == len(self._parts):
            return self._sight
        for part in parts[len(self._parts) :]:
            self._tables.append(read_parts(folder, [part], None))
            self._parts.append(part)
        with folder.reading():
            self._sight = self._seen()
        return self._sight

    def images(self, numbers: Sequence[int]) -> UInt8Array:
        """uint8 (len(numbers), C, H, W): pictures of triggers that the last look saw.

        Raises:
            UserError: there is none of such a number, or its part cannot be read.
        """
        placed = [self._placed(number) for number in numbers]
        return np.stack([table.images_of(np.array([row]))[0] for table, row in placed])

    def find(self, number: int) -> Find:
        """One of these triggers, as far as it is known before anybody has judged it.

        Raises:
            UserError: there is none of that number, or its part cannot be read.
        """
        table, row = self._placed(number)
        origin = table.origin(row)
        kept = table.classes
        classes = table.probabilities.shape[2] if kept is None else int(kept[row].max()) + 1
        picture = Picture(
            image=table.images_of(np.array([row]))[0],
            labels=tuple(table.labels[row].tolist()),
            probabilities=table.probabilities[row],
            classes=None if kept is None else kept[row],
            identifier=number,
            origin=origin_sentence(origin, (), "the generator"),
        )
        answers = table.answers(np.array([row]), classes)[0]
        return Find(picture, answers, NO_CELL, origin.generation, int(table.query[row]), origin.seed, None)

    def _placed(self, number: int) -> tuple[TriggerTable, int]:
        """The part that holds a trigger, and its row there."""
        ends = np.cumsum([len(table) for table in self._tables])
        if not len(ends) or not 0 <= number < ends[-1]:
            raise UserError(f"The run {self.path} has no trigger {number} yet.")
        part = int(np.searchsorted(ends, number, side="right"))
        return self._tables[part], number - int(ends[part]) + len(self._tables[part])

    def _seen(self) -> Sight:
        manifest = self._folder.manifest
        models = tuple(str(manifest["files"][role]["name"]) for role in sorted(manifest["files"]))
        if not self._tables:
            return Sight(self.path, models, 0, 0, np.empty((0, len(models)), np.int64), 0, ())
        labels = np.concatenate([table.labels for table in self._tables])
        queries = np.concatenate([table.query for table in self._tables])
        _, first = np.unique(labels, axis=0, return_index=True)
        kinds = np.cumsum(np.bincount(first, minlength=len(labels)))
        places = np.unique(np.linspace(0, len(labels) - 1, min(_POINTS, len(labels))).astype(np.int64))
        curve = tuple((int(queries[at]), int(at) + 1, int(kinds[at])) for at in places)
        return Sight(self.path, models, len(labels), int(queries[-1]), labels, len(first), curve)
