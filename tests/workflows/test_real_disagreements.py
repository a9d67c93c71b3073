"""Behaviours that begin with real images on which the models disagree already, told apart from the others."""

from __future__ import annotations

import csv
import re
from pathlib import Path

import numpy as np
import pytest
import torch

from diffgen.cli.table import print_result
from diffgen.config import Budget, CompareConfig, FilterConfig
from diffgen.data import load
from diffgen.events import StageStarted
from diffgen.models.loading import load as load_model
from diffgen.report.markdown import render_markdown
from diffgen.report.reading import report_data
from diffgen.runs.folder import RunFolder
from diffgen.runs.results import FinishedRun
from diffgen.wording import verdicts_rest_on
from diffgen.workflows.compare import compare
from diffgen.workflows.export import export


def test_they_are_counted_as_the_models_say(
    model_files: dict[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Against the models themselves, which are asked about all real images again."""
    config = CompareConfig(budget=Budget(queries=500), device="cpu", filters=FilterConfig(names=("ssim",)))
    stages: list[str] = []
    found = compare(
        model_files["a"],
        model_files["b"],
        data="digits:test",
        config=config,
        output=tmp_path / "run",
        events=lambda event: stages.append(event.name) if isinstance(event, StageStarted) else None,
    )
    # what takes seconds before the search begins is told of
    before, search = "Importing and compiling what the search needs", "Searching for disagreements"
    assert stages.index(before) + 1 == stages.index(search)
    folder = RunFolder.open(tmp_path / "run")
    table, results = folder.read_judged(), folder.results()
    images, said = torch.from_numpy(load("digits:test").images), []
    for role in "ab":
        model = load_model(model_files[role])
        model.prepare(images)
        said.append(model.predict(images).argmax(1).numpy())
    differs = said[0] != said[1]
    assert table.seeds is not None and table.known.seed_differs is not None
    assert 0 < differs.sum() == results["real_disagreements"]
    np.testing.assert_array_equal(table.known.seed_differs, differs[table.seeds])
    rows = np.flatnonzero(table.distinct & ~differs[table.seeds]).tolist()
    kinds = {(*table.labels[row].tolist(), int(table.known.cells[row])) for row in rows}
    assert 0 < results["behaviours_of_agreement"] == len(kinds) < results["behaviours"]
    print_result(found)
    known = results["behaviours"] - len(kinds)
    said = f"  known before {known:,} begin only with real images on which A and B disagree already"
    told = capsys.readouterr().out
    assert said in "\n".join(re.sub("(?<=[a-z])  +", " ", line) for line in told.splitlines())
    assert found.as_dict()["verdicts_rest_on"] == results["verdicts_rest_on"]
    assert sum(results["verdicts_rest_on"].values()) == results["recognised_distinct_triggers"]
    assert results["verdicts_rest_on"]["jury"] == 0  # each was made from a labelled image
    assert verdicts_rest_on(results["verdicts_rest_on"]) in told
    assert export(folder.path, tmp_path / "out").pictures == results["valid_triggers"]
    with (tmp_path / "out" / "triggers.csv").open(encoding="utf-8", newline="") as file:
        kept = [
            each for each in csv.DictReader(file) if not each["near_duplicate_of"] and each["seed_differs"] == "False"
        ]
    assert {tuple(int(each[name]) for name in ("label_a", "label_b", "cell")) for each in kept} == kinds
    said = f"{len(kinds)} of the {results['behaviours']} behaviours were met on pictures that do not begin with a real"
    assert said in render_markdown(report_data(FinishedRun.open(folder)))
