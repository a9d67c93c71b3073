"""What workers and the collector tell each other; all of it can be sent to another process."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from diffgen.comparison.plan import Objects
from diffgen.comparison.preflight import RealAnswers
from diffgen.runs.images import ImageColumn
from diffgen.runs.triggers import TriggerTable
from diffgen.types import Float32Array, Int64Array

# Of a table of triggers (:mod:`diffgen.runs.triggers`), all with as many rows; "images" among them, uint8 (n, C, H, W).
Columns = Mapping[str, NDArray[Any]]


def table_of(columns: Columns) -> TriggerTable:
    """The table that ``columns`` were taken from."""
    rest = dict(columns)
    return TriggerTable.from_columns(ImageColumn.of(rest.pop("images")), rest)


@dataclass(frozen=True)
class Job:
    """What a worker needs to begin, besides what the run folder says.

    Attributes:
        run: the run folder, as a whole path.
        objects: what is not in it.
        real: what the models say of the real images, which nobody asks about again.
        threads: of each worker, for torch and for models.
    """

    run: Path
    objects: Objects
    real: RealAnswers
    islands: int
    threads: int


@dataclass(frozen=True)
class Ready:
    """A worker has opened everything.

    Attributes:
        made_of: name -> text, what must be the same everywhere: versions, and digests of what was trained.
        thresholds: of each filter, which may be rounded otherwise.
    """

    place: str
    made_of: Mapping[str, str]
    thresholds: Mapping[str, float]


@dataclass(frozen=True)
class Begin:
    """Where an island begins, or goes on.

    Attributes:
        state: of its last report, or None: it begins, or begins anew.
        archive: its triggers until then, or None: there are none.
        seconds: that the search has taken until now.
        met: int64 (k, M + 1), behaviours that are known, for one that begins anew.
    """

    state: bytes | None
    archive: Columns | None
    seconds: float
    queries: int = 0
    met: Int64Array | None = None


@dataclass(frozen=True)
class Migrants:
    """What an island is told at the beginning of an epoch.

    Attributes:
        columns: pictures that others were the first to find, or None: there are none.
        cells: int64 (n,), theirs.
        met: int64 (k, M + 1), behaviours that others have met.
    """

    columns: Columns | None = None
    cells: Int64Array = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    met: Int64Array | None = None


@dataclass(frozen=True)
class Epoch:
    """Search for some generations, the first epoch being 1."""

    number: int
    migrants: Migrants


@dataclass(frozen=True)
class Report:
    """What an island did in an epoch.

    Attributes:
        queries: of the island, so far.
        columns: all triggers that its archive did not hold before, or None: there are none.
        cells: int64 (n,) of these.
        violation: float32 (n,), by how much the filters reject them; 0 where they were not asked.
        state: where it goes on from; None where the budget ended or somebody stopped it within a generation.
        ended: it searches no more.
        outcomes: what the technique itself counted, where it has ended, or may have to without being asked again.
        exhausted: name of a model that may not be asked any further, or nothing.
    """

    epoch: int
    queries: int
    columns: Columns | None
    cells: Int64Array
    violation: Float32Array
    state: bytes | None
    ended: bool
    outcomes: Mapping[str, Any] = field(default_factory=dict)
    exhausted: str = ""


@dataclass(frozen=True)
class Tick:
    """How far an island is within an epoch: its queries and triggers so far."""

    queries: int
    triggers: int
