"""What figures of the first look would be explained by wrong pre-processing."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import diffgen
from diffgen.cli.table import print_result
from diffgen.comparison.smells import at_chance, doubts
from diffgen.data import load
from diffgen.events import Message
from tests.recording import Recording

_ASSETS = Path(__file__).resolve().parent.parent / "assets"
_MODELS = _ASSETS / "a.onnx", _ASSETS / "b.onnx"


def test_a_difference_of_accuracies_is_in_points() -> None:
    models: Any = [
        SimpleNamespace(name=name, class_names=("0", "1"), class_order=None, preprocessing=name, digest=name)
        for name in ("a.pt", "b.pt")
    ]
    (sentence,) = doubts(models, np.zeros((10, 2), dtype=np.int64), (0.9, 0.5), ())
    assert sentence.startswith("Model B is 40 points less accurate than the other; ")


@pytest.mark.parametrize(
    ("right", "of", "guessed", "guesses"),
    [
        *((100, 1000, 0.1, True), (190, 1000, 0.1, True), (210, 1000, 0.1, False), (0, 1000, 0.1, True)),
        *((505, 1000, 0.5, True), (600, 1000, 0.5, False), (940, 1000, 0.95, False), (8, 10, 0.1, False)),
    ],
)
def test_who_is_right_by_guessing(right: int, of: int, guessed: float, guesses: bool) -> None:
    """Of ten classes alike, of two, of hardly more than one."""
    assert at_chance(right, of, guessed) == guesses


def test_what_is_doubted_is_said_first_and_last(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Before the search, and below its figures, which say nothing where the labels are others."""
    digits = load("digits:test")
    assert digits.labels is not None
    seen = Recording()
    result = diffgen.compare(
        *_MODELS,
        data=replace(digits, labels=(digits.labels + 1) % 10),
        config=diffgen.load_settings(technique="real_data", budget="100q", filters={"names": []}, device="cpu"),
        output=tmp_path / "run",
        events=seen,
    )
    print_result(result)
    first, second = result.doubts
    assert first.startswith("Model A (a.onnx) is right on only ")
    assert capsys.readouterr().out.endswith(f"report.html\nwarning: {first}\nwarning: {second}\n")
    before = seen.events[: [getattr(each, "name", "") for each in seen.events].index("Searching for disagreements")]
    assert {first, second} <= {each.text for each in before if isinstance(each, Message)}
