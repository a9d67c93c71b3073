"""Two small detectors of blood cells: that they can be trained, written and asked; how well is not looked at here."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from diffgen.models import load
from tests.benchmarks.conftest import Bench
from tests.data.test_boxes import voc
from tests.models.detectors import pictures


@pytest.mark.slow
def test_every_file_is_written_and_answers_with_boxes(bench: Bench, tmp_path: Path) -> None:
    voc(tmp_path / "data" / "blood-cells")
    said = bench("detectors_models", tmp_path, tmp_path / "out", "--epochs", 1)
    assert said.splitlines()[-1].startswith("a 0.") and "b-yolox 0." in said
    images = np.ascontiguousarray(pictures(2, 48, 64)[0])
    heads = {"a": "yolov8", "a-int8": "yolov8", "a-nms": "end-to-end", "b": "yolov8", "b-yolox": "yolox"}
    for name, head in heads.items():
        box = load(tmp_path / "out" / f"{name}.onnx")
        box.prepare(images)
        assert box.preprocessing.head == head and box.class_names == ("RBC",)
    assert len((tmp_path / "out" / "val.txt").read_text().split()) == 10
