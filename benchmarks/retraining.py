"""Fine-tunes both models of a pair with what a search found, beside as many plain augmentations, and beside nothing.

    python -m benchmarks.retraining DATA MODELS OUT [--queries 5000] [--seeds 5] > table.md

DATA is a folder with a training and a test split of 28x28 images, MODELS the output folder of benchmarks.pairs; the
pair is ``optimizer``. Nothing that is measured on was used before:

* The models have learned from the training split. 10,000 images of it are what a search makes its finds from, and what
  the models are fine-tuned with again. ``diffgen export --for-training`` labels and divides the finds.
* One half of the test split is the real data, for accuracy and for regression faults: right before, wrong after.
* The other half is what a search of another seed makes the fresh finds from. They are labelled by the judge
  (benchmarks/judge.py), which neither search nor jury asks, and are those that it recognises.

Every seed searches, divides and trains anew. The set of each way is the same 10,000 images and as many pictures as
there are labelled finds to train with: the finds; what they were made from, each rotated, shifted and of another
contrast at random, with its label; or that as it is. So each way makes as many updates, with the optimizer of the
recipe. Searches lie in OUT and are not made again.
"""

from __future__ import annotations

import argparse
import csv
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
import torch
import torch.nn.functional as F
from onnx import numpy_helper
from torch import nn

from benchmarks.judge import judge_for
from benchmarks.pairs import NETWORKS, PAIRS, Recipe, transformed
from benchmarks.quick import add_quick, trained_as_asked
from diffgen.config import Budget, CompareConfig, SourceConfig, TrainingSetConfig
from diffgen.data import load
from diffgen.runs.folder import RunFolder
from diffgen.sampling import random_rows
from diffgen.types import ImageSet, Int64Array
from diffgen.workflows.compare import compare
from diffgen.workflows.export_training import export_for_training
from diffgen.workflows.label import read_valid_triggers

PAIR = "optimizer"
SEED_IMAGES = 10_000
_FRESH = 1_000  # seed of the search for fresh finds
_SHIFT, _TURN, _CONTRAST = 0.1, 15.0, 0.5  # of the plain augmentations: of the side, degrees and percent, factor
WAYS = ("nothing", "augmentations", "finds")
FIGURES = ("accuracy", "regressions", "repaired", "fresh finds", "own finds")


@dataclass(frozen=True, eq=False)
class Pictures:
    """uint8 (N, C, H, W) and int64 (N,)."""

    images: torch.Tensor
    labels: torch.Tensor

    @classmethod
    def of(cls, data: ImageSet, rows: Int64Array | None = None) -> Pictures:
        assert data.labels is not None
        chosen = np.arange(len(data)) if rows is None else rows
        return cls(torch.from_numpy(data.images[chosen]), torch.from_numpy(data.labels[chosen]))

    def with_more(self, other: Pictures) -> Pictures:
        return Pictures(torch.cat([self.images, other.images]), torch.cat([self.labels, other.labels]))

    def __len__(self) -> int:
        return len(self.labels)


def network_of(file: Path, recipe: Recipe) -> nn.Module:
    """The network that benchmarks.pairs trained and wrote, ready to be trained further."""
    network = NETWORKS[recipe.network]()
    stored = {each.name: numpy_helper.to_array(each).copy() for each in onnx.load(file).graph.initializer}
    network.load_state_dict({name: torch.from_numpy(stored[name]) for name in network.state_dict()})
    return network


@torch.inference_mode()
def answers(network: nn.Module, images: torch.Tensor) -> torch.Tensor:
    """int64 (N,)."""
    network.eval()
    return torch.cat(
        [torch.empty(0, dtype=torch.int64), *(network(part.float() / 255).argmax(1) for part in images.split(500))]
    )


def fine_tune(network: nn.Module, pictures: Pictures, recipe: Recipe, *, epochs: int, seed: int) -> None:
    """Train a network further as its recipe says, for some epochs."""
    torch.manual_seed(seed)
    kind = {"adam": torch.optim.Adam, "sgd": torch.optim.SGD}[recipe.optimizer]
    optimiser = kind(network.parameters(), lr=recipe.learning_rate)
    network.train()
    for _ in range(epochs):
        for rows in torch.randperm(len(pictures)).split(recipe.batch):
            loss = F.cross_entropy(network(pictures.images[rows].float() / 255), pictures.labels[rows])
            optimiser.zero_grad(set_to_none=True)
            loss.backward()
            optimiser.step()


def augmented(pictures: Pictures, *, seed: int) -> Pictures:
    """Each rotated, zoomed, shifted and of another contrast around the grey of its mean, at random."""
    rng = torch.Generator().manual_seed(seed)
    images = transformed(pictures.images, shift=_SHIFT, turn=_TURN, rng=rng).float()
    factor = 1 + (torch.rand(len(images), 1, 1, 1, generator=rng) * 2 - 1) * _CONTRAST
    mean = images.mean(dim=(1, 2, 3), keepdim=True)
    return Pictures((mean + factor * (images - mean)).round().clamp(0, 255).to(torch.uint8), pictures.labels)


