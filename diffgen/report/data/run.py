"""The whole report of a run, and that of a check whose search did not come to its end."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from diffgen.config import roles
from diffgen.report.data.gate import GateView
from diffgen.report.data.operators import OperatorsView
from diffgen.report.data.pictures import BehaviourGroup, Picture, ShrunkPair
from diffgen.report.data.selection import SelectionView
from diffgen.runs.figures import Preflight
from diffgen.runs.results import RunResults
from diffgen.tasks.classification import listed
from diffgen.tasks.label_pairs import LabelPairs
from diffgen.types import Float32Array, UInt8Array

#: So many models are named one by one.
_LISTED = 4


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
        command: what the user typed.
        settings: section -> name -> value, as in config.toml.
        files: role -> {"path": ..., "sha256": ...}.
    """

    run: str
    created: str
    version: str
    command: str
    model_names: tuple[str, ...]
    data_name: str
    settings: dict[str, Any]
    files: dict[str, dict[str, str]]

    @property
    def models(self) -> str:
        """What the models are called: "A and B", "A, B and C", or "A to F" of more than four."""
        letters = roles(self.model_names)
        return listed(letters) if len(letters) <= _LISTED else f"{letters[0]} to {letters[-1]}"


@dataclass(frozen=True, kw_only=True)
class ReportData(RunFacts):
    """Everything that report.html and summary.md show.

    Attributes:
        results: the figures of the run.
        groups: one per verdict and behaviour, most frequent first; may be shortened (``results.behaviours`` has the
            full number).
        rejected: sample of rejected triggers.
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
        preflight: what was seen on the real images, or None: a version that did not keep it wrote the verdict.
        real_disagreement_count: real images on which A and B disagree by more than the margin.
        gate: as for :class:`ReportData`.
    """

    problem: str
    class_names: tuple[str, ...]
    triggers: int
    preflight: Preflight | None
    real_disagreement_count: int
    gate: GateView
    filters: tuple[FilterView, ...] = ()

    @property
    def alerts(self) -> tuple[str, ...]:
        """Why it broke off, then what smelled wrong on the real images; one sentence each."""
        return self.problem, *(() if self.preflight is None else self.preflight.warnings)
