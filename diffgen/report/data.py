"""What a report shows, as plain values: the border between those who compute and those who draw."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from diffgen.config import roles
from diffgen.metrics.richness import Discovery
from diffgen.tasks.classification import listed
from diffgen.types import Float32Array, Int64Array, UInt8Array


@dataclass(frozen=True)
class Picture:
    """One image with what the models say of it.

    Attributes:
        image: uint8 (C, H, W).
        labels: predicted label of model A, of model B, and of those after them.
        probabilities: float32 (M, K), rows A, B, ...
        identifier: number of the trigger in the run, or index of the real image in the data set.
        true_label: label of a real image when it is known.
        scores: filter name -> score (higher is more real).
        rejected_by: name of the filter that rejected it, or None.
        nearest_real: uint8 (C, H, W), the real image with the highest SSIM, or None.
        origin: how it was made, in words; empty for a real image, or where it is not known.
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


@dataclass(frozen=True)
class BehaviourGroup:
    """The distinct valid triggers of one behaviour: what each model says, and a cell of the real images."""

    labels: tuple[int, ...]
    cell: int
    count: int
    pictures: tuple[Picture, ...]

    @property
    def label_a(self) -> int:
        """What A says."""
        return self.labels[0]

    @property
    def label_b(self) -> int:
        """What B says."""
        return self.labels[1]


@dataclass(frozen=True)
class ShrunkPair:
    """Two pictures that hardly differ: on one the models agree, on the other they do not.

    Attributes:
        agreeing, trigger: the pictures; ``trigger.identifier`` is the number of the trigger that was started from.
        start: that trigger as it was found.
        difference: root mean square difference of the two pictures, grey levels.
        before: the same between ``start`` and the agreeing picture first aimed at.
    """

    agreeing: Picture
    trigger: Picture
    start: Picture
    difference: float
    before: float


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


@dataclass(frozen=True)
class Preflight:
    """What was seen on the real images before anything was trained.

    Attributes:
        images: number of real images asked.
        agreement: share on which all models give the same label, 0..1.
        accuracy: of each model, 0..1, or None without labels.
        outputs: what each model's raw outputs were taken for, one word each.
        numeric_noise: largest change of a probability when only batch size or repetition changes, worst of all models;
            see :func:`diffgen.models.noise.numeric_noise`.
        margin: smallest gap of the two highest probabilities that counts as an answer.
        warnings: one sentence each.
    """

    images: int
    agreement: float
    accuracy: tuple[float, ...] | None
    outputs: tuple[str, ...]
    numeric_noise: float
    margin: float
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True)
class TrustView:
    """One behaviour in which one model is right more often than the other.

    Attributes:
        trust: "A" or "B".
        a_right, b_right: labelled triggers of this behaviour on which that model is right.
        images: uint8 (n, C, H, W), some of those on which the trusted one is.
    """

    trust: str
    label_a: int
    label_b: int
    cell: int
    a_right: int
    b_right: int
    images: UInt8Array


@dataclass(frozen=True)
class SelectionView:
    """What the selector of a run is worth; see :mod:`diffgen.workflows.select`.

    Attributes:
        features: what the forest sees.
        examples, both_wrong: labelled triggers that it learnt from, and those on which neither model is right.
        sources: where the labels come from -> how many.
        on_triggers, real, cost: as recorded in the run, JSON values.
        behaviours: those of A first.
    """

    features: str
    examples: int
    both_wrong: int
    sources: dict[str, int]
    on_triggers: tuple[dict[str, Any], ...]
    real: tuple[dict[str, Any], ...]
    cost: dict[str, float]
    behaviours: tuple[TrustView, ...]


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
    """

    said: tuple[int, int]
    names: tuple[str, str]
    cell: int
    count: int
    new: bool
    shift: float
    replayed: bool
    pictures: tuple[Picture, ...] = ()


@dataclass(frozen=True)
class GateView:
    """What a check came to.

    Attributes:
        status: the worst of the conditions.
        rows: the conditions, and the values without a limit.
        behaviours: new ones first, of these the one with the largest shift first.
        fails_on_behaviours: whether the new ones are more than are allowed.
        store: its folder, or empty.
        created: ISO 8601.
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

    @property
    def new(self) -> tuple[GateBehaviour, ...]:
        """Those that the store does not know."""
        return tuple(each for each in self.behaviours if each.new)

    @property
    def conditions(self) -> tuple[ConditionView, ...]:
        """The rows that have a status."""
        return tuple(each for each in self.rows if each.status)


