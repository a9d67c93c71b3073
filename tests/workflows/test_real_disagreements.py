"""Behaviours that begin with real images on which the models disagree already, told apart from the others."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import torch

from diffgen.config import Budget, CompareConfig, FilterConfig
from diffgen.data import load
from diffgen.models.loading import load as load_model
from diffgen.report.markdown import render_markdown
from diffgen.report.reading.run import report_data
from diffgen.runs.folder import RunFolder
from diffgen.workflows.compare import compare
from diffgen.workflows.export import export


def test_they_are_counted_as_the_models_say(model_files: dict[str, Path], tmp_path: Path) -> None:
    """Against the models themselves, which are asked about all real images again."""
    config = CompareConfig(budget=Budget(queries=1_200), device="cpu", filters=FilterConfig(names=("ssim",)))
    compare(model_files["a"], model_files["b"], data="digits:test", config=config, output=tmp_path / "run")
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
    assert export(folder.path, tmp_path / "out").pictures == results["valid_triggers"]
    with (tmp_path / "out" / "triggers.csv").open(encoding="utf-8", newline="") as file:
        kept = [
            each for each in csv.DictReader(file) if not each["near_duplicate_of"] and each["seed_differs"] == "False"
        ]
    assert {tuple(int(each[name]) for name in ("label_a", "label_b", "cell")) for each in kept} == kinds
    said = f"{len(kinds)} of the {results['behaviours']} behaviours were met on pictures that do not begin with a real"
    assert said in render_markdown(report_data(folder))
