"""Detectors that need no training: networks that find the bright squares of a picture, with each kind of head."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

STRIDE = 8
SIDE = 64  # of a network's input


def pictures(count: int = 12, height: int = 64, width: int = 64, *, side: int = 16, seed: int = 0):
    """Dark noise with bright squares of one side, red (class 0) and blue (class 1), and their boxes.

    Returns:
        uint8 (count, 3, height, width); and of each image float32 (n, 5), x1, y1, x2, y2, class.
    """
    draw = np.random.default_rng(seed)
    images = draw.integers(0, 30, (count, 3, height, width), dtype=np.uint8)
    known = []
    for image in images:
        rows = []
        for column in range(2):
            left = int(draw.integers(column * width // 2, (column + 1) * width // 2 - side + 1))
            top = int(draw.integers(0, height - side + 1))
            kind = int(draw.integers(2))
            image[:, top : top + side, left : left + side] = 20
            image[2 * kind, top : top + side, left : left + side] = 250
            rows.append((left, top, left + side, top + side, kind))
        known.append(np.array(rows, dtype=np.float32))
    return images, known


class Squares(nn.Module):
    """Pixels (N, 3, H, W) in [0, 1] to (N, 6, H / 8 * W / 8): middle and sides in pixels, scores of red and of blue.

    A cell's score is how much brighter than its surroundings the square about a pixel in it is; the box has its middle
    at the brightest such pixel.
    """

    def __init__(self, side: float = 16.0) -> None:
        super().__init__()
        self.side = int(side)

    def forward(self, x: Tensor) -> Tensor:
        red_and_blue = x[:, 0::2] - x[:, 1:2]
        half = self.side // 2
        padded = F.pad(red_and_blue, (half, half - 1, half, half - 1))
        about = F.avg_pool2d(padded, self.side, 1)  # of the square whose middle is the pixel's upper left corner
        scores, places = F.max_pool2d(about, STRIDE, STRIDE, return_indices=True)
        best = scores.argmax(dim=1, keepdim=True)
        place = places.gather(1, best)
        width = x.shape[3]
        middle = torch.cat([place % width, place // width], dim=1).float()
        sides = torch.full_like(middle, float(self.side))
        return torch.cat([middle, sides, scores.clamp(0, 1)], dim=1).flatten(2)


@dataclass
class Headed(nn.Module):
    """The same with the head of another family."""

    kind: str

    def __post_init__(self) -> None:
        super().__init__()
        self.squares = Squares()

    __hash__ = nn.Module.__hash__

    def forward(self, x: Tensor):
        height, width = x.shape[2:]
        if self.kind == "yolox":
            x = x.flip(1) / 255
        raw = self.squares(x)
        rows = raw.transpose(1, 2)
        boxes, scores = rows[..., :4], rows[..., 4:]
        sides = torch.tensor([width, height, width, height], dtype=torch.float32)
        corners = torch.cat([boxes[..., :2] - boxes[..., 2:] / 2, boxes[..., :2] + boxes[..., 2:] / 2], dim=2)
        match self.kind:
            case "yolov8":
                return raw
            case "yolov8-shares":  # as Ultralytics exports to TensorFlow Lite
                return torch.cat([boxes / sides, scores], dim=2).transpose(1, 2)
            case "yolov8-logits":
                return torch.cat([boxes, torch.logit(scores, 1e-4)], dim=2).transpose(1, 2)
            case "yolov5":
                return torch.cat([boxes, torch.ones_like(scores[..., :1]), scores], dim=2)
            case "yolox":
                ys, xs = torch.meshgrid(torch.arange(height // STRIDE), torch.arange(width // STRIDE), indexing="ij")
                cells = torch.stack([xs, ys], dim=-1).reshape(1, -1, 2)
                raw_boxes = torch.cat([boxes[..., :2] / STRIDE - cells, (boxes[..., 2:] / STRIDE).log()], dim=2)
                return torch.cat([raw_boxes, torch.ones_like(scores[..., :1]), scores], dim=2)
            case "boxes-and-scores":
                return {"pred_boxes": corners, "pred_scores": scores}
            case "rt-detr":
                return {"pred_boxes": boxes / sides, "logits": torch.logit(scores, 1e-4)}
        best = scores.max(dim=2)
        # of neighbouring cells the best alone, as suppression leaves it
        map_of_best = best.values.view(len(x), 1, height // STRIDE, width // STRIDE)
        peaks = (F.max_pool2d(map_of_best, 3, 1, 1) == map_of_best).flatten(1)
        value, order = (best.values * peaks).sort(dim=1, descending=True)
        corners = corners.gather(1, order[..., None].expand(-1, -1, 4))
        label = best.indices.gather(1, order)
        match self.kind:
            case "end-to-end":
                return torch.cat([corners, value[..., None], label[..., None].float()], dim=2)
            case "dets":
                return {"dets": torch.cat([corners, value[..., None]], dim=2), "labels": label}
            case "ssd":
                number = torch.full((len(x),), float(value.shape[1]))
                first = corners[..., [1, 0, 3, 2]] / sides
                return {"the_boxes": first, "b": label.float(), "c": value, "d": number}
            case "three outputs":  # torchvision's as ONNX: of one image
                return {"boxes": corners[0], "labels": label[0] + 1, "scores": value[0]}
            case "torchvision":
                return [
                    {"boxes": c, "labels": one + 1, "scores": v}
                    for c, one, v in zip(corners, label, value, strict=True)
                ]
        raise AssertionError(self.kind)


HEADS_OF_ONNX = (
    "yolov8",
    "yolov8-shares",
    "yolov8-logits",
    "yolov5",
    "yolox",
    "boxes-and-scores",
    "end-to-end",
    "dets",
)


def export(kind: str, path: Path, *, side: int = SIDE, batch: bool = True, names: str = "") -> Path:
    """One of these networks as an ONNX file."""
    import onnx

    network = Headed(kind).eval()
    example = torch.from_numpy(pictures(2, side, side)[0]).float() / 255
    answer = network(example)
    batch = batch and kind != "three outputs"
    outputs = list(answer) if isinstance(answer, dict) else ["output0"]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(
            network,
            (example[:1],),
            str(path),
            dynamo=False,
            opset_version=17,
            input_names=["images"],
            output_names=outputs,
            dynamic_axes={name: {0: "n"} for name in ("images", *outputs)} if batch else None,
        )
    if names:
        model = onnx.load(str(path))
        model.metadata_props.add(key="names", value=names)
        onnx.save(model, str(path))
    return path
