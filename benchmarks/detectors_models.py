"""Trains two small detectors of blood cells on two cores, and writes them as ONNX files.

    python -m benchmarks.detectors_models shared /tmp/detectors

Both are anchor-free networks of one scale, made for this; A takes 192 x 192 pixels, B 160 x 160 and half the channels.
Written are, of each, a raw head as Ultralytics exports it (a.onnx, b.onnx), and of A one that ends with non-maximum
suppression (a-nms.onnx) and one of 8 bits (a-int8.onnx), of B one as YOLOX exports it (b-yolox.onnx). A fifth of the
pictures, drawn at random, is kept out of the training; the file val.txt names them, and README.md says how each file is
fed and how well it finds the cells of these pictures.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime.quantization
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torchvision.ops import box_iou, generalized_box_iou_loss

from diffgen.config import Preprocessing
from diffgen.data import load
from diffgen.gate.average_precision import mean_average_precision
from diffgen.models import load as load_model
from diffgen.models.detections import as_boxes
from diffgen.runs.files import write_text
from diffgen.types import ImageSet

GREY = 114
STRIDE = 8


@dataclass(frozen=True)
class Plan:
    name: str
    side: int
    width: int
    seed: int


PLANS = (Plan("a", 192, 24, 1), Plan("b", 160, 14, 2))


def block(inside: int, outside: int, stride: int = 1) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(inside, outside, 3, stride, 1, bias=False), nn.BatchNorm2d(outside), nn.ReLU(inplace=True)
    )


class Net(nn.Module):
    """Pixels (N, 3, S, S) in [0, 1] to (N, 5, S / 8, S / 8): offsets of a middle, logarithms of sides, a logit."""

    def __init__(self, width: int) -> None:
        super().__init__()
        w = width
        self.body = nn.Sequential(block(3, w, 2), block(w, 2 * w, 2), block(2 * w, 2 * w), block(2 * w, 4 * w, 2))
        self.deep = nn.Sequential(block(4 * w, 4 * w, 2), block(4 * w, 4 * w), block(4 * w, 4 * w))
        last = nn.Conv2d(4 * w, 5, 1)
        with torch.no_grad():
            assert last.bias is not None
            last.bias.copy_(torch.tensor([0.0, 0.0, 1.4, 1.4, -3.0]))  # cells are about four strides wide, and rare
        self.head = nn.Sequential(block(4 * w, 4 * w), last)

    def forward(self, x: Tensor) -> Tensor:
        x = self.body(x)
        return self.head(x + F.interpolate(self.deep(x), scale_factor=2.0, mode="nearest"))


def grid(side: int) -> Tensor:
    """Cells (2, S/8 * S/8) of the map: column and row."""
    n = side // STRIDE
    rows, columns = torch.meshgrid(torch.arange(n), torch.arange(n), indexing="ij")
    return torch.stack([columns, rows]).reshape(2, -1).float()


def decoded(raw: Tensor, cells: Tensor) -> tuple[Tensor, Tensor]:
    """Boxes (N, 4, M) as middle and sides in pixels, and logits (N, 1, M)."""
    raw = raw.flatten(2)
    return torch.cat([(raw[:, :2] + cells) * STRIDE, raw[:, 2:4].exp() * STRIDE], 1), raw[:, 4:]


class Raw(nn.Module):
    """(1, 5, M): as Ultralytics exports YOLOv8."""

    def __init__(self, net: Net, side: int) -> None:
        super().__init__()
        self.net, self.cells = net, nn.Buffer(grid(side))

    def forward(self, x: Tensor) -> Tensor:
        boxes, logits = decoded(self.net(x), self.cells)
        return torch.cat([boxes, logits.sigmoid()], 1)


class Yolox(nn.Module):
    """(1, M, 6): as YOLOX exports itself, from BGR grey levels; objectness and class share the score."""

    def __init__(self, net: Net) -> None:
        super().__init__()
        self.net = net

    def forward(self, x: Tensor) -> Tensor:
        raw = self.net(x.flip(1) / 255).flatten(2)
        score = raw[:, 4:].sigmoid().sqrt()
        return torch.cat([raw[:, :4], score, score], 1).transpose(1, 2)


class EndToEnd(nn.Module):
    """(1, 100, 6): corners, score and class after non-maximum suppression."""

    def __init__(self, net: Net, side: int) -> None:
        super().__init__()
        self.raw = Raw(net, side)

    def forward(self, x: Tensor) -> Tensor:
        raw = self.raw(x)[0]
        half = raw[2:4] / 2
        boxes = torch.cat([raw[:2] - half, raw[:2] + half]).T
        keep = torch.ops.torchvision.nms(boxes, raw[4], 0.6)
        rows = torch.cat([boxes[keep], raw[4][keep].unsqueeze(1), torch.zeros_like(raw[4][keep]).unsqueeze(1)], 1)
        rows = torch.cat([rows, torch.zeros(100, 6)])[:100]
        return rows.unsqueeze(0)


def targets(boxes: Tensor, cells: Tensor) -> tuple[Tensor, Tensor]:
    """For each cell the number of the object that it answers for (-1: none), boxes (M, 4) being corners."""
    middle = (cells.T + 0.5) * STRIDE
    centre = (boxes[:, :2] + boxes[:, 2:]) / 2
    far = (middle[:, None] - centre[None]).abs().amax(2)
    nearest, which = far.min(1)
    return nearest <= 1.0 * STRIDE, which


def loss_of(raw: Tensor, truth: list[Tensor], cells: Tensor) -> Tensor:
    boxes, logits = decoded(raw, cells)
    corners = torch.cat([boxes[:, :2] - boxes[:, 2:] / 2, boxes[:, :2] + boxes[:, 2:] / 2], 1).transpose(1, 2)
    total, count = raw.new_zeros(()), 0
    wanted = torch.zeros_like(logits[:, 0])
    for i, known in enumerate(truth):
        if not len(known):
            continue
        positive, which = targets(known, cells)
        found, real = corners[i][positive], known[which[positive]]
        total = total + 2.0 * generalized_box_iou_loss(found, real, reduction="sum")
        with torch.no_grad():
            # how well a cell's box fits, so that of several cells of an object the best one scores highest
            wanted[i][positive] = box_iou(found, real).diagonal().clamp(0.05)
        count += int(positive.sum())
    p = logits[:, 0].sigmoid()
    weight = torch.where(wanted > 0, wanted, 0.75 * p.detach() ** 2)
    total = total + (weight * F.binary_cross_entropy_with_logits(logits[:, 0], wanted, reduction="none")).sum() * 2.0
    return total / max(count, 1)


def letterboxed(picture: Tensor, boxes: Tensor, side: int) -> tuple[Tensor, Tensor]:
    """uint8 (3, H, W) and corners into float32 (3, side, side) in [0, 1], as Ultralytics does it."""
    _, height, width = picture.shape
    share = min(side / height, side / width)
    size = round(height * share), round(width * share)
    small = F.interpolate(picture[None].float(), size=size, mode="bilinear", align_corners=False)[0]
    top, left = round((side - size[0]) / 2 - 0.1), round((side - size[1]) / 2 - 0.1)
    canvas = torch.full((3, side, side), float(GREY))
    canvas[:, top : top + size[0], left : left + size[1]] = small
    boxes = boxes * torch.tensor([size[1] / width, size[0] / height] * 2) + torch.tensor([left, top] * 2)
    return canvas / 255, boxes


def changed(picture: Tensor, boxes: Tensor, draw: np.random.Generator) -> tuple[Tensor, Tensor]:
    """A random flip, shift and change of light, of a letterboxed picture."""
    side = picture.shape[2]
    if draw.random() < 0.5:
        picture, boxes = (
            picture.flip(2),
            torch.stack([side - boxes[:, 2], boxes[:, 1], side - boxes[:, 0], boxes[:, 3]], 1),
        )
    if draw.random() < 0.5:
        picture, boxes = (
            picture.flip(1),
            torch.stack([boxes[:, 0], side - boxes[:, 3], boxes[:, 2], side - boxes[:, 1]], 1),
        )
    if draw.random() < 0.5:
        picture, boxes = picture.transpose(1, 2), boxes[:, [1, 0, 3, 2]]
    light = picture * float(draw.uniform(0.85, 1.15)) + float(draw.uniform(-0.05, 0.05))
    return light.clamp(0, 1), boxes


def train(plan: Plan, pictures: list[Tensor], boxes: list[Tensor], epochs: int) -> Net:
    torch.manual_seed(plan.seed)
    draw = np.random.default_rng(plan.seed)
    fed = [letterboxed(p, b, plan.side) for p, b in zip(pictures, boxes, strict=True)]
    net, cells = Net(plan.width), grid(plan.side)
    batch = 16
    steps = epochs * -(-len(fed) // batch)
    optimizer = torch.optim.AdamW(net.parameters(), lr=4e-3, weight_decay=1e-3)
    plan_of_rates = torch.optim.lr_scheduler.OneCycleLR(optimizer, 4e-3, total_steps=steps)
    net.train()
    started = time.perf_counter()
    for epoch in range(epochs):
        order, sums = draw.permutation(len(fed)), 0.0
        for start in range(0, len(fed), batch):
            some = [changed(fed[i][0], fed[i][1], draw) for i in order[start : start + batch]]
            loss = loss_of(net(torch.stack([p for p, _ in some])), [b for _, b in some], cells)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            plan_of_rates.step()
            sums += float(loss.detach())
        print(
            f"{plan.name} epoch {epoch + 1}: {sums * batch / len(fed):.3f} {time.perf_counter() - started:.0f} s",
            flush=True,
        )
    return net.eval()


NAMES = {0: "RBC"}


def export(network: nn.Module, side: int, path: Path, *, batch: bool, meta: dict[str, str]) -> None:
    """An ONNX file of opset 17 with metadata as Ultralytics writes them."""
    axes = {"images": {0: "n"}, "output0": {0: "n"}} if batch else {}
    names: dict[str, Any] = {"input_names": ["images"], "output_names": ["output0"], "dynamic_axes": axes}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it advises another exporter
        example = (torch.zeros(1, 3, side, side),)
        torch.onnx.export(network.eval(), example, str(path), dynamo=False, opset_version=17, **names)
    model = onnx.load(str(path))
    for key, value in meta.items():
        model.metadata_props.add(key=key, value=value)
    onnx.save(model, str(path))


def quantize(source: Path, target: Path, batches: list[np.ndarray]) -> None:
    """The convolutions alone in 8 bits: boxes and scores in one tensor have no common scale."""
    tools: Any = onnxruntime.quantization

    class Reader(tools.CalibrationDataReader):  # type: ignore[misc]
        def __init__(self) -> None:
            self.left = iter(batches)

        def get_next(self) -> dict[str, np.ndarray] | None:
            batch = next(self.left, None)
            return None if batch is None else {"images": batch}

    with tempfile.TemporaryDirectory() as folder:
        prepared = Path(folder) / "prepared.onnx"
        tools.quant_pre_process(str(source), str(prepared), skip_symbolic_shape=True)
        tools.quantize_static(
            str(prepared),
            str(target),
            Reader(),
            op_types_to_quantize=["Conv"],
            per_channel=True,
            activation_type=tools.QuantType.QUInt8,
            weight_type=tools.QuantType.QInt8,
        )
    with_metadata, model = onnx.load(str(source)), onnx.load(str(target))
    del model.metadata_props[:]
    model.metadata_props.extend(with_metadata.metadata_props)
    onnx.save(model, str(target))


def write(plan: Plan, net: Net, fed: list[Tensor], out: Path) -> None:
    """All files of one network; ``fed`` are pictures that the 8-bit one is calibrated on."""
    meta = {"names": str(NAMES), "task": "detect", "imgsz": str([plan.side, plan.side]), "stride": str(STRIDE)}
    export(Raw(net, plan.side), plan.side, out / f"{plan.name}.onnx", batch=True, meta=meta)
    if plan.name == "a":
        export(EndToEnd(net, plan.side), plan.side, out / "a-nms.onnx", batch=False, meta=meta)
        quantize(out / "a.onnx", out / "a-int8.onnx", [each[None].numpy() for each in fed])
    else:
        export(Yolox(net), plan.side, out / "b-yolox.onnx", batch=True, meta={"names": str(NAMES)})


def precision(path: Path, data: ImageSet, preprocessing: Preprocessing | None = None) -> float:
    """Mean average precision of a file as diffgen asks it, over IoUs from 0.5 to 0.95."""
    box = load_model(path, preprocessing=preprocessing)
    box.prepare(data.images)
    answers = as_boxes(box.predict(data.images))
    return float(
        mean_average_precision(answers[:, None], [each for each in data.boxes or () if each is not None])[0][0]
    )


_README = """\
# Two small detectors of blood cells (one class, RBC), made by benchmarks/detectors_models.py

