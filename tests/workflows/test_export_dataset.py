"""Triggers as a Parquet data set, read back without diffgen."""

from __future__ import annotations

import io
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow.dataset
import pytest
from PIL import Image

from diffgen.cli import main
from diffgen.comparison.stages import CompareResult
from diffgen.data import load
from diffgen.errors import UserError
from diffgen.runs.folder import RunFolder
from diffgen.workflows import export_dataset as module
from diffgen.workflows.export_dataset import export_dataset


def test_two_runs_are_partitions_of_one_data_set(
    finished: CompareResult, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_ROWS", 64)
    shutil.copytree(finished.run, tmp_path / "second")
    first, second = (export_dataset(run, tmp_path / "finds") for run in (finished.run, tmp_path / "second"))
    table = pyarrow.dataset.dataset(tmp_path / "finds", partitioning="hive", exclude_invalid_files=True).to_table()
    assert (first.rows, second.rows) == (finished.triggers, finished.triggers)
    assert first.parts == -(-finished.triggers // 64) > 1
    assert sorted(set(table["run"].to_pylist())) == sorted([Path(finished.run).name, "second"])
    rows = [row for row in table.to_pylist() if row["run"] == "second"]
    triggers = RunFolder.open(finished.run).read_judged()
    assert sum(row["valid"] for row in rows) == finished.valid_triggers
    assert sum(row["distinct"] for row in rows) == finished.distinct_valid_triggers
    assert len(rows) == finished.triggers
    for row in rows:
        number = row["number"]
        pixels = np.asarray(Image.open(io.BytesIO(row["image"]["bytes"])))
        np.testing.assert_array_equal(pixels, triggers.images[number, 0])
        assert [row["label_a"], row["label_b"]] == triggers.labels[number].tolist()
        assert row["query"] == triggers.query[number]


def test_it_can_be_data_again(finished: CompareResult, tmp_path: Path) -> None:
    result = export_dataset(finished.run, tmp_path / "finds")
    images = load(next(Path(result.folder).glob("*.parquet")))
    triggers = RunFolder.open(finished.run).read_judged()
    np.testing.assert_array_equal(images.images, triggers.images[triggers.confirmed])


def test_bad_inputs(
    finished: CompareResult,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    told: Callable[..., None],
) -> None:
    export_dataset(finished.run, tmp_path / "finds")
    with pytest.raises(UserError) as caught:
        export_dataset(finished.run, tmp_path / "finds")
    told("Exports", "`--dataset` of a run that is in it already", caught.value)
    export_dataset(finished.run, tmp_path / "finds", force=True)
    for case, words in {
        "`--dataset` with `-o`": ("-o", "x"),
        "`--dataset` with `--all`": ("--all",),
        "`--dataset` with `--for-training`": ("--for-training", "x"),
    }.items():
        assert main(["export", finished.run, "--dataset", str(tmp_path / "other"), *words]) == 2
        told("Exports", case, capsys.readouterr().err.strip())
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(UserError) as caught:
        export_dataset(finished.run, tmp_path / "other")
    told("Exports", "`--dataset` without pyarrow", caught.value)
    assert not (tmp_path / "other").exists()
