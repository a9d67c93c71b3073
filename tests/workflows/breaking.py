"""Models that break a run off, and what makes two runs the same."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

from diffgen.data import load
from diffgen.events import Event, StageStarted
from diffgen.models import load as load_model
from diffgen.runs.folder import RunFolder
from diffgen.runs.lock import LOCK_NAME
from diffgen.types import Float32Array


class Fragile:
    """Model A as a function; does something else instead of answering once the search has asked ``after`` images."""

    def __init__(self, file: Path, instead: Callable[[np.ndarray], Any], *, after: int) -> None:
        self._network = torch.jit.load(str(file))
        self._instead = instead
        self._left = after
        self.searching = False

    def __call__(self, images: np.ndarray) -> Any:
        if self.searching:
            self._left -= len(images)
            if self._left < 0:
                self._left = sys.maxsize  # once only
                done = self._instead(images)
                if done is not None:
                    return done
        with torch.inference_mode():
            return self._network(torch.from_numpy(images)).numpy()


class InSearch:
    """Does something, once, when the candidate is asked for the second time in the search."""

    def __init__(self, model_file: Path, then: Callable[[], None]) -> None:
        self._model = load_model(model_file, device="cpu")
        self._model.prepare(load("digits:test").images)
        self._then = then
        self._asked: int | None = None

    def __call__(self, event: Event) -> None:
        if isinstance(event, StageStarted) and event.name == "Searching for disagreements":
            self._asked = 0

    def candidate(self, images: np.ndarray) -> Float32Array:
        if self._asked is not None:
            self._asked += 1
            if self._asked == 2:
                self._then()
        return self._model.raw_outputs(np.round(images * 255).astype(np.uint8))


def columns(run: str | Path) -> dict[str, np.ndarray]:
    return RunFolder.open(run).read_triggers().columns()


def assert_same(run: str | Path, expected: str | Path) -> None:
    """Every column of every trigger, the verdicts, and the figures but for the seconds."""
    manifest = RunFolder.open(run).manifest
    # first, because it explains what comes after it: a run that a stray signal has stopped is not a run that lost parts
    assert (manifest["status"], RunFolder.open(run).results()["queries"]) == (
        "done",
        RunFolder.open(expected).results()["queries"],
    )
    found, wanted = columns(run), columns(expected)
    assert found.keys() == wanted.keys()
    for name in wanted:
        np.testing.assert_array_equal(found[name], wanted[name], err_msg=name)
    for name, value in RunFolder.open(expected).read_arrays("verdicts").items():
        np.testing.assert_array_equal(RunFolder.open(run).read_arrays("verdicts")[name], value)
    results, wanted_results = RunFolder.open(run).results(), RunFolder.open(expected).results()
    for name in ("queries", "triggers", "valid_triggers", "behaviours", "pair_counts", "interrupted"):
        assert results[name] == wanted_results[name]
    assert results["history"]["queries"] == wanted_results["history"]["queries"]
    assert not [file for file in Path(run).rglob("*") if file.suffix == ".tmp" or file.name == LOCK_NAME]
    named = {part["file"] for part in RunFolder.open(run).manifest["parts"]}
    assert {file.name for file in (Path(run) / "triggers").iterdir()} == named
