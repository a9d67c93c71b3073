"""Trains two small detectors of blood cells on two cores, and writes them as ONNX files.

    python -m benchmarks.detectors_models shared /tmp/detectors

Both are anchor-free networks of one scale, made for this; A takes 192 x 192 pixels, B 160 x 160 and half the channels.
Written are, of each, a raw head as Ultralytics exports it (a.onnx, b.onnx), one of 8 bits (a-int8.onnx), one as YOLOX
exports it, two that end with non-maximum suppression, and the other formats of :func:`formats`. A fifth of the
pictures, drawn at random, is kept out of the training; the file val.txt names them, and README.md says how each file is
fed and how well it finds the cells of these pictures.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
import warnings
from dataclasses import dataclass, replace
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

    def __init__(self, net: Net, side: int, iou: float) -> None:
        super().__init__()
        self.raw, self.iou = Raw(net, side), iou

    def forward(self, x: Tensor) -> Tensor:
        raw = self.raw(x)[0]
        half = raw[2:4] / 2
        boxes = torch.cat([raw[:2] - half, raw[:2] + half]).T
        keep = torch.ops.torchvision.nms(boxes, raw[4], self.iou)
        rows = torch.cat([boxes[keep], raw[4][keep].unsqueeze(1), torch.zeros_like(raw[4][keep]).unsqueeze(1)], 1)
        rows = torch.cat([rows, torch.zeros(100, 6)])[:100]
        return rows.unsqueeze(0)


class Otherwise(nn.Module):
    """The raw head with what goes in, or comes out, in another form."""

    def __init__(self, net: Net, side: int, form: str) -> None:
        super().__init__()
        self.raw, self.side, self.form = Raw(net, side), side, form

    def forward(self, x: Tensor) -> Tensor | tuple[Tensor, Tensor]:
        x = x.permute(0, 3, 1, 2) if self.form == "nhwc" else x / 255 if self.form == "levels" else x
        said = self.raw(x)
        boxes, scores = said[:, :4], said[:, 4:]
        if self.form == "shares":
            return torch.cat([boxes / self.side, scores], 1)
        if self.form == "objectness":
            return torch.cat([boxes, scores, torch.ones_like(scores)], 1).transpose(1, 2)
        if self.form == "corners":
            half = boxes[:, 2:] / 2
            return torch.cat([boxes[:, :2] - half, boxes[:, :2] + half], 1).transpose(1, 2), scores.transpose(1, 2)
        return said


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


def export(
    network: nn.Module, side: int, path: Path, *, meta: dict[str, str], batch: bool = True, opset: int = 17
) -> None:
    """An ONNX file with metadata as Ultralytics writes them."""
    two = isinstance(network, Otherwise) and network.form == "corners"
    outputs = ["boxes", "scores"] if two else ["output0"]
    axes = {name: {0: "n"} for name in ("images", *outputs)} if batch else {}
    names: dict[str, Any] = {"input_names": ["images"], "output_names": outputs, "dynamic_axes": axes}
    shape = (1, side, side, 3) if isinstance(network, Otherwise) and network.form == "nhwc" else (1, 3, side, side)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it advises another exporter
        example = (torch.zeros(shape),)
        torch.onnx.export(network.eval(), example, str(path), dynamo=False, opset_version=opset, **names)
    model = onnx.load(str(path))
    for key, value in meta.items():
        model.metadata_props.add(key=key, value=value)
    onnx.save(model, str(path))


def simplified(source: Path, target: Path) -> None:
    """The graph as onnxruntime simplifies it before it runs: constants folded, nodes that belong together fused."""
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_EXTENDED
    options.optimized_model_filepath = str(target)
    onnxruntime.InferenceSession(str(source), options, providers=["CPUExecutionProvider"])


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


def formats(side: int) -> dict[str, Preprocessing]:
    """Files of a network that takes so many pixels in other formats, and what diffgen is to be told of each."""
    middle = Preprocessing(fitting="letterbox", antialias=False)
    return {
        "torchscript.pt": replace(middle, size=(side, side)),
        "exported.pt2": middle,
        "corners.onnx": middle,
        "yolox.onnx": Preprocessing(fitting="letterbox"),
        "levels.onnx": Preprocessing(scale="0..255"),
        **dict.fromkeys(
            [f"{form}.onnx" for form in ("opset13", "opset18", "batch1", "simplified", "nms70", "nhwc", "shares")]
            + ["objectness.onnx"],
            Preprocessing(),
        ),
    }


def write(plan: Plan, net: Net, fed: list[Tensor], out: Path) -> None:
    """All files of one network; ``fed`` are pictures that the 8-bit one is calibrated on."""
    name, side, raw = plan.name, plan.side, Raw(net, plan.side).eval()
    meta = {"names": str(NAMES), "task": "detect", "imgsz": str([side, side]), "stride": str(STRIDE)}
    export(raw, side, out / f"{name}.onnx", meta=meta)
    quantize(out / f"{name}.onnx", out / f"{name}-int8.onnx", [each[None].numpy() for each in fed])
    export(EndToEnd(net, side, 0.6), side, out / f"{name}-nms.onnx", batch=False, meta=meta)
    export(EndToEnd(net, side, 0.7), side, out / f"{name}-nms70.onnx", batch=False, meta=meta)
    export(Yolox(net), side, out / f"{name}-yolox.onnx", meta={"names": str(NAMES)})
    for opset in (13, 18):
        export(raw, side, out / f"{name}-opset{opset}.onnx", meta=meta, opset=opset)
    export(raw, side, out / f"{name}-batch1.onnx", meta=meta, batch=False)
    for form in ("nhwc", "levels", "shares", "objectness", "corners"):
        export(Otherwise(net, side, form), side, out / f"{name}-{form}.onnx", meta=meta)
    simplified(out / f"{name}.onnx", out / f"{name}-simplified.onnx")
    example = torch.zeros(2, 3, side, side)
    torch.jit.save(torch.jit.trace(raw, example), str(out / f"{name}-torchscript.pt"))
    sizes = ({0: torch.export.Dim("n", min=1, max=4096)},)
    torch.export.save(torch.export.export(raw, (example,), dynamic_shapes=sizes), str(out / f"{name}-exported.pt2"))


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
| a.onnx, b.onnx, int8 | yolov8: (N, 5, M), no suppression | 192x192, 160x160 | as the file says: letterbox, RGB, 0..1 |
| nms, nms70 | end-to-end: (1, 100, 6), suppression at IoU 0.6, 0.7 inside | | the same |
| yolox | yolox: (N, M, 6), stride 8 | | --fitting letterbox (in the middle), BGR, 0..255 |
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
    figures = {
        name: precision(
            args.out / f"{name}.onnx", kept, Preprocessing(fitting="letterbox") if "yolox" in name else None
        )
        for name in (f"{plan.name}{form}" for plan in PLANS for form in ("", "-int8", "-nms", "-yolox"))
    }
    told = ", ".join(f"{name} {value:.3f}" for name, value in figures.items())
    print(told)
    sizes = {"trained": len(rest), "all": len(data), "kept": len(kept)}
    write_text(args.out / "README.md", _README.format(figures=told, **sizes))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