@dataclass(frozen=True)
class ReportData:
    """Everything that report.html and summary.md show.

    Attributes:
        class_names: K names in label order (numbers as text when no names are known).
        triggers, valid_triggers, behaviours, label_pairs, queries, seconds: the headline.
        verified_single, verified_batch, unconfirmed: triggers asked again one at a time, in batches, and those
            that did not disagree again (these are in no other count).
        matrix: int64 (K, K), distinct valid triggers; row is what A says, column what B says. Of more than two models
            it is that of the first two, which may say the same where another one does not.
        real_matrix: int64 (K, K), the same for real images on which A and B disagree.
        groups: one per behaviour, most frequent first; may be shortened (``behaviours`` has the full number).
        rejected: sample of rejected triggers.
        real_disagreements: sample of real images on which A and B disagree; ``real_matrix.sum()`` is their number.
        history: equally long lists "seconds", "queries", "triggers", "behaviours", "label_pairs".
        accepted: sample of valid triggers, to be looked at beside the rejected ones.
        distinct: valid triggers without near-duplicates, or None: not counted.
        validity: share of the triggers that are valid, or None.
        effective: effective numbers of label pairs and of behaviours, or None.
        diversity: one sentence about the geometric diversity of the valid triggers, or empty.
        filter_warnings: filters that do no work here, one sentence each.
        calibration: one sentence about the thresholds, or empty.
        shrunk: what ``diffgen shrink`` found.
        samples: uint8 (N, C, H, W), random pictures of the generator, not searched for.
        gan: short facts about the generator, name -> text.
        settings: section -> name -> value, as in config.toml.
        files: role -> {"path": ..., "sha256": ...}.
        behaviours_at_least: lower bound of how many behaviours there are, found or not (Chao1).
        discovery: how many new behaviours the last part of the search met, or None: not known.
        saturated: the search ended because nothing new was found any more.
        mutated: the pictures were made from real images; no generator drew them.
        selection: the selector, when one was trained.
        gate: the verdict, when the run is a check.
    """

    run: str
    created: str
    version: str
    command: str
    model_names: tuple[str, ...]
    data_name: str
    class_names: tuple[str, ...]
    technique: str
    preset: str
    triggers: int
    valid_triggers: int
    behaviours: int
    label_pairs: int
    queries: int
    seconds: float
    interrupted: bool
    verified_single: int
    verified_batch: int
    unconfirmed: int
    preflight: Preflight
    matrix: Int64Array
    real_matrix: Int64Array
    groups: tuple[BehaviourGroup, ...]
    rejected: tuple[Picture, ...]
    real_disagreements: tuple[Picture, ...]
    history: dict[str, list[float]]
    filters: tuple[FilterView, ...]
    samples: UInt8Array
    gan: dict[str, str]
    settings: dict[str, Any]
    files: dict[str, dict[str, str]]
    accepted: tuple[Picture, ...] = ()
    distinct: int | None = None
    validity: float | None = None
    effective: tuple[float, float] | None = None
    diversity: str = ""
    filter_warnings: tuple[str, ...] = ()
    calibration: str = ""
    shrunk: tuple[ShrunkPair, ...] = ()
    behaviours_at_least: int = 0
    discovery: Discovery | None = None
    saturated: bool = False
    mutated: bool = False
    selection: SelectionView | None = None
    gate: GateView | None = None

    @property
    def models(self) -> str:
        """What the models are called: "A and B"."""
        return listed(roles(self.model_names))

    @property
    def headline_count(self) -> int:
        """Valid triggers, near-duplicates counted once where they have been looked for."""
        return self.valid_triggers if self.distinct is None else self.distinct

    @property
    def rejected_count(self) -> int:
        """Triggers that some filter rejected."""
        return self.triggers - self.valid_triggers

    @property
    def real_disagreement_count(self) -> int:
        """Real images on which A and B disagree by more than the margin."""
        return int(np.sum(self.real_matrix))


@dataclass(frozen=True)
class VerdictData:
    """Everything that report.html shows of a check whose search did not come to its end.

    Attributes:
        problem: why it did not, one sentence.
        class_names: K names in label order.
        triggers: what the search had kept until then; nothing has judged them.
        preflight: what was seen on the real images, or None: a version that did not keep it wrote the verdict.
        real_disagreement_count: real images on which A and B disagree by more than the margin.
        settings, files, gate: as for :class:`ReportData`.
    """

    run: str
    created: str
    version: str
    command: str
    model_names: tuple[str, ...]
    data_name: str
    problem: str
    class_names: tuple[str, ...]
    triggers: int
    preflight: Preflight | None
    real_disagreement_count: int
    settings: dict[str, Any]
    files: dict[str, dict[str, str]]
    gate: GateView
    filters: tuple[FilterView, ...] = ()

    @property
    def models(self) -> str:
        """What the models are called: "A and B"."""
        return listed(roles(self.model_names))

    @property
    def alerts(self) -> tuple[str, ...]:
        """Why it broke off, then what smelled wrong on the real images; one sentence each."""
        return self.problem, *(() if self.preflight is None else self.preflight.warnings)
