"""Faults planted into deployments of six models: does ``diffgen explain`` name them, and nothing where there is none?

    python -m benchmarks.causes shared --out benchmarks/results/causes.md

Fifteen faults for each of six models (``benchmarks/deployments.py``), two at once, one model in two formats, and models
with other weights. What was tuned (thresholds, rounds, which changes are tried) was tuned on single and double faults
of LeNet-5, ResNet-20 and MobileNet v1; some single faults of MobileNet v2 were seen, too. Faults of ResNet-8 and of the
own network were not looked at before; a first run of the pairs without a fault named nothing, and led to no change.
"""

from __future__ import annotations

import argparse
import copy
import shlex
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import torch

from benchmarks import cifar_resnets
from benchmarks.cifar_resnets import MEAN, STD
from benchmarks.deployments import (
    IMAGES,
    MODELS,
    NO_FAULT,
    Deployed,
    Deployment,
    Model,
    both,
    faults,
    own_network,
    some_of,
)
from diffgen.causes import Explanation, explain_models
from diffgen.causes.wording import verdict
from diffgen.config import Preprocessing, QuantizeConfig
from diffgen.data import load
from diffgen.events import Progress
from diffgen.models import BlackBox
from diffgen.models import load as load_model
from diffgen.runs.files import write_text
from diffgen.sampling import random_rows
from diffgen.types import ImageSet, UInt8Array
from diffgen.workflows.demo import save_onnx
from diffgen.workflows.quantize import quantize

TUNED_ON = ("LeNet-5", "ResNet-20", "MobileNet v1", "MobileNet v2")
Opened: TypeAlias = tuple[BlackBox, BlackBox, UInt8Array]  # two models, and pictures
_TOGETHER = (
    ("BGR for RGB", "mean and std of another set"),
    ("BGR for RGB", "without antialias"),
    ("mean and std of another set", "one pixel off"),
    ("letterbox", "BGR for RGB"),
    ("middle cut out", "classes in another order"),
    ("softmax twice", "BGR for RGB"),
    ("turned by 90 degrees", "nearest pixel"),
)


# -- pairs without a fault -------------------------------------------------------------------------------------------


def clean_pairs(shared: Path, nets: Path) -> Iterator[tuple[str, Opened]]:
    """Twenty pairs of one model in two formats: name -> both as they are opened, and pictures."""
    family, tiny = shared / "models" / "mnist-lenet5-family", shared / "models" / "cifar10-resnet8-tiny"
    digits = load(f"{shared / 'data' / 'mnist'}:test")
    small = load(str(shared / "data" / "cifar10" / "test.zip"))
    hands = load(str(shared / "data" / "sign-digits" / "test.zip"), resize=96)

    raw = Preprocessing(scale="0..255")
    for seed in range(3):
        rows = random_rows(len(digits), IMAGES, seed=seed)
        opened = _box(family / "base.h5"), _box(family / "quantized.tflite")
        yield f"LeNet-5, Keras and 8-bit TensorFlow Lite, sample {seed}", (*opened, digits.images[rows])
        rows = random_rows(len(small), IMAGES, seed=seed)
        opened = _box(tiny / "float32.tflite", raw), _box(tiny / "int8.tflite", raw)
        yield f"ResNet-8, float and 8-bit TensorFlow Lite, sample {seed}", (*opened, small.images[rows])
    normal = Preprocessing(mean=MEAN, std=STD)
    for depth in (20, 32):
        files = _resnet_files(shared, nets, depth, small)
        for kind in ("onnx", "int8.onnx", "int8-per-channel.onnx", "half.pt"):
            name = f"ResNet-{depth}, PyTorch and {kind}"
            yield name, (_box(files["pt"], normal), _box(files[kind], normal), some_of(small))
    for seed in (0, 1):
        files = _own_files(shared, nets, seed, hands)
        for kind in ("onnx", "int8.onnx"):
            own_fed = Preprocessing(mean=(0.5,), std=(0.5,))
            name = f"own, 96 pixels, seed {seed}, TorchScript and {kind}"
            yield name, (_box(files["pt"], own_fed), _box(files[kind], own_fed), some_of(hands))
    for name in ("MobileNet v1", "MobileNet v2"):
        yield f"{name}, and a deployment without a fault", _deployed(MODELS[name](shared, nets), NO_FAULT)


