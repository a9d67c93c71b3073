"""What a check measured. Nothing here knows a limit; see :mod:`diffgen.gate.conditions`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from diffgen.gate.measurements import Measurement


@dataclass(frozen=True)
class Replay:
    """What became of the pictures in the store.

    Attributes:
        pictures: how many were asked about.
        still: those on which base and candidate disagree as they did when they were stored.
        changed: those on which they disagree with other labels.
    """

    pictures: int = 0
    still: int = 0
    changed: int = 0

    @property
    def agree(self) -> int:
        """Those on which the two agree now, or one of them is too undecided to count."""
        return self.pictures - self.still - self.changed


@dataclass(frozen=True)
class Behaviour:
    """One way in which base and candidate disagree.

    Attributes:
        said: labels of base and of candidate.
        cell: part of the real images' feature space that its pictures lie in.
        count: distinct pictures.
        known: how many of them the store knows.
        shift: largest change of a probability on any of them.
        triggers: numbers of some of its pictures in the run, spread out over all; -1 for a picture of the store.
        replayed: it was met on pictures of the store and not by the search.
        faults: on how many of its pictures, or of their near-duplicates, the jury says that the base is right and the
            candidate wrong.
    """

    said: tuple[int, int]
    cell: int
    count: int
    known: int
    shift: float
    triggers: tuple[int, ...]
    replayed: bool = False
    faults: int = 0

    @property
    def new(self) -> bool:
        """Whether more than half of its pictures are new."""
        return 2 * self.known < self.count


@dataclass(frozen=True)
class KnownBehaviour:
    """How severe a behaviour of the store is in this check.

    Attributes:
        stored: its name in the store.
        names: what base and candidate say.
        pictures: distinct pictures of the search that the store knows, and that are nearest to this behaviour's.
        shift: largest change of a probability on the pictures that the store keeps of it: the same ones in every check,
            whatever a search meets.
    """

    stored: str
    names: tuple[str, str]
    pictures: int
    shift: float


@dataclass(frozen=True)
class SearchState:
    """How the search ended; ``problem`` is one sentence that says why it did not come to its end, or empty."""

    queries: int
    problem: str = ""


@dataclass(frozen=True)
class Steadiness:
    """How far the models' own answers can be relied on.

    Attributes:
        noise: largest change of a probability when nothing that matters has changed, worst of the two models, 0..1.
        margin: the smallest gap of the two highest probabilities that counts as an answer.
        unsteady: a sentence about each model that does not answer alike twice.
        batched: a sentence about each model that follows its batch, and is therefore asked one image at a time.
    """

    noise: float = 0.0
    margin: float = 0.0
    unsteady: tuple[str, ...] = ()
    batched: tuple[str, ...] = ()


@dataclass(frozen=True)
class GateValues:
    """Everything that a check measured: ``values["accuracy_drop"]``, and what is no measurement on images.

    Attributes:
        measured: by the names that results.json and :data:`diffgen.gate.conditions.CRITERIA` have for them, all of
            them; None where it could not be measured. A check begins with :data:`~diffgen.gate.conditions.UNMEASURED`.
        drawn, accepted: random pictures that the filters were asked about, and those that all of them accept; what is
            measured on random pictures is on as many of the latter as were wanted.
        varied: how many random variations of real images were made; those that the jury recognises are measured on.
        jury: there is one, so that ``faults`` of behaviours were counted.
        replay: of the store.
        search: how it ended.
        behaviours: new ones first, of these the candidate's faults first, then the one with the largest shift.
        known: every behaviour of the store.
        steadiness: of the models' answers.
        smells: a sentence about each thing in the candidate's answers to real images that wrong pre-processing would
            explain, and that is clearly worse than in the base's.
        faint_smells: the same of what is not shown to be worse than in the base's.
        base_smells: the same of the base's answers: then limits on accuracy say little.
        silences: a sentence about each model that answers images with NaN or infinity; they count as wrong.
        classes: how many of the models' classes the labelled real images show, and how many there are; None without
            labels.
        labels_alone: of base and candidate, whether it gives labels alone and no probabilities.
        outputs: of base and candidate, what each answers with before it is made into probabilities, in words.
        left_out: of base and candidate, whether it answers with one value more, for the background.
    """

    measured: Mapping[str, Measurement | None] = field(default_factory=dict)
    drawn: int = 0
    accepted: int = 0
    varied: int = 0
    jury: bool = False
    replay: Replay = Replay()
    search: SearchState = SearchState(0, "The search was not begun.")
    behaviours: tuple[Behaviour, ...] = ()
    known: tuple[KnownBehaviour, ...] = ()
    steadiness: Steadiness = Steadiness()
    smells: tuple[str, ...] = ()
    faint_smells: tuple[str, ...] = ()
    base_smells: tuple[str, ...] = ()
    silences: tuple[str, ...] = ()
    classes: tuple[int, int] | None = None
    labels_alone: tuple[bool, bool] = (False, False)
    outputs: tuple[str, str] = ("", "")
    left_out: tuple[bool, bool] = (False, False)

    def __getitem__(self, name: str) -> Any:
        """The measurement of this name, or None. KeyError if none has this name."""
        return self.measured[name]

    def with_measured(self, more: Mapping[str, Measurement | None]) -> GateValues:
        """The same, with more measurements."""
        return replace(self, measured={**self.measured, **more})

    @property
    def draws(self) -> bool:
        """Whether random pictures are asked about: a technique that asks about the real images alone draws none."""
        return self.drawn > 0 or bool(self.search.problem)

    @property
    def new(self) -> tuple[Behaviour, ...]:
        """The behaviours that the store does not know."""
        return tuple(each for each in self.behaviours if each.new)

    @property
    def new_faults(self) -> tuple[Behaviour, ...]:
        """Those of them on a picture of which the jury says that the base is right and the candidate wrong.

        None of them without a jury (:attr:`jury`), since nobody says so.
        """
        return tuple(each for each in self.new if each.faults)
