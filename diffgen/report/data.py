"""What a report shows, as plain values: the border between those who compute and those who draw."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from numpy.typing import NDArray

from diffgen.config import roles
from diffgen.runs.figures import Preflight
from diffgen.runs.results import RunResults
from diffgen.tasks.classification import LabelPairs, listed, role_name
from diffgen.types import Float32Array, Int64Array, UInt8Array

#: So many models are named one by one.
_LISTED = 4

# -- pictures --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class JuryOpinion:
    """What the jury says of one picture.

    Attributes:
        named: the label that it gives.
        recognised: it is sure enough, and contradicts no label of the image that the picture was made from.
        instead_of: that label where it does, or None.
        rests_on: what says what a recognised picture shows; see :meth:`diffgen.runs.triggers.TriggerTable.bases`. Empty
            where that is not known.
    """

    named: int
    recognised: bool
    instead_of: int | None = None
    rests_on: str = ""


@dataclass(frozen=True)
class Picture:
    """One image with what the models say of it.

    Attributes:
        image: uint8 (C, H, W).
        labels: predicted label of model A, of model B, and of those after them.
        probabilities: float32 (M, T), rows A, B, ..., of the classes that are kept.
        identifier: number of the trigger in the run, or index of the real image in the data set.
        true_label: label of a real image when it is known.
        scores: filter name -> score (higher is more real).
        rejected_by: name of the filter that rejected it, or None.
        nearest_real: uint8 (C, H, W), the real image with the highest SSIM, or None.
        origin: how it was made, in words; empty for a real image, or where it is not known.
        jury: what the jury says of it, or None: nobody asked one.
        classes: int64 (T,), which classes are kept, or None: all; see :mod:`diffgen.tasks.kept_answers`.
        marks: boxes or maps that the models give, see :meth:`diffgen.tasks.base.Task.marks`, or None.
    """

    image: UInt8Array
    labels: tuple[int, ...]
    probabilities: Float32Array
    identifier: int
    true_label: int | None = None
    scores: dict[str, float] = field(default_factory=dict)
    rejected_by: str | None = None
    nearest_real: UInt8Array | None = None
    origin: str = ""
    jury: JuryOpinion | None = None
    classes: Int64Array | None = None
    marks: NDArray[Any] | None = None

    @property
    def wrong(self) -> tuple[int, ...]:
        """The models that are wrong, by number; none of what a filter rejected or the jury cannot name."""
        if self.jury is None or not self.jury.recognised or self.rejected_by is not None:
            return ()
        return tuple(index for index, label in enumerate(self.labels) if label != self.jury.named)

    @property
    def blame(self) -> str:
        """The same in words: ``B is wrong``, ``both are wrong``, or nothing."""
        wrong = [role_name(index) for index in self.wrong]
        if not wrong:
            return ""
        if len(wrong) == len(self.labels):
            return "both are wrong" if len(wrong) == 2 else "all are wrong"
        return f"{listed(wrong)} are wrong" if len(wrong) > 1 else f"{wrong[0]} is wrong"


@dataclass(frozen=True)
class BehaviourGroup:
    """The distinct valid triggers of one behaviour: what each model says, and a cell of the real images.

    Attributes:
        verdict: who is wrong on them, see :func:`diffgen.tasks.classification.by_verdict`; empty where the jury cannot
            name them, or where there was none.
        made_by: what made most of them, in words, or empty.
    """

    labels: tuple[int, ...]
    cell: int
    count: int
    pictures: tuple[Picture, ...]
    verdict: str = ""
    made_by: str = ""


@dataclass(frozen=True)
class ShrunkPair:
    """Two pictures that hardly differ: on one the models agree, on the other they do not.

    Attributes:
        agreeing, trigger: the pictures; ``trigger.identifier`` is the number of the trigger that was started from.
        difference: root mean square difference of the two pictures, grey levels.
        before: the same between ``start`` and the agreeing picture first aimed at.
    """

    agreeing: Picture
    trigger: Picture
    start: Picture
    difference: float
    before: float


# -- parts of the page ------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class CauseView:
    """Why the two models differ; see :func:`diffgen.comparison.probable_cause.keep_explanation`.

    Attributes:
        verdict: in a sentence or two.
        named: whether it is a fault of a pipeline.
        options: of the command line, which feed the faulty model rightly, or empty.
        advice: what to do in the pipeline, one entry for each fault.
        role: "A" or "B", the model in which the fault was imitated.
        plain, changed: uint8 (n, C, H, W), pictures as this model sees them, and with the fault.
        said: int64 (n, 3), what this model says of each, the other one, and this one with the fault.
    """

    verdict: str
    named: bool
    options: str
    advice: tuple[str, ...]
    role: str
    plain: UInt8Array
    changed: UInt8Array
    said: Int64Array


@dataclass(frozen=True)
class ConditionView:
    """One row of the table of a check: a value, and what its limit came to.

    Attributes:
        status: PASS, WARN, FAIL or ERROR; empty where no limit was set.
        value, interval, limit: as text; the last two may be empty.
        sentence: why; empty where no limit was set.
    """

    name: str
    title: str
    status: str
    value: str
    interval: str
    limit: str
    sentence: str


@dataclass(frozen=True)
class GateBehaviour:
    """One behaviour that a check met.

    Attributes:
        names: what base and candidate say.
        count: distinct pictures.
        new: the store does not know it.
        shift: largest change of a probability on any of them.
        replayed: it was met on pictures of the store and not by the search.
        pictures: some of them; ``identifier`` is the number of the trigger, -1 for one of the store.
        faults: on how many of them the jury says that the base is right and the candidate wrong.
    """

    said: tuple[int, int]
    names: tuple[str, str]
    cell: int
    count: int
    new: bool
    shift: float
    replayed: bool
    pictures: tuple[Picture, ...] = ()
    faults: int = 0


@dataclass(frozen=True)
class GateView:
    """What a check came to.

    Attributes:
        status: the worst of the conditions.
        rows: the conditions, and the values without a limit.
        behaviours: new ones first, of these the candidate's faults first, then the one with the largest shift.
        fails_on_behaviours: whether the new ones are more than are allowed.
        fails_on_faults: whether the new ones in which the candidate is wrong are.
        store: its folder, or empty.
        created: ISO 8601.
        verdicts: who is wrong on what the search found, one sentence each; without a jury, why nobody says so.
        cause: why the two differ, in a sentence or two, or empty: nobody looked.
    """

    run: str
    status: str
    base: str
    candidate: str
    data_name: str
    rows: tuple[ConditionView, ...]
    behaviours: tuple[GateBehaviour, ...]
    fails_on_behaviours: bool
    store: str
    created: str
    version: str
    seconds: float
    verdicts: tuple[str, ...] = ()
    cause: str = ""
    fails_on_faults: bool = False

    def breaks(self, behaviour: GateBehaviour) -> bool:
        """Whether a behaviour is one of those that are more than are allowed."""
        return behaviour.new and (self.fails_on_behaviours or (self.fails_on_faults and behaviour.faults > 0))

    @property
    def new(self) -> tuple[GateBehaviour, ...]:
        """Those that the store does not know."""
        return tuple(each for each in self.behaviours if each.new)

    @property
    def conditions(self) -> tuple[ConditionView, ...]:
        """The rows that have a status."""
        return tuple(each for each in self.rows if each.status)


@dataclass(frozen=True)
class OperatorCurve:
    """The curves of one strength of one operator.

    Attributes:
        strength: name of the strength with its unit, such as "degrees".
        x: the strengths, rising.
        accuracy: of each model the share of the images on which it is right; empty where nobody knows.
        disagreement: the share of the images on which two models disagree.
    """

    operator: str
    strength: str
    x: tuple[float, ...]
    accuracy: tuple[tuple[float, ...], ...]
    disagreement: tuple[float, ...]


@dataclass(frozen=True)
class OperatorsView:
    """The curves of all operators.

    Attributes:
        images: how many random real images every share is of.
        judged_by: who says what they show: "label", "jury" or "nobody".
        asked: how many pictures each model was asked about.
    """

    curves: tuple[OperatorCurve, ...]
    images: int
    judged_by: str
    asked: int


@dataclass(frozen=True)
class SelectionView:
    """What the selector of a run is worth.

    Attributes:
        about: as :func:`diffgen.select` keeps it in the run, JSON values.
        images: of each of its behaviours uint8 (n, C, H, W), some pictures on which the trusted model is right.
    """

    about: dict[str, Any]
    images: tuple[UInt8Array, ...]


# -- whole pages ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class FilterView:
    """The scores of one filter.

    Attributes:
        threshold: lowest score that passes.
        trigger_scores: float32 (number of triggers that this filter was asked about,).
        real_scores: float32, of held-out real images.
        rejected: triggers that this filter rejected.
    """

    name: str
    description: str
    threshold: float
    trigger_scores: Float32Array
    real_scores: Float32Array
    rejected: int


@dataclass(frozen=True, kw_only=True)
class RunFacts:
    """What a run was made with.

    Attributes:
        created: ISO 8601.
        settings: section -> name -> value, as in config.toml.
        files: role -> {"path": ..., "sha256": ...}.
        cause: why its two models differ, or None: nobody looked.
    """

    run: str
    created: str
    version: str
    command: str
    model_names: tuple[str, ...]
    data_name: str
    settings: dict[str, Any]
    files: dict[str, dict[str, str]]
    cause: CauseView | None = None

    @property
    def models(self) -> str:
        """What the models are called: "A and B", "A, B and C", or "A to F" of more than four."""
        letters = roles(self.model_names)
        return listed(letters) if len(letters) <= _LISTED else f"{letters[0]} to {letters[-1]}"


@dataclass(frozen=True, kw_only=True)
class ReportData(RunFacts):
    """Everything that report.html and summary.md show.

    Attributes:
        groups: one per verdict and behaviour, most frequent first; may be shortened (``results.behaviours`` has the
            full number).
        accepted: sample of valid triggers, to be looked at beside the rejected ones.
        real_disagreements: sample of real images on which A and B disagree; ``real_pairs.total`` is their number.
        filters: the scores of each filter.
        diversity: one sentence about the geometric diversity of the valid triggers, or empty.
        calibration: one sentence about the thresholds, or empty.
        shrunk: what ``diffgen shrink`` found.
        samples: uint8 (N, C, H, W), random pictures of the generator, not searched for.
        selection: the selector, when one was trained.
        gate: the verdict, when the run is a check.
        operators: how the models answer as operators get stronger, where pictures were made from real images.
        no_selector: why none was trained though one was asked for, one sentence, or empty.
        noun: what a picture of the search is called: "generated picture", "changed real image", or "picture".
    """

    technique: str
    preset: str
    results: RunResults
    groups: tuple[BehaviourGroup, ...]
    rejected: tuple[Picture, ...]
    real_disagreements: tuple[Picture, ...]
    filters: tuple[FilterView, ...]
    samples: UInt8Array
    accepted: tuple[Picture, ...] = ()
    diversity: str = ""
    calibration: str = ""
    shrunk: tuple[ShrunkPair, ...] = ()
    selection: SelectionView | None = None
    gate: GateView | None = None
    operators: OperatorsView | None = None
    noun: str = "generated picture"
    no_selector: str = ""

    @property
    def class_names(self) -> tuple[str, ...]:
        """K names in label order."""
        return self.results.class_names

    @property
    def preflight(self) -> Preflight:
        """What was seen on the real images."""
        return self.results.preflight

    @property
    def pairs(self) -> LabelPairs:
        """What A and B say of the distinct valid triggers.

        Of more than two models it is that of the first two, which may say the same where another one does not.
        """
        return self.results.pair_counts

    @property
    def real_pairs(self) -> LabelPairs:
        """The same for real images on which A and B disagree."""
        return self.results.real_matrix

    @property
    def headline_count(self) -> int:
        """Valid triggers, near-duplicates counted once."""
        return self.results.distinct_valid_triggers

    @property
    def real_disagreement_count(self) -> int:
        """Real images on which A and B disagree by more than the margin."""
        return self.real_pairs.total


@dataclass(frozen=True, kw_only=True)
class VerdictData(RunFacts):
    """Everything that report.html shows of a check whose search did not come to its end.

    Attributes:
        problem: why it did not, one sentence.
        class_names: K names in label order.
        triggers: what the search had kept until then; nothing has judged them.
        preflight: what was seen on the real images.
        real_disagreement_count: real images on which A and B disagree by more than the margin.
        gate: as for :class:`ReportData`.
    """

    problem: str
    class_names: tuple[str, ...]
    triggers: int
    preflight: Preflight
    real_disagreement_count: int
    gate: GateView
    filters: tuple[FilterView, ...] = ()

    @property
    def alerts(self) -> tuple[str, ...]:
        """Why it broke off, then what smelled wrong on the real images; one sentence each."""
        return self.problem, *self.preflight.warnings
