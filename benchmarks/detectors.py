"""What a check says of deployments of one detector with a fault in them, and of clean ones, without any limit.

    python -m benchmarks.detectors OUT --models MODELS --data DATA [--only NAME ...] [--detectors a b]

MODELS has two detectors in all formats, and ``val.txt``, the names of pictures that no detector has seen, as
``python -m benchmarks.detectors_models`` makes them. DATA has pictures and boxes as in Pascal VOC. The base of a fault
is a file behind a pipeline as Ultralytics' own is: letterbox, network, threshold of the scores, non-maximum
suppression; its candidate is the same file behind a pipeline with one fault. The base of a clean pair is that file as
diffgen reads it, its candidate the same network in another format. OUT gets the run folders and detectors.json; what
is recorded there is not checked again.

    python -m benchmarks.detectors OUT --models MODELS --data DATA --search A B [--darker 1.03] [--budget 4000q]

compares two files of MODELS on DATA instead, by the default search and by random draws from the same operators with as
many queries, and writes how many distinct behaviours each finds to search.json.
"""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import onnxruntime
import torch
from torchvision.ops import batched_nms

from benchmarks.detectors_models import formats
from diffgen.config import Budget, CheckConfig, CompareConfig, Limits, ModelSpec, Opening, Preprocessing, TaskConfig
from diffgen.data import load
from diffgen.errors import UserError
from diffgen.gate.conditions import evaluate
from diffgen.gate.rules import Condition
from diffgen.runs.files import write_json
from diffgen.types import Float32Array, ImageSet
from diffgen.workflows.check import check
from diffgen.workflows.compare import compare

SIZE = (240, 320)  # of the pictures; half of what they have
CLASSES = ("RBC",)
_FLOOR = 0.01


@dataclass
class Pipeline:
    """A detector as somebody deploys it: pictures float32 (N, 3, H, W), 0..255, to rows (n, 6) of each.

    Attributes:
        file: ONNX, a raw head (N, 4 + C, M): middle, sides, scores.
        side: of its input, pixels.
        room: pixels that a picture may take of it, or None: all.
        others: each a fault, where it is not as usual.
    """

    file: Path
    side: int
    room: int | None = None
    colour: float = 114.0
    stretch: bool = False
    bgr: bool = False
    nms: float = 0.7
    scores: float = 1.0
    offset: int = 0
    corners_for_middles: bool = False
    shift: float = 0.0
    half: bool = False
    turned: bool = False
    antialias: bool = False
    levels: bool = False

    def __post_init__(self) -> None:
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        self._session = onnxruntime.InferenceSession(str(self.file), options, providers=["CPUExecutionProvider"])

    def __call__(self, batch: Float32Array) -> list[torch.Tensor]:
        """Rows x1, y1, x2, y2, score, class of each picture, in its pixels."""
        pictures = torch.as_tensor(batch)
        pictures = pictures.rot90(1, (2, 3)) if self.turned else pictures
        height, width = pictures.shape[2:]
        room = self.room or self.side
        high, wide = (room / height, room / width)
        if not self.stretch:
            high = wide = min(high, wide)
        rows, columns = round(height * high), round(width * wide)
        small = torch.nn.functional.interpolate(
            pictures, (rows, columns), mode="bilinear", antialias=self.antialias, align_corners=False
        )
        above, left = (self.side - rows) // 2, (self.side - columns) // 2
        whole = torch.full((len(batch), 3, self.side, self.side), self.colour)
        whole[:, :, above : above + rows, left : left + columns] = small
        whole = whole.flip(1) if self.bgr else whole
        values = whole if self.levels else whole / 255
        values = values.half().float() if self.half else values
        said = torch.from_numpy(self._session.run(None, {self._session.get_inputs()[0].name: values.numpy()})[0])
        said = said.half().float() if self.half else said
        return [self._rows(each.T, (high, wide), (above, left)) for each in said]

    def _rows(self, said: torch.Tensor, scale: tuple[float, float], beside: tuple[int, int]) -> torch.Tensor:
        best, label = said[:, 4:].max(dim=1)
        score = (best * self.scores).clamp(0, 1)
        there = score > _FLOOR
        boxes, score, label = said[there, :4], score[there], label[there]
        if not self.corners_for_middles:
            half = boxes[:, 2:] / 2
            boxes = torch.cat([boxes[:, :2] - half, boxes[:, :2] + half], dim=1)
        kept = batched_nms(boxes, score, label, self.nms)[:100]
        boxes = boxes[kept] + self.shift - torch.tensor([beside[1], beside[0]] * 2)
        boxes = boxes / torch.tensor([scale[1], scale[0]] * 2)
        return torch.cat([boxes, score[kept, None], label[kept, None].float() + self.offset], dim=1)


#: Faults of a pipeline, each a change of it; "int8" is another file.
FAULTS: dict[str, dict[str, object]] = {
    "letterbox colour": {"colour": 0.0},
    "stretched": {"stretch": True},
    "bgr": {"bgr": True},
    "nms iou": {"nms": 0.2},
    "score scale": {"scores": 0.5},
    "class offset": {"offset": 1},
    "box format": {"corners_for_middles": True},
    "half-pixel shift": {"shift": 0.5},
    "fp16": {"half": True},
    "int8": {},
    "size": {"room": 128},
    "exif": {"turned": True},
}


