"""The demonstration with detectors: pictures with boxes, networks that learn them, and files that are read again."""

from pathlib import Path

import numpy as np
import pytest
import torch

import diffgen
from diffgen.cli import main
from diffgen.data import load as load_data
from diffgen.models import load
from diffgen.runs.outputs import filled, output_folder
from diffgen.workflows.demo_detection import (
    SIDE,
    GridDetector,
    digits_on_grounds,
    save_detector,
    train_detector,
    write_coco,
)

DIGITS = load_data("digits:train")


def test_boxes_are_around_the_ink() -> None:
    """Beside them there is the ground alone, and in each there is ink up to its edges."""
    pictures, boxes = digits_on_grounds(DIGITS, 30, seed=3)
    for picture, own in zip(pictures[:, 0], boxes, strict=True):
        assert 1 <= len(own) <= 3
        assert own[:, :4].min() >= 0
        assert own[:, :4].max() <= SIDE
        ground = np.bincount(picture.ravel()).argmax()
        above = picture.astype(int) - ground  # a third of what the ink adds, which is 170 to 255 where it is full
        rest = above > 0.32 * (255 - ground)
        for x1, y1, x2, y2, _ in own.astype(int):
            edge = above[y1:y2, x1:x2].max(axis=0)[[0, -1]]
            assert (edge > 0.28 * (170 - ground)).all()
            rest[y1:y2, x1:x2] = False
        assert not rest.any()


def test_a_detector_learns_and_its_file_answers_alike(tmp_path: Path) -> None:
    """The boxes that are read from the file are those of the network."""
    pictures, boxes = digits_on_grounds(DIGITS, 64, seed=1)
    torch.manual_seed(0)
    network = GridDetector(4)
    before = network(torch.from_numpy(pictures).float() / 255)[:, 4:].max()
    train_detector(network, pictures, boxes, seed=0, passes=2)
    with torch.no_grad():
        raw = network(torch.from_numpy(pictures[:8]).float() / 255)
    assert not torch.equal(before, raw[:, 4:].max())
    save_detector(network, tmp_path / "grid.onnx")
    box = load(tmp_path / "grid.onnx", isolate="off")
    box.prepare(pictures)
    assert box.detects
    assert box.class_names == tuple(map(str, range(10)))
    best = box.predict(pictures[:8]).reshape(8, -1, 6)[:, 0]
    scores, cells = raw[:, 4:].amax(dim=1).max(dim=1)
    np.testing.assert_allclose(best[:, 4], scores, atol=1e-4)
    middles = raw[torch.arange(8), :2, cells].clamp(0, SIDE)
    inside = ((best[:, :2] - 1 <= middles.numpy()) & (middles.numpy() <= best[:, 2:4] + 1)).all(axis=1)
    assert inside.all()


def test_pictures_are_read_again_with_their_boxes(tmp_path: Path) -> None:
    """As any folder in COCO's form."""
    pictures, boxes = digits_on_grounds(DIGITS, 50, seed=1)
    with filled(output_folder(tmp_path / "pictures", kind="pictures")) as unfinished:
        write_coco(unfinished, pictures, boxes)
    data = load_data(tmp_path / "pictures")
    np.testing.assert_array_equal(data.images, pictures)
    assert data.boxes is not None
    for own, known in zip(data.boxes, boxes, strict=True):
        assert own is not None
        np.testing.assert_allclose(own, known)


def test_the_gate_is_one_of_classifiers(capsys: pytest.CaptureFixture[str]) -> None:
    """Refused before anything is trained."""
    assert main(["demo", "--gate", "--task", "detection"]) == 2
    assert "--gate is a demonstration with classifiers" in capsys.readouterr().err


@pytest.mark.slow
def test_the_whole_demonstration(tmp_path: Path) -> None:
    """From the digits to the report, with verdicts by known boxes."""
    found = diffgen.demo_detection(output=tmp_path / "run", budget=diffgen.Budget(queries=300))
    assert found.faults is not None
    assert (tmp_path / "run" / "report.html").is_file()
