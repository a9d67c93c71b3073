"""Argus' table 2: both models of a pair fine-tuned with pictures between classes, beside equally many others.

    python -m benchmarks.argus_retraining DATA MODELS [--each 100] [--seeds 5] [--epochs 10] > table.md

DATA and MODELS are those of benchmarks/retraining.py, whose pair is fine-tuned here, too, on the same 10,000 images of
the training split (the paper: on all of it). The source ``vq``, with the two discriminators of Argus, learns from these
images, and draws the pictures from them: an image that the model gets right is led a share of the way towards one of
another class, as ``diffgen/techniques/argus.py`` does. What the model then gives another label than the seed's is an
adversarial sample, and the seed's label is its own. Each share brings as many of each class, as far as the source draws
so many: there are at most 256 times as many tries. "Random", as in the paper, adds as many images of the test split in
their place, which nothing is measured on; two ways that the paper does not have add images of the training split again,
as they are or changed as in benchmarks/retraining.py. All ways are measured on the same rest of the test split.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import torch

from benchmarks.families import prepared
from benchmarks.pairs import PAIRS
from benchmarks.quick import add_quick
from benchmarks.retraining import PAIR, SEED_IMAGES, Pictures, answers, augmented, fine_tune, network_of, spread
from diffgen.config import CompareConfig, applied
from diffgen.data import load
from diffgen.sampling import random_rows
from diffgen.sources.base import EncodingSource
from diffgen.techniques.argus import SHARES
from diffgen.types import ImageSet, Int64Array

PUBLISHED = {
    "Random": (98.12, 98.21),
    "Argus-0.1": (98.12, 98.43),
    "Argus-0.2": (98.12, 99.28),
    "Argus-0.3": (98.12, 99.18),
}
_TRIES = 256  # pictures that are drawn for each that is wanted, at most
_BATCH = 500


def of_each_class(labels: torch.Tensor, each: int, *, seed: int) -> Int64Array:
    """int64 (n,): at most so many rows of every class, at random."""
    rng = np.random.default_rng(seed)
    chosen = [rng.permutation(np.flatnonzero(labels.numpy() == label))[:each] for label in np.unique(labels.numpy())]
    return np.sort(np.concatenate(chosen))


def between_classes(
    source: EncodingSource,
    pictures: Pictures,
    genes: torch.Tensor,
    network: torch.nn.Module,
    share: float,
    each: int,
    *,
    seed: int,
) -> tuple[Pictures, int]:
    """Pictures that a network gets wrong, at most so many of each class, and how many were drawn for them.

    Args:
        source: draws them.
        pictures: what they are made from, N images with labels.
        genes: float32 (N, n), of these images.
        network: whose errors are kept.
        share: of the way from an image to one of another class.
        each: of each class.
        seed: of what is led where.
    """
    rng = np.random.default_rng([seed, round(100 * share)])
    right = (answers(network, pictures.images) == pictures.labels).numpy()
    labels = pictures.labels.numpy()
    found, named, drawn = [], [], 0
    for label in np.unique(labels).tolist():
        own, others = np.flatnonzero(right & (labels == label)), np.flatnonzero(labels != label)
        missing = each
        for _ in range(-(-each * _TRIES // _BATCH)):
            if missing <= 0 or not len(own):
                break
            rows = [torch.from_numpy(rng.choice(which, _BATCH)) for which in (own, others)]
            start, end = (genes[which] for which in rows)
            images = source.draw(source.space.interpolate(start, end, torch.tensor([[share]]))).cpu()
            wrong = images[answers(network, images) != label][:missing]
            found.append(wrong)
            named.append(torch.full((len(wrong),), label))
            missing -= len(wrong)
            drawn += _BATCH
    nothing = Pictures(pictures.images[:0], pictures.labels[:0])
    return (Pictures(torch.cat(found), torch.cat(named)) if found else nothing), drawn


class Measurement:
    """What both models are fine-tuned with, and what they are measured on."""

    def __init__(self, arguments: argparse.Namespace) -> None:
        self.each, self.epochs = arguments.each, arguments.epochs
        self.files = {role: arguments.models / PAIR / f"{role}.onnx" for role in "ab"}
        training, test = (load(f"{arguments.data}:{split}") for split in ("train", "test"))
        rows = np.sort(random_rows(len(training), SEED_IMAGES))
        self.images, self.test = Pictures.of(training, rows), Pictures.of(test)
        own = {"discriminators": True, **({"steps": 20} if arguments.quick else {})}
        config = applied(CompareConfig(device="cpu"), {"source": {"vq": own}})
        assert training.labels is not None
        chosen = ImageSet(training.images[rows], training.labels[rows], training.class_names, "training images")
        made, self.training = prepared("vq", config, chosen)
        assert isinstance(made.source, EncodingSource)
        self.source = made.source
        self.genes = torch.cat([self.source.encode(part) for part in self.images.images.split(_BATCH)])

    def model(self, role: str, seed: int) -> dict[str, dict[str, float]]:
        """Accuracies of one model before and after, for each way, and how many pictures each way brought."""
        recipe = getattr(PAIRS[PAIR], role)
        added = of_each_class(self.test.labels, self.each, seed=seed)
        rest = torch.from_numpy(np.setdiff1d(np.arange(len(self.test)), added))
        again = of_each_class(self.images.labels, self.each, seed=seed)
        plain = Pictures(self.images.images[again], self.images.labels[again])
        ways = {
            "the same again": plain,
            "augmentations": augmented(plain, seed=seed),
            "Random": Pictures(self.test.images[added], self.test.labels[added]),
        }
        tries = dict.fromkeys(ways, 0)
        for share in SHARES:
            name = f"Argus-{share}"
            ways[name], tries[name] = between_classes(
                self.source, self.images, self.genes, network_of(self.files[role], recipe), share, self.each, seed=seed
            )
        found = {}
        before = self.accuracy(network_of(self.files[role], recipe), rest)
        for way, more in ways.items():
            network = network_of(self.files[role], recipe)
            fine_tune(network, self.images.with_more(more), recipe, epochs=self.epochs, seed=seed)
            after = self.accuracy(network, rest)
            found[way] = {"before": before, "after": after, "added": len(more), "drawn": tries[way]}
        return found

    def accuracy(self, network: torch.nn.Module, rows: torch.Tensor) -> float:
        """Share of some test images that a network gets right, in percent."""
        right = answers(network, self.test.images[rows]) == self.test.labels[rows]
        return 100 * right.float().mean().item()


def table(found: Mapping[str, Sequence[Mapping[str, Mapping[str, float]]]]) -> str:
    """Markdown: medians over the seeds, lowest to highest in brackets."""
    lines = [
        "| model | fine-tuned with the same images and | pictures added | drawn for them | accuracy before "
        "| after | gained, points | published: before and after |",
        "|---|---|---:|---:|---:|---:|---:|---|",
    ]
    for role, seeds in found.items():
        for way in seeds[0]:
            before, after, added, drawn = (
                [each[way][name] for each in seeds] for name in ("before", "after", "added", "drawn")
            )
            gained = [b - a for a, b in zip(before, after, strict=True)]
            published = "{:.2f} and {:.2f}".format(*PUBLISHED[way]) if way in PUBLISHED else ""
            lines.append(
                f"| {role.upper()} | {way} | {spread(added, '{:,.0f}')} | {spread(drawn, '{:,.0f}')} "
                f"| {spread(before, '{:.2f}')} | {spread(after, '{:.2f}')} | {spread(gained, '{:+.2f}')} "
                f"| {published} |"
            )
    return "\n".join(lines)


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("models", type=Path)
    parser.add_argument("--each", type=int, default=100, help="pictures of each class that are added")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--epochs", type=int, default=10)
    add_quick(parser)
    arguments = parser.parse_args(argv)
    torch.set_num_threads(1)
    started = time.process_time()
    measurement = Measurement(arguments)
    found = {role: [measurement.model(role, seed) for seed in range(arguments.seeds)] for role in "ab"}
    print(
        f"{len(measurement.images):,} images; the source took {measurement.training['processor_s']:.0f} s of the "
        f"processor, all {time.process_time() - started:.0f} s.\n"
    )
    print(table(found))


if __name__ == "__main__":
    main()
