"""What benchmarks/recognised.py compares: pairs of models, their real images, and what the judge learns from."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import BinaryIO

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

from benchmarks import cifar_resnets, nets_of_224
from benchmarks.judge import Judge, judge_for, judge_is_trained
from benchmarks.judge_colour import changed
from benchmarks.pairs import PAIRS, answers
from diffgen.data import load
from diffgen.runs.files import write_json, write_whole
from diffgen.types import ImageSet
from diffgen.workflows.demo import (
    convolutional_classifier,
    dense_classifier,
    save_onnx,
    save_torchscript,
    train_classifier,
)

SIDE = 64  # pixels that the photographs of hands are scaled to
_PARTS = {"judge": 800, "models": 600}  # photographs that each learns from; the run's data are the rest
_FASHION = ("T-shirt", "trousers", "pullover", "dress", "coat", "sandal", "shirt", "sneaker", "bag", "boot")


@dataclass(frozen=True)
class Pair:
    """One comparison.

    Attributes:
        models: the two files and their options, as words of the command line.
        data: the real images, as the command line takes them.
        training: what the judge of such images learns from; neither models nor run ever see it.
        class_names: what a person calls the classes, where the data do not say it.
        judges: folder of published ResNets for CIFAR-10, which judge in place of what is trained; None: they don't.
    """

    name: str
    models: tuple[str, ...]
    data: str
    training: str
    class_names: tuple[str, ...] = ()
    judges: Path | None = None

    @property
    def judged(self) -> bool:
        """Whether its judge is there already."""
        return self.judges is not None or judge_is_trained(self.training_images())

    def judge(self) -> Judge:
        """Trained where it is not there yet."""
        if self.judges is None:
            return judge_for(self.training_images(), self.images())
        judge = Judge(cifar_resnets.published(self.judges), 10)
        judge.measure(self.images())
        return judge

    def training_images(self) -> ImageSet:
        """What the judge learns from."""
        return _loaded(self.training)

    def images(self) -> ImageSet:
        """The real images of the run."""
        return _loaded(self.data)


@cache
def _loaded(source: str) -> ImageSet:
    return load(source)


def find_pairs(shared: Path, models: Path, made: Path) -> dict[str, Callable[[], Pair]]:
    """All pairs by name, each made when it is asked for.

    Args:
        shared: holds ``data`` (mnist, fashion-mnist, cifar10, sign-digits) and ``models`` (published ones).
        made: networks that are trained here are kept in it.
    """

    def of_paper(name: str) -> Pair:
        data = shared / "data" / PAIRS[name].data
        files = tuple(str(models / name / f"{role}.onnx") for role in "ab")
        return Pair(name, files, f"{data}:test", f"{data}:train", _FASHION if name == "fashion" else ())

    def resnets() -> Pair:
        weights = [str(shared / "models" / "cifar10-resnet-he" / f"resnet{depth}.state_dict.th") for depth in (20, 32)]
        standard = [*_option("--mean", cifar_resnets.MEAN), *_option("--std", cifar_resnets.STD)]
        arch = [f"--{role}-arch=benchmarks.cifar_resnets:resnet{depth}" for role, depth in (("a", 20), ("b", 32))]
        return Pair("resnet20-32", (*weights, *arch, *standard), *_cifar(shared))

    def update(kind: str) -> Pair:
        family = shared / "models" / "mnist-lenet5-family"
        name = f"lenet-{kind.partition('.')[0]}"
        mnist = shared / "data" / "mnist"
        return Pair(name, (str(family / "base.h5"), str(family / kind)), f"{mnist}:test", f"{mnist}:train")

    def quantized() -> Pair:
        files = [str(shared / "models" / "cifar10-resnet8-tiny" / f"{kind}.tflite") for kind in ("float32", "int8")]
        others = shared / "models" / "cifar10-resnet-he"  # of other people, and no part of this pair
        return Pair("resnet8-int8", (*files, "--a-scale", "0..255"), *_cifar(shared), judges=others)

    return {
        **{name: partial(of_paper, name) for name in PAIRS},
        "lenet-retrained": partial(update, "retrained.h5"),
        "lenet-quantized": partial(update, "quantized.tflite"),
        "resnet20-32": resnets,
        "resnet8-int8": quantized,
        "sign-digits": lambda: sign_digits(shared / "data" / "sign-digits", made / "sign-digits"),
        "digits": lambda: digits(made / "digits"),
        "photographs": lambda: photographs(shared),
        "hands-224": lambda: hands_224(shared / "data" / "sign-digits", made / "hands-224"),
    }


def _option(name: str, values: tuple[float, ...]) -> list[str]:
    return [name, *map(str, values)]


def _cifar(shared: Path) -> tuple[str, str]:
    """Data and the judge's training images."""
    folder = shared / "data" / "cifar10"
    return str(folder / "test.zip"), str(folder / "train.zip")


def digits(folder: Path) -> Pair:
    """Two classifiers of the digits that ship with scikit-learn, trained on half of the judge's half."""
    if not (folder / "b.onnx").is_file():
        folder.mkdir(parents=True, exist_ok=True)
        training = load("digits:train")
        save_torchscript(train_classifier(convolutional_classifier(10), training, seed=0, passes=6), folder / "a.pt")
        save_onnx(train_classifier(dense_classifier(10), training, seed=0, passes=6), folder / "b.onnx")
    # there are no more digits: models and judge learn from the same half, and the figures of this pair say little
    return Pair("digits", (str(folder / "a.pt"), str(folder / "b.onnx")), "digits:test", "digits:train")


