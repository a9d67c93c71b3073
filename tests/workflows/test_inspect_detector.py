"""What inspect finds out about detectors: how they are fed, against boxes that are known."""

from __future__ import annotations

import numpy as np
import pytest

import diffgen
from diffgen.models import load
from diffgen.models.sidecar import read_sidecar
from diffgen.types import ImageSet
from tests.models.detectors import export, pictures


@pytest.fixture(scope="module")
def data() -> ImageSet:
    images, known = pictures(60, 96, 128, side=32)
    return ImageSet(images, None, ("red", "blue"), "squares", boxes=(None, *known[1:]))


def test_how_a_detector_is_fed_is_found_by_known_boxes(data, tmp_path, capsys):
    path = export("yolov8", tmp_path / "net.onnx", names="['red', 'blue']")
    # of a file that was made for BGR, colours are what its makers do not say
    bgr = ImageSet(data.images[:, ::-1].copy(), None, data.class_names, "squares", boxes=data.boxes)
    found = diffgen.inspect(path, data=bgr, write=True)
    assert "yolov8 head" in found.head and "suppresses what overlaps by 0.7" in found.head
    assert found.labelled and found.chosen.preprocessing.channels == "bgr"
    assert found.chosen.preprocessing.fitting == "letterbox" and found.chosen.preprocessing.scale == "0..1"
    assert found.chosen.accuracy > 0.5 > 2 * (found.now.accuracy or 0) and found.now.name == "as its makers do it"
    assert found.classes == 2 and found.images == 40
    kept = read_sidecar(path).preprocessing
    assert (kept.channels, kept.fitting, kept.outputs, kept.head) == ("bgr", "letterbox", "boxes", "yolov8")
    box = load(path)
    box.prepare(bgr.images)
    assert box.detects and box.remarks == ()
    again = diffgen.inspect(path, data=bgr)
    assert again.now.name == "as the sidecar says" == again.chosen.name


def test_without_boxes_the_makers_way_is_taken_and_said(data, tmp_path, capsys):
    from diffgen.cli import main

    path = export("yolov8", tmp_path / "net.onnx")
    found = diffgen.inspect(path, data=data.images)
    assert not found.labelled and found.chosen.name == "as its makers do it"
    assert found.chosen.boxes is not None
    np.savez(tmp_path / "data.npz", images=data.images)
    assert main(["inspect", str(path), "--data", str(tmp_path / "data.npz")]) == 0
    told = capsys.readouterr().out
    assert "gives    boxes, of a yolov8 head" in told and "Nobody knows what is in the images" in told
    assert "--fitting letterbox --no-antialias" in told and "--outputs boxes --head yolov8" in told


def test_boxes_of_other_classes_tell_nothing(data, tmp_path):
    path = export("yolov8", tmp_path / "net.onnx", names="['cat', 'dog']")
    found = diffgen.inspect(path, data=data)
    assert not found.labelled and found.chosen.accuracy is None