def retrained_pairs(shared: Path, nets: Path) -> Iterator[tuple[str, Opened]]:
    """Ten pairs of different weights."""
    family = shared / "models" / "mnist-lenet5-family"
    digits = load(f"{shared / 'data' / 'mnist'}:test")
    small = load(str(shared / "data" / "cifar10" / "test.zip"))
    hands = load(str(shared / "data" / "sign-digits" / "test.zip"), resize=96)
    of_digits = ("base.h5", "retrained.h5", "adversarially-trained-cw.h5", "quantized.tflite")
    for a, b in ((0, 1), (0, 2), (1, 2), (3, 1), (3, 2)):
        pair = _box(family / of_digits[a]), _box(family / of_digits[b]), some_of(digits)
        yield f"LeNet-5, {of_digits[a]} and {of_digits[b]}", pair
    normal = Preprocessing(mean=MEAN, std=STD)
    files = {depth: _resnet_files(shared, nets, depth, small)["pt"] for depth in (20, 32)}
    tiny = shared / "models" / "cifar10-resnet8-tiny" / "float32.tflite"
    yield "ResNet-20 and ResNet-32", (_box(files[20], normal), _box(files[32], normal), some_of(small))
    pair = _box(tiny, Preprocessing(scale="0..255")), _box(files[20], normal), some_of(small)
    yield "ResNet-8 and ResNet-20", pair
    own_fed = Preprocessing(mean=(0.5,), std=(0.5,))
    for a, b in ((0, 1), (0, 2), (1, 2)):
        one, other = (_box(own_network(shared, nets, seed=seed), own_fed) for seed in (a, b))
        yield f"own, 96 pixels, seeds {a} and {b}", (one, other, some_of(hands))


def _box(path: Path, preprocessing: Preprocessing | None = None) -> BlackBox:
    return load_model(path, preprocessing=preprocessing, isolate="off")


def _resnet_files(shared: Path, nets: Path, depth: int, images: ImageSet) -> dict[str, Path]:
    """A published ResNet as TorchScript, in half precision, as ONNX, and in 8 bits."""
    nets.mkdir(parents=True, exist_ok=True)
    stem = f"resnet{depth}"
    if not (nets / f"{stem}.pt").exists():
        network: torch.nn.Module = getattr(cifar_resnets, stem)()
        weights = torch.load(
            shared / "models" / "cifar10-resnet-he" / f"{stem}.state_dict.th", weights_only=True, map_location="cpu"
        )
        network.load_state_dict({key.removeprefix("module."): value for key, value in weights["state_dict"].items()})
        _save(network.eval(), 32, nets / f"{stem}.pt")
        half = copy.deepcopy(network)
        for each in half.parameters():
            each.data = each.data.half().float()  # weights of 16 bits, computed in 32
        torch.jit.trace(half, torch.zeros(2, 3, 32, 32)).save(str(nets / f"{stem}.half.pt"))
    return _quantized(nets / f"{stem}.onnx", images, Preprocessing(mean=MEAN, std=STD))


def _own_files(shared: Path, nets: Path, seed: int, images: ImageSet) -> dict[str, Path]:
    path = own_network(shared, nets, seed=seed)
    if not path.with_suffix(".onnx").exists():
        network: Any = torch.jit.load(str(path))
        save_onnx(network, path.with_suffix(".onnx"), (3, 96, 96))
    return _quantized(path.with_suffix(".onnx"), images, Preprocessing(mean=(0.5,), std=(0.5,)))


def _save(network: Any, side: int, path: Path) -> None:
    torch.jit.trace(network, torch.zeros(2, 3, side, side)).save(str(path))
    save_onnx(network, path.with_suffix(".onnx"), (3, side, side))


def _quantized(path: Path, images: ImageSet, fed: Preprocessing) -> dict[str, Path]:
    """All files of a network, with 8-bit versions of its ONNX file."""
    stem = path.with_suffix("")
    files = {kind: Path(f"{stem}.{kind}") for kind in ("pt", "half.pt", "onnx", "int8.onnx", "int8-per-channel.onnx")}
    for kind, per_channel in (("int8.onnx", False), ("int8-per-channel.onnx", True)):
        if not files[kind].exists():
            config = QuantizeConfig(preprocessing=fed, per_channel=per_channel, images=200)
            quantize(path, data=images, output=files[kind], config=config)
    return files


# -- the measurement -------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Row:
    """One case and what was said of it."""

    kind: str
    model: str
    name: str
    right: tuple[tuple[str, ...], ...]
    told: tuple[str, ...]
    explanation: Explanation
    seconds: float

    @property
    def ok(self) -> bool:
        """Whether the first cause is right, all of two are named, or nothing is where there is nothing."""
        if self.kind == "one fault":
            return bool(self.told) and self.told[0] in self.right[0]
        return all(any(each in names for each in self.told) for names in self.right) and bool(self.told) == bool(
            self.right
        )


def _deployed(model: Model, how: Deployment) -> Opened:
    b = load_model(Deployed(model, how), preprocessing=Preprocessing(scale="0..255", outputs="probabilities"))
    return model.load(model.preprocessing), b, model.images