def sign_digits(source: Path, folder: Path) -> Pair:
    """Two small networks for photographs of hands, which are divided at random among judge, models and run.

    The photographs do not say whose hands they show, so that the same person's may be in two parts.
    """
    files = {name: folder / f"{name}.npz" for name in ("judge", "models", "run")}
    pair = Pair(
        "sign-digits",
        (str(folder / "a.onnx"), str(folder / "b.onnx")),
        str(files["run"]),
        str(files["judge"]),
    )
    if (folder / "sign-digits.json").is_file():
        return pair
    folder.mkdir(parents=True, exist_ok=True)
    parts = [load(str(source / f"{split}.zip"), resize=SIDE) for split in ("train", "test")]
    images = np.concatenate([part.images for part in parts])
    labels = np.concatenate([part.labels for part in parts if part.labels is not None])
    order = np.random.default_rng(0).permutation(len(images))
    start = 0
    for name, file in files.items():
        rows = np.sort(order[start : start + _PARTS.get(name, len(order))])
        start += len(rows)
        write_whole(file, partial(_write_npz, images[rows], labels[rows]))
    data, test = load(str(files["models"])), load(str(files["run"]))
    accuracies = {}
    for role, network in (("a", _pooled()), ("b", _strided())):
        _train(network, data, seed=ord(role))
        save_onnx(network, folder / f"{role}.onnx", (3, SIDE, SIDE))
        accuracies[role] = float((answers(network, test) == test.labels).mean())
    write_json(folder / "sign-digits.json", {"accuracy": accuracies, "images": {**_PARTS, "run": len(test)}})
    return pair


def hands_224(source: Path, folder: Path) -> Pair:
    """A ResNet-18 and a MobileNetV2 for the same photographs with 224 pixels, for measurements of speed."""
    files = [str(file) for file in nets_of_224.make(source, folder)]
    data, training = (str(source / f"{split}.zip") for split in ("test", "train"))
    return Pair("hands-224", (*files, "--resize", str(nets_of_224.SIDE)), data, training)


def photographs(shared: Path) -> Pair:
    """Two quantized MobileNets for ImageNet, as others published them, and a photograph of every fourth class."""
    nets, data = shared / "models" / "imagenet-mobilenet-quant", shared / "data" / "photographs"
    files = [str(nets / f"{name}_quant.tflite") for name in ("mobilenet_v1_0.75_192", "mobilenet_v2_1.0_224")]
    return Pair("photographs", (*files, "--class-names", str(data / "classes.txt")), str(data / "images"), "")


def _write_npz(images: np.ndarray, labels: np.ndarray, path: Path) -> None:
    file: BinaryIO
    with path.open("wb") as file:  # savez would put .npz behind a half-written file's name
        np.savez_compressed(file, images=images, labels=labels)


def _pooled() -> nn.Sequential:
    layers: list[nn.Module] = []
    for before, after in ((3, 16), (16, 24), (24, 32), (32, 48)):
        layers += [nn.Conv2d(before, after, 3, padding=1), nn.BatchNorm2d(after), nn.ReLU(), nn.MaxPool2d(2)]
    return nn.Sequential(*layers, nn.Flatten(), nn.Dropout(0.3), nn.Linear(48 * 16, 10))


def _strided() -> nn.Sequential:
    layers: list[nn.Module] = []
    for before, after in ((3, 16), (16, 32), (32, 64)):
        layers += [nn.Conv2d(before, after, 5, stride=2, padding=2), nn.BatchNorm2d(after), nn.ReLU()]
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(4), nn.Flatten(), nn.Linear(64 * 16, 10))


def _train(network: nn.Sequential, data: ImageSet, *, seed: int, epochs: int = 25) -> None:
    """Adam, with ever smaller steps, on photographs that are changed a little; leaves the network in eval mode."""
    assert data.labels is not None
    torch.manual_seed(seed)
    images, labels = torch.from_numpy(data.images), torch.from_numpy(data.labels)
    optimiser = torch.optim.Adam(network.parameters(), lr=2e-3)
    # at one rate to the end it is chance whether the last steps are good ones
    schedule = torch.optim.lr_scheduler.LinearLR(optimiser, 1.0, 0.01, total_iters=epochs)
    network.train()
    for _ in range(epochs):
        for rows in torch.randperm(len(images)).split(32):
            loss = F.cross_entropy(network(changed(images[rows].float() / 255)), labels[rows])
            optimiser.zero_grad(set_to_none=True)
            loss.backward()
            optimiser.step()
        schedule.step()
    network.eval()


def said(made: Path) -> str:
    """What is known of the networks trained here, for the page."""
    file = made / "sign-digits" / "sign-digits.json"
    if not file.is_file():
        return ""
    known = json.loads(file.read_text(encoding="utf-8"))
    a, b = known["accuracy"]["a"], known["accuracy"]["b"]
    counts = known["images"]
    return (
        f"sign-digits: {counts['judge']} photographs for the judge, {counts['models']} for the models, {counts['run']} "
        f"for the run, divided at random; the models are right on {a:.1%} and {b:.1%} of the last."
    )
