"""A whole search with three real models, from prepared models to results and report."""

from __future__ import annotations

import csv
import re
from pathlib import Path

import numpy as np
import pytest
import torch

from diffgen.cli import replay as replay_verb
from diffgen.cli import table
from diffgen.comparison.plan import Plan
from diffgen.comparison.preflight import prepare_models
from diffgen.comparison.stages import CompareResult, attach_answers
from diffgen.config import Budget, CompareConfig, FilterConfig, to_dict
from diffgen.data import load
from diffgen.events import Progress
from diffgen.labels.sheet import image_id
from diffgen.models import BlackBox
from diffgen.models import load as load_model
from diffgen.report.reading import report_data
from diffgen.runs.folder import RunFolder
from diffgen.runs.results import FinishedRun, read_finished
from diffgen.types import ImageSet
from diffgen.workflows.compare import run_stages
from diffgen.workflows.demo import convolutional_classifier, dense_classifier, train_classifier
from diffgen.workflows.export import columns_of, export
from diffgen.workflows.label import label_export, label_import, read_valid_triggers
from diffgen.workflows.listing import draw_report
from diffgen.workflows.replay import ReplayResult

CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def digits() -> ImageSet:
    return load("digits:test")


@pytest.fixture(scope="module")
def models(digits: ImageSet) -> tuple[BlackBox, ...]:
    training = load("digits:train")
    networks = (
        train_classifier(convolutional_classifier(10), training, seed=0, passes=4),
        train_classifier(dense_classifier(10), training, seed=0, passes=4),
        train_classifier(dense_classifier(10), training, seed=1, passes=2),
    )
    opened = tuple(load_model(network, device="cpu") for network in networks)
    prepare_models(opened, digits)
    return opened


@pytest.fixture(scope="module")
def result(models: tuple[BlackBox, ...], digits: ImageSet, tmp_path_factory: pytest.TempPathFactory) -> CompareResult:
    path = tmp_path_factory.mktemp("three") / "run"
    config = CompareConfig(
        technique="real_data",
        budget=Budget(queries=600),
        seed=1,
        device="cpu",
        batch_size=64,
        filters=FilterConfig(names=("ssim",)),
    )

    def open_folder(settled: CompareConfig) -> RunFolder:
        manifest = {
            "version": "0",
            "created": "2026-11-22T00:00:00+00:00",
            "command": "a test",
            "files": {role: {"name": f"{role}.pt", "path": None, "sha256": None} for role in "ABC"},
            "data": {"source": digits.source, "path": digits.source, "sha256": digits.digest},
        }
        folder = RunFolder.create(path, config=to_dict(settled), manifest=manifest, force=False)
        attach_answers(models, folder)
        return folder

    return run_stages(Plan(models, digits, config, CPU, Progress(), open_folder))


def test_every_answer_and_every_behaviour_is_of_three(result: CompareResult, models: tuple[BlackBox, ...]) -> None:
    triggers = RunFolder.open(result.run).read_judged()
    assert len(triggers) == result.triggers > 10
    assert triggers.probabilities.shape[1] == triggers.labels.shape[1] == 3
    assert all(len(set(row)) > 1 for row in triggers.labels.tolist())
    # the third one is not decoration: some pictures trigger only because of it
    assert (triggers.labels[:, 0] == triggers.labels[:, 1]).any()
    again = np.stack([model.predict(triggers.images).argmax(axis=1) for model in models], axis=1)
    assert np.array_equal(again, triggers.labels)
    found = triggers[triggers.distinct]
    assert found.behaviours.shape == (result.distinct_valid_triggers, 4)
    assert result.behaviours == len(np.unique(found.behaviours, axis=0))
    assert result.label_pairs == len({tuple(row) for row in found.labels.tolist()})
    assert all(len(each) == 4 for each in result.most_frequent)


def test_where_they_come_from(result: CompareResult, digits: ImageSet) -> None:
    triggers = RunFolder.open(result.run).read_judged()
    assert digits.labels is not None
    for row in range(len(triggers)):
        origin = triggers.origin(row)
        assert origin.source == "real image"
        assert origin.seed is not None and origin.seed_label == digits.labels[origin.seed]
        assert origin.generation == triggers.generation[row]


def test_results_and_report(result: CompareResult) -> None:
    data = report_data(FinishedRun.open(result.run))
    assert data.models == "A, B and C"
    assert data.preflight.accuracy is not None and len(data.preflight.accuracy) == len(data.preflight.outputs) == 3
    assert sum(group.count for group in data.groups) == data.headline_count == data.pairs.total
    assert all(len(picture.labels) == 3 for group in data.groups for picture in group.pictures)
    page = (Path(result.run) / "report.html").read_text(encoding="utf-8")
    assert draw_report(result.run).read_text(encoding="utf-8") == page
    picture = data.groups[0].pictures[0]
    said = ", ".join(
        f"{role} says {label} ({picture.probabilities[index, label]:.0%}"
        for index, (role, label) in enumerate(zip("ABC", picture.labels, strict=True))
    )
    assert said.split(" (")[0] in page
    assert f"C says {picture.labels[2]}" in page
    assert picture.origin.startswith("made from real image ") and picture.origin in page
    name = f"trigger-{picture.identifier:06d}-A{picture.labels[0]}-B{picture.labels[1]}-C{picture.labels[2]}.png"
    assert (Path(result.run) / "images" / name).is_file()
    assert "- C: C.pt" in (Path(result.run) / "summary.md").read_text(encoding="utf-8")