def measured(kind: str, model: str, name: str, right: Sequence[Sequence[str]], pair: Opened) -> Row:
    """What is said of a pair of models."""
    a, b, images = pair
    for box in (a, b):
        box.prepare(images[:32])
        box.lenient = True
    started = time.process_time()
    found = explain_models(a, b, images, Progress())
    told = tuple(each.cause for each in found.found)
    row = Row(kind, model, name, tuple(map(tuple, right)), told, found, time.process_time() - started)
    words = "; ".join(f"{each.sentence} {each.share:.2f} ({each.low:.2f} to {each.high:.2f})" for each in found.found)
    print(
        f"{'ok ' if row.ok else 'NO '} {model:14} {name:45} {found.differing:4} {found.distance:.4f} {found.queries:5} "
        f"{row.seconds:5.1f}s | {words or f'nothing; at most {found.most:.2f}'}",
        flush=True,
    )
    return row


def cases(shared: Path, nets: Path, arguments: argparse.Namespace) -> Iterator[Row]:
    """Every case that is asked for."""
    two = 0
    for name, make in MODELS.items():
        if arguments.only and name not in arguments.only:
            continue
        model = make(shared, nets)
        known = faults(model)
        if "one" in arguments.kinds:
            for fault, (how, right) in known.items():
                if not arguments.faults or fault in arguments.faults:
                    yield measured("one fault", name, fault, [right], _deployed(model, how))
        if "two" in arguments.kinds and (arguments.only or name not in TUNED_ON):
            for pair in _TOGETHER:
                if all(each in known for each in pair) and two < 20:
                    two += 1
                    (one, right), (other, also) = (known[each] for each in pair)
                    opened = _deployed(model, both(one, other))
                    yield measured("two faults", name, " and ".join(pair), [right, also], opened)
    for kind, pairs in (("clean", clean_pairs), ("retrained", retrained_pairs)):
        if kind in arguments.kinds:
            yield from (measured(kind, "", name, [], opened) for name, opened in pairs(shared, nets))


def _title(row: Row) -> str:
    if row.kind != "one fault":
        return row.kind
    return f"one fault, models that {'were' if row.model in TUNED_ON else 'were not'} tuned on"


def page(rows: Sequence[Row], command: str) -> str:
    """The results as Markdown."""
    tuned = str(__doc__).split("\n\n")[2]
    lines = ["# Faults of pipelines, named by answers alone", "", f"Made by `{command}`.", "", tuned, ""]
    titles = {row: _title(row) for row in rows}
    lines += ["| | cases | right | median queries | most queries |", "|---|---:|---:|---:|---:|"]
    for title in dict.fromkeys(titles.values()):
        own = [row for row in rows if titles[row] == title]
        asked = [row.explanation.queries for row in own]
        lines.append(
            f"| {title} | {len(own)} | {sum(row.ok for row in own)} | {int(np.median(asked)):,} | {max(asked):,} |"
        )
    asked = [row.explanation.queries for row in rows]
    seconds = sum(row.seconds for row in rows)
    lines += ["", f"Median of all: {int(np.median(asked)):,} queries; {seconds:,.0f} seconds of processor time.", ""]
    lines += ["Right is: the planted fault named first; both of two named; nothing named where there is none.", ""]
    lines += ["| | model | what was planted | right | different labels | queries | what was said |"]
    lines += ["|---|---|---|---|---:|---:|---|"]
    for row in rows:
        found, right = row.explanation, "yes" if row.ok else "NO"
        figures = f"{found.differing} of {found.images} | {found.queries:,} | {verdict(found)}"
        lines.append(f"| {row.kind} | {row.model} | {row.name} | {right} | {figures} |")
    return "\n".join(lines) + "\n"


def main(argv: Sequence[str] | None = None) -> None:
    """Measure; see the module."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("shared", type=Path, help="folder with the published models and data sets")
    parser.add_argument("--nets", type=Path, default=Path("nets"), help="where networks that are made are kept")
    parser.add_argument("--only", nargs="*", default=(), help="models (default: all six)")
    parser.add_argument("--faults", nargs="*", default=(), help="single faults (default: all fifteen)")
    parser.add_argument("--kinds", nargs="*", default=_KINDS, choices=_KINDS)
    parser.add_argument("--out", type=Path, help="file for the page")
    arguments = parser.parse_args(argv)
    words = sys.argv[1:] if argv is None else argv
    rows = list(cases(arguments.shared, arguments.nets, arguments))
    text = page(rows, shlex.join(["python", "-m", "benchmarks.causes", *map(str, words)]))
    print("\n".join(line for line in text.splitlines()[:16]))
    if arguments.out is not None:
        write_text(arguments.out, text)


_KINDS = ("one", "two", "clean", "retrained")


if __name__ == "__main__":
    main()
