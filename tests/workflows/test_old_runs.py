"""Run folders that older versions wrote stay readable: tests/assets."""

from __future__ import annotations

import csv
import shutil
from pathlib import Path

import numpy as np
import pytest

from diffgen.report.reading.run import report_data
from diffgen.runs.folder import RunFolder
from diffgen.workflows.export import export
from diffgen.workflows.replay import replay
from diffgen.workflows.report import draw_report
from diffgen.workflows.resume import resume

ASSETS = Path(__file__).resolve().parent.parent / "assets"
UNFINISHED = "run-0.1.0-unfinished"
OLD_RUNS = sorted(path.name for path in ASSETS.iterdir() if path.is_dir() and path.name != UNFINISHED)


@pytest.fixture(params=OLD_RUNS)
def old_run(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    return Path(shutil.copytree(ASSETS / request.param, tmp_path / request.param))


def test_there_are_some_and_they_are_small() -> None:
    assert "run-0.1.0" in OLD_RUNS
    for name in (*OLD_RUNS, UNFINISHED):
        assert sum(file.stat().st_size for file in (ASSETS / name).rglob("*")) < 300_000


def test_a_search_that_was_killed_is_resumed(tmp_path: Path) -> None:
    run = Path(shutil.copytree(ASSETS / UNFINISHED, tmp_path / "run"))
    before = RunFolder.open(run)
    found = before.read_triggers()
    assert before.manifest["schema_version"] == 1
    assert before.manifest["status"] == "running"
    # its GAN is trained again where it is not in the cache, which elsewhere may draw slightly other pictures
    result = resume(run, ASSETS / "a.onnx", ASSETS / "b.onnx")
    assert result.queries == 300
    assert result.triggers > len(found) > 0
    after = RunFolder.open(run)
    assert after.manifest["status"] == "done"
    table = after.read_judged()
    assert np.array_equal(table.images[: len(found)], found.images)
    assert np.array_equal(table.genes[: len(found)], found.genes)
    assert np.array_equal(table.query[: len(found)], found.query)
    assert table.generation.max() > found.generation.max()


def test_report(old_run: Path) -> None:
    results = RunFolder.open(old_run).results()
    page = draw_report(old_run).read_text(encoding="utf-8")
    assert f"{results['valid_triggers']:,}" in page
    assert len(list((old_run / "images").glob("trigger-*.png"))) > 0
    assert "Most frequent label pairs" in (old_run / "summary.md").read_text(encoding="utf-8")


def test_behaviours_are_counted_anew(old_run: Path) -> None:
    """Earlier versions took a near-duplicate beyond the border of a cell for a behaviour of its own."""
    folder = RunFolder.open(old_run)
    verdicts, triggers, stored = folder.read_arrays("verdicts"), folder.read_triggers(), folder.results()
    labels = triggers.labels.tolist()
    repeats = verdicts.get("near_duplicate_of", np.arange(len(labels))).tolist()
    behaviours = {(*labels[row], int(verdicts["cells"][row])) for row, first in enumerate(repeats) if row == first}
    data = report_data(folder)
    assert data.results.behaviours == len(behaviours) == data.results.history["behaviours"][-1]
    assert (
        data.results.behaviours
        <= data.headline_count
        == data.pairs.total
        == sum(row == i for i, row in enumerate(repeats))
    )
    assert sum(group.count for group in data.groups) == data.headline_count
    assert (data.results.behaviours < stored["behaviours"]) == ("near_duplicate_of" in verdicts)
    assert data.results.behaviours_at_least >= data.results.behaviours
    assert data.results.discovery is not None and data.results.discovery.queries == stored["queries"] / 5


def test_replay(old_run: Path) -> None:
    """Every trigger still triggers, from the arrays and, once they are drawn again, from the pictures."""
    draw_report(old_run)
    models = ASSETS / "a.onnx", ASSETS / "b.onnx"
    for images_only in (False, True):
        result = replay(old_run, *models, images_only=images_only)
        assert result.reproduced == result.same_labels == result.replayed > 0
    assert replay(old_run, *models).replayed == RunFolder.open(old_run).results()["triggers"]


def test_a_class_called_background_is_one_of_those_of_the_run(old_run: Path) -> None:
    """Versions without --background left no value out, whatever the classes were called."""
    names = ", ".join(f'"{name}"' for name in ("background", *range(1, 10)))
    settings = (old_run / "config.toml").read_text(encoding="utf-8")
    assert "class_names = []" in settings
    changed = settings.replace("class_names = []", f"class_names = [{names}]")
    (old_run / "config.toml").write_text(changed, encoding="utf-8")
    result = replay(old_run, ASSETS / "a.onnx", ASSETS / "b.onnx")
    assert result.same_labels == result.replayed > 0


def test_export(old_run: Path, tmp_path: Path) -> None:
    result = export(old_run, tmp_path / "out", everything=True)
    assert result.pictures == RunFolder.open(old_run).results()["triggers"]
    with (tmp_path / "out" / "triggers.csv").open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert all((tmp_path / "out" / row["file"]).is_file() for row in rows)
    assert len(rows) == result.pictures
