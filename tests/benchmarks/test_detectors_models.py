"""Two small detectors of blood cells: that they can be trained, written and asked; how well is not looked at here."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from benchmarks.detectors_models import PLANS, formats
from diffgen.config import Preprocessing, replace
from diffgen.models import load
from tests.benchmarks.conftest import Bench
from tests.data.test_boxes import voc
from tests.models.detectors import pictures

HEADS = {"nms": "end-to-end", "yolox": "yolox", "corners": "boxes-and-scores", "objectness": "yolov5"}


@pytest.mark.slow
def test_every_file_is_written_and_answers_with_boxes(bench: Bench, tmp_path: Path) -> None:
    voc(tmp_path / "data" / "blood-cells")
    said = bench("detectors_models", tmp_path, tmp_path / "out", "--epochs", 1)
    assert said.splitlines()[-1].startswith("a 0.") and "b-yolox 0." in said
    images = np.ascontiguousarray(pictures(2, 48, 64)[0])
    files = {f"{plan.name}-{form}": fed for plan in PLANS for form, fed in formats(plan.side).items()}
    files |= dict.fromkeys(("a.onnx", "a-int8.onnx", "b.onnx", "b-int8.onnx", "a-nms.onnx"), Preprocessing())
    for name, fed in files.items():
        box = load(tmp_path / "out" / name, preprocessing=replace(fed, outputs="boxes"), class_names=("RBC",))
        box.prepare(images)
        other = next((head for form, head in HEADS.items() if form in name), "yolov8")
        assert box.preprocessing.head == other and box.class_names == ("RBC",)
    assert len((tmp_path / "out" / "val.txt").read_text().split()) == 10
