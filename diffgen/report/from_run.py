"""Writes the report of a run from what is in its folder; needs neither models nor data."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from diffgen.metrics.counting import ACCEPTED
from diffgen.metrics.richness import Discovery
from diffgen.report.data import (
    BehaviourGroup,
    ConditionView,
    FilterView,
    GateBehaviour,
    GateView,
    Picture,
    Preflight,
    ReportData,
    SelectionView,
    ShrunkPair,
    TrustView,
    VerdictData,
)
from diffgen.report.gate import render_gate_markdown
from diffgen.report.html import render_html, render_verdict
from diffgen.report.junit import render_junit
from diffgen.report.markdown import render_markdown
from diffgen.report.origins import origin_sentence
from diffgen.runs.files import write_text
from diffgen.runs.folder import RunFolder
from diffgen.runs.pictures import picture_name, write_png
from diffgen.runs.results import brought_up_to_date
from diffgen.runs.triggers import TriggerTable
from diffgen.tasks.classification import labels_of
from diffgen.types import UInt8Array

_ACCEPTED_SHOWN = 24


def write_report(folder: RunFolder, triggers: TriggerTable | None = None) -> Path:
    """Write report.html, summary.md and images/; of a check that did not come to its end what is known of it.

    Args:
        folder: of a run that came to its end.
        triggers: its triggers with verdicts where they are in memory, or None: they are read.
    """
    page = folder.file("report.html")
    results = folder.results()
    if "check" in results and "queries" not in results:
        return _write_verdict(folder, results, page)
    data = report_data(folder, triggers)
    if data.gate is None:
        write_text(folder.file("summary.md"), render_markdown(data))
    else:
        _write_gate(folder, data.gate)
    write_text(page, render_html(data))
    folder.make_folder("images")
    for group in data.groups:
        for picture in group.pictures:
            name = picture_name(picture.identifier, group.labels)
            write_png(folder.file("images", name), picture.image)
    return page


def _write_verdict(folder: RunFolder, results: dict[str, Any], page: Path) -> Path:
    """The report of a check whose search did not come to its end."""
    view, manifest = _gate(folder, results), folder.manifest
    assert view is not None
    files = _models(manifest)
    _write_gate(folder, view)
    data = VerdictData(
        run=folder.path.name,
        created=manifest["created"],
        version=manifest["version"],
        command=manifest["command"],
        model_names=tuple(each["name"] for each in files.values()),
        data_name=manifest["data"]["source"],
        problem=results["check"]["values"]["search"]["problem"],
        class_names=tuple(results.get("class_names", ())),
        triggers=sum(part["rows"] for part in manifest["parts"]),
        preflight=_preflight(results["preflight"]) if "preflight" in results else None,
        real_disagreement_count=results.get("real_disagreements", 0),
        settings=folder.config(),
        files=_files(files, manifest["data"]),
        gate=view,
    )
    write_text(page, render_verdict(data))
    return page


def _write_gate(folder: RunFolder, view: GateView) -> None:
    write_text(folder.file("summary.md"), render_gate_markdown(view))
    write_text(folder.file("junit.xml"), render_junit(view))


def report_data(folder: RunFolder, triggers: TriggerTable | None = None) -> ReportData:
    """Everything that the report shows; arguments as for :func:`write_report`."""
    config, manifest, arrays = folder.config(), folder.manifest, folder.read_arrays("report")
    triggers = folder.read_judged() if triggers is None else triggers
    results, verdicts = brought_up_to_date(folder.results(), triggers), triggers.known
    names = tuple(each["name"] for each in results["filters"])
    class_names = tuple(str(name) for name in results["class_names"])
    drawn_by = "your generator" if config.get("generator", {}).get("file") else "the GAN"
    scores_of = dict(enumerate(verdicts.scores))
    # of what is shown, every filter was asked, also those after the one that rejected it
    numbers = [*arrays["shown"].tolist(), *arrays["rejected"].tolist()]
    scores_of.update(zip(numbers, arrays.get("shown_scores", ()), strict=False))

    images = dict(zip(numbers, triggers.images_of(np.asarray(numbers, dtype=np.int64)), strict=True))

    def picture(number: int, nearest: UInt8Array | None) -> Picture:
        scores = {
            name: float(score) for name, score in zip(names, scores_of[number], strict=True) if not np.isnan(score)
        }
        rejected_by = int(verdicts.rejected_by[number])
        return Picture(
            image=images[number],
            labels=tuple(triggers.labels[number].tolist()),
            probabilities=triggers.probabilities[number],
            identifier=number,
            scores={**scores, "divergence": float(triggers.divergence[number])},
            rejected_by=None if rejected_by == ACCEPTED else names[rejected_by],
            nearest_real=nearest,
            origin=origin_sentence(triggers.origin(number), class_names, drawn_by),
        )

    nearest = arrays["nearest_real"]
    shown, rejected = arrays["shown"].tolist(), arrays["rejected"].tolist()
    neighbours = [nearest[i] if i < len(nearest) else None for i in range(len(shown) + len(rejected))]
    gallery = [picture(number, image) for number, image in zip(shown, neighbours[: len(shown)], strict=True)]
    accepted = [gallery[i] for i in np.linspace(0, len(gallery) - 1, min(len(gallery), _ACCEPTED_SHOWN)).astype(int)]
    validity = results.get("validity")
    files = _models(manifest)
    return ReportData(
        run=folder.path.name,
        created=manifest["created"],
        version=manifest["version"],
        command=manifest["command"],
        model_names=tuple(each["name"] for each in files.values()),
        data_name=manifest["data"]["source"],
        class_names=class_names,
        technique=config["technique"],
        preset=config["preset"],
        triggers=results["triggers"],
        valid_triggers=results["valid_triggers"],
        behaviours=results["behaviours"],
        label_pairs=results["label_pairs"],
        queries=results["queries"],
        seconds=results["seconds"],
        interrupted=results["interrupted"],
        verified_single=results["verified_single"],
        verified_batch=results["verified_batch"],
        unconfirmed=results["unconfirmed"],
        preflight=_preflight(results["preflight"]),
        matrix=np.asarray(results["pair_counts"], dtype=np.int64),
        real_matrix=np.asarray(results["real_matrix"], dtype=np.int64),
        groups=_groups(gallery, triggers),
        rejected=tuple(
            picture(number, image) for number, image in zip(rejected, neighbours[len(shown) :], strict=True)
        ),
        real_disagreements=_real_pictures(arrays),
        history=results["history"],
        filters=tuple(
            FilterView(
                name=each["name"],
                description=each["description"],
                threshold=each["threshold"],
                trigger_scores=_asked(verdicts.scores[triggers.confirmed, index]),
                real_scores=arrays["held_out_scores"][:, index],
                rejected=each["rejected"],
            )
            for index, each in enumerate(results["filters"])
        ),
        accepted=tuple(accepted),
        distinct=results.get("distinct_valid_triggers"),
        validity=None if validity is None else validity["ratio"],
        effective=(results["effective_label_pairs"], results["effective_behaviours"]),
        diversity=_diversity(results),
        filter_warnings=tuple(results.get("warnings", ())),
        calibration=_calibration(results),
        shrunk=_shrunk(folder, triggers) if folder.has_arrays("shrunk") else (),
        samples=arrays["samples"],
        behaviours_at_least=results["behaviours_at_least"],
        discovery=Discovery(results["discovery"]["queries"], results["discovery"]["new_behaviours"]),
        # runs of earlier versions have neither
        saturated=results.get("saturated", False),
        mutated=results.get("mutated", False),
        gan=results["gan"],
        settings=config,
        files=_files(files, manifest["data"]),
        selection=_selection(folder, triggers),
        gate=_gate(folder, results),
    )


def _preflight(found: dict[str, Any]) -> Preflight:
    return Preflight(
        images=found["images"],
        agreement=found["agreement"],
        accuracy=None if found["accuracy"] is None else tuple(found["accuracy"]),
        outputs=tuple(found["outputs"]),
        numeric_noise=found["numeric_noise"],
        margin=found["margin"],
        warnings=tuple(found["warnings"]),
    )


def _models(manifest: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """What the manifest says of each model, A first."""
    return {role: manifest["files"][role] for role in sorted(manifest["files"])}


def _files(models: dict[str, dict[str, Any]], data: dict[str, Any]) -> dict[str, dict[str, str]]:
    return {**{f"model {role}": _file_facts(entry) for role, entry in models.items()}, "data": _file_facts(data)}


def _gate(folder: RunFolder, results: dict[str, Any]) -> GateView | None:
    """The verdict of a check, or None when the run is none."""
    record = results.get("check")
    if record is None:
        return None
    conditions = {each["name"]: each for each in record["conditions"]}
    values = {each["name"]: each for each in record["measured"]}
    rows = tuple(
        ConditionView(
            name=name,
            title=values[name]["title"] if name in values else name.replace("_", " "),
            status=conditions[name]["status"] if name in conditions else "",
            value=values[name]["value"] if name in values else "not measured",
            interval=values[name]["interval"] if name in values else "",
            limit=conditions[name]["limit"] if name in conditions else "",
            sentence=conditions[name]["sentence"] if name in conditions else "",
        )
        for name in dict.fromkeys([*values, *conditions])
    )
    return GateView(
        run=folder.path.name,
        status=record["status"],
        base=record["base"]["name"],
        candidate=record["candidate"]["name"],
        data_name=record["data"],
        rows=rows,
        behaviours=_gate_behaviours(folder, record["behaviours"]),
        fails_on_behaviours=conditions.get("new_behaviours", {}).get("status") == "FAIL",
        store=record["store"] or "",
        created=folder.manifest["created"],
        version=folder.manifest["version"],
        seconds=record["seconds"],
    )


def _gate_behaviours(folder: RunFolder, entries: list[dict[str, Any]]) -> tuple[GateBehaviour, ...]:
    stored = folder.read_arrays("check") if entries else {"images": (), "probabilities": ()}
    pictures = iter(zip(stored["images"], stored["probabilities"], strict=True))
    made = []
    for each in entries:
        a, b = each["said"]
        shown = []
        for number in each["triggers"]:
            image, probabilities = next(pictures)
            shown.append(Picture(image=image, labels=(a, b), probabilities=probabilities, identifier=number))
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
            )
        )
    return tuple(made)


def _selection(folder: RunFolder, triggers: TriggerTable) -> SelectionView | None:
    """What ``select`` wrote, or None when it has not been run."""
    if not folder.has_arrays("selection"):
        return None
    stored = folder.read_arrays("selection")
    about, shown = stored["about"], stored["shown"].tolist()
    behaviours = []
    for entry in about["behaviours"]:
        count = entry.pop("shown")
        behaviours.append(TrustView(**entry, images=triggers.images_of(np.asarray(shown[:count], dtype=np.int64))))
        shown = shown[count:]
    return SelectionView(
        features=about["features"],
        examples=about["examples"],
        both_wrong=about["both_wrong"],
        sources=about["sources"],
        on_triggers=tuple(about["on_triggers"]),
        real=tuple(about["real"]),
        cost=about["cost"],
        behaviours=tuple(behaviours),
    )


def _shrunk(folder: RunFolder, triggers: TriggerTable) -> tuple[ShrunkPair, ...]:
    arrays = folder.read_arrays("shrunk")

    def pictures(images: np.ndarray[Any, Any], probabilities: np.ndarray[Any, Any]) -> list[Picture]:
        return [
            Picture(
                image=image,
                labels=tuple(labels_of(answers).tolist()),
                probabilities=answers,
                identifier=int(number),
            )
            for image, answers, number in zip(images, probabilities, arrays["numbers"], strict=True)
        ]

    numbers = arrays["numbers"]
    if len(numbers) == 0:
        return ()
    return tuple(
        ShrunkPair(*each)
        for each in zip(
            pictures(arrays["agreeing"], arrays["agreeing_probabilities"]),
            pictures(arrays["triggers"], arrays["trigger_probabilities"]),
            pictures(triggers.images_of(numbers), triggers.probabilities[numbers]),
            arrays["difference"].tolist(),
            arrays["before"].tolist(),
            strict=True,
        )
    )


def _calibration(results: dict[str, Any]) -> str:
    found = results.get("calibration")
    if not found or not results["filters"]:
        return ""
    return (
        f"All filters together reject {found['reached']:.1%} of {found['held_out']:,} real images that nothing was "
        f"trained on; {found['false_alarm']:.1%} were allowed."
    )


def _diversity(results: dict[str, Any]) -> str:
    found = results.get("geometric_diversity")
    if not found:
        return ""
    triggers, real = (f"{found[of]['mean']:.1f}".replace("-", "\N{MINUS SIGN}") for of in ("found", "real"))
    return (
        f"Geometric diversity {triggers}, of real images {real}: the log-determinant that {found['size']} of them span "
        f"in the features of the domain encoder, near-duplicates left out, mean of {found['draws']} draws; higher is "
        "more diverse."
    )


def _groups(gallery: list[Picture], triggers: TriggerTable) -> tuple[BehaviourGroup, ...]:
    """The gallery by behaviour, in the order in which the pictures were chosen (most frequent behaviour first)."""
    behaviours = triggers.behaviours
    unique, counts = np.unique(behaviours[triggers.distinct], axis=0, return_counts=True)
    count_of = dict(zip(map(tuple, unique.tolist()), counts.tolist(), strict=True))
    members: dict[tuple[int, ...], list[Picture]] = {}
    for each in gallery:
        members.setdefault(tuple(behaviours[each.identifier].tolist()), []).append(each)
    return tuple(
        BehaviourGroup(labels=key[:-1], cell=key[-1], count=count_of[key], pictures=tuple(pictures))
        for key, pictures in members.items()
    )


def _real_pictures(arrays: dict[str, Any]) -> tuple[Picture, ...]:
    return tuple(
        Picture(
            image=image,
            labels=tuple(labels_of(probabilities).tolist()),
            probabilities=probabilities,
            identifier=int(row),
            true_label=None if label < 0 else int(label),
        )
        for image, probabilities, row, label in zip(
            arrays["real_images"], arrays["real_probabilities"], arrays["real_rows"], arrays["real_labels"], strict=True
        )
    )


def _asked(scores: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Without those of triggers that an earlier filter had rejected."""
    return scores[~np.isnan(scores)]


def _file_facts(entry: dict[str, Any]) -> dict[str, str]:
    return {"path": str(entry.get("path") or "in memory"), "sha256": str(entry.get("sha256") or "none")}
