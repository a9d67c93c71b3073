"""Entry point of ``diffgen demo --task detection``: two detectors of digits on plain grounds, trained on the spot."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from PIL import Image
from torch import nn

from diffgen.comparison.machine import resolve_device
from diffgen.comparison.stages import CompareResult
from diffgen.config import Budget, CompareConfig, TaskConfig
from diffgen.data import load as load_data
from diffgen.events import Listener, Progress, StopToken
from diffgen.numerics import seeded
from diffgen.runs.creation import check_output
from diffgen.runs.files import write_whole
from diffgen.runs.outputs import filled, output_file, output_folder, write_new
from diffgen.runs.pictures import png_bytes
from diffgen.types import Float32Array, ImageSet, UInt8Array
from diffgen.workflows.compare import compare
from diffgen.workflows.demo import save_onnx

SIDE = 96  # of a picture, pixels
_STRIDE = 8
_CLASSES = 10
_SHOWN, _LESSONS = 150, 1_200  # pictures to compare on, and to learn from
_PASSES, _BATCH = 24, 32
_SCORE = 0.3  # from which on a box is reported


def digits_on_grounds(digits: ImageSet, count: int, seed: int) -> tuple[UInt8Array, list[Float32Array]]:
    """Digits of several sizes on grounds of one grey.

    Args:
        digits: of 28x28 pixels, white on black, with labels.

    Returns:
        uint8 (count, 1, 96, 96); and of each the boxes around the ink, float32 (n, 5), corners and digit; one to three.
    """
    assert digits.labels is not None
    rng = np.random.default_rng(seed)
    pictures = np.empty((count, 1, SIDE, SIDE), dtype=np.uint8)
    boxes = []
    for picture in pictures:
        ground = rng.integers(0, 120)
        canvas, own = np.full((SIDE, SIDE), ground, dtype=np.float32), []
        for place in rng.choice(4, rng.integers(1, 4), replace=False):
            row = rng.integers(len(digits))
            side = int(rng.integers(26, 44))
            drawn = Image.fromarray(digits.images[row, 0]).resize((side, side), Image.Resampling.BILINEAR)
            ink = np.asarray(drawn, dtype=np.float32) / 255
            top, left = (int(each * 48 + rng.integers(0, 48 - side + 1)) for each in divmod(int(place), 2))
            part = canvas[top : top + side, left : left + side]
            part += ink * (rng.integers(170, 256) - part)
            rows, columns = (np.flatnonzero((ink > 0.3).any(axis=axis)) for axis in (1, 0))
            corner = left + columns[0], top + rows[0], left + columns[-1] + 1, top + rows[-1] + 1
            own.append((*corner, digits.labels[row]))
        picture[0] = canvas.round().astype(np.uint8)
        boxes.append(np.array(own, dtype=np.float32))
    return pictures, boxes


class GridDetector(nn.Module):
    """A network with a raw head as YOLOv8 has it: for each cell of 8x8 pixels middle, sides and ten scores.

    Args:
        width: channels of its first layer.
    """

    def __init__(self, width: int) -> None:
        super().__init__()
        sizes = (1, width, 2 * width, 4 * width)
        down = [
            layer
            for one, other in pairwise(sizes)
            for layer in (nn.Conv2d(one, other, 3, stride=2, padding=1), nn.ReLU())
        ]
        same = [layer for _ in range(2) for layer in (nn.Conv2d(4 * width, 4 * width, 3, padding=1), nn.ReLU())]
        self.layers = nn.Sequential(*down, *same, nn.Conv2d(4 * width, 4 + _CLASSES, 1))
        cells = SIDE // _STRIDE
        ys, xs = torch.meshgrid(torch.arange(cells), torch.arange(cells), indexing="ij")
        self.register_buffer("corner", torch.stack([xs, ys])[None].float() * _STRIDE)

    def cells(self, pictures: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Boxes (N, 4, 12, 12), middles and sides in pixels, and logits (N, 10, 12, 12), for float32 (N, 1, 96, 96)."""
        raw = self.layers(pictures)
        middle = self.corner + raw[:, :2].sigmoid() * _STRIDE
        return torch.cat([middle, raw[:, 2:4].clamp(-3, 3).exp() * 16], dim=1), raw[:, 4:]

    def forward(self, pictures: torch.Tensor) -> torch.Tensor:
        """float32 (N, 14, 144)."""
        boxes, logits = self.cells(pictures)
        return torch.cat([boxes, logits.sigmoid()], dim=1).flatten(2)


