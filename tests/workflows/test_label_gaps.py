"""Data whose labels have gaps: the GAN learns, and the search asks for, the classes that there are."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from diffgen.config import Budget, CompareConfig, FilterConfig, GanConfig
from diffgen.runs.folder import RunFolder
from diffgen.types import ImageSet
from diffgen.workflows.compare import compare
from diffgen.workflows.label import label_intended, read_store, read_valid_triggers


@pytest.mark.slow
def test_threes_and_sevens(digits: ImageSet, model_files: dict[str, Path], tmp_path: Path) -> None:
    assert digits.labels is not None
    rows = np.isin(digits.labels, (3, 7))
    np.savez(tmp_path / "data.npz", images=digits.images[rows], labels=digits.labels[rows])
    config = CompareConfig(
        technique="random_latent",
        budget=Budget(queries=400),
        device="cpu",
        gan=GanConfig(latent_dim=64, width=8, steps=60, batch_size=32, monitor_checks=2),
        filters=FilterConfig(names=(), filters={"jury": {"shown": 6_000}}),
    )
    result = compare(
        model_files["a"], model_files["b"], data=tmp_path / "data.npz", config=config, output=tmp_path / "run"
    )
    assert result.triggers > 0
    folder = RunFolder.open(tmp_path / "run")
    assert folder.manifest["latents"]["class_labels"] == [3, 7]
    assert folder.results()["gan"]["latent vector"] == "64 values, normal, and one of 2 classes"
    # the class in a stored latent vector is the place of its label among those
    classes = folder.read_triggers().genes[:, -1]
    assert set(classes.tolist()) == {0.0, 1.0}
    label_intended(folder.path)
    finds = read_valid_triggers(folder)
    labels, _ = read_store(folder, finds).of(finds.hashes)
    assert labels.tolist() == [(3, 7)[int(each)] for each in classes[finds.numbers]]