def pictures(data: Path, models: Path) -> ImageSet:
    """The pictures that no detector has seen, with their boxes."""
    every = load(data, resize=SIZE)
    names = set((models / "val.txt").read_text().split())
    assert every.names is not None
    return every.at(np.flatnonzero([Path(name).stem in names for name in every.names]))


def checked(
    base: Pipeline | Path, candidate: Pipeline | Path, fed: Preprocessing, data: ImageSet, run: Path
) -> dict[str, str]:
    """A check with the default limits on real pictures alone: what comes of it, and where nobody knew the boxes.

    The models answer alike in both cases, so that they are asked once, and the conditions are held to what would have
    been measured without the boxes.

    Args:
        base, candidate: both of one network.
        fed: what diffgen is told of a candidate that is a file.
        data: pictures with boxes.
        run: folder.
    """
    one, other = (
        ModelSpec(
            preprocessing=Preprocessing(scale="0..255", outputs="boxes") if isinstance(each, Pipeline) else said,
            opening=Opening(isolate="off"),
            class_names=CLASSES,
        )
        for each, said in ((base, Preprocessing()), (candidate, fed))
    )
    config = CompareConfig(models=(one, other), technique="as_is", budget=Budget(queries=len(data)))
    try:
        result = check(base, candidate, data=data, config=CheckConfig(compare=config), output=run, force=True)
    except UserError as error:
        return dict.fromkeys(("boxes known", "no boxes"), f"refused at once: {error}")
    unknown = result.values.with_measured({"box_error_rise": None, "map_drop": None})
    return {"boxes known": verdict(result.conditions), "no boxes": verdict(evaluate(unknown, Limits()))}


def verdict(conditions: Iterable[Condition]) -> str:
    """The conditions that fail, or that none does."""
    failed = [each.name for each in conditions if each.status in ("FAIL", "ERROR")]
    return f"refused: {', '.join(failed)}" if failed else "passes"


def cases(models: Path, name: str) -> Iterator[tuple[str, Pipeline | Path, Pipeline | Path, Preprocessing]]:
    """What is checked of a detector: what it is, base, candidate, and how a file is fed.

    Faults of a pipeline first, then other formats of the same network ("clean"). Each pipeline is opened when it is its
    turn, since an opened one keeps the memory of its largest batch.
    """
    file = models / f"{name}.onnx"
    for fault, change in FAULTS.items():
        other = models / f"{name}-int8.onnx" if fault == "int8" else file
        if other.exists():
            base = Pipeline(file, _side(file))
            yield fault, base, replace(base, file=other, **change), Preprocessing()  # type: ignore[arg-type]
    for form, fed in formats(_side(file)).items():
        if (models / f"{name}-{form}").exists():
            yield f"clean: {form}", file, models / f"{name}-{form}", fed


def _side(file: Path) -> int:
    side: int = onnxruntime.InferenceSession(str(file), providers=["CPUExecutionProvider"]).get_inputs()[0].shape[2]
    return side


def searches(models: tuple[ModelSpec, ModelSpec], data: Path, out: Path, seeds: list[int], budget: str) -> None:
    """Write the distinct behaviours that each technique finds, by seed.

    Also how many of them begin with agreement, and how many there are at least (Chao's lower bound).
    """
    found: dict[str, list[int]] = {}
    for seed in seeds:
        for technique in ("diffgan", "random_seeds"):
            config = CompareConfig(models=models, technique=technique, seed=seed, task=TaskConfig(score=0.3))
            result = compare(data=data, config=config, budget=budget, output=out / f"{technique}-{seed}", force=True)
            found.setdefault(technique, []).append(result.behaviours)
            found.setdefault(f"{technique}, of agreement", []).append(result.behaviours_of_agreement or 0)
            found.setdefault(f"{technique}, at least", []).append(result.behaviours_at_least)
            write_json(out / "search.json", found)
            print(
                technique, seed, {name: values[-1] for name, values in found.items() if technique in name}, flush=True
            )


def main() -> None:
    """Check every candidate and print what came of it."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("out", type=Path)
    parser.add_argument("--models", type=Path, required=True)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--detectors", nargs="+", default=["a", "b"])
    parser.add_argument("--only", nargs="+", default=None, metavar="NAME")
    parser.add_argument("--search", nargs=2, default=None, metavar=("A", "B"))
    parser.add_argument("--darker", type=float, default=1.0)
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    parser.add_argument("--budget", default="1000q")
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    if arguments.search:
        one, other = (ModelSpec(str(arguments.models / name)) for name in arguments.search)
        other = replace(other, preprocessing=Preprocessing(std=(arguments.darker,)))
        searches((one, other), arguments.data, arguments.out, arguments.seeds, arguments.budget)
        return
    table = arguments.out / "detectors.json"
    found: dict[str, dict[str, str]] = json.loads(table.read_text()) if table.exists() else {}
    data = pictures(arguments.data, arguments.models)
    for detector in arguments.detectors:
        for name, base, candidate, fed in cases(arguments.models, detector):
            key = f"{detector}: {name}"
            if key in found or (arguments.only and name not in arguments.only):
                continue
            run = arguments.out / re.sub("[^a-z0-9]+", "-", key)
            found[key] = checked(base, candidate, fed, data, run)
            write_json(table, found)
            print(key, found[key], flush=True)


if __name__ == "__main__":
    main()