def train_detector(
    network: GridDetector,
    pictures: UInt8Array,
    boxes: list[Float32Array],
    *,
    seed: int,
    passes: int = _PASSES,
    name: str = "a detector",
    progress: Progress | None = None,
) -> GridDetector:
    """Train on pictures with boxes (cross-entropy of every cell, L1 of boxes, Adam, on the CPU); gives it in eval mode.

    The cell that holds the middle of a digit is to report it.
    """
    images = torch.from_numpy(pictures).float() / 255
    cells = SIDE // _STRIDE
    wanted, there = torch.zeros(len(images), _CLASSES, cells, cells), torch.zeros(len(images), cells, cells).bool()
    places = torch.zeros(len(images), 4, cells, cells)
    for row, own in enumerate(boxes):
        for x1, y1, x2, y2, label in own.tolist():
            middle = (x1 + x2) / 2, (y1 + y2) / 2
            column, line = (int(each // _STRIDE) for each in middle)
            wanted[row, int(label), line, column], there[row, line, column] = 1, True
            places[row, :, line, column] = torch.tensor([*middle, x2 - x1, y2 - y1])
    rng = torch.Generator().manual_seed(seed)
    optimiser = torch.optim.Adam(network.parameters(), lr=2e-3)
    with (progress or Progress()).stage(f"Training {name}", total=passes) as task:
        for _ in range(passes):
            for rows in torch.randperm(len(images), generator=rng).split(_BATCH):
                found, logits = network.cells(images[rows])
                chosen = there[rows]
                error = (found - places[rows]).abs().sum(dim=1)[chosen].mean()
                loss = F.binary_cross_entropy_with_logits(logits, wanted[rows], reduction="sum") / len(rows)
                optimiser.zero_grad(set_to_none=True)
                (loss + 0.1 * error).backward()
                optimiser.step()
            task.advance()
    return network.eval()


def save_detector(network: GridDetector, path: Path) -> None:
    """Save a detector as ONNX for batches of any size, with the names of its classes as Ultralytics writes them."""
    import onnx

    def write(temporary: Path) -> None:
        save_onnx(network, temporary, (1, SIDE, SIDE), output="output0")
        model = onnx.load(str(temporary))
        model.metadata_props.add(key="names", value=str({number: str(number) for number in range(_CLASSES)}))
        onnx.save(model, str(temporary))

    write_whole(path, write)


def write_coco(folder: Path, pictures: UInt8Array, boxes: list[Float32Array]) -> None:
    """Write pictures as PNG, and their boxes as COCO's annotations.json, into a folder that :func:`filled` makes."""
    (folder / "images").mkdir()
    names = [f"{number:04}.png" for number in range(len(pictures))]
    annotations = list[dict[str, object]]()
    for number, (name, image, own) in enumerate(zip(names, pictures, boxes, strict=True)):
        write_new(folder / "images" / name, png_bytes(image))
        for x1, y1, x2, y2, label in own.tolist():
            box = {"bbox": [x1, y1, x2 - x1, y2 - y1], "category_id": int(label), "image_id": number}
            annotations.append({"id": len(annotations), **box})
    entries = [{"id": number, "file_name": name, "width": SIDE, "height": SIDE} for number, name in enumerate(names)]
    categories = [{"id": number, "name": str(number)} for number in range(_CLASSES)]
    told = {"images": entries, "annotations": annotations, "categories": categories}
    write_new(folder / "annotations.json", json.dumps(told).encode())


def demo_detection(
    *,
    output: str | Path = "demo-run",
    budget: Budget | None = None,
    force: bool = False,
    seed: int = 0,
    device: str = "auto",
    batch_size: int | None = None,
    events: Listener | None = None,
    stop: StopToken | None = None,
    command: str = "diffgen demo --task detection",
) -> CompareResult:
    """Train two detectors on pictures made of one half of the digits, and compare them on pictures of the other half.

    Raises:
        UserError: the output folder is not empty, or the device does not exist.
    """
    progress = Progress(events, stop)
    path = check_output(Path(output), force=force)
    models = path.with_name(f"{path.name}-models")
    files = [output_file(models / name, force=force, parents=True) for name in ("wide.onnx", "narrow.onnx")]
    data = output_folder(models / "pictures", kind="pictures", force=force)
    resolve_device(device)
    progress.say(
        "The digits are the 1,797 real handwritten ones that ship inside scikit-learn, one to three of them in several "
        "sizes on a ground of one grey. One half trains the detectors, the other half is what they are compared on."
    )
    models.mkdir(parents=True, exist_ok=True)
    lessons = digits_on_grounds(load_data("digits:train"), _LESSONS, seed)
    for file, width, name in zip(files, (12, 8), ("A", "B"), strict=True):
        with seeded(seed):
            network = GridDetector(width)
        save_detector(train_detector(network, *lessons, seed=seed, name=f"model {name}", progress=progress), file)
    with filled(data) as unfinished:
        write_coco(unfinished, *digits_on_grounds(load_data("digits:test"), _SHOWN, seed + 1))
    progress.say(
        f"Two detectors trained and saved: {files[0]} and {files[1]} (ONNX); pictures with boxes: {data.path}."
    )
    config = CompareConfig(
        budget=budget or Budget(seconds=30.0),
        seed=seed,
        device=device,
        batch_size=batch_size,
        task=TaskConfig(score=_SCORE),
    )
    return compare(
        *files, data=data.path, config=config, output=path, force=force, events=events, stop=stop, command=command
    )
