"""A reference model that is one of the models under test in another format judges nothing."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from diffgen.comparison.line import CompareResult
from diffgen.data import load
from diffgen.errors import UserError
from diffgen.events import Message
from diffgen.models import load as load_model
from diffgen.workflows.demo import convolutional_classifier, save_onnx, train_classifier
from diffgen.workflows.label import label_counts, label_oracle


def test_a_model_under_test_in_another_format_is_no_judge(
    finished: CompareResult, model_files: dict[str, Path], tmp_path: Path, told: Callable[[str, str, object], None]
) -> None:
    """A is TorchScript in the run and ONNX here; the same network trained otherwise may judge."""
    run = shutil.copytree(finished.run, tmp_path / "run")
    before = label_counts(run)
    with pytest.raises(UserError, match="gives the very answers of model A of the run to") as refused:
        label_oracle(run, model_files["a_onnx"])
    told("`diffgen label`", "a reference model that is model A in another format", refused.value)
    b = load_model(model_files["b"])
    b.prepare(load("digits:test").images)
    with pytest.raises(UserError, match="model B of the run"):
        label_oracle(run, lambda pixels: b.predict((pixels * 255).round().astype("uint8")))
    assert label_counts(run) == before
    another = tmp_path / "another.onnx"
    save_onnx(train_classifier(convolutional_classifier(10), load("digits:train"), seed=1, passes=1), another)
    events: list[object] = []
    assert label_oracle(run, another, events=events.append).labelled > 0
    assert not warnings_of(events)


def test_a_reference_model_that_is_fed_wrongly_is_warned_of(
    finished: CompareResult, model_files: dict[str, Path], tmp_path: Path
) -> None:
    """It would label hundreds of pictures, and nobody would notice before the selector is worthless."""
    run = shutil.copytree(finished.run, tmp_path / "run")
    network = load_model(model_files["a"])
    network.prepare(load("digits:test").images)
    events: list[object] = []
    label_oracle(
        run, lambda pixels: network.predict(((1 - pixels) * 255).round().astype("uint8")), events=events.append
    )
    (warning,) = warnings_of(events)
    assert "pictures that the jury recognises, the reference labels name only" in warning
    assert "pre-processing" in warning


def warnings_of(events: list[object]) -> list[str]:
    return [event.text for event in events if isinstance(event, Message) and event.level == "warning"]
