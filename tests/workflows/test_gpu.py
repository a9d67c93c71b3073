"""On a GPU, too, the same seed trains the same networks and gives the same run."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from diffgen.config import CompareConfig, GanConfig, SearchConfig, SourceConfig
from diffgen.data import load
from diffgen.runs.folder import RunFolder
from diffgen.sources.denoiser import DenoiserSettings
from diffgen.sources.vae import VaeSettings
from diffgen.sources.vq import VqSettings
from diffgen.workflows.compare import compare
from diffgen.workflows.demo import convolutional_classifier, dense_classifier, train_classifier

SOURCES = {
    "seeds": SourceConfig(),
    "gan": SourceConfig(family="gan"),
    "vae": SourceConfig(family="vae").with_family(VaeSettings(steps=60)),
    "vq": SourceConfig(family="vq").with_family(VqSettings(steps=40)),
    "denoiser": SourceConfig(family="denoiser").with_family(DenoiserSettings(steps=30)),
}
pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")]


@pytest.mark.parametrize("family", SOURCES)
def test_two_runs_from_empty_caches_are_one(family: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    training = load("digits:train")
    makers = (convolutional_classifier, dense_classifier)
    models = [train_classifier(make(10), training, seed=0, passes=2) for make in makers]
    config = CompareConfig(
        device="cuda",
        source=SOURCES[family],
        gan=GanConfig(width=8, steps=60),
        search=SearchConfig(population=200),
    )
    runs = []
    for name in ("one", "other"):
        monkeypatch.setenv("DIFFGEN_CACHE", str(tmp_path / name))
        runs.append(
            compare(*models, data="digits:test", config=config, budget="1000q", output=tmp_path / f"run-{name}").run
        )
    cached = [
        {path.relative_to(tmp_path / name): path.read_bytes() for path in (tmp_path / name).rglob("*.safetensors")}
        for name in ("one", "other")
    ]
    assert cached[0] and cached[0] == cached[1]
    one, other = (RunFolder.open(run).read_triggers() for run in runs)
    assert len(one.images) > 0
    assert np.array_equal(one.images, other.images)
    assert np.array_equal(one.probabilities, other.probabilities)