class Measurement:
    """The searches of a pair, and what their finds are worth."""

    def __init__(self, arguments: argparse.Namespace) -> None:
        self.out, self.queries = arguments.out, arguments.queries
        self.epochs, self.quick = arguments.epochs, arguments.quick
        self.files = [arguments.models / PAIR / f"{role}.onnx" for role in "ab"]
        training, test = load(f"{arguments.data}:train"), load(f"{arguments.data}:test")
        rows = np.sort(random_rows(len(training), SEED_IMAGES))
        halves = np.array_split(random_rows(len(test), len(test)), 2)
        self.seeds, self.real = _some(training, rows), Pictures.of(test, np.sort(halves[0]))
        self.judge = judge_for(training, test)
        fresh = self.search(_some(test, np.sort(halves[1])), _FRESH)
        found = read_valid_triggers(fresh)
        found = found[found.distinct]
        sure, named = self.judge.verdict(torch.from_numpy(found.images))
        self.fresh = Pictures(torch.from_numpy(found.images)[sure], named[sure])

    def search(self, data: ImageSet, seed: int) -> RunFolder:
        """The run of a search, which is made if it is not there."""
        folder = self.out / f"search-{seed}-{self.queries}q"
        if not (folder / "results.json").is_file():
            config = CompareConfig(
                budget=Budget(queries=self.queries),
                seed=seed,
                device="cpu",
                source=SourceConfig(family="seeds"),
            )
            compare(
                *self.files, data=data, config=trained_as_asked(config, quick=self.quick), output=folder, force=True
            )
        return RunFolder.open(folder)

    def sets(self, seed: int) -> tuple[dict[str, Pictures], Pictures]:
        """What each way adds to the real images, and the finds of the same search that nothing is trained with."""
        run, folder = self.search(self.seeds, seed), self.out / f"finds-{seed}"
        export_for_training(run.path, folder, config=TrainingSetConfig(seed=seed), force=True)
        with (folder / "pictures.csv").open(newline="", encoding="utf-8") as file:
            rows = list(csv.DictReader(file))
        images = run.read_triggers().images_of(np.array([int(row["number"]) for row in rows]))
        finds = Pictures(torch.from_numpy(images), torch.tensor([int(row["label"]) for row in rows]))
        to_train = torch.tensor([row["file"].startswith("train/") for row in rows])
        seeds = np.array([int(row["seed_row"]) for row in rows])[to_train.numpy()]
        plain = Pictures.of(self.seeds, seeds)
        own = Pictures(finds.images[~to_train], finds.labels[~to_train])
        chosen = Pictures(finds.images[to_train], finds.labels[to_train])
        return {"nothing": plain, "augmentations": augmented(plain, seed=seed), "finds": chosen}, own

    def figures(self, network: nn.Module, before: torch.Tensor, own: Pictures) -> dict[str, float]:
        """The figures of a network; ``before`` is what it said of the real data before it was trained further."""
        right, was = answers(network, self.real.images) == self.real.labels, before == self.real.labels
        return {
            "accuracy": right.float().mean().item(),
            "regressions": int((was & ~right).sum()),
            "repaired": int((~was & right).sum()),
            "fresh finds": (answers(network, self.fresh.images) == self.fresh.labels).float().mean().item(),
            "own finds": (answers(network, own.images) == own.labels).float().mean().item(),
        }

    def model(self, role: str, seed: int) -> dict[str, dict[str, float]]:
        """The figures of one model, as it was and after each way, for one seed."""
        recipe = getattr(PAIRS[PAIR], role)
        sets, own = self.sets(seed)
        file = self.files["ab".index(role)]
        before = answers(network_of(file, recipe), self.real.images)
        found = {"as it was": self.figures(network_of(file, recipe), before, own)}
        for way in WAYS:
            network = network_of(file, recipe)
            more = Pictures.of(self.seeds).with_more(sets[way])
            fine_tune(network, more, recipe, epochs=self.epochs, seed=seed)
            found[way] = self.figures(network, before, own)
        found["finds"]["added"] = len(sets["finds"])
        return found


def _some(data: ImageSet, rows: Int64Array) -> ImageSet:
    assert data.labels is not None
    return ImageSet(data.images[rows], data.labels[rows], data.class_names, f"{len(rows):,} images of {data.source}")


def table(found: Mapping[str, Sequence[Mapping[str, Mapping[str, float]]]]) -> str:
    """Markdown: of each figure the median over the seeds, lowest to highest in brackets."""
    lines = [
        "| model | fine-tuned with the same images and | accuracy on real data | regression faults | repaired | "
        "right on fresh finds | right on own finds held out |",
        "|---|---|---:|---:|---:|---:|---:|",
    ]
    for role, seeds in found.items():
        for way in seeds[0]:
            cells = [_cell([each[way][name] for each in seeds], name) for name in FIGURES]
            lines.append(f"| {role.upper()} | {way} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _cell(values: Sequence[float], name: str) -> str:
    counts = name in ("regressions", "repaired")
    return spread(values, "{:,.0f}" if counts else "{:.2%}" if name == "accuracy" else "{:.1%}")


def spread(values: Sequence[float], shown: str) -> str:
    """The median, and where they differ, the lowest and highest in brackets."""
    middle, low, high = (shown.format(each) for each in (np.median(values), min(values), max(values)))
    return middle if low == high else f"{middle} ({low} to {high})"


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("models", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--queries", type=int, default=5_000)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--epochs", type=int, default=5)
    add_quick(parser)
    arguments = parser.parse_args(argv)
    torch.set_num_threads(1)
    started = time.process_time()
    measurement = Measurement(arguments)
    found = {role: [measurement.model(role, seed) for seed in range(arguments.seeds)] for role in "ab"}
    added = [int(each["finds"]["added"]) for each in found["a"]]
    print(
        f"{len(measurement.real):,} real images, {len(measurement.fresh):,} fresh finds, {min(added):,} to "
        f"{max(added):,} pictures added; {time.process_time() - started:.0f} s of processor time.\n"
    )
    print(table(found))


if __name__ == "__main__":
    main()
