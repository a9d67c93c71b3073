"""A run that goes on asks the models that it began with, functions too."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnxruntime
import pytest
import torch

import diffgen
from diffgen.errors import UserError
from diffgen.runs.folder import RunFolder
from diffgen.types import Float32Array

ASSETS = Path(__file__).parents[1] / "assets"
KEYWORDS = {
    "data": "digits:test",
    "technique": "real_data",
    "budget": "200q",
    "seed": 3,
    "filters": [],
    "data_labels": "ignore",
}


def function(name: str) -> Callable[[Float32Array], Float32Array]:
    """One of the two models of the old runs, as a Python function."""
    session = onnxruntime.InferenceSession(ASSETS / f"{name}.onnx")
    (entry,) = session.get_inputs()

    def answer(images: Float32Array) -> Float32Array:
        logits = session.run(None, {entry.name: images})[0]
        return torch.from_numpy(logits).softmax(dim=1).numpy()

    return answer


def test_another_model_does_not_go_on_with_a_run(tmp_path: Path) -> None:
    run, stop = tmp_path / "run", diffgen.StopToken()

    def listen(event: diffgen.Event) -> None:
        if isinstance(event, diffgen.TriggersFound):
            stop.stop()

    a, b = function("a"), ASSETS / "b.onnx"
    diffgen.compare(a, b, output=run, stop=stop, events=listen, **KEYWORDS)
    assert RunFolder.open(run).manifest["status"] == "interrupted"
    before = shutil.copytree(run, tmp_path / "before")
    for other in (function("b"), b):
        with pytest.raises(UserError, match=r"^Model A \(\S+\) is not the one that the run .* was made with: it gives"):
            diffgen.resume(run, other, b)
        assert RunFolder.open(run).manifest == RunFolder.open(before).manifest
    assert diffgen.resume(run, function("a"), b).queries == 200


def test_a_model_that_does_not_answer_alike_twice_goes_on(tmp_path: Path) -> None:
    run, stop, dice, exact = tmp_path / "run", diffgen.StopToken(), np.random.default_rng(0), function("a")

    def unsteady(images: Float32Array) -> Float32Array:
        return exact(images + dice.normal(0, 0.1, images.shape).astype(np.float32))

    def listen(event: diffgen.Event) -> None:
        if isinstance(event, diffgen.TriggersFound):
            stop.stop()

    diffgen.compare(unsteady, ASSETS / "b.onnx", output=run, stop=stop, events=listen, **KEYWORDS)
    assert diffgen.resume(run, unsteady, ASSETS / "b.onnx").queries == 200


def test_a_comparison_warns_of_a_model_that_drifts(tmp_path: Path) -> None:
    tired, exact = False, function("a")

    def tires(images: Float32Array) -> Float32Array:
        return exact(images)[:, ::-1] if tired else exact(images)

    said: list[str] = []

    def listen(event: diffgen.Event) -> None:
        nonlocal tired
        tired = tired or (isinstance(event, diffgen.StageStarted) and event.name == "Searching for disagreements")
        if isinstance(event, diffgen.Message) and event.level == "warning":
            said.append(event.text)

    asked = {**KEYWORDS, "budget": "800q"}
    diffgen.compare(ASSETS / "a.onnx", tires, output=tmp_path / "run", events=listen, **asked)
    (sentence,) = [each for each in said if "no longer answers as it did at the beginning" in each]
    assert sentence in RunFolder.open(tmp_path / "run").results()["preflight"]["warnings"]
    said.clear()
    diffgen.compare(ASSETS / "a.onnx", ASSETS / "b.onnx", output=tmp_path / "steady", events=listen, **asked)
    assert not any("no longer answers" in each for each in said)
