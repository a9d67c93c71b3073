"""A detector of TensorFlow Lite with four outputs: what LiteRT's own operator leaves is read, in whatever order."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import diffgen
from diffgen.comparison.opened_run import OpenedRun
from diffgen.errors import UserError
from diffgen.models import load
from diffgen.models.detections import CLASS, SCORE, as_boxes
from diffgen.runs.folder import RunFolder
from diffgen.types import ImageSet
from tests.models.detectors import export, pictures

pytest.importorskip("ai_edge_litert.interpreter", reason="needs LiteRT; 'pip install diffgen[tflite]' brings it")
SIDE = 64
MOST = 20
OPTIONS = {
    **{"y_scale": 10.0, "x_scale": 10.0, "h_scale": 5.0, "w_scale": 5.0},
    **{"nms_iou_threshold": 0.5, "nms_score_threshold": 0.1},
    **{"num_classes": 2, "max_classes_per_detection": 1, "max_detections": MOST, "use_regular_nms": False},
}


def network() -> tuple[nn.Conv2d, nn.Conv2d, np.ndarray]:
    """Encoded boxes and logits for every pixel, and its anchors: of a square about it, of 16 pixels a side."""
    boxes, scores = nn.Conv2d(3, 4, 1), nn.Conv2d(3, 3, 17, padding=8)
    with torch.no_grad():
        for layer in (boxes, scores):
            layer.weight.zero_()
            layer.bias.zero_()
        boxes.weight[0, 2] = 0.4  # up to half a pixel further down where it is blue
        boxes.bias[2:] = 5 * float(np.log(16 / 12))
        for number, channel in ((1, 0), (2, 2)):
            scores.weight[number, channel, :16, :16] = 12 / 256
            scores.weight[number, 1, :16, :16] = -12 / 256
        scores.bias.fill_(-6.0)
    middles = np.stack(np.meshgrid(np.arange(SIDE), np.arange(SIDE), indexing="ij"), axis=-1).reshape(-1, 2) / SIDE
    anchors = np.concatenate([middles, np.full_like(middles, 12 / SIDE)], axis=1)
    return boxes, scores, anchors.astype(np.float32)


def written(path: Path, **changes: Any) -> Path:
    from benchmarks.tflite_files import Ssd, tflite_file

    boxes, scores, anchors = network()
    options = {**OPTIONS, "max_detections": changes.pop("most", MOST)}
    ssd = Ssd(boxes, scores, anchors, options, **changes)
    path.write_bytes(tflite_file(nn.Sequential(), (3, SIDE, SIDE), ssd=ssd))
    return path


def overlap(one: np.ndarray, other: np.ndarray) -> float:
    top, left = np.maximum(one[:2], other[:2])
    bottom, right = np.minimum(one[2:], other[2:])
    inner = max(bottom - top, 0.0) * max(right - left, 0.0)
    sizes = [(each[2] - each[0]) * (each[3] - each[1]) for each in (one, other)]
    return float(inner / (sum(sizes) - inner))


def slowly(image: np.ndarray, most: int = MOST) -> np.ndarray:
    """Rows of y1, x1, y2, x2 in pixels, score and class, the best first; torch convolves, numpy does the rest."""
    layers = network()
    with torch.inference_mode():
        pixels = torch.from_numpy(image[None]).float() / 255
        encoded, logits = (layer(pixels)[0].flatten(1).T.double().numpy() for layer in layers[:2])
    places, anchors = layers[2][:, :2].astype(float), layers[2][:, 2:].astype(float)
    middles = encoded[:, :2] / 10 * anchors + places
    sides = np.exp(encoded[:, 2:] / 5) * anchors
    corners = np.concatenate([middles - sides / 2, middles + sides / 2], axis=1) * SIDE
    scores = 1 / (1 + np.exp(-logits[:, 1:]))  # the first is the background
    kept: list[np.ndarray] = []
    for place in scores.max(axis=1).argsort()[::-1]:
        score = scores[place].max()
        if score < OPTIONS["nms_score_threshold"] or len(kept) == most:
            break
        if all(overlap(corners[place], other[:4]) <= OPTIONS["nms_iou_threshold"] for other in kept):
            kept.append(np.array([*corners[place], score, scores[place].argmax()]))
    return np.array(kept)


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"order": (3, 1, 0, 2)},
        {"outputs": (":3", ":1", ":0", ":2"), "order": (2, 0, 3, 1)},
        {"outputs": ("/boxes", "/classes", "/scores", "/num"), "order": (2, 1, 3, 0)},
        *({"most": most} for most in (1, 4, 5)),
    ],
    ids=lambda changes: ", ".join(changes) or "as the converter writes it",
)
def test_four_outputs_are_those_of_a_slow_loop(changes: dict[str, Any], tmp_path: Path) -> None:
    images, known = pictures(8)
    images[..., SIDE // 2 :] = images[..., SIDE // 2 :] * 0.9  # two squares of one brightness have no order
    box = load(written(tmp_path / "ssd.tflite", **changes))
    box.prepare(images)
    assert (box.preprocessing.head, box.fixed_batch, box.num_classes) == ("ssd", 1, 2)
    for image, rows, squares in zip(images, as_boxes(box.predict(images)), known, strict=True):
        expected = slowly(image, changes.get("most", MOST))
        found = rows[rows[:, CLASS] >= 0]
        np.testing.assert_allclose(found[:, SCORE], expected[:, 4], atol=1e-5)
        np.testing.assert_array_equal(found[:, CLASS], expected[:, 5])
        within = expected[:, [1, 0, 3, 2]].clip(0, SIDE)
        np.testing.assert_allclose(found[:, :4], within, atol=1e-3)
        if len(found) > 1:
            real = squares[np.lexsort(squares.T)]
            best = found[:2][np.lexsort(found[:2, [0, 1, 2, 3, CLASS]].T)]
            np.testing.assert_allclose(best[:, :4], real[:, :4], atol=0.6)


@pytest.mark.slow
def test_it_is_compared_with_an_onnx_file(tmp_path: Path) -> None:
    images, known = pictures(50)
    data = ImageSet(images, None, ("0", "1"), "squares", boxes=tuple(known))
    files = written(tmp_path / "ssd.tflite"), export("yolov8", tmp_path / "raw.onnx")
    found = diffgen.compare(*files, data=data, budget="200q", output=tmp_path / "run")
    folder = RunFolder.open(found.run)
    assert folder.manifest["status"] == "done"
    assert OpenedRun(folder).config.task.name == "detection"


def test_an_operator_that_litert_does_not_have_is_refused(tmp_path: Path, told: Callable[..., None]) -> None:
    """As TensorFlow's converter writes combined_non_max_suppression, with its own operators allowed."""
    path = written(tmp_path / "net.tflite", operator="FlexCombinedNonMaxSuppression")
    with pytest.raises(UserError, match="CombinedNonMaxSuppression") as caught:
        load(path).prepare(pictures(4)[0])
    told("Model files", "a TensorFlow Lite file with an operator of TensorFlow's own", caught.value)
