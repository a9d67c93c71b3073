"""The command line with one thing altered."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from benchmarks.altered import main
from diffgen.runs.folder import RunFolder


@pytest.fixture(scope="module")
def compared(models: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory) -> Callable[..., RunFolder]:
    def run(name: str, *own: str) -> RunFolder:
        folder = tmp_path_factory.mktemp("altered") / name
        words = [
            "--data",
            "digits:test",
            "--budget",
            "100q",
            "--quiet",
            "--technique",
            "random_seeds",
            "--device",
            "cpu",
        ]
        assert main([*own, "compare", *map(str, models), *words, "--filters", "none", "-o", str(folder)]) == 0
        return RunFolder.open(folder)

    return run


@pytest.fixture(scope="module")
def usual(compared: Callable[..., RunFolder]) -> RunFolder:
    """A comparison in which nothing is altered."""
    return compared("usual")


def test_models_are_slower_and_say_the_same(compared: Callable[..., RunFolder], usual: RunFolder) -> None:
    begun = time.monotonic()
    slow = compared("slow", "--slow", "0.5")
    assert time.monotonic() - begun > 100 * 2 * 0.5 / 1000
    assert min(slow.results()["milliseconds"]) >= 0.5
    assert np.array_equal(slow.read_judged().images, usual.read_judged().images)


def test_real_images_are_drawn_alike(compared: Callable[..., RunFolder], usual: RunFolder) -> None:
    unordered = compared("other", "--unordered")
    assert not np.array_equal(usual.read_judged().images, unordered.read_judged().images)
