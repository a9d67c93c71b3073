"""Pictures and tables as plain files, and what they say."""

from __future__ import annotations

import csv
import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from diffgen.comparison.stages import CompareResult
from diffgen.errors import UserError
from diffgen.runs.folder import RunFolder
from diffgen.workflows.export import export, safe_name


def rows(folder: Path) -> list[dict[str, str]]:
    with (folder / "triggers.csv").open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def test_every_valid_trigger_byte_for_byte(finished: CompareResult, tmp_path: Path) -> None:
    result = export(finished.run, tmp_path / "out")
    assert result.pictures == finished.valid_triggers > 0
    triggers = RunFolder.open(finished.run).read_triggers()
    verdicts = RunFolder.open(finished.run).read_arrays("verdicts")
    table = rows(tmp_path / "out")
    assert len(table) == result.pictures
    for row in table:
        number = int(row["number"])
        pixels = np.asarray(Image.open(tmp_path / "out" / row["file"]))
        assert np.array_equal(pixels, triggers.images[number, 0])
        labels = triggers.labels[number].tolist()
        assert [int(row["label_a"]), int(row["label_b"])] == labels
        assert row["file"].startswith(f"A-{labels[0]}_B-{labels[1]}/")
        assert float(row["probability_a"]) == triggers.probabilities[number, 0, labels[0]]
        assert float(row["divergence"]) == triggers.divergence[number]
        assert float(row["score_jury"]) == verdicts["scores"][number, 1]
        assert (int(row["cell"]), int(row["query"])) == (verdicts["cells"][number], triggers.query[number])
        assert row["rejected_by"] == ""
    # what the run counts can be counted again
    assert sum(row["near_duplicate_of"] == "" for row in table) == finished.distinct_valid_triggers < len(table)
    kept = {row["number"] for row in table if row["near_duplicate_of"] == ""}
    assert {row["near_duplicate_of"] for row in table} - {""} <= kept
    behaviours = {(row["label_a"], row["label_b"], row["cell"]) for row in table if row["number"] in kept}
    assert len(behaviours) == finished.behaviours
    pictures = {str(file.relative_to(tmp_path / "out")) for file in (tmp_path / "out").rglob("*.png")}
    assert pictures == {row["file"] for row in table}


def test_the_rejected_ones_too(finished: CompareResult, tmp_path: Path) -> None:
    result = export(finished.run, tmp_path / "out", everything=True)
    assert result.pictures == finished.triggers
    table = rows(tmp_path / "out")
    reasons = {row["rejected_by"] for row in table}
    assert {""} < reasons <= {"", "neighbors", "jury", "ssim"}
    assert all(row["file"].startswith("rejected/") == (row["rejected_by"] != "") for row in table)
    # a filter that was not asked gave no score
    assert all(row["score_jury"] == "" for row in table if row["rejected_by"] == "neighbors")


def test_parquet_says_the_same_as_csv(finished: CompareResult, tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    assert export(finished.run, tmp_path / "out", everything=True).tables == ("triggers.csv", "triggers.parquet")
    columns = parquet.read_table(tmp_path / "out" / "triggers.parquet").to_pydict()
    table = rows(tmp_path / "out")
    assert list(columns) == list(table[0])
    for name, values in columns.items():
        assert ["" if value is None else str(value) for value in values] == [row[name] for row in table]


def test_the_table_says_who_is_wrong(finished: CompareResult, tmp_path: Path) -> None:
    export(finished.run, tmp_path / "out")
    table = rows(tmp_path / "out")
    named = [row for row in table if row["recognised"] == "1"]
    assert 0 < len(named) == finished.recognised_triggers < len(table)
    for row in table:
        wrong = [role for role in "ab" if row[f"label_{role}"] != row["jury_label"]]
        assert row["wrong"] == (" ".join(wrong).upper() if row["recognised"] == "1" else "")
        assert -3 < float(row["jury_certainty"]) <= 0


def test_batch_by_batch_it_is_the_same(
    finished: CompareResult, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    from diffgen.workflows import export as module

    export(finished.run, tmp_path / "whole")
    monkeypatch.setattr(module, "BATCH", max(1, finished.valid_triggers // 3))
    export(finished.run, tmp_path / "parts")
    assert (tmp_path / "parts/triggers.csv").read_bytes() == (tmp_path / "whole/triggers.csv").read_bytes()
    both = tmp_path / "whole", tmp_path / "parts"
    tables = [parquet.read_table(each / "triggers.parquet") for each in both]
    assert tables[0].equals(tables[1]) and tables[0].schema.equals(tables[1].schema)
    written = [
        {file.name: file.read_bytes() for file in (tmp_path / each).rglob("*.png")} for each in ("whole", "parts")
    ]
    assert len(written[0]) == finished.valid_triggers and written[0] == written[1]


def test_without_pyarrow(finished: CompareResult, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "pyarrow", None)
    assert export(finished.run, tmp_path / "out").tables == ("triggers.csv",)


def test_beside_the_run_by_default_and_replaced_with_force_only(finished: CompareResult, tmp_path: Path) -> None:
    run = Path(shutil.copytree(finished.run, tmp_path / "run"))
    assert Path(export(run).folder) == tmp_path / "run-export"
    with pytest.raises(UserError, match="--force"):
        export(run)
    export(run, everything=True, force=True)
    assert len(rows(tmp_path / "run-export")) == finished.triggers
    assert sorted(path.name for path in tmp_path.iterdir()) == ["run", "run-export"]


def test_force_removes_nothing_but_an_export(finished: CompareResult, tmp_path: Path) -> None:
    (tmp_path / "photographs").mkdir()
    (tmp_path / "photographs" / "holiday.jpg").write_text("mine")
    run = Path(shutil.copytree(finished.run, tmp_path / "run"))
    for target in (tmp_path / "photographs", run):
        with pytest.raises(UserError, match="holds no export"):
            export(finished.run, target, force=True)
    assert (tmp_path / "photographs" / "holiday.jpg").read_text() == "mine"
    (tmp_path / "file").write_text("mine")
    with pytest.raises(UserError, match="not a folder"):
        export(finished.run, tmp_path / "file", force=True)


def test_an_export_that_breaks_off_leaves_nothing(
    finished: CompareResult, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from diffgen.workflows import export as module

    def full(*arguments: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(module, "write_new", full)
    with pytest.raises(UserError, match="No space left"):
        export(finished.run, tmp_path / "out")
    assert list(tmp_path.iterdir()) == []


def test_class_names_are_made_safe(finished: CompareResult, tmp_path: Path) -> None:
    run = Path(shutil.copytree(finished.run, tmp_path / "run"))
    results = json.loads((run / "results.json").read_text())
    results["class_names"] = ["../../escape", "a/b", "=cmd()", "con", " ", "x" * 300, "naïve", "ß ", "8", ".."]
    (run / "results.json").write_text(json.dumps(results))
    export(run, tmp_path / "out", everything=True)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out", "run"]
    for folder in (tmp_path / "out" / "rejected").iterdir():
        assert len(folder.name) < 120
        assert folder.is_dir()
    # a spreadsheet must not run what a file's author wrote
    assert all(row["name_a"][:1] != "=" for row in rows(tmp_path / "out"))


@given(st.text())
def test_a_safe_name_is_one_plain_part(text: str) -> None:
    name = safe_name(text)
    assert name
    assert not set(name) & set('/\\:*?"<>|\0\n\r\t ')
    assert name.strip(".") == name
    assert len(name) <= 41


def test_an_unfinished_run_is_refused(unfinished_run: Path) -> None:
    with pytest.raises(UserError, match="did not come to its end"):
        export(unfinished_run)
