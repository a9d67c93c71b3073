"""The triggers of a run as one table, from the archive of the search to the report.

The archive writes it in parts; what the filters and the models said of the triggers after the search joins it as
:class:`Verdicts`. Everything that reads a run reads this table.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from hashlib import blake2b
from typing import Any

import numpy as np
from numpy.typing import NDArray

from diffgen.metrics.counting import (
    ACCEPTED,
    CONFIRMED_BATCH,
    is_counted,
    is_distinct,
    is_distinct_among,
    is_valid,
)
from diffgen.origins import NO_SEED, Step, read_recipe
from diffgen.runs.images import ImageColumn
from diffgen.tasks.classification import behaviours, by_verdict, faults, smallest_margin
from diffgen.tasks.kept_answers import labels_among, spread_out
from diffgen.types import BoolArray, Float32Array, Int64Array, UInt8Array

HASH_BYTES = 16
UNKNOWN_LABEL = -1
# what says what a recognised picture shows; the last three where there is no jury
LABEL, BOTH, JURY, SEED, AGREED, BOXES = "label", "both", "jury", "seed", "agreed", "boxes"
UNNAMED = ""  # in place of a verdict, where the jury names nothing


def image_hashes(images: UInt8Array) -> list[bytes]:
    """The 16-byte BLAKE2b digest of each image's bytes, for uint8 (N, C, H, W)."""
    return [blake2b(image.tobytes(), digest_size=HASH_BYTES).digest() for image in images]


def digest_of(hashes: Iterable[bytes | NDArray[Any]]) -> str:
    """One digest for images in their order, from the hash of each: uint8 rows of ``HASH_BYTES``, or bytes."""
    return blake2b(b"".join(map(bytes, hashes)), digest_size=HASH_BYTES).hexdigest()


@dataclass(frozen=True)
class Origin:
    """How one trigger was made.

    Attributes:
        seed: row of the real image that it was made from, or None: a source of images drew it.
        seed_label: that image's label, or None: not known.
        recipe: what was done to that image, in this order; empty where nothing was done, or nobody noted it.
        generation: of the search, in which it was found.
    """

    seed: int | None
    seed_label: int | None
    recipe: tuple[Step, ...]
    generation: int

    @property
    def source(self) -> str:
        """Where it comes from: "generator" or "real image"."""
        return "generator" if self.seed is None else "real image"


@dataclass(frozen=True, eq=False)
class Verdicts:
    """What is known of each of N triggers after the search; the arrays of verdicts.npz.

    Attributes:
        scores: float32 (N, F) of the F filters; NaN where a filter was not asked, since an earlier one had rejected it.
        rejected_by: int64 (N,), the index of a filter or :data:`diffgen.metrics.counting.ACCEPTED`.
        confirmed: int8 (N,), how it was seen that the models disagree again; see :mod:`diffgen.metrics.counting`.
        cells: int64 (N,), the cell of the real images that each lies in.
        near_duplicate_of: int64 (N,): see :func:`diffgen.metrics.counting.is_distinct`.
        seed_labels: int64 (N,), label of the real image that each was made from, or ``UNKNOWN_LABEL``; None where all
            were drawn, or the real images have no labels.
        seed_differs: bool (N,), whether the models disagree on that real image already; False for what was drawn; None
            where all were drawn.
        named: int64 (N,), what the jury says that each shows; None, with the two after it, where there was no jury.
        certainty: float32 (N,), how sure it is, see :class:`diffgen.features.jury.Reading`.
        recognised: bool (N,): it is sure enough, and contradicts no label of the seed.
    """

    scores: Float32Array
    rejected_by: Int64Array
    confirmed: NDArray[np.int8]
    cells: Int64Array
    near_duplicate_of: Int64Array
    seed_labels: Int64Array | None = None
    seed_differs: BoolArray | None = None
    named: Int64Array | None = None
    certainty: Float32Array | None = None
    recognised: BoolArray | None = None

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, Any]) -> Verdicts:
        """What :meth:`as_arrays` gave. KeyError, TypeError if an array is missing."""
        return cls(**{each.name: arrays[each.name] for each in fields(cls) if each.name in arrays})

    @classmethod
    def replayed(cls, cells: Int64Array) -> Verdicts:
        """Those of pictures that no search found, in their cells: all count, and none repeats another."""
        rows = len(cells)
        return cls(
            scores=np.empty((rows, 0), dtype=np.float32),
            rejected_by=np.full(rows, ACCEPTED, dtype=np.int64),
            confirmed=np.full(rows, CONFIRMED_BATCH, dtype=np.int8),
            cells=cells,
            near_duplicate_of=np.arange(rows, dtype=np.int64),
        )

    def as_arrays(self) -> dict[str, NDArray[Any]]:
        """The arrays by name."""
        values = {each.name: getattr(self, each.name) for each in fields(self)}
        return {name: value for name, value in values.items() if value is not None}

    def __getitem__(self, rows: Any) -> Verdicts:
        """Those of some rows. What repeats another still names it by its number in the run."""
        return Verdicts(**{name: values[rows] for name, values in self.as_arrays().items()})