Trained on {trained} of the {all} pictures of blood-cells that have boxes (640x480); val.txt names the other {kept}.
mAP over IoUs from 0.5 to 0.95 on these: {figures}.

| file | head | input | fed |
|---|---|---|---|
| a.onnx, a-int8.onnx | yolov8: (N, 5, 576), no suppression | 192x192 | as the file says: letterbox, RGB, 0..1 |
| a-nms.onnx | end-to-end: (1, 100, 6), suppression at IoU 0.6 inside | 192x192 | the same |
| b.onnx | yolov8: (N, 5, 400) | 160x160 | the same |
| b-yolox.onnx | yolox: (N, 400, 6), stride 8 | 160x160 | --fitting letterbox (in the middle), BGR, 0..255 |
"""


def main(argv: list[str]) -> int:
    """Run the command."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.detectors_models", description=__doc__)
    parser.add_argument("shared", type=Path, help="folder with data/blood-cells")
    parser.add_argument("out", type=Path, help="where the files go")
    parser.add_argument("--epochs", type=int, default=30, help="passes over the pictures (default: 30)")
    args = parser.parse_args(argv)
    args.out.mkdir(parents=True, exist_ok=True)
    data = load(args.shared / "data" / "blood-cells")
    data = data.at(np.array([each is not None for each in data.boxes or ()]))
    order = np.random.default_rng(0).permutation(len(data))
    kept, rest = data.at(np.sort(order[: len(order) // 5])), data.at(np.sort(order[len(order) // 5 :]))
    write_text(args.out / "val.txt", "".join(f"{Path(name).stem}\n" for name in kept.names or ()))
    pictures = [torch.from_numpy(image) for image in rest.images]
    boxes = [torch.from_numpy(each[:, :4]) for each in rest.boxes or () if each is not None]
    for plan in PLANS:
        net = train(plan, pictures, boxes, args.epochs)
        some = [letterboxed(*pair, plan.side)[0] for pair in zip(pictures[:64], boxes, strict=False)]
        write(plan, net, some, args.out)
    middle = Preprocessing(fitting="letterbox")
    figures = {
        name: precision(args.out / f"{name}.onnx", kept, middle if name == "b-yolox" else None)
        for name in ("a", "a-int8", "a-nms", "b", "b-yolox")
    }
    told = ", ".join(f"{name} {value:.3f}" for name, value in figures.items())
    print(told)
    sizes = {"trained": len(rest), "all": len(data), "kept": len(kept)}
    write_text(args.out / "README.md", _README.format(figures=told, **sizes))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
