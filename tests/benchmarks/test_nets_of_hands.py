"""benchmarks.nets_of_hands: two small networks for photographs of hands."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.benchmarks.conftest import Bench


def test_nets_of_hands(bench: Bench, shared_folder: Path, tmp_path: Path) -> None:
    source = shared_folder / "data" / "sign-digits"
    if not (source / "train.zip").is_file():
        pytest.skip(f"There is no {source / 'train.zip'}.")
    said = bench("nets_of_hands", source, tmp_path, "--epochs", 0)
    assert said.count("% of 600 photographs") == 2 and (tmp_path / "hands96.onnx").is_file()