@dataclass(frozen=True, eq=False)
class TriggerTable:
    """N triggers of a run, in the order in which they were found.

    Attributes:
        image_column: uint8 (N, C, H, W), read when first asked for; see :attr:`images`.
        hashes: uint8 (N, 16), see :func:`image_hashes`.
        probabilities: float32 (N, M, T) of the M models, of the classes that are kept.
        classes: int64 (N, T), ascending, which these are; None: all K. See :mod:`diffgen.tasks.kept_answers`.
        divergence: float32 (N,), of these answers.
        diversity: float32 (N,), the second objective; NaN where it was not measured.
        generation: int64 (N,), in which each was found.
        query: int64 (N,), how many queries had been asked when each was, itself included.
        numbers: int64 (N,), place of each among all triggers of the run.
        genes: float32 (N, L), what each was drawn from, or None.
        seeds: int64 (N,), row of the real image that each was made from, or ``NO_SEED``; None: all were drawn.
        recipes: bytes (N,), what was done to that image, see :mod:`diffgen.origins`; there when ``seeds`` are.
        verdicts: what is known after the search, or None: the search runs.
        class_names: K names where they are known, or nothing.
    """

    image_column: ImageColumn
    hashes: UInt8Array
    probabilities: Float32Array
    divergence: Float32Array
    diversity: Float32Array
    generation: Int64Array
    query: Int64Array
    numbers: Int64Array
    genes: Float32Array | None = None
    seeds: Int64Array | None = None
    recipes: NDArray[np.bytes_] | None = None
    classes: Int64Array | None = None
    verdicts: Verdicts | None = None
    class_names: tuple[str, ...] = ()

    @classmethod
    def of(cls, images: UInt8Array, probabilities: Float32Array, **columns: Any) -> TriggerTable:
        """A table of images in memory; hashes are made, and of other columns what is not given is unknown."""
        rows = len(images)
        usual = {
            "hashes": np.frombuffer(b"".join(image_hashes(images)), np.uint8).reshape(-1, HASH_BYTES),
            "divergence": np.full(rows, np.nan, dtype=np.float32),
            "diversity": np.full(rows, np.nan, dtype=np.float32),
            "generation": np.zeros(rows, dtype=np.int64),
            "query": np.arange(1, rows + 1, dtype=np.int64),
            "numbers": np.arange(rows, dtype=np.int64),
        }
        return cls(image_column=ImageColumn.of(images), probabilities=probabilities, **{**usual, **columns})

    @classmethod
    def empty(cls, image_shape: tuple[int, ...], models: int, classes: int) -> TriggerTable:
        """No trigger."""
        return cls.of(np.empty((0, *image_shape), np.uint8), np.empty((0, models, classes), np.float32))

    @classmethod
    def from_columns(cls, image_column: ImageColumn, columns: Mapping[str, NDArray[Any]]) -> TriggerTable:
        """What :meth:`columns` gave, without its images. KeyError if a column is missing."""
        must = ("hashes", "probabilities", "divergence", "diversity", "generation", "query")
        may = ("genes", "seeds", "recipes", "classes")
        found: dict[str, Any] = {name: columns[name] for name in (*must, *may) if name in must or name in columns}
        return cls(image_column, numbers=np.arange(len(found["query"]), dtype=np.int64), **found)

    @classmethod
    def joined(cls, parts: Sequence[TriggerTable]) -> TriggerTable:
        """One table of several that have the same columns and no verdicts, one after the other."""
        columns = [part.columns() for part in parts]
        joined = {name: np.concatenate([each[name] for each in columns]) for name in columns[0]}
        return cls.from_columns(ImageColumn.of(joined.pop("images")), joined)

    def columns(self) -> dict[str, NDArray[Any]]:
        """The arrays of a part, images first; verdicts lie in a file of their own."""
        columns = {"images": self.images, **self._in_memory()}
        del columns["numbers"]
        return columns

    def __len__(self) -> int:
        return len(self.query)

    def __getitem__(self, rows: Any) -> TriggerTable:
        """Some rows, as an array of numbers or of true and false."""
        numbers = np.arange(len(self))[rows]
        changes: dict[str, Any] = {name: values[numbers] for name, values in self._in_memory().items()}
        verdicts = None if self.verdicts is None else self.verdicts[numbers]
        return replace(self, image_column=self.image_column.chosen(numbers), verdicts=verdicts, **changes)

    def _in_memory(self) -> dict[str, NDArray[Any]]:
        names = [each.name for each in fields(self) if each.name not in ("image_column", "verdicts", "class_names")]
        return {name: getattr(self, name) for name in names if getattr(self, name) is not None}

    # -- images ------------------------------------------------------------------------------------------------------

    @property
    def images(self) -> UInt8Array:
        """uint8 (N, C, H, W): all images. UserError if a part of the run cannot be read."""
        return self.image_column.all()

    def images_of(self, rows: Int64Array) -> UInt8Array:
        """uint8 (len(rows), C, H, W): the images of some rows; no more is read than the parts that hold them.

        Raises:
            UserError: such a part cannot be read.
        """
        return self.image_column.at(rows)

    # -- what the models say -----------------------------------------------------------------------------------------

    @cached_property
    def labels(self) -> Int64Array:
        """int64 (N, M): what each model says."""
        return labels_among(self.probabilities, self.classes)

    @cached_property
    def clearness(self) -> Float32Array:
        """float32 (N,): how decided the least decided model is, in [0, 1]."""
        return smallest_margin(self.probabilities)

    def answers(self, rows: Any, classes: int) -> Float32Array:
        """float32 (len(rows), M, K): what each model says of all K ``classes``, as far as it is kept."""
        return spread_out(self.probabilities[rows], None if self.classes is None else self.classes[rows], classes)

    # -- how they were made ------------------------------------------------------------------------------------------

    def origin(self, row: int) -> Origin:
        """How the trigger of a row was made."""
        generation = int(self.generation[row])
        seed = NO_SEED if self.seeds is None else int(self.seeds[row])
        if seed == NO_SEED:
            return Origin(None, None, (), generation)
        labels = None if self.verdicts is None else self.verdicts.seed_labels
        label = UNKNOWN_LABEL if labels is None else int(labels[row])
        recipe = () if self.recipes is None else read_recipe(self.recipes[row].decode("ascii"))
        return Origin(seed, None if label == UNKNOWN_LABEL else label, recipe, generation)

    # -- what is known after the search ------------------------------------------------------------------------------

    def judged(self, verdicts: Verdicts) -> TriggerTable:
        """The same table with verdicts."""
        return replace(self, verdicts=verdicts)

    @property
    def known(self) -> Verdicts:
        """The verdicts. ValueError if there are none yet."""
        if self.verdicts is None:
            raise ValueError("nobody has judged these triggers yet")
        return self.verdicts

    @cached_property
    def behaviours(self) -> Int64Array:
        """int64 (N, M + 1): what each model says, and the cell; equal rows are one behaviour."""
        return behaviours(self.labels, self.known.cells)

    @cached_property
    def confirmed(self) -> BoolArray:
        """bool (N,): the models disagreed again."""
        return is_counted(self.known.confirmed)

    @cached_property
    def valid(self) -> BoolArray:
        """bool (N,): confirmed, and no filter rejected it."""
        return is_valid(self.known.confirmed, self.known.rejected_by)

    @cached_property
    def distinct(self) -> BoolArray:
        """bool (N,): valid, and no near-duplicate of an earlier one."""
        return is_distinct(self.known.near_duplicate_of, self.numbers)

    @property
    def has_jury(self) -> bool:
        """Whether a jury looked at them, or their real images say what they show."""
        return self.known.recognised is not None

    @cached_property
    def recognised(self) -> BoolArray:
        """bool (N,): the jury can name it; False for all where no jury looked at them. Valid or not."""
        found = self.known.recognised
        return np.zeros(len(self), dtype=np.bool_) if found is None else found

    def bases(self, unaided: float | None, *, boxes: bool = False) -> NDArray[np.str_]:
        """str (N,): what says what each shows; empty where it is not recognised.

        With a jury ``LABEL``, ``BOTH`` or ``JURY``; without one ``SEED``, the known label or mask of the real image,
        ``AGREED``, what all models say of it, or ``BOXES`` of detectors, those of it.

        Args:
            unaided: lowest certainty that counts where the jury does not know the label of the real image; None: there
                is no jury.
        """
        labels, sure = self.known.seed_labels, self.known.certainty
        labelled = np.zeros(len(self), np.bool_) if labels is None else labels != UNKNOWN_LABEL
        if unaided is None:
            labelled |= np.zeros(len(self), np.bool_) if sure is None else sure > 0
            return np.select([~self.recognised, np.full(len(self), boxes), labelled], ["", BOXES, SEED], AGREED)
        alone = np.zeros(len(self), np.bool_) if sure is None else sure >= np.float32(unaided)
        return np.select([~self.recognised, ~labelled, alone], ["", JURY, BOTH], LABEL)

    @cached_property
    def recognised_distinct(self) -> BoolArray:
        """bool (N,): valid, recognised, and no near-duplicate of an earlier one that is both."""
        return is_distinct_among(self.known.near_duplicate_of, self.valid & self.recognised)

    @cached_property
    def distinct_by_verdict(self) -> dict[str, BoolArray]:
        """Verdict, as :func:`diffgen.tasks.classification.by_verdict` has them -> bool (N,): its distinct triggers.

        Last come, under ``UNNAMED``, the distinct ones that the jury cannot name and that are no near-duplicates of any
        that it can; all where there was no jury.
        """
        if not self.has_jury:
            return {UNNAMED: self.distinct}
        kept, repeats = self.recognised_distinct, self.known.near_duplicate_of
        found = {verdict: kept & wrong for verdict, wrong in by_verdict(self.faults).items()}
        return {**found, UNNAMED: self.distinct & ~np.isin(repeats, repeats[kept])}

    @cached_property
    def faults(self) -> BoolArray:
        """bool (N, M): recognised, and the model says something else than the jury."""
        named = self.known.named
        return faults(self.labels, self.labels[:, 0] if named is None else named, self.recognised)
