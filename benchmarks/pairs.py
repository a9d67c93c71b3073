"""Pairs of classifiers that differ as in Table 1 of the DiffGAN paper, for the benchmarks that need several.

    python -m benchmarks.pairs DATA OUT [--only NAME ...]

DATA holds the folders ``mnist`` and ``fashion-mnist`` with their idx files. OUT gets a folder for each pair with a.onnx
and b.onnx, and pairs.json with recipes, hashes and figures. A network whose recipe and file are as recorded is not
trained again. One network at a time; about a minute each on 2 cores.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import math
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

from benchmarks.lenet_pair import lenet5
from diffgen.data import load
from diffgen.runs.files import write_json
from diffgen.types import ImageSet, Int64Array
from diffgen.workflows.demo import save_onnx


@dataclass(frozen=True)
class Recipe:
    """How one network is trained.

    Attributes:
        network: name in ``NETWORKS``.
        optimizer, learning_rate, batch, epochs: of the training; the learning rate stays as it is.
        shift: share of the side by which a third of the images are shifted at most; 0: all stay as they are.
        turn: degrees, and percent of the size, by which they are turned and zoomed at most.
        seed: of weights, order and transformations.
    """

    network: str
    optimizer: str
    learning_rate: float
    batch: int
    epochs: int
    shift: float = 0.0
    turn: float = 0.0
    seed: int = 0


@dataclass(frozen=True)
class Pair:
    """Two recipes that differ in one respect."""

    differ_in: str
    data: str
    a: Recipe
    b: Recipe


PAIRS = {
    "structure": Pair(
        "structure",
        "mnist",
        Recipe("conv4", "adam", 1e-3, 128, 3, seed=1),
        Recipe("conv7", "adam", 1e-3, 128, 3, seed=1),
    ),
    "training-data": Pair(
        "training data",
        "mnist",
        Recipe("conv7", "rmsprop", 1e-3, 128, 2, shift=0.10, turn=15, seed=2),
        Recipe("conv7", "rmsprop", 1e-3, 128, 2, shift=0.05, turn=10, seed=2),
    ),
    "optimizer": Pair(
        "optimizer",
        "mnist",
        Recipe("lenet5", "sgd", 1e-2, 32, 3, seed=3),
        Recipe("lenet5", "adam", 1e-3, 32, 3, seed=3),
    ),
    "hyper-parameters": Pair(
        "hyper-parameters",
        "mnist",
        Recipe("alexnet", "adam", 1e-4, 128, 2, seed=4),
        Recipe("alexnet", "adam", 1e-3, 256, 3, seed=4),
    ),
    "fashion": Pair(
        "structure",
        "fashion-mnist",
        Recipe("lenet5", "adam", 1e-3, 64, 3, seed=5),
        Recipe("conv4", "adam", 1e-3, 128, 2, seed=5),
    ),
}


def _block(inside: int, outside: int, *, stride: int = 1) -> list[nn.Module]:
    return [nn.Conv2d(inside, outside, 3, stride=stride, padding=1), nn.BatchNorm2d(outside), nn.ReLU()]


def conv4() -> nn.Module:
    """Four convolutions, two poolings, two dense layers."""
    return nn.Sequential(
        *_block(1, 12),
        *_block(12, 12),
        nn.MaxPool2d(2),
        *_block(12, 24),
        *_block(24, 24),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(24 * 7 * 7, 96),
        nn.ReLU(),
        nn.Dropout(0.3),
        nn.Linear(96, 10),
    )


def conv7() -> nn.Module:
    """Seven convolutions, of which two have stride 2 in place of pooling, and one dense layer."""
    return nn.Sequential(
        *_block(1, 12),
        *_block(12, 12),
        *_block(12, 16, stride=2),
        *_block(16, 24),
        *_block(24, 24),
        *_block(24, 32, stride=2),
        *_block(32, 48),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(48, 10),
    )


def lenet5_valid() -> nn.Module:
    """LeNet-5 without padding: 44,426 parameters, as in the paper."""
    layers = list(lenet5())
    layers[0] = nn.Conv2d(1, 6, 5)
    layers[7] = nn.Linear(256, 120)
    return nn.Sequential(*layers)


def alexnet() -> nn.Module:
    """The five convolutions and three dense layers of AlexNet, narrower and for 28x28 images."""
    return nn.Sequential(
        nn.Conv2d(1, 16, 5, stride=2, padding=2),
        nn.ReLU(),
        nn.Conv2d(16, 32, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(32, 48, 3, padding=1),
        nn.ReLU(),
        nn.Conv2d(48, 48, 3, padding=1),
        nn.ReLU(),
        nn.Conv2d(48, 32, 3, padding=1),
        nn.ReLU(),
        nn.Flatten(),
        nn.Dropout(0.5),
        nn.Linear(32 * 7 * 7, 256),
        nn.ReLU(),
        nn.Dropout(0.5),
        nn.Linear(256, 128),
        nn.ReLU(),
        nn.Linear(128, 10),
    )


NETWORKS = {"conv4": conv4, "conv7": conv7, "lenet5": lenet5_valid, "alexnet": alexnet}


def train(data: ImageSet, recipe: Recipe) -> nn.Module:
    """Train a network on labelled 1x28x28 images; returns it in eval mode."""
    assert data.labels is not None
    torch.manual_seed(recipe.seed)
    rng = torch.Generator().manual_seed(recipe.seed)
    network = NETWORKS[recipe.network]()
    images, labels = torch.from_numpy(data.images), torch.from_numpy(data.labels)
    if recipe.shift or recipe.turn:
        images = images.clone()
        changed = torch.randperm(len(images), generator=rng)[: len(images) // 3]
        images[changed] = transformed(images[changed], shift=recipe.shift, turn=recipe.turn, rng=rng)
    kind = {"adam": torch.optim.Adam, "sgd": torch.optim.SGD, "rmsprop": torch.optim.RMSprop}[recipe.optimizer]
    optimiser = kind(network.parameters(), lr=recipe.learning_rate)
    for _ in range(recipe.epochs):
        for rows in torch.randperm(len(images), generator=rng).split(recipe.batch):
            loss = F.cross_entropy(network(images[rows].float() / 255), labels[rows])
            optimiser.zero_grad(set_to_none=True)
            loss.backward()
            optimiser.step()
    return network.eval()


def transformed(images: torch.Tensor, *, shift: float, turn: float, rng: torch.Generator) -> torch.Tensor:
    """Each image shifted, zoomed and turned at random, uint8 (N, 1, H, W); what comes in from outside is black."""

    def within(limit: float) -> torch.Tensor:
        return (torch.rand(len(images), generator=rng) * 2 - 1) * limit

    angle, zoom = within(math.radians(turn)), 1 + within(turn / 100)
    across, down = within(2 * shift), within(2 * shift)  # affine_grid's side is 2 long
    rows = (
        torch.stack([angle.cos() * zoom, -angle.sin() * zoom, across], dim=1),
        torch.stack([angle.sin() * zoom, angle.cos() * zoom, down], dim=1),
    )
    grid = F.affine_grid(torch.stack(rows, dim=1), list(images.shape), align_corners=False)
    return F.grid_sample(images.float(), grid, align_corners=False).round().clamp(0, 255).to(torch.uint8)


def answers(network: nn.Module, data: ImageSet) -> Int64Array:
    """int64 (N,): what a network says of images."""
    with torch.inference_mode():
        return torch.cat(
            [network(batch.float() / 255).argmax(dim=1) for batch in torch.from_numpy(data.images).split(500)]
        ).numpy()


def prepare(folder: Path, name: str, data: Path, *, known: dict[str, Any]) -> dict[str, Any]:
    """Train both networks of a pair, or find them as recorded; returns the entry for pairs.json."""
    pair = PAIRS[name]
    recipes = {"a": asdict(pair.a), "b": asdict(pair.b)}
    if known.get("recipes") == recipes and all(_matches(folder / f"{role}.onnx", known[role]) for role in "ab"):
        return known
    training, test = load(f"{data / pair.data}:train"), load(f"{data / pair.data}:test")
    folder.mkdir(parents=True, exist_ok=True)
    entry: dict[str, Any] = {"differ_in": pair.differ_in, "data": pair.data, "recipes": recipes}
    said = []
    for role, recipe in (("a", pair.a), ("b", pair.b)):
        started = time.process_time()
        network = train(training, recipe)
        spent = time.process_time() - started
        save_onnx(network, folder / f"{role}.onnx")
        said.append(answers(network, test))
        entry[role] = {
            "sha256": _sha256(folder / f"{role}.onnx"),
            "parameters": sum(each.numel() for each in network.parameters()),
            "accuracy": float((said[-1] == test.labels).mean()),
            "mispredicted": int((said[-1] != test.labels).sum()),
            "cpu_seconds": round(spent),
        }
        print(f"{name} {role}: accuracy {entry[role]['accuracy']:.4f}, {spent:.0f} s of CPU", flush=True)
    entry["initial_disagreements"] = int((said[0] != said[1]).sum())
    differ = said[0] != said[1]
    entry["only_a_right"] = int((differ & (said[0] == test.labels)).sum())
    entry["only_b_right"] = int((differ & (said[1] == test.labels)).sum())
    return entry


def _sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _matches(path: Path, entry: dict[str, Any]) -> bool:
    return path.is_file() and _sha256(path) == entry["sha256"]


def table(entries: dict[str, Any]) -> str:
    """The figures as Markdown."""
    lines = [
        "| pair | model | network | parameters | training data | optimizer | batch | epochs | accuracy | wrong |",
        "|---|---|---|---:|---|---|---:|---:|---:|---:|",
    ]
    for name, entry in entries.items():
        for role in "ab":
            recipe, found = entry["recipes"][role], entry[role]
            changed = f"a third changed: {recipe['shift']:.0%} shifts, {recipe['turn']:.0f}° and % turns and zooms"
            lines.append(
                f"| {name} | {role.upper()} | {recipe['network']} | {found['parameters']:,} | {entry['data']}"
                f"{', ' + changed if recipe['turn'] else ''} | {recipe['optimizer']} {recipe['learning_rate']:g} | "
                f"{recipe['batch']} | {recipe['epochs']} | {found['accuracy']:.2%} | {found['mispredicted']} |"
            )
    lines += ["", "| pair | disagreements on 10,000 test images | only A right | only B right | SHA-256 of A, of B |"]
    lines.append("|---|---:|---:|---:|---|")
    for name, entry in entries.items():
        hashes = ", ".join(f"`{entry[role]['sha256'][:12]}`" for role in "ab")
        lines.append(
            f"| {name} | {entry['initial_disagreements']} | {entry['only_a_right']} | {entry['only_b_right']} | "
            f"{hashes} |"
        )
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--only", nargs="+", choices=PAIRS, default=list(PAIRS))
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    record = arguments.out / "pairs.json"
    entries: dict[str, Any] = json.loads(record.read_text()) if record.is_file() else {}
    for name in arguments.only:
        entries[name] = prepare(arguments.out / name, name, arguments.data, known=entries.get(name, {}))
        write_json(record, entries)
    print(table({name: entries[name] for name in PAIRS if name in entries}))


if __name__ == "__main__":
    main()
