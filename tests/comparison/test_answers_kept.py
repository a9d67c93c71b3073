"""diffgen.comparison.answers_kept: answers to large image sets come from the cache, as long as they are the same."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from diffgen.comparison import machine
from diffgen.comparison.answers_kept import Asked, asked_once
from diffgen.comparison.known_scores import KnownFigures
from diffgen.comparison.preflight import inspect_real_images
from diffgen.data import load, pixels
from diffgen.events import Progress
from diffgen.models import load as load_model
from diffgen.models.noise import NumericNoise
from diffgen.tasks.kept_answers import KeptAnswers

ASSETS = Path(__file__).resolve().parent.parent / "assets"


def test_they_are_asked_again_once_something_else_computes_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DIFFGEN_CACHE", str(tmp_path / "cache"))
    digits = load("digits:test")
    np.savez(tmp_path / "set.npz", images=digits.images[:60], labels=digits.labels[:60])
    monkeypatch.setattr(pixels, "LARGE_BYTES", 1000)
    data = load(tmp_path / "set.npz")
    assert isinstance(data.images, np.memmap)
    models = tuple(load_model(ASSETS / name, isolate="off") for name in ("a.onnx", "b.onnx"))
    for model in models:
        model.prepare(data.images)
    first = inspect_real_images(models, data, progress=Progress())
    asked = []

    def ask() -> Asked:
        asked.append(1)
        said = np.stack([model.predict(data.images) for model in models], axis=1)
        return KeptAnswers.of(said), [NumericNoise(0.0, 0.0) for _ in models], KnownFigures()

    again, _, _ = asked_once(models, data, ask, Progress())
    assert not asked and np.array_equal(again.probabilities, first.answers.probabilities)
    installed = machine.version
    with monkeypatch.context() as patched:
        patched.setattr(machine, "version", lambda name: "0.0.1" if name == "onnxruntime" else installed(name))
        asked_once(models, data, ask, Progress())
    assert len(asked) == 1
    # code that is not in the file may change without it
    models[0].arch = "package.module:factory"
    asked_once(models, data, ask, Progress())
    assert len(asked) == 2
