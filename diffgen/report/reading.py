"""Reads what a report shows out of a run folder; needs neither models nor data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from diffgen.metrics.counting import ACCEPTED
from diffgen.origins import NO_SEED
from diffgen.report.data import (
    BehaviourGroup,
    CauseView,
    ConditionView,
    FilterView,
    GateBehaviour,
    GateView,
    JuryOpinion,
    OperatorCurve,
    OperatorsView,
    Picture,
    ReportData,
    RunFacts,
    SelectionView,
    ShrunkPair,
    VerdictData,
)
from diffgen.report.origins import made_by, origin_sentence
from diffgen.report.wording import Faults, nobody_named, verdict_sentences, with_minus
from diffgen.runs.figures import BY_NOBODY, JuryFigures, OperatorCurves
from diffgen.runs.folder import RunFolder
from diffgen.runs.results import FinishedRun, RunResults, UnfinishedCheck
from diffgen.runs.triggers import UNKNOWN_LABEL, TriggerTable
from diffgen.tasks.classification import labels_of, rows_by_key
from diffgen.types import UInt8Array
from diffgen.wording import percent

_ACCEPTED_SHOWN = 24


def report_data(run: FinishedRun) -> ReportData:
    """Everything that the report of a finished run shows."""
    folder, results, arrays = run.folder, run.results, run.report_arrays
    gallery = trigger_pictures(run, arrays["shown"].tolist())
    picks = np.linspace(0, len(gallery) - 1, min(len(gallery), _ACCEPTED_SHOWN)).astype(int)
    facts = read_facts(folder)
    return ReportData(
        **vars(facts),
        technique=facts.settings["technique"],
        preset=facts.settings["preset"],
        results=results,
        groups=grouped(gallery, run.triggers),
        rejected=trigger_pictures(run, arrays["rejected"].tolist()),
        accepted=tuple(gallery[pick] for pick in picks),
        real_disagreements=_real_pictures(arrays),
        samples=arrays["samples"],
        filters=_filters(run),
        calibration=_calibration_sentence(results),
        diversity=_diversity_sentence(results),
        shrunk=read_shrunk(run),
        selection=_selection(run),
        operators=read_operators(folder),
        noun=_noun(run),
        no_selector=str(folder.manifest.get("no_selector", "")),
        gate=None if results.check is None else read_gate(folder, results.check, results.faults, results.no_jury),
    )


def verdict_data(folder: RunFolder, results: UnfinishedCheck) -> VerdictData:
    """Everything that the report of a check shows whose search did not come to its end."""
    return VerdictData(
        **vars(read_facts(folder)),
        problem=results.check["values"]["search"]["problem"],
        class_names=results.class_names,
        triggers=folder.trigger_count,
        preflight=results.preflight,
        real_disagreement_count=results.real_disagreements,
        gate=read_gate(folder, results.check),
    )


def read_facts(folder: RunFolder) -> RunFacts:
    """With which models, data and settings a run was made."""
    manifest = folder.manifest
    models = {role: manifest["files"][role] for role in sorted(manifest["files"])}
    files = {**{f"model {role}": entry for role, entry in models.items()}, "data": manifest["data"]}
    return RunFacts(
        cause=read_cause(folder),
        run=folder.path.name,
        created=manifest["created"],
        version=manifest["version"],
        command=manifest["command"],
        model_names=_with_folders(list(models.values())),
        data_name=manifest["data"]["source"],
        settings=folder.config(),
        files={
            name: {"path": str(entry.get("path") or "in memory"), "sha256": str(entry.get("sha256") or "none")}
            for name, entry in files.items()
        },
    )


def read_cause(folder: RunFolder) -> CauseView | None:
    """Why the two models of a run differ, or None: nobody looked."""
    if not folder.has_arrays("cause"):
        return None
    arrays = folder.read_arrays("cause")
    about = arrays.pop("about")
    return CauseView(**{**about, "advice": tuple(about["advice"])}, **arrays)


def _with_folders(models: list[dict[str, Any]]) -> tuple[str, ...]:
    """What models are called; of many, those of one name with the folder that each lies in."""
    names = [str(each["name"]) for each in models]
    if len(models) == 2:
        return tuple(names)
    folders = [Path(each["path"]).parent.name if each.get("path") else "" for each in models]
    return tuple(
        f"{folder}/{name}" if folder and names.count(name) > 1 else name
        for folder, name in zip(folders, names, strict=True)
    )


def _noun(run: FinishedRun) -> str:
    """What a picture of the search is called, by what the triggers were made from."""
    seeds = run.triggers.seeds
    if seeds is None or not len(seeds):
        return "changed real image" if run.results.mutated else "generated picture"
    changed = seeds != NO_SEED
    return "changed real image" if changed.all() else "picture" if changed.any() else "generated picture"


# -- pictures --------------------------------------------------------------------------------------------------------


def bare_picture(
    table: TriggerTable, row: int, number: int, image: UInt8Array, *, names: Sequence[str], drawn_by: str
) -> Picture:
    """A trigger as the search wrote it, whether it was judged since or not.

    Args:
        image: uint8 (C, H, W).
        names: K class names, as far as they are known.
        drawn_by: who draws the pictures that are not made from real ones, in words.
    """
    return Picture(
        image=image,
        labels=tuple(table.labels[row].tolist()),
        probabilities=table.probabilities[row],
        classes=None if table.classes is None else table.classes[row],
        identifier=number,
        origin=origin_sentence(table.origin(row), names, drawn_by),
    )


def trigger_pictures(run: FinishedRun, numbers: Sequence[int]) -> tuple[Picture, ...]:
    """Some triggers with everything that is known of them."""
    table, arrays, filters = run.triggers, run.report_arrays, run.filters
    # of what a report shows, every filter was asked, also those after the one that rejected it
    places = {number: at for at, number in enumerate([*arrays["shown"].tolist(), *arrays["rejected"].tolist()])}
    pictures = []
    for number, image in zip(numbers, table.images_of(np.asarray(numbers, dtype=np.int64)), strict=True):
        place, rejected_by = places.get(number), int(table.known.rejected_by[number])
        scores = table.known.scores[number] if place is None else arrays["shown_scores"][place]
        known = {name: float(score) for name, score in zip(filters, scores, strict=True) if not np.isnan(score)}
        bare = bare_picture(table, number, number, image, names=run.class_names, drawn_by=run.drawn_by)
        pictures.append(
            replace(
                bare,
                scores={**known, "divergence": float(table.divergence[number])},
                rejected_by=None if rejected_by == ACCEPTED else filters[rejected_by],
                nearest_real=None if place is None else arrays["nearest_real"][place],
                marks=None if place is None or "marks" not in arrays else arrays["marks"][place],
                jury=opinion(table, number, len(run.class_names), run.results.jury, boxes=run.results.of_boxes),
            )
        )
    return tuple(pictures)


def opinion(
    triggers: TriggerTable, row: int, classes: int, jury: JuryFigures | None, *, boxes: bool = False
) -> JuryOpinion | None:
    """What the jury says of a trigger, or None: there was none, or it names a class that is not known."""
    named, seeds = triggers.known.named, triggers.known.seed_labels
    if named is None or not 0 <= named[row] < classes:
        return None
    recognised, seed = bool(triggers.recognised[row]), UNKNOWN_LABEL if seeds is None else int(seeds[row])
    if jury is None and not recognised:
        return None
    contradicts = not recognised and seed not in (UNKNOWN_LABEL, named[row]) and 0 <= seed < classes
    rests_on = str(triggers[row : row + 1].bases(None if jury is None else jury.unaided, boxes=boxes)[0])
    return JuryOpinion(int(named[row]), recognised, seed if contradicts else None, rests_on)


def grouped(gallery: Sequence[Picture], triggers: TriggerTable) -> tuple[BehaviourGroup, ...]:
    """The gallery by verdict and behaviour, in the order in which the pictures were chosen (most frequent first)."""
    behaviours = triggers.behaviours
    groups = []
    for verdict, rows in triggers.distinct_by_verdict.items():
        numbers = np.flatnonzero(rows)
        rows_of = {key: numbers[own] for key, own in rows_by_key(behaviours[numbers])}
        members: dict[tuple[int, ...], list[Picture]] = {}
        for each in gallery:
            if rows[each.identifier]:
                members.setdefault(tuple(behaviours[each.identifier].tolist()), []).append(each)
        groups += [
            BehaviourGroup(
                labels=key[:-1],
                cell=key[-1],
                count=len(rows_of[key]),
                pictures=tuple(pictures),
                verdict=verdict,
                made_by=made_by([triggers.origin(row).recipe for row in rows_of[key].tolist()]),
            )
            for key, pictures in members.items()
        ]
    return tuple(groups)


def _real_pictures(arrays: Mapping[str, Any]) -> tuple[Picture, ...]:
    """Some of the real images on which the models disagree."""
    columns = [arrays[f"real_{name}"] for name in ("images", "probabilities", "rows", "labels")]
    marks = arrays.get("real_marks", [None] * len(columns[0]))
    return tuple(
        _answered(image, answers, row, true_label=None if label < 0 else int(label), marks=own)
        for image, answers, row, label, own in zip(*columns, marks, strict=True)
    )


def _answered(image: UInt8Array, answers: Any, number: int, **more: Any) -> Picture:
    """A picture with all K probabilities of each model, for float32 (M, K)."""
    labels = tuple(labels_of(answers).tolist())
    return Picture(image=image, labels=labels, probabilities=answers, identifier=int(number), **more)


def read_shrunk(run: FinishedRun) -> tuple[ShrunkPair, ...]:
    """The pairs that ``diffgen shrink`` found, none when it has not been run."""
    if not run.folder.has_arrays("shrunk"):
        return ()
    arrays = run.folder.read_arrays("shrunk")
    numbers = arrays["numbers"]
    if len(numbers) == 0:
        return ()
    nothing = [None] * len(numbers)
    sides = (
        (arrays["agreeing"], arrays["agreeing_probabilities"], arrays.get("agreeing_marks", nothing)),
        (arrays["triggers"], arrays["trigger_probabilities"], arrays.get("trigger_marks", nothing)),
        (run.triggers.images_of(numbers), run.triggers.answers(numbers, len(run.class_names)), nothing),
    )
    pictures = [
        [
            _answered(image, answers, number, marks=own)
            for image, answers, own, number in zip(*side, numbers, strict=True)
        ]
        for side in sides
    ]
    figures = arrays["difference"].tolist(), arrays["before"].tolist()
    return tuple(ShrunkPair(*each) for each in zip(*pictures, *figures, strict=True))


# -- filters ---------------------------------------------------------------------------------------------------------


def _filters(run: FinishedRun) -> tuple[FilterView, ...]:
    views = []
    for index, each in enumerate(run.results.filters):
        scores = run.triggers.known.scores[run.triggers.confirmed, index]
        views.append(
            FilterView(
                name=each.name,
                description=each.description,
                threshold=each.threshold,
                # without those of triggers that an earlier filter had rejected
                trigger_scores=scores[~np.isnan(scores)],
                real_scores=run.report_arrays["held_out_scores"][:, index],
                rejected=each.rejected,
            )
        )
    return tuple(views)


def _calibration_sentence(results: RunResults) -> str:
    """How the thresholds came out together, or nothing."""
    found = results.calibration
    if found.reached is None:
        return ""
    return (
        f"All filters together reject {percent(found.reached)} of {found.held_out:,} real images that nothing was "
        f"trained on; {found.false_alarm:.1%} were allowed."
    )


def _diversity_sentence(results: RunResults) -> str:
    """How diverse the valid triggers are, beside real images, or nothing."""
    found = results.geometric_diversity
    if not found:
        return ""
    triggers, real = (with_minus(f"{found[of]['mean']:.1f}") for of in ("found", "real"))
    return (
        f"Geometric diversity {triggers}, of real images {real}: the log-determinant that {found['size']} of them span "
        f"in the features of the domain encoder, near-duplicates left out, mean of {found['draws']} draws; higher is "
        "more diverse."
    )


# -- operators and selector ------------------------------------------------------------------------------------------


def read_operators(folder: RunFolder) -> OperatorsView | None:
    """How the models answer as an operator gets stronger, or None: the run has no such curves."""
    if not folder.has_arrays("operators"):
        return None
    stored = OperatorCurves.from_arrays(folder.read_arrays("operators"))
    keys = list(zip(stored.operators.tolist(), stored.names.tolist(), strict=True))
    curves = []
    for key in dict.fromkeys(keys):
        rows = np.array([each == key for each in keys])
        accuracy = () if stored.judged_by == BY_NOBODY else stored.accuracy[rows].T.tolist()
        unit = stored.units[rows][0].decode()
        name = key[1].decode().replace("_", " ")
        curves.append(
            OperatorCurve(
                operator=key[0].decode().replace("_", " "),
                strength=name if unit in ("", name) else f"{unit} {name}" if name in ("right", "down") else unit,
                x=tuple(stored.strengths[rows].tolist()),
                accuracy=tuple(map(tuple, accuracy)),
                disagreement=tuple(stored.disagreement[rows].tolist()),
            )
        )
    return OperatorsView(tuple(curves), stored.images, stored.judged_by, len(keys) * stored.images)


def _selection(run: FinishedRun) -> SelectionView | None:
    """What the selector of a run is worth, or None when none has been trained."""
    if not run.folder.has_arrays("selection"):
        return None
    stored = run.folder.read_arrays("selection")
    ends = np.cumsum([entry["shown"] for entry in stored["about"]["behaviours"]], dtype=np.int64)
    numbers = np.split(stored["shown"], ends[:-1]) if len(ends) else []
    return SelectionView(stored["about"], tuple(map(run.triggers.images_of, numbers)))


# -- the verdict of a check ------------------------------------------------------------------------------------------


def read_gate(
    folder: RunFolder, record: Mapping[str, Any], faults: Faults | None = None, no_jury: str = ""
) -> GateView:
    """The verdict of a check.

    Args:
        record: what results.json says under "check".
        faults, no_jury: and of who is wrong, or why nobody says so.
    """
    rows = _conditions(record)
    failed = {each.name for each in rows if each.status == "FAIL"}
    return GateView(
        run=folder.path.name,
        status=record["status"],
        base=record["base"]["name"],
        candidate=record["candidate"]["name"],
        data_name=record["data"],
        rows=rows,
        behaviours=_behaviours(folder, record["behaviours"]),
        fails_on_behaviours="new_behaviours" in failed,
        fails_on_faults="new_faults" in failed,
        store=record["store"] or "",
        created=folder.manifest["created"],
        version=folder.manifest["version"],
        seconds=record["seconds"],
        cause="" if (cause := read_cause(folder)) is None else cause.verdict,
        verdicts=verdict_sentences(faults, 2) or tuple(filter(None, [nobody_named(no_jury)])),
    )


def _conditions(record: Mapping[str, Any]) -> tuple[ConditionView, ...]:
    """The values that were measured, each with the condition on it, then the conditions without a value."""
    conditions = {each["name"]: each for each in record["conditions"]}
    values = {each["name"]: each for each in record["measured"]}
    unlimited = {"status": "", "limit": "", "sentence": ""}
    rows = []
    for name in dict.fromkeys([*values, *conditions]):
        value, condition = values.get(name, {}), conditions.get(name, unlimited)
        rows.append(
            ConditionView(
                name=name,
                title={**value, **condition}["title"],
                status=condition["status"],
                value=value.get("value", "not measured"),
                interval=value.get("interval", ""),
                limit=condition["limit"],
                sentence=condition["sentence"],
            )
        )
    return tuple(rows)


def _behaviours(folder: RunFolder, entries: list[dict[str, Any]]) -> tuple[GateBehaviour, ...]:
    stored: Mapping[str, Any] = folder.read_arrays("check") if entries else {"images": (), "probabilities": ()}
    if len(stored["images"]) != sum(len(each["triggers"]) for each in entries):
        raise ValueError("its pictures are not as many as it says")
    # as many as there are behaviours, of which a page shows few: each is made whole when it is shown
    kept = stored.get("classes", [None] * len(stored["images"]))
    marks = stored.get("marks", [None] * len(stored["images"]))
    pictures = iter(zip(stored["images"], stored["probabilities"], kept, marks, strict=True))
    made = []
    for each in entries:
        a, b = each["said"]
        shown = [
            Picture(image, (a, b), probabilities, number, classes=classes, marks=own)
            for number, (image, probabilities, classes, own) in zip(each["triggers"], pictures, strict=False)
        ]
        made.append(
            GateBehaviour(
                said=(a, b),
                names=(each["names"][0], each["names"][1]),
                cell=each["cell"],
                count=each["pictures"],
                new=each["new"],
                shift=each["shift"],
                replayed=each["found_by"] == "replay",
                pictures=tuple(shown),
                faults=each["faults"],
            )
        )
    return tuple(made)
