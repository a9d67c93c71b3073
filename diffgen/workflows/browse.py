"""The triggers of a run to be looked through, one by one and by behaviour; of a search that goes on, what it has."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from diffgen.comparison.opened_run import OpenedRun
from diffgen.errors import UserError
from diffgen.events import Progress
from diffgen.origins import NO_SEED
from diffgen.report.data import Picture, ShrunkPair
from diffgen.report.reading import bare_picture, read_shrunk, trigger_pictures
from diffgen.runs.folder import RunFolder
from diffgen.runs.results import FinishedRun
from diffgen.runs.triggers import UNNAMED, TriggerTable
from diffgen.tasks.classification import by_verdict, rows_by_key
from diffgen.types import Float32Array, ImageSet, Int64Array, UInt8Array

Shown = Literal["distinct", "valid", "rejected", "all"]
NO_CELL = -1
DRAWN = "drawn"  # in place of an operator: no real image was changed
_OPERATOR = re.compile(rb"([a-z][a-z0-9_]*)\(")
_LEADING = 6  # pictures that stand for a behaviour


@dataclass(frozen=True)
class TriggerQuery:
    """Which triggers are looked for; what is None or empty does not matter.

    Attributes:
        shown: "distinct", valid ones without near-duplicates; "valid"; "rejected", by a filter; or "all" that are
            confirmed.
        verdict: who is wrong, see :func:`diffgen.tasks.classification.by_verdict`; empty: the jury cannot name them.
        operator: that had a part in making them, or ``DRAWN``.
        label: what ``model`` says, or any model where that is None.
        model: its number.
        said: what each model says, None where that does not matter.
    """

    shown: Shown = "distinct"
    verdict: str | None = None
    operator: str = ""
    label: int | None = None
    model: int | None = None
    said: tuple[int | None, ...] = ()


@dataclass(frozen=True, eq=False)
class BehaviourLine:
    """One behaviour among the triggers that were looked for.

    Attributes:
        labels: what each model says.
        cell: of the real images.
        rows: int64, numbers of its triggers.
        verdict: who is wrong on most of them; empty: the jury cannot name most.
    """

    labels: tuple[int, ...]
    cell: int
    rows: Int64Array
    verdict: str

    @property
    def leading(self) -> list[int]:
        """Numbers of the triggers that are shown for all."""
        return self.rows[:_LEADING].tolist()


@dataclass(frozen=True, eq=False)
class TriggerDetails:
    """One trigger, with everything that is known of it.

    Attributes:
        picture: image, labels, filter scores, origin and what the jury says.
        answers: float32 (M, K), probabilities, 0 where they were not kept.
        cell: of the real images, or ``NO_CELL``: nobody has looked yet.
        generation, query: when it was found.
        seed: row of the real image that it was made from, or None.
        shrunk: the pair that ``diffgen shrink`` made of it, or None.
    """

    picture: Picture
    answers: Float32Array
    cell: int
    generation: int
    query: int
    seed: int | None
    shrunk: ShrunkPair | None


class RunTriggers:
    """The triggers of a run whose search came to its end; images are read part by part when they are asked for.

    Attributes:
        folder: of the run.
        results: its figures.
        models: what they are called, A first.

    Raises:
        UserError: there is no such run, or it is damaged.
    """

    def __init__(self, run: str | Path) -> None:
        self._run = FinishedRun.open(run)
        self.folder, self.results, self.triggers = self._run.folder, self._run.results, self._run.triggers
        self.models = self.folder.model_names
        with self.folder.reading():
            self.operators  # noqa: B018 - damaged recipes are told of now

    def __len__(self) -> int:
        return len(self.triggers)

    @property
    def class_names(self) -> tuple[str, ...]:
        """K names in label order."""
        return self.results.class_names

    @cached_property
    def operators(self) -> dict[str, NDArray[np.bool_]]:
        """Operator -> bool (N,): it had a part in making them. Those that were drawn come last, under ``DRAWN``."""
        recipes, seeds = self.triggers.recipes, self.triggers.seeds
        if recipes is None or seeds is None:
            return {DRAWN: np.ones(len(self), dtype=np.bool_)} if len(self) else {}
        names = sorted(set(_OPERATOR.findall(b";".join(recipes.tolist()))))
        # at the beginning or behind another step: the end of a longer name is another operator
        found = {
            name.decode(): np.char.startswith(recipes, name + b"(") | (np.char.find(recipes, b"; " + name + b"(") >= 0)
            for name in names
        }
        drawn = seeds == NO_SEED
        return {**found, DRAWN: drawn} if drawn.any() else found

    @cached_property
    def _verdicts(self) -> dict[str, NDArray[np.bool_]]:
        """Verdict -> bool (N,), whether they are distinct or not."""
        return {**by_verdict(self.triggers.faults), UNNAMED: ~self.triggers.recognised}

    @property
    def verdicts(self) -> tuple[str, ...]:
        """Those that there can be, the unnamed last."""
        return tuple(self._verdicts)

    def numbers(self, wanted: TriggerQuery) -> Int64Array:
        """int64 (n,), ascending, of detectors the clearest first: the triggers that are looked for.

        Raises:
            UserError: a run of as many models has no such verdict, or not that model; or triggers that cannot be shown.
        """
        table, models = self.triggers, len(self.models)
        if wanted.shown not in get_args(Shown):
            raise UserError(f"shown= is {wanted.shown!r}; give one of {', '.join(get_args(Shown))}.")
        if (wanted.model is not None and not 0 <= wanted.model < models) or len(wanted.said) > models:
            raise UserError(f"The run {self.folder.path} has {models} models, 0 to {models - 1}; ask about those.")
        rows = {
            "distinct": table.distinct if not table.has_jury else self._distinct,
            "valid": table.valid,
            "rejected": table.confirmed & ~table.valid,
            "all": table.confirmed,
        }[wanted.shown]
        if wanted.verdict is not None:
            if wanted.verdict not in self._verdicts:
                known = ", ".join(map(repr, self.verdicts))
                raise UserError(f"There is no verdict {wanted.verdict!r}; the run has {known} (the jury names nobody).")
            rows = rows & self._verdicts[wanted.verdict]
        if wanted.operator:
            none = np.zeros(len(table), dtype=np.bool_)
            rows = rows & self.operators.get(wanted.operator, none)
        if wanted.label is not None:
            said = table.labels == wanted.label
            rows = rows & (said.any(axis=1) if wanted.model is None else said[:, wanted.model])
        for model, label in enumerate(wanted.said):
            if label is not None:
                rows = rows & (table.labels[:, model] == label)
        found = np.flatnonzero(rows).astype(np.int64)
        return found[np.argsort(-table.clearness[found], kind="stable")] if self.results.of_boxes else found

    @cached_property
    def _distinct(self) -> NDArray[np.bool_]:
        """bool (N,): what the report shows, one of each group of near-duplicates that the jury names and does not."""
        return np.logical_or.reduce(list(self.triggers.distinct_by_verdict.values()))

    def labels(self, numbers: Int64Array) -> Int64Array:
        """int64 (n, M): what each model says of some triggers.

        Raises:
            UserError: the run has no trigger of such a number.
        """
        return self.triggers.labels[self._rows(numbers)]

    def behaviours(self, numbers: Int64Array) -> tuple[BehaviourLine, ...]:
        """The behaviours of some triggers, the most frequent first; of detectors those that are clearest together.

        Raises:
            UserError: the run has no trigger of such a number.
        """
        lines, numbers = [], self._rows(numbers)
        for key, rows in rows_by_key(self.triggers.behaviours[numbers]):
            own = numbers[rows]
            counts = {verdict: int(held[own].sum()) for verdict, held in self._verdicts.items()}
            lines.append(BehaviourLine(key[:-1], key[-1], own, max(counts, key=lambda each: counts[each])))
        worth = self.triggers.clearness if self.results.of_boxes else np.ones(len(self))
        shown = _LEADING if self.results.of_boxes else None
        return tuple(sorted(lines, key=lambda line: (-worth[line.rows[:shown]].sum(), line.labels, line.cell)))

    def image(self, number: int) -> UInt8Array:
        """uint8 (C, H, W): the picture of a trigger.

        Raises:
            UserError: the run has no trigger of that number, or its part cannot be read.
        """
        self._check(number)
        return self.triggers.images_of(np.array([number]))[0]

    def find(self, number: int) -> TriggerDetails:
        """One trigger.

        Raises:
            UserError: the run has none of that number.
        """
        self._check(number)
        table = self.triggers
        with self.folder.reading():
            return TriggerDetails(
                picture=trigger_pictures(self._run, [number])[0],
                answers=table.answers(np.array([number]), len(self.class_names))[0],
                cell=int(table.known.cells[number]),
                generation=int(table.generation[number]),
                query=int(table.query[number]),
                seed=table.origin(number).seed,
                shrunk=self._shrunk.get(number),
            )

    def seed(self, number: int) -> UInt8Array | None:
        """uint8 (C, H, W): the real image that a trigger was made from, or None: it was drawn.

        Raises:
            UserError: the run has no such trigger, or its real images are gone or have changed.
        """
        self._check(number)
        row = self.triggers.origin(number).seed
        return None if row is None else np.asarray(self._real.images[row])

    @cached_property
    def _real(self) -> ImageSet:
        return OpenedRun(self.folder).data(None, purpose="show its real images", progress=Progress())

    @cached_property
    def _shrunk(self) -> dict[int, ShrunkPair]:
        return {pair.trigger.identifier: pair for pair in read_shrunk(self._run)}

    def _rows(self, numbers: Any) -> Int64Array:
        """int64 (n,), once the run has them all."""
        given = np.atleast_1d(np.asarray(numbers))
        if given.size and not (given.dtype.kind in "iu" and given.min() >= 0 and given.max() < len(self)):
            for number in given.tolist():
                self._check(number)
        return given.astype(np.int64)

    def _check(self, number: Any) -> None:
        if not (isinstance(number, int | np.integer) and 0 <= number < len(self)):
            raise UserError(f"The run {self.folder.path} has no trigger {number}; it has {len(self):,}, from 0 on.")


def browse(run: str | Path) -> RunTriggers:
    """Open the triggers of a finished run to be looked through.

    Raises:
        UserError: see :class:`RunTriggers`.
    """
    return RunTriggers(run)


_POINTS = 120  # of a curve


@dataclass(frozen=True, eq=False)
class SearchSnapshot:
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
        self._sight: SearchSnapshot | None = None

    def look(self) -> SearchSnapshot:
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
        for number in range(len(self._parts), len(parts)):
            self._tables.append(folder.read_triggers(number + 1, first=number))
            self._parts.append(parts[number])
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

    def find(self, number: int) -> TriggerDetails:
        """One of these triggers, as far as it is known before anybody has judged it.

        Raises:
            UserError: there is none of that number, or its part cannot be read.
        """
        table, row = self._placed(number)
        origin = table.origin(row)
        kept = table.classes
        classes = table.probabilities.shape[2] if kept is None else int(kept[row].max()) + 1
        image = table.images_of(np.array([row]))[0]
        picture = bare_picture(table, row, number, image, names=(), drawn_by="the generator")
        answers = table.answers(np.array([row]), classes)[0]
        return TriggerDetails(picture, answers, NO_CELL, origin.generation, int(table.query[row]), origin.seed, None)

    def _placed(self, number: int) -> tuple[TriggerTable, int]:
        """The part that holds a trigger, and its row there."""
        ends = np.cumsum([len(table) for table in self._tables])
        if not len(ends) or not 0 <= number < ends[-1]:
            raise UserError(f"The run {self.path} has no trigger {number} yet.")
        part = int(np.searchsorted(ends, number, side="right"))
        return self._tables[part], number - int(ends[part]) + len(self._tables[part])

    def _seen(self) -> SearchSnapshot:
        models = self._folder.model_names
        if not self._tables:
            return SearchSnapshot(self.path, models, 0, 0, np.empty((0, len(models)), np.int64), 0, ())
        labels = np.concatenate([table.labels for table in self._tables])
        queries = np.concatenate([table.query for table in self._tables])
        _, first = np.unique(labels, axis=0, return_index=True)
        kinds = np.cumsum(np.bincount(first, minlength=len(labels)))
        places = np.unique(np.linspace(0, len(labels) - 1, min(_POINTS, len(labels))).astype(np.int64))
        curve = tuple((int(queries[at]), int(at) + 1, int(kinds[at])) for at in places)
        return SearchSnapshot(self.path, models, len(labels), int(queries[-1]), labels, len(first), curve)
