"""The figures of a run, as results.json keeps them: every reader and the one writer go through these classes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias

import numpy as np
from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    PlainValidator,
    TypeAdapter,
    ValidationError,
    ValidationInfo,
)

from diffgen.errors import UserError
from diffgen.metrics.richness import Discovery, effective_number, first_queries, richness
from diffgen.runs import schema
from diffgen.runs.creation import UNREADABLE
from diffgen.runs.figures import (
    Alone,
    Calibration,
    Count,
    FilterFigures,
    JuryFigures,
    ManyFigures,
    Number,
    Positive,
    Preflight,
    Share,
    Text,
    TimesOfModels,
)
from diffgen.runs.files import write_json
from diffgen.runs.folder import SCHEMA_VERSION, RunFolder
from diffgen.runs.opening import read_bytes
from diffgen.runs.triggers import AGREED, BOTH, BOXES, JURY, LABEL, SEED, UNNAMED, TriggerTable
from diffgen.tasks.classification import NO_MAJORITY, LabelPairs, majority, pairwise, role_name, stands_alone
from diffgen.types import Int64Array

_FILE = "results.json"


# label pairs of few classes are a matrix; of many, of each what A says, what B says, and how often
_Triple: TypeAlias = Annotated[list[Count], Field(min_length=3, max_length=3)]
_COUNTS: TypeAdapter[Any] = TypeAdapter(
    list[list[Count]] | Annotated[dict[Literal["pairs"], list[_Triple]], Field(min_length=1)]
)


def _label_pairs(value: Any, about: ValidationInfo) -> LabelPairs:
    """Label pairs of as many classes as the file names."""
    classes: Any = about.context
    counts = _COUNTS.validate_python(value, strict=True)
    if isinstance(counts, dict):
        fits = all(max(a, b) < classes for a, b, _ in counts["pairs"])
    else:
        fits = len(counts) == classes and all(len(row) == classes for row in counts)
    if not fits:
        raise ValueError(f"it is not one of {classes} classes")
    return LabelPairs.read(counts, classes)


def _ratio(value: Any) -> Any:
    """The share of ``{"ratio": share}``: every trigger was judged, so that it is no estimate and has no interval."""
    return value["ratio"] if isinstance(value, dict) else value


def _class_name(name: str) -> str:
    schema.class_name(name)
    return name


def _one_length(curves: Mapping[str, Sequence[float]]) -> Mapping[str, Sequence[float]]:
    if len({len(points) for points in curves.values()}) > 1:
        raise ValueError("its curves differ in length")
    return curves


def _has_status(record: Mapping[str, Any]) -> Mapping[str, Any]:
    schema.text(record.get("status"))
    return record


ClassNames: TypeAlias = Annotated[
    tuple[Annotated[str, AfterValidator(_class_name)], ...], Field(max_length=schema.MAX_CLASSES)
]
CountedPairs: TypeAlias = Annotated[LabelPairs, PlainValidator(_label_pairs)]
Curves: TypeAlias = Annotated[Mapping[str, Sequence[Count | Positive]], AfterValidator(_one_length)]
Record: TypeAlias = Annotated[Mapping[str, Any], AfterValidator(_has_status)]


@dataclass(frozen=True, kw_only=True)
class RunResults:
    """The figures of a search that came to its end. Field names and their order are those of results.json.

    Attributes:
        queries: images that the models were asked about in the search.
        triggers, valid_triggers: confirmed ones, and those of them that no filter rejected.
        distinct_valid_triggers: the valid ones without near-duplicates; what the headline counts.
        behaviours: kinds of what the models say x cell, among the distinct valid triggers.
        behaviours_of_agreement: those of them that were met on a picture made from a real image on which the models
            agree, or drawn; None: all pictures were drawn.
        behaviours_at_least: lower bound of how many behaviours there are, found or not (Chao1).
        discovery: how many new behaviours the last part of the search met.
        label_pairs: different ordered label pairs among the distinct valid triggers.
        seconds: length of the search.
        saturated: the search ended because nothing new was found any more.
        most_frequent: what each model says, by name, and how often, of the label pairs with most triggers.
        effective_label_pairs, effective_behaviours: effective numbers of them.
        pair_counts: what A and B say of the distinct valid triggers; in the file a matrix for few classes.
        history: equally long curves "seconds", "queries", "triggers", "valid_triggers", "behaviours", "label_pairs".
        interrupted: the user ended the search before its budget was used up.
        verified_single, verified_batch, unconfirmed: triggers asked again one at a time, in batches, and those that did
            not disagree again.
        class_names: K names in label order.
        preflight: what was seen on the real images.
        validity: share of the triggers that are valid, or None without triggers.
        near_duplicate: Pearson's correlation of thumbnails from which on two triggers are near-duplicates, or None:
            these were not looked for.
        geometric_diversity: see :func:`diffgen.comparison.results.measure_diversity`; or None.
        shannon_diversity: see :func:`diffgen.comparison.results.measure_entropy`; or None.
        warnings: what a user should know of the filters, one sentence each.
        calibration: of the filters.
        filters: in the order in which they are asked.
        real_disagreements: real images on which two models disagree by more than the margin.
        real_matrix: the same as ``pair_counts`` for these.
        gan: short facts about the source of the images, name -> text.
        mutated: the pictures were made from real images; no generator drew them.
        recognised_triggers: valid ones that the jury, or without one the real image, can name, or None, as for the next
            three: nothing can.
        recognised_distinct_triggers: those of them without near-duplicates.
        recognised_behaviours: kinds of what the models say x cell, among these.
        faults: who is wrong, on how many of these "pictures" and in how many "behaviours": under A, B, ... where that
            model alone is wrong, under "all" where every one is, under "several" where more than one is but not all.
        verdicts_rest_on: what names the recognised distinct ones -> how many: "label", the known label of the real
            image that each was made from, with a jury that names it but is not sure enough by itself; "both", that
            label and a jury that is; "jury", the jury alone. Without a jury "seed", that label, which mild changes
            keep, or "agreed", what all models say of that image; of detectors "boxes", those of it, moved along. None:
            nothing says what pictures show.
        jury: who says what pictures show, or None: there is no jury.
        no_jury: why there is none, as one sentence, or nothing.
        milliseconds: that one image takes each model, in batches on this machine; None for a model that a server
            answers for; or None: nobody looked.
        many: who stands alone, and which two models differ most, or None: there are two models.
        answers: what was said after each stage, in one sentence each; see :class:`diffgen.events.Answered`.
        check: the verdict of a check, or None: the run is none; see :mod:`diffgen.gate.record`.
    """

    schema_version: int = SCHEMA_VERSION
    queries: Count
    triggers: Count
    valid_triggers: Count
    distinct_valid_triggers: Count
    behaviours: Count
    behaviours_at_least: Count
    discovery: Discovery
    label_pairs: Count
    seconds: Positive
    saturated: bool = False
    most_frequent: tuple[tuple[str | int, ...], ...] = ()
    effective_label_pairs: Number
    effective_behaviours: Number
    pair_counts: CountedPairs
    history: Curves
    interrupted: bool
    verified_single: Count
    verified_batch: Count
    unconfirmed: Count
    class_names: ClassNames
    preflight: Preflight
    validity: Annotated[Share | None, BeforeValidator(_ratio)] = None
    near_duplicate: Number | None = None
    geometric_diversity: Mapping[str, Any] | None = None
    shannon_diversity: Mapping[str, Any] | None = None
    warnings: tuple[Text, ...] = ()
    calibration: Calibration
    filters: tuple[FilterFigures, ...]
    real_disagreements: Count
    real_matrix: CountedPairs
    behaviours_of_agreement: Count | None = None
    gan: Mapping[str, Text]
    mutated: bool = False
    recognised_triggers: Count | None = None
    recognised_distinct_triggers: Count | None = None
    recognised_behaviours: Count | None = None
    faults: Mapping[str, Mapping[str, Count]] | None = None
    verdicts_rest_on: Mapping[str, Count] | None = None
    jury: JuryFigures | None = None
    no_jury: Text = ""
    milliseconds: TimesOfModels | None = None
    many: ManyFigures | None = None
    answers: Mapping[str, Text] = field(default_factory=dict)
    check: Record | None = None

    @property
    def of_boxes(self) -> bool:
        """Whether the models are detectors."""
        return self.preflight.outputs[0] == "boxes"

    def as_json(self) -> dict[str, Any]:
        """JSON values; what a run has nothing for, as a comparison has no check, is left out."""
        values = {**asdict(self), "discovery": self.discovery.as_dict()}
        for name in ("pair_counts", "real_matrix"):
            values[name] = getattr(self, name).as_json()
        values["validity"] = None if self.validity is None else {"ratio": self.validity}
        return {name: value for name, value in values.items() if value is not None or name not in ("many", "check")}


@dataclass(frozen=True, kw_only=True)
class UnfinishedCheck:
    """What results.json says of a check whose search did not come to its end.

    Attributes:
        class_names: K names in label order.
        preflight: what was seen on the real images.
        real_disagreements: real images on which the models disagree by more than the margin.
        check: the verdict.
    """

    schema_version: int = SCHEMA_VERSION
    class_names: ClassNames
    preflight: Preflight
    real_disagreements: Count = 0
    check: Record

    def as_json(self) -> dict[str, Any]:
        """JSON values."""
        return asdict(self)


AnyResults: TypeAlias = RunResults | UnfinishedCheck
_FINISHED, _UNFINISHED = TypeAdapter(RunResults), TypeAdapter(UnfinishedCheck)


def counted(
    triggers: TriggerTable, *, classes: int, queries: int, history: Mapping[str, Sequence[float]]
) -> dict[str, Any]:
    """The fields of :class:`RunResults` that are counted among judged triggers."""
    distinct = triggers.distinct
    keys, labels, query = triggers.behaviours[distinct], triggers.labels[distinct], triggers.query[distinct]
    kinds = richness(keys, query, queries)
    met_at = {
        "valid_triggers": np.sort(triggers.query[triggers.valid]),
        "behaviours": first_queries(keys, query),
        "label_pairs": first_queries(labels, query),
    }
    found = {
        "distinct_valid_triggers": int(distinct.sum()),
        "behaviours": kinds.met,
        "behaviours_at_least": kinds.at_least,
        "discovery": kinds.discovery,
        "label_pairs": len(np.unique(labels, axis=0)),
        "effective_label_pairs": round(effective_number(labels), 3),
        "effective_behaviours": round(effective_number(keys), 3),
        "pair_counts": LabelPairs.of(labels, classes),
        "history": {
            **history,
            **{name: np.searchsorted(at, history["queries"], side="right").tolist() for name, at in met_at.items()},
        },
    }
    if (differs := triggers.known.seed_differs) is not None:
        found["behaviours_of_agreement"] = len(np.unique(triggers.behaviours[distinct & ~differs], axis=0))
    return {**found, **recognised_figures(triggers)} if triggers.has_jury else found


def verdicts_rest_on(triggers: TriggerTable, jury: JuryFigures | None, *, boxes: bool = False) -> dict[str, int]:
    """How many recognised distinct triggers are named by what; see :class:`RunResults`."""
    bases = triggers[triggers.recognised_distinct].bases(None if jury is None else jury.unaided, boxes=boxes)
    names = (LABEL, BOTH, JURY) if jury is not None else (BOXES,) if boxes else (SEED, AGREED)
    return {name: int((bases == name).sum()) for name in names}


def recognised_figures(triggers: TriggerTable) -> dict[str, Any]:
    """The fields of :class:`RunResults` that are counted among the triggers that the jury recognises."""
    kept = triggers[triggers.recognised_distinct]
    return {
        "recognised_triggers": int((triggers.valid & triggers.recognised).sum()),
        "recognised_distinct_triggers": len(kept),
        "recognised_behaviours": len(np.unique(kept.behaviours, axis=0)),
        "faults": {
            verdict: {"pictures": int(rows.sum()), "behaviours": len(np.unique(triggers.behaviours[rows], axis=0))}
            for verdict, rows in triggers.distinct_by_verdict.items()
            if verdict != UNNAMED
        },
    }


def many_figures(triggers: TriggerTable, real_labels: Int64Array, spared: int = 0) -> ManyFigures:
    """Count among the judged triggers of three models or more.

    Args:
        triggers: of a run, with verdicts.
        real_labels: int64 (N, M), what the models say of the real images on which they disagree.
        spared: see :class:`ManyFigures`.
    """
    found, sure = triggers[triggers.distinct], triggers[triggers.recognised_distinct]
    named = sure.labels[:, 0] if sure.known.named is None else sure.known.named
    alone, alone_sure, most = stands_alone(found.labels), stands_alone(sure.labels), majority(sure.labels)
    return ManyFigures(
        alone={
            role_name(index): Alone(
                pictures=int(alone[:, index].sum()),
                behaviours=len(np.unique(found.behaviours[alone[:, index]], axis=0)),
                wrong=int((alone_sure[:, index] & (most == named)).sum()),
                right=int((alone_sure[:, index] & (sure.labels[:, index] == named)).sum()),
            )
            for index in range(found.labels.shape[1])
        },
        majority=int((majority(found.labels) != NO_MAJORITY).sum()),
        majority_recognised=int((most != NO_MAJORITY).sum()),
        majority_right=int(((most != NO_MAJORITY) & (most == named)).sum()),
        found=_table(found.labels),
        recognised=_table(sure.labels) if triggers.has_jury else None,
        real=_table(real_labels),
        spared=spared,
    )


def _table(labels: Int64Array) -> tuple[tuple[int, ...], ...]:
    return tuple(map(tuple, pairwise(labels).tolist()))


def read_results(folder: RunFolder) -> AnyResults:
    """The figures of a run. UserError if the run did not come to its end, or is damaged."""
    folder.check_description()
    values = folder.results()
    file = folder.file(_FILE)
    try:
        kind: TypeAdapter[Any] = _UNFINISHED if "check" in values and "queries" not in values else _FINISHED
        classes = len(values.get("class_names", ()))
        found: AnyResults = kind.validate_json(read_bytes(file, links=False), strict=True, context=classes)
        return found
    except UNREADABLE as error:
        reason = schema.first_problem(error) if isinstance(error, ValidationError) else error
        raise UserError(f"The figures {file} cannot be read ({reason}); the run folder is damaged.") from error


def read_finished(folder: RunFolder) -> RunResults:
    """As :func:`read_results`, of a search that came to its end. UserError if it did not, or is damaged."""
    results = read_results(folder)
    if isinstance(results, UnfinishedCheck):
        raise UserError(f"The search of the check {folder.path} did not come to its end; go on with it with --resume.")
    return results


def write_results(folder: RunFolder, results: AnyResults) -> None:
    """Write results.json. RunError if the disk is full or the folder cannot be written."""
    write_json(folder.file(_FILE), results.as_json())


@dataclass(frozen=True, eq=False)
class FinishedRun:
    """A run whose search came to its end, as report, page and exports read it.

    Attributes:
        folder: of the run.
        results: its figures.
        triggers: with their verdicts.
    """

    folder: RunFolder
    results: RunResults
    triggers: TriggerTable

    @classmethod
    def open(cls, run: str | Path | RunFolder) -> FinishedRun:
        """Read a run.

        Raises:
            UserError: there is none at that place, its search did not come to its end, or it is damaged.
        """
        folder = run if isinstance(run, RunFolder) else RunFolder.open(run)
        with folder.reading():
            return cls(folder, read_finished(folder), folder.read_judged())

    @property
    def class_names(self) -> tuple[str, ...]:
        """K names in label order."""
        return self.results.class_names

    @property
    def filters(self) -> list[str]:
        """Names of the validity filters."""
        return [each.name for each in self.results.filters]

    @cached_property
    def drawn_by(self) -> str:
        """Who draws the pictures that are not made from real ones, in words."""
        return "your generator" if self.folder.config().get("generator", {}).get("file") else "the GAN"

    @cached_property
    def report_arrays(self) -> dict[str, Any]:
        """Those of report.npz: which triggers a report shows, and the pictures beside them."""
        return self.folder.read_arrays("report")
