"""The table of faults of detectors, on a network that needs no training."""

import json
import sys
from pathlib import Path

import pytest

from benchmarks import detectors
from tests.models import detectors as networks
from tests.workflows.test_detectors import in_coco


def test_faults_are_checked_and_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A fault that is gross is refused, and what is done is not done again."""
    images, boxes = networks.pictures(60)
    models = tmp_path / "models"
    models.mkdir()
    networks.export("yolov8", models / "a.onnx")
    (models / "val.txt").write_text("\n".join(f"{number:03}" for number in range(60)))
    data = in_coco(tmp_path / "data", images, boxes)
    monkeypatch.setattr(detectors, "SIZE", (64, 64))
    monkeypatch.setattr(detectors, "CLASSES", ("red", "blue"))
    words = ["detectors", str(tmp_path / "out"), "--models", str(models), "--data", str(data), "--detectors", "a"]
    monkeypatch.setattr(sys, "argv", [*words, "--only", "score scale"])
    detectors.main()
    found = json.loads((tmp_path / "out" / "detectors.json").read_text())
    assert list(found) == ["a: score scale"] and "lost_boxes" in found["a: score scale"]["no boxes"]
    detectors.main()
    assert json.loads((tmp_path / "out" / "detectors.json").read_text()) == found
