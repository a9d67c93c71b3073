"""Nets of 10,000 outputs on digits: nothing grows with the square of the classes, and the files stay small."""

from __future__ import annotations

import csv
import json
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from lxml import etree

from diffgen.comparison.stages import CompareResult
from diffgen.config import Budget, CheckConfig, CompareConfig, FilterConfig, Limits, ModelSpec, Preprocessing
from diffgen.data import load
from diffgen.errors import UserError
from diffgen.events import Event, StopToken, TriggersFound
from diffgen.report.reading import report_data
from diffgen.runs.folder import RunFolder
from diffgen.runs.results import FinishedRun, read_finished
from diffgen.runs.triggers import TriggerTable
from diffgen.tasks.kept_answers import kept_count
from diffgen.types import ImageSet
from diffgen.workflows.accept import accept
from diffgen.workflows.check import check
from diffgen.workflows.compare import compare
from diffgen.workflows.export import export
from diffgen.workflows.listing import draw_report
from diffgen.workflows.replay import replay
from diffgen.workflows.resume import resume
from tests.workflows.nets_of_kinds import make_nets

CLASSES, KINDS = 10_000, 1_000
FEW = Budget(queries=200)
NAMES = tuple(f"kind {number % KINDS} of digit {number // KINDS}" for number in range(CLASSES))
SMALL = CompareConfig(
    budget=Budget(queries=1_500),
    device="cpu",
    filters=FilterConfig(names=("ssim",), filters={"reconstruction": {"training_steps": 80}}),
)


