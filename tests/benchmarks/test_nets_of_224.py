"""benchmarks.nets_of_224: two networks of torchvision's for photographs of hands."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.benchmarks.conftest import Bench


@pytest.mark.slow  # 600 photographs through two networks of 224 pixels
def test_nets_of_224(bench: Bench, shared_folder: Path, tmp_path: Path) -> None:
    source = shared_folder / "data" / "sign-digits"
    if not (source / "train.zip").is_file():
        pytest.skip(f"There is no {source / 'train.zip'}.")
    said = bench("nets_of_224", source, tmp_path, "--epochs", 0)
    assert said.count("% of 600 photographs") == 2
    assert sorted(each.name for each in tmp_path.iterdir()) == ["mobilenet_v2.pt", "resnet18.pt"]