def test_on_the_screen(result: CompareResult, capsys: pytest.CaptureFixture[str]) -> None:
    """A run of three models that Python made may be gone on with, and replayed, from the command line."""
    table.print_result(result)
    said = capsys.readouterr().out
    first = ", ".join(f"{role} says {label}" for role, label in zip("ABC", result.most_frequent[0], strict=False))
    assert "most frequent" in said and f"{first}: " in said
    faults = {"C": (3, 1), "B": (0, 0), "A": (0, 0), "several": (2, 2), "all": (1, 0)}
    replay_verb.print_result(ReplayResult("run", 9, 8, 7, (4,), (("4", "9", "4"),), faults))
    said = capsys.readouterr().out
    assert "C is wrong where all others are right on 1; it was 3." in said
    assert "several, but not all, are wrong on 2; it was 2." in said and "all are wrong on 0" in said
    assert "trigger 4: A 4, B 9, C 4" in said


def test_export(result: CompareResult, tmp_path: Path) -> None:
    exported = export(result.run, tmp_path / "out", everything=True)
    with (Path(exported.folder) / "triggers.csv").open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    triggers = RunFolder.open(result.run).read_judged()
    labels = triggers.labels[triggers.confirmed]
    assert [[int(row[f"label_{role}"]) for role in "abc"] for row in rows] == labels.tolist()
    assert all(row["recipe"] and int(row["seed_label"]) >= 0 for row in rows)
    assert list(columns_of([], ["ssim"], models=3)) == list(rows[0]), (
        "where nothing was found, the columns are the same"
    )


def test_what_only_many_models_have(result: CompareResult) -> None:
    """The figures of many models, counted again by hand out of the run's own table."""
    folder = RunFolder.open(result.run)
    found = read_finished(folder).many
    assert found is not None and found == result.many
    triggers = folder.read_judged()
    for index, role in enumerate("ABC"):
        alone = {"pictures": 0, "wrong": 0, "right": 0}
        for row in range(len(triggers)):
            own, *others = (triggers.labels[row, each] for each in (index, *(i for i in range(3) if i != index)))
            if len(set(others)) > 1 or own == others[0]:
                continue
            alone["pictures"] += int(triggers.distinct[row])
            if triggers.recognised_distinct[row]:
                assert triggers.known.named is not None
                alone["wrong"] += int(triggers.known.named[row] == others[0])
                alone["right"] += int(triggers.known.named[row] == own)
        assert alone == {name: getattr(found.alone[role], name) for name in alone}
    labels = triggers.labels[triggers.distinct]
    assert found.found == tuple(
        tuple(int((labels[:, one] != labels[:, other]).sum()) for other in range(3)) for one in range(3)
    )
    assert found.majority == sum(len(set(row)) == 2 for row in labels.tolist())


def test_the_page_has_a_row_a_model_and_sides(result: CompareResult) -> None:
    page = (Path(result.run) / "report.html").read_text(encoding="utf-8")
    summary = (Path(result.run) / "summary.md").read_text(encoding="utf-8")
    assert 'id="models"' in page and 'id="sides"' in page and 'id="filter"' not in page
    assert result.many is not None
    assert f"A and C differ on {result.many.found[0][2]:,}" in page
    assert f"| C | {result.many.found[2][0]:,} | {result.many.found[2][1]:,} |  |" in summary
    labels = {tuple(map(int, each.split("-"))) for each in re.findall(r'data-labels="([0-9-]+)"', page)}
    assert labels and all(len(each) == 3 and len(set(each)) > 1 for each in labels)


def test_labels_are_of_three(result: CompareResult, tmp_path: Path) -> None:
    sheet = label_export(result.run, tmp_path / "sheet")
    rows = list(csv.reader((Path(sheet.folder) / "labels.csv").read_text(encoding="utf-8").splitlines()))
    assert len(rows) == sheet.pictures + 1
    column = rows[0].index("label")
    for row in rows[1:]:
        row[column] = "3"
    filled = tmp_path / "filled.csv"
    filled.write_text("".join(",".join(row) + "\n" for row in rows), encoding="utf-8")
    outcomes = label_import(result.run, [filled], force=True).outcomes
    finds = read_valid_triggers(RunFolder.open(result.run))
    ids = {row[rows[0].index("id")] for row in rows[1:]}
    chosen = np.array([image_id(digest) in ids for digest in finds.hashes])
    right = finds.labels[chosen] == 3
    assert outcomes == {
        **{f"{role} right": int(right[:, index].sum()) for index, role in enumerate("ABC")},
        "all wrong": int((~right.any(axis=1)).sum()),
        "invalid": 0,
    }