@pytest.fixture(scope="module")
def nets(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Two files, of 10,000 outputs and of 10,001, and one of names for both."""
    folder = tmp_path_factory.mktemp("nets")
    a, b = make_nets(folder, CLASSES)
    (folder / "names.txt").write_text("\n".join(("background", *NAMES)), encoding="utf-8")
    return {"a": a, "b": b, "names": folder / "names.txt"}


def specs(nets: dict[str, Path]) -> tuple[ModelSpec, ModelSpec]:
    return (ModelSpec(class_names_file=str(nets["names"])),) * 2


@pytest.fixture(scope="module")
def finished(nets: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> tuple[CompareResult, list[str]]:
    """A comparison on digits whose ten labels the nets do not know, and what was said; not to be changed."""
    said: list[str] = []

    def hear(event: Event) -> None:
        said.append(getattr(event, "text", ""))

    run = tmp_path_factory.mktemp("runs") / "many"
    config = replace(SMALL, models=specs(nets))
    return compare(nets["a"], nets["b"], data="digits:test", config=config, output=run, events=hear), said


def test_a_run_of_ten_thousand_classes(finished: tuple[CompareResult, list[str]], nets: dict[str, Path]) -> None:
    result, said = finished
    run = RunFolder.open(result.run)
    assert result.triggers > 50 and result.label_pairs > 20
    # what was found out, and said
    text = " ".join(said)
    assert "The labels of digits:test are not used" in text and "nobody can be named wrong" in text
    results = read_finished(run)
    assert len(results.class_names) == CLASSES and results.class_names == NAMES
    assert results.jury is None and result.faults is None and results.preflight.accuracy is None
    assert "the data's labels are not the models' classes" in result.no_jury == results.no_jury
    assert any("answers with 10,001 values; the first one" in each for each in results.preflight.warnings)
    settings = run.config()["models"]
    assert [each["preprocessing"]["background"] for each in settings] == ["none", "first"]
    # the figures are those of plain counting
    triggers = run.read_judged()
    distinct = triggers[triggers.distinct]
    pairs = {tuple(row) for row in distinct.labels.tolist()}
    assert result.label_pairs == len(pairs) == len(results.pair_counts)
    assert results.pair_counts.total == result.distinct_valid_triggers == len(distinct)
    assert result.behaviours == len({tuple(row) for row in distinct.behaviours.tolist()})
    assert all(a in NAMES and b in NAMES for a, b, _ in result.most_frequent)


def test_what_it_keeps_is_small_and_true(finished: tuple[CompareResult, list[str]], nets: dict[str, Path]) -> None:
    result, _ = finished
    run = Path(result.run)
    triggers = RunFolder.open(run).read_judged()
    assert triggers.probabilities.shape == (len(triggers), 2, kept_count(2, CLASSES))
    size = sum(each.stat().st_size for each in (run / "triggers").iterdir())
    assert size < 3_000 * len(triggers)  # all probabilities would be 80,000 bytes each
    assert (run / "results.json").stat().st_size < 1_500_000
    from diffgen.models import load as load_model

    answers = []
    for name, background in (("a", "none"), ("b", "first")):
        model = load_model(nets[name], preprocessing=Preprocessing(background=background))
        model.prepare(triggers.images[:16])
        answers.append(model.predict(triggers.images))
    whole = np.stack(answers, axis=1)
    assert np.array_equal(whole.argmax(axis=2), triggers.labels)
    assert triggers.classes is not None
    kept = np.take_along_axis(whole, triggers.classes[:, None], axis=2)
    np.testing.assert_allclose(triggers.probabilities, kept, atol=1e-5)
    shift = np.abs(whole[:, 0] - whole[:, 1]).max(axis=1)
    np.testing.assert_allclose(np.ptp(triggers.probabilities, axis=1).max(axis=1), shift, atol=1e-5)


def test_the_page_is_small_and_names_classes(finished: tuple[CompareResult, list[str]]) -> None:
    result, _ = finished
    started = time.process_time()
    page = draw_report(result.run).read_text(encoding="utf-8")
    assert time.process_time() - started < 20
    assert len(page) < 4_000_000
    assert 'type="search"' in page and 'class="heat' not in page
    assert page.count("kind 17 of digit") < 500  # the names of classes that occur, not of all
    a, b, count = result.most_frequent[0]
    assert f"<td><bdi>{a}</bdi></td><td><bdi>{b}</bdi></td>" in page and count >= 1
    assert "Nobody could be named wrong" in page
    assert "other classes" in page and "(10,000 in all)" in page
    picture = report_data(FinishedRun.open(result.run)).groups[0].pictures[0]
    assert picture.classes is not None and len(picture.classes) == picture.probabilities.shape[1]


def test_everything_that_reads_a_run_reads_it(
    finished: tuple[CompareResult, list[str]], nets: dict[str, Path], tmp_path: Path
) -> None:
    result, _ = finished
    assert resume(result.run).behaviours == result.behaviours
    again = replay(result.run)
    assert (again.replayed, again.same_labels) == (result.triggers, result.triggers)
    written = export(result.run, tmp_path / "out")
    assert written.pictures == result.valid_triggers
    with (tmp_path / "out" / "triggers.csv").open(newline="", encoding="utf-8") as file:
        row = next(csv.DictReader(file))
    assert float(row["probability_a"]) > 0 and row["name_a"] in NAMES


@pytest.mark.slow
def test_a_run_that_was_stopped_ends_as_it_would_have(
    finished: tuple[CompareResult, list[str]], nets: dict[str, Path], tmp_path: Path
) -> None:
    """Nothing is guessed again: which value is left out, and that the labels are not used, are settings of the run."""
    stop = StopToken()

    def hear(event: Event) -> None:
        if isinstance(event, TriggersFound) and event.queries > 500:
            stop.stop()

    config = replace(SMALL, models=specs(nets))
    broken = compare(
        nets["a"], nets["b"], data="digits:test", config=config, output=tmp_path / "run", events=hear, stop=stop
    )
    assert broken.interrupted and broken.queries < SMALL.budget.queries
    said: list[str] = []
    result = resume(broken.run, events=lambda event: said.append(getattr(event, "text", "")))
    whole = RunFolder.open(finished[0].run)
    one, other = (RunFolder.open(result.run).read_judged(), whole.read_judged())
    assert np.array_equal(one.hashes, other.hashes) and np.array_equal(one.probabilities, other.probabilities)
    assert np.array_equal(one.known.near_duplicate_of, other.known.near_duplicate_of)
    assert read_finished(RunFolder.open(result.run)).preflight == read_finished(whole).preflight
    assert not any("is taken for the background" in text for text in said)


def test_a_check_without_labels(nets: dict[str, Path], tmp_path: Path) -> None:
    settings = replace(SMALL, models=specs(nets), data_labels="ignore", budget=FEW)
    config = CheckConfig(limits=Limits(max_new_behaviours=0), random_images=100, compare=settings)
    said: list[str] = []
    result = check(
        nets["a"],
        nets["b"],
        data="digits:test",
        config=config,
        output=tmp_path / "run",
        events=lambda event: said.append(getattr(event, "text", "")),
    )
    values = result.values
    assert (
        values["accuracy_drop"] is None and values["class_accuracy_drop"] is None and values["variation_drop"] is None
    )
    assert 0 < values["top5_flips_real"].count < values["disagreement_real"].count
    record = json.loads((tmp_path / "run" / "results.json").read_text(encoding="utf-8"))["check"]
    assert record["values"]["top5_flips_real"]["count"] == values["top5_flips_real"].count
    assert record["values"]["accuracy_drop"] is None
    summary = (tmp_path / "run" / "summary.md").read_text(encoding="utf-8")
    assert "Nobody could be named wrong" in summary and "no limit on accuracy applies" in summary
    page = (tmp_path / "run" / "report.html").read_text(encoding="utf-8")
    assert "label outside the other&#39;s top five" in page or "label outside the other's top five" in page
    properties = etree.parse(tmp_path / "run" / "junit.xml").findall(".//property")
    assert any("top five" in each.get("name") for each in properties)
    assert values.new and all(each.said[0] < CLASSES for each in values.new)
    # what it found becomes known, and is replayed
    store = tmp_path / "store"
    accept(result.run, store)
    again = check(nets["a"], nets["b"], data="digits:test", store=store, config=config, output=tmp_path / "again")
    assert again.values.replay.pictures == again.values.replay.still > 0
    assert len(again.values.new) == 0


def test_a_limit_on_accuracy_needs_labels_that_the_models_know(nets: dict[str, Path], tmp_path: Path) -> None:
    config = CheckConfig(limits=Limits(max_accuracy_drop=0.01), compare=replace(SMALL, models=specs(nets)))
    with pytest.raises(
        UserError, match="--max-accuracy-drop needs labels, and those of the data digits:test are not used"
    ):
        check(nets["a"], nets["b"], data="digits:test", config=config, output=tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_labels_that_they_know_are_used(nets: dict[str, Path], tmp_path: Path) -> None:
    from diffgen.models import load as load_model

    data = load("digits:test")
    model = load_model(nets["a"])
    model.prepare(data.images)
    named = ImageSet(data.images, model.predict(data.images).argmax(axis=1), None, "digits by kind")
    config = CheckConfig(random_images=100, variations=0, compare=replace(SMALL, models=specs(nets), budget=FEW))
    result = check(nets["a"], nets["b"], data=named, config=config, output=tmp_path / "run")
    assert result.values["accuracy_drop"].base_right == len(data)
    assert result.values["class_accuracy_drop"].name in NAMES


def test_a_table_of_a_million_rows_has_room() -> None:
    """100,000 triggers of two models with 10,000 classes: 8 GB of probabilities, of which 40 MB are kept."""
    rows, width = 100_000, kept_count(2, CLASSES)
    assert rows * width * (4 * 2 + 8) < 60 * 2**20
    empty = TriggerTable.empty((1, 2, 2), 2, CLASSES)
    assert empty.labels.shape == (0, 2)
