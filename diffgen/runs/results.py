"""The figures of a run, as results.json keeps them: every reader and the one writer go through these classes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any, TypeAlias

import numpy as np

from diffgen.errors import UserError
from diffgen.metrics.figures import figures
from diffgen.metrics.richness import Discovery
from diffgen.runs.figures import Calibration, FilterFigures, JuryFigures, Preflight
from diffgen.runs.files import write_json
from diffgen.runs.folder import SCHEMA_VERSION, RunFolder
from diffgen.runs.many import ManyFigures
from diffgen.runs.triggers import BOTH, JURY, LABEL, UNNAMED, TriggerTable
from diffgen.tasks.label_pairs import LabelPairs

_FILE = "results.json"


@dataclass(frozen=True, kw_only=True)
class RunResults:
    """The figures of a search that came to its end. Field names and their order are those of results.json.

    Attributes:
        queries: images that the models were asked about in the search.
        triggers, valid_triggers: confirmed ones, and those of them that no filter rejected.
        distinct_valid_triggers: the valid ones without near-duplicates; what the headline counts.
        behaviours: kinds of what the models say x cell, among the distinct valid triggers.
        behaviours_of_agreement: those of them that were met on a picture made from a real image on which the models
            agree, or drawn; None: all pictures were drawn, or an earlier version wrote the run.
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
        geometric_diversity: see :func:`diffgen.comparison.measured_diversity.measure_diversity`; or None.
        warnings: what a user should know of the filters, one sentence each.
        calibration: of the filters, or None: an early version wrote the run.
        filters: in the order in which they are asked.
        real_disagreements: real images on which two models disagree by more than the margin.
        real_matrix: the same as ``pair_counts`` for these.
        gan: short facts about the source of the images, name -> text.
        mutated: the pictures were made from real images; no generator drew them.
        recognised_triggers: valid ones that the jury can name, or None, as for the next three: there was no jury.
        recognised_distinct_triggers: those of them without near-duplicates.
        recognised_behaviours: kinds of what the models say x cell, among these.
        faults: who is wrong, on how many of these "pictures" and in how many "behaviours": under A, B, ... where that
            model alone is wrong, under "all" where every one is, under "several" where more than one is but not all.
        verdicts_rest_on: what names the recognised distinct ones -> how many: "label", the known label of the real
            image that each was made from, with a jury that names it but is not sure enough by itself; "both", that
            label and a jury that is; "jury", the jury alone. None: there was no jury, or an earlier version wrote the
            run.
        jury: who says what pictures show, or None: there is no jury, or an earlier version wrote the run.
        no_jury: why there is none, as one sentence, or nothing.
        milliseconds: that one image takes each model, in batches on this machine; None for a model that a server
            answers for; or None: an early version wrote the run.
        many: who stands alone, and which two models differ most, or None: there are two models, or an earlier version
            wrote the run.
        check: the verdict of a check, or None: the run is none; see :mod:`diffgen.gate.record`.
    """

    schema_version: int = SCHEMA_VERSION
    queries: int
    triggers: int
    valid_triggers: int
    distinct_valid_triggers: int
    behaviours: int
    behaviours_at_least: int
    discovery: Discovery
    label_pairs: int
    seconds: float
    saturated: bool = False
    most_frequent: tuple[tuple[str | int, ...], ...] = ()
    effective_label_pairs: float
    effective_behaviours: float
    pair_counts: LabelPairs
    history: Mapping[str, Sequence[float]]
    interrupted: bool
    verified_single: int
    verified_batch: int
    unconfirmed: int
    class_names: tuple[str, ...]
    preflight: Preflight
    validity: float | None = None
    near_duplicate: float | None = None
    geometric_diversity: Mapping[str, Any] | None = None
    warnings: tuple[str, ...] = ()
    calibration: Calibration | None = None
    filters: tuple[FilterFigures, ...]
    real_disagreements: int
    real_matrix: LabelPairs
    behaviours_of_agreement: int | None = None
    gan: Mapping[str, str]
    mutated: bool = False
    recognised_triggers: int | None = None
    recognised_distinct_triggers: int | None = None
    recognised_behaviours: int | None = None
    faults: Mapping[str, Mapping[str, int]] | None = None
    verdicts_rest_on: Mapping[str, int] | None = None
    jury: JuryFigures | None = None
    no_jury: str = ""
    milliseconds: tuple[float | None, ...] | None = None
    many: ManyFigures | None = None
    check: Mapping[str, Any] | None = None

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> RunResults:
        """The figures of results.json; names that are not known are left alone.

        Raises:
            KeyError, TypeError, ValueError: one is missing, or of another kind than it should be.
        """
        found = {each.name: values[each.name] for each in fields(cls) if each.name in values}
        found["discovery"] = Discovery(values["discovery"]["queries"], values["discovery"]["new_behaviours"])
        found["preflight"] = Preflight.read(values["preflight"])
        found["filters"] = tuple(map(FilterFigures.read, values["filters"]))
        found["class_names"] = tuple(map(str, values["class_names"]))
        for name in ("pair_counts", "real_matrix"):
            if not isinstance(values[name], LabelPairs):  # counted anew
                found[name] = LabelPairs.read(values[name], len(found["class_names"]))
        found["warnings"] = tuple(values.get("warnings", ()))
        found["most_frequent"] = tuple(
            (*map(str, labels), int(count)) for *labels, count in values.get("most_frequent", ())
        )
        if values.get("validity"):
            found["validity"] = values["validity"]["ratio"]
        if values.get("calibration"):
            found["calibration"] = Calibration.read(values["calibration"])
        if values.get("jury"):
            found["jury"] = JuryFigures.read(values["jury"])
        if values.get("milliseconds"):
            found["milliseconds"] = tuple(values["milliseconds"])
        if values.get("many"):
            found["many"] = ManyFigures.read(values["many"])
        return cls(**found)

    def as_json(self) -> dict[str, Any]:
        """JSON values, as :meth:`from_json` takes them."""
        values = {each.name: getattr(self, each.name) for each in fields(self)}
        values["discovery"] = self.discovery.as_dict()
        values["pair_counts"], values["real_matrix"] = self.pair_counts.as_json(), self.real_matrix.as_json()
        values["preflight"] = asdict(self.preflight)
        # every trigger was judged: the share is no estimate, and has no interval
        values["validity"] = None if self.validity is None else {"ratio": self.validity}
        values["calibration"] = None if self.calibration is None else asdict(self.calibration)
        values["filters"] = [asdict(each) for each in self.filters]
        values["jury"] = None if self.jury is None else asdict(self.jury)
        values["many"] = None if self.many is None else self.many.as_json()
        # what a run has nothing for is not written
        return {name: value for name, value in values.items() if value is not None or name not in ("many", "check")}


@dataclass(frozen=True, kw_only=True)
class UnfinishedCheck:
    """What results.json says of a check whose search did not come to its end.

    Attributes:
        class_names: K names in label order.
        preflight: what was seen on the real images, or None: a version that did not keep it wrote the verdict.
        real_disagreements: real images on which the models disagree by more than the margin.
        check: the verdict.
    """

    schema_version: int = SCHEMA_VERSION
    class_names: tuple[str, ...] = ()
    preflight: Preflight | None = None
    real_disagreements: int = 0
    check: Mapping[str, Any]

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> UnfinishedCheck:
        """As :meth:`RunResults.from_json`."""
        found = {each.name: values[each.name] for each in fields(cls) if each.name in values}
        found["class_names"] = tuple(map(str, values.get("class_names", ())))
        if "preflight" in values:
            found["preflight"] = Preflight.read(values["preflight"])
        return cls(**found)

    def as_json(self) -> dict[str, Any]:
        """JSON values, as :meth:`from_json` takes them."""
        values = {each.name: getattr(self, each.name) for each in fields(self)}
        if self.preflight is None:
            del values["preflight"]
        else:
            values["preflight"] = asdict(self.preflight)
        return values


AnyResults: TypeAlias = RunResults | UnfinishedCheck


def counted(
    triggers: TriggerTable, *, classes: int, queries: int, history: Mapping[str, Sequence[float]]
) -> dict[str, Any]:
    """The fields of :class:`RunResults` that are counted among judged triggers."""
    found = figures(
        triggers.labels,
        triggers.known.cells,
        triggers.query,
        valid=triggers.valid,
        distinct=triggers.distinct,
        classes=classes,
        queries=queries,
        history=history,
    )
    if (differs := triggers.known.seed_differs) is not None:
        found["behaviours_of_agreement"] = len(np.unique(triggers.behaviours[triggers.distinct & ~differs], axis=0))
    return {**found, **recognised_figures(triggers)} if triggers.has_jury else found


def verdicts_rest_on(triggers: TriggerTable, jury: JuryFigures) -> dict[str, int]:
    """How many recognised distinct triggers are named by what; see :class:`RunResults`."""
    bases = triggers[triggers.recognised_distinct].bases(jury.unaided)
    return {name: int((bases == name).sum()) for name in (LABEL, BOTH, JURY)}


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


def read_results(folder: RunFolder, triggers: TriggerTable | None = None) -> AnyResults:
    """The figures of a run, as this version counts them.

    Args:
        folder: of a run.
        triggers: its triggers with verdicts where they are in memory, or None: they are read where figures of an
            earlier version, which took near-duplicates for behaviours, have to be counted anew.

    Raises:
        UserError: the run did not come to its end, or is damaged.
    """
    folder.check_description()
    values = folder.results()
    with folder.reading():
        if "check" in values and "queries" not in values:
            return UnfinishedCheck.from_json(values)
        if "behaviours_at_least" not in values:
            classes, queries, history = len(values["class_names"]), values["queries"], values["history"]
            triggers = folder.read_judged() if triggers is None else triggers
            again = counted(triggers, classes=classes, queries=queries, history=history)
            values = {**values, **again, "discovery": again["discovery"].as_dict()}
        return RunResults.from_json(values)


def read_finished(folder: RunFolder, triggers: TriggerTable | None = None) -> RunResults:
    """As :func:`read_results`, of a run whose search came to its end.

    Raises:
        UserError: it did not, or the file is damaged.
    """
    results = read_results(folder, triggers)
    if isinstance(results, UnfinishedCheck):
        raise UserError(f"The search of the check {folder.path} did not come to its end; go on with it with --resume.")
    return results


def write_results(folder: RunFolder, results: AnyResults) -> None:
    """Write results.json.

    Raises:
        RunError: the disk is full or the folder cannot be written.
    """
    write_json(folder.file(_FILE), results.as_json())
