"""The benchmark on pictures that people judged, with MNIST in place of the larger sets."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.benchmarks.conftest import Bench


def test_human_labelled(bench: Bench, shared_folder: Path, shared_of_digits: Path, tmp_path: Path) -> None:
    judged = shared_folder / "data" / "human-labelled"
    if not (judged / "mnist.npz").is_file():
        pytest.skip(f"There is no {judged / 'mnist.npz'}.")
    places = {
        "human-labelled": judged,
        **dict.fromkeys(("mnist", "fashion-mnist"), shared_of_digits / "data" / "mnist"),
    }
    (tmp_path / "data").mkdir()
    for name, place in places.items():
        (tmp_path / "data" / name).symlink_to(place)
    said = bench("human_labelled", tmp_path, "--quick")
    assert "459 valid pictures, 19 invalid ones" in said
    assert said.count("\n| preset paper |") == 3  # all, by generator, wrecked
