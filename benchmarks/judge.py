"""A judge of generated images that nothing is tuned against: classifiers of different kinds, and four measures.

    python -m benchmarks.judge DATA                  # train the judge on the training split, print its accuracies
    python -m benchmarks.judge TRAIN --test TEST     # the same where the splits are files
    python -m benchmarks.judge DATA --gan FILE       # and measure a GAN's checkpoint, trained on the test split, by it

The judge is trained on the *training* split, GANs and filters on the test split; no filter, no encoder and no stop rule
of the program ever asks it.

Grey images have five classifiers, colour photographs the two of :mod:`benchmarks.judge_colour`.

* Recognised: all classifiers name the same class, and their mean confidence in it is at least 0.9.
* Coverage (Naeem et al. 2020): share of n real images that have, among n generated ones, one nearer than their 5th
  nearest real neighbour, in the penultimate features of the residual classifier. Taken twice: of the images that were
  held out when the GAN was trained (n is their number, a tenth of the test split), and of those that trained it, in
  blocks of the same n. A GAN that repeats what it was shown covers the second better than the first. The ceiling of
  both is what n other real images in place of the generated ones cover; means over the blocks.
* The share of each class in what is recognised, and the coverage within each class.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from safetensors.torch import load_file, save_file
from torch import nn
from torchvision.transforms import v2

from benchmarks import judge_colour
from benchmarks.judge_colour import Photographs
from diffgen.config import SplitConfig
from diffgen.data import load
from diffgen.data.split import split_rows
from diffgen.events import Progress
from diffgen.gan_training.checkpoint import read_header
from diffgen.gan_training.trainer import autocast, has_bfloat16
from diffgen.runs.cache import cache_folder
from diffgen.runs.files import write_whole
from diffgen.sampling import random_rows
from diffgen.sources import gan as gan_loader
from diffgen.sources.gan import split_of_gan
from diffgen.sources.space import random_genes
from diffgen.types import ImageSet

CONFIDENT = 0.9
NEIGHBOURS = 5
GENERATED_IMAGES = 10_000
_FORMAT = "judge-1"
_BATCH = 128
_CPU = torch.device("cpu")
_HALF = has_bfloat16(_CPU)
_AT_ONCE = 500  # images
_FEATURE_KIND = "residual"


class _Residual(nn.Module):
    def __init__(self, *layers: nn.Module) -> None:
        super().__init__()
        self.body = nn.Sequential(*layers)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        return F.relu(inputs + self.body(inputs))


def _block(before: int, after: int, kernel: int = 3, *, stride: int = 1, groups: int = 1) -> list[nn.Module]:
    convolution = nn.Conv2d(before, after, kernel, stride=stride, padding=kernel // 2, groups=groups, bias=False)
    return [convolution, nn.BatchNorm2d(after), nn.ReLU()]


def _separable(before: int, after: int, *, stride: int = 1) -> list[nn.Module]:
    return [*_block(before, before, 5, stride=stride, groups=before), *_block(before, after, 1)]


def _pooled(features: int) -> list[nn.Module]:
    return [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(features, 64), nn.ReLU()]


def _bodies(channels: int, side: int) -> dict[str, nn.Sequential]:
    """Five kinds of network from images in 0..1 to 64 (or 128) features; each gets a linear layer to the classes."""
    flat = (side // 4) ** 2
    return {
        "large kernels": nn.Sequential(
            *_block(channels, 16, 5), nn.MaxPool2d(2), *_block(16, 32, 5), nn.MaxPool2d(2),
            nn.Flatten(), nn.Linear(32 * flat, 128), nn.ReLU(),
        ),
        "plain": nn.Sequential(
            *_block(channels, 16), *_block(16, 16), nn.MaxPool2d(2), *_block(16, 32), *_block(32, 32), nn.MaxPool2d(2),
            nn.Dropout(0.2), nn.Flatten(), nn.Linear(32 * flat, 64), nn.ReLU(),
        ),
        _FEATURE_KIND: nn.Sequential(
            *_block(channels, 16, stride=2), _Residual(*_block(16, 16), *_block(16, 16)[:2]),
            *_block(16, 32, stride=2), _Residual(*_block(32, 32), *_block(32, 32)[:2]),
            *_block(32, 64, stride=2), _Residual(*_block(64, 64), *_block(64, 64)[:2]), *_pooled(64),
        ),
        "separable": nn.Sequential(
            *_block(channels, 24, 5, stride=2), *_separable(24, 64, stride=2), *_separable(64, 96), *_separable(96, 96),
            *_pooled(96),
        ),
        "dense": nn.Sequential(
            nn.Flatten(), nn.Linear(channels * side**2, 512), nn.BatchNorm1d(512), nn.ReLU(), nn.Dropout(0.2),
            nn.Linear(512, 512), nn.BatchNorm1d(512), nn.ReLU(), nn.Dropout(0.2), nn.Linear(512, 64), nn.ReLU(),
        ),
    }  # fmt: skip


_EPOCHS = {"large kernels": 5, "plain": 5, _FEATURE_KIND: 6, "separable": 6, "dense": 20}


class _Grey(nn.Sequential):
    """A body and a linear layer: logits float32 (N, K) for images in 0..1."""

    def features(self, values: torch.Tensor) -> torch.Tensor:
        features: torch.Tensor = self[0](values)
        return features


def _networks(training: ImageSet) -> dict[str, _Grey | Photographs]:
    """The classifiers for a data set, untrained."""
    assert training.labels is not None
    channels, side, _ = training.image_shape
    classes = int(training.labels.max()) + 1
    if channels == 3:
        width = judge_colour.recipe(training).width
        return {kind: Photographs(kind, width, classes) for kind in judge_colour.KINDS}
    made: dict[str, _Grey | Photographs] = {}
    for kind, body in _bodies(channels, side).items():
        last = [layer for layer in body if isinstance(layer, nn.Linear)][-1]
        made[kind] = _Grey(body, nn.Linear(last.out_features, classes))
    return made


class Judge:
    """The classifiers of a data set; see the module's text. All take images uint8 (N, C, H, W)."""

    def __init__(self, networks: Mapping[str, nn.Module], classes: int) -> None:
        self.networks, self.classes = networks, classes
        self.accuracies: dict[str, float] = {}

    def measure(self, test: ImageSet) -> None:
        """Note how often each is right, and all together."""
        assert test.labels is not None
        answers, labels = self.probabilities(torch.from_numpy(test.images)), torch.from_numpy(test.labels)
        right = (answers.argmax(2) == labels).float().mean(1).tolist()
        self.accuracies = dict(zip(self.networks, right, strict=True))
        self.accuracies["together"] = (answers.mean(0).argmax(1) == labels).float().mean().item()

    @torch.inference_mode()
    def probabilities(self, images: torch.Tensor) -> torch.Tensor:
        """float32 (J, N, K): what each of the J classifiers answers."""
        empty = torch.empty(0, self.classes)
        return torch.stack(
            [
                torch.cat([empty, *(network(_unit(part)).softmax(1) for part in images.split(_AT_ONCE) if len(part))])
                for network in self.networks.values()
            ]
        )

    def verdict(self, images: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """bool (N,): recognised; int64 (N,): the class of the highest mean probability."""
        answers = self.probabilities(images)
        confidence, label = answers.mean(0).max(1)
        return (answers.argmax(2) == label).all(0) & (confidence >= CONFIDENT), label

    def recognised(self, images: torch.Tensor) -> torch.Tensor:
        """bool (N,): all name one class, with a mean confidence of at least 0.9."""
        return self.verdict(images)[0]

    @torch.inference_mode()
    def features(self, images: torch.Tensor) -> torch.Tensor:
        """float32 (N, D): penultimate features of the residual classifier; D is 64 for grey images."""
        network = self.networks[_FEATURE_KIND]
        assert isinstance(network, (_Grey, Photographs))
        return torch.cat([network.features(_unit(part)) for part in images.split(_AT_ONCE)])


def _unit(images: torch.Tensor) -> torch.Tensor:
    return images.to(torch.float32) / 255


def judge_for(training: ImageSet, test: ImageSet | None) -> Judge:
    """The judge of a data set, from the cache or newly trained on its training split (some minutes).

    Without ``test`` its accuracies stay unknown.
    """
    assert training.labels is not None
    networks, classes = _networks(training), int(training.labels.max()) + 1
    folder = cache_folder() / "judge"
    folder.mkdir(parents=True, exist_ok=True)
    for seed, (kind, network) in enumerate(networks.items()):
        path = _place(folder, training, kind)
        if not path.is_file():
            print(f"training the judge's classifier '{kind}' ({seed + 1} of {len(networks)})", flush=True)
            if isinstance(network, Photographs):
                judge_colour.train(training, kind, path, seed=seed)
            else:
                _train(network, training, epochs=_EPOCHS[kind], seed=seed)
                weights = {name: value.contiguous() for name, value in network.state_dict().items()}
                write_whole(path, partial(save_file, weights))
        network.load_state_dict(load_file(path))
        network.eval().requires_grad_(False)
    judge = Judge(networks, classes)
    if test is not None:
        judge.measure(test)
    return judge


def judge_is_trained(training: ImageSet) -> bool:
    """Whether :func:`judge_for` finds every classifier in the cache."""
    kinds = judge_colour.KINDS if training.image_shape[0] == 3 else tuple(_EPOCHS)
    return all(_place(cache_folder() / "judge", training, kind).is_file() for kind in kinds)


def _place(folder: Path, training: ImageSet, kind: str) -> Path:
    name = judge_colour.FORMAT if training.image_shape[0] == 3 else _FORMAT
    return folder / f"{name}-{kind.replace(' ', '-')}-{training.digest[:32]}.safetensors"


def _train(network: nn.Module, training: ImageSet, *, epochs: int, seed: int) -> None:
    torch.manual_seed(seed)
    images, labels = torch.from_numpy(training.images), torch.from_numpy(training.labels)
    # moved by up to 2 pixels, so that the dense network too is right about what stands a little aside
    move = v2.RandomAffine(10, translate=(0.07, 0.07), scale=(0.9, 1.1))
    optimiser = torch.optim.AdamW(network.parameters(), lr=1e-3, weight_decay=1e-3)
    batches = len(images) // _BATCH
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, max_lr=4e-3, total_steps=epochs * batches)
    network.train().to(memory_format=torch.channels_last)
    for _ in range(epochs):
        for rows in torch.randperm(len(images)).split(_BATCH)[:batches]:
            # one draw of the transformation for each quarter of the batch
            moved = torch.cat([move(part) for part in _unit(images[rows]).chunk(4)])
            with autocast(_CPU, enabled=_HALF):
                answers = network(moved.contiguous(memory_format=torch.channels_last))
            loss = F.cross_entropy(answers.float(), labels[rows])
            optimiser.zero_grad(set_to_none=True)
            loss.backward()
            optimiser.step()
            schedule.step()


def coverage(real: torch.Tensor, generated: torch.Tensor, *, neighbours: int = NEIGHBOURS) -> torch.Tensor:
    """bool (n,): which real features, float32 (n, d), have a generated one within their k-th neighbour's distance."""
    covered = []
    for part_start in range(0, len(real), 1000):
        part = real[part_start : part_start + 1000]
        # the nearest of all is the image itself
        radius = torch.cdist(part, real).topk(neighbours + 1, largest=False).values[:, -1]
        covered.append(torch.cdist(part, generated).min(1).values <= radius)
    return torch.cat(covered)


@dataclass(frozen=True)
class Verdict:
    """What the judge says of a set of images, beside what it says of real ones.

    Attributes:
        recognised, recognised_real: share recognised of the images and of the held-apart real test images.
        covered_images: n, real images of a block, and images that may cover them.
        coverage_trained, coverage_trained_ceiling: share covered of the real images that trained the GAN, by the
            images, and by other real images that trained it.
        coverage_held_out, coverage_held_out_ceiling: the same of the held-out ones, by the images, and by real images
            that trained the GAN.
        recognised_fraction, coverage_trained_fraction, coverage_held_out_fraction: the first divided by the second.
        class_shares: share of each class in what is recognised.
        class_coverage: coverage of the real images of each class that trained the GAN, by images of any class; NaN for
            a class without one.
    """

    recognised: float
    recognised_real: float
    recognised_fraction: float
    covered_images: int
    coverage_trained: float
    coverage_trained_ceiling: float
    coverage_trained_fraction: float
    coverage_held_out: float
    coverage_held_out_ceiling: float
    coverage_held_out_fraction: float
    class_shares: list[float]
    class_coverage: list[float]


def measure(judge: Judge, test: ImageSet, generated: torch.Tensor, split: SplitConfig) -> Verdict:
    """Measure the images of a GAN, uint8 (N, C, H, W), against the real test images.

    Args:
        test: what the GAN was trained on, but for what it held out.
        generated: of the GAN; N at least the number of images held out.
        split: says what it held out.
    """
    assert test.labels is not None
    real = torch.from_numpy(test.images)
    trained, held_out = (each.numpy() for each in split_rows(len(test), split))
    size = min(len(held_out), len(trained) // 2)
    # at random: a data set may be in order of class
    rows = trained[random_rows(len(trained), len(trained) // size * size)]
    features = judge.features(real[torch.from_numpy(rows)])
    blocks, fakes = features.split(size), judge.features(generated).split(size)
    fakes = [part for part in fakes if len(part) == size]
    unseen = judge.features(real[torch.from_numpy(held_out[random_rows(len(held_out), size)])])
    hit = torch.cat([coverage(block, fakes[number % len(fakes)]) for number, block in enumerate(blocks)])
    trained_share, trained_ceiling = hit.float().mean().item(), _mean_coverage(blocks, [*blocks[1:], blocks[0]])
    unseen_share = _mean_coverage([unseen] * len(fakes), fakes)
    unseen_ceiling = _mean_coverage([unseen] * len(blocks), blocks)
    recognised, label = judge.verdict(generated)
    recognised_real = judge.recognised(real).float().mean().item()
    share = recognised.float().mean().item()
    counts = torch.bincount(label[recognised], minlength=judge.classes).float()
    labels = torch.from_numpy(test.labels[rows])
    return Verdict(
        recognised=share,
        recognised_real=recognised_real,
        recognised_fraction=share / recognised_real,
        covered_images=size,
        coverage_trained=trained_share,
        coverage_trained_ceiling=trained_ceiling,
        coverage_trained_fraction=trained_share / trained_ceiling,
        coverage_held_out=unseen_share,
        coverage_held_out_ceiling=unseen_ceiling,
        coverage_held_out_fraction=unseen_share / unseen_ceiling,
        class_shares=(counts / counts.sum().clamp(min=1)).tolist(),
        class_coverage=[hit[labels == number].float().mean().item() for number in range(judge.classes)],
    )


def _mean_coverage(real: Sequence[torch.Tensor], others: Sequence[torch.Tensor]) -> float:
    """Share of each block's features, float32 (n, d), that the other block covers; mean over the pairs."""
    return float(np.mean([coverage(a, b).float().mean().item() for a, b in zip(real, others, strict=True)]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", help="folder with a training and a test split")
    parser.add_argument("--test", help="the test images, where DATA is a file of the training images alone")
    parser.add_argument("--gan", type=Path, help="a GAN's checkpoint; python -m benchmarks.gan trains one")
    parser.add_argument("--pictures", type=int, default=GENERATED_IMAGES, help="how many the GAN draws")
    arguments = parser.parse_args()
    alone = arguments.test is not None
    training = load(arguments.data if alone else f"{arguments.data}:train")
    test = load(arguments.test if alone else f"{arguments.data}:test")
    judge = judge_for(training, test)
    for kind, accuracy in judge.accuracies.items():
        print(f"{kind}: accuracy {accuracy:.4f} on {len(test):,} test images")
    recognised, named = judge.verdict(torch.from_numpy(test.images))
    right = (named == torch.from_numpy(test.labels))[recognised].float().mean()
    print(f"recognised of the real test images: {recognised.float().mean():.4f}, of these rightly named: {right:.4f}")
    if arguments.gan is not None:
        if read_header(arguments.gan).get("data") != test.digest:
            parser.error(f"{arguments.gan} was trained on other images than {test.source}; give the GAN of these.")
        config = split_of_gan(arguments.gan, test, SplitConfig(), Progress())
        generator, _, _ = gan_loader.load(arguments.gan, device=torch.device("cpu"))
        latents = random_genes(generator.space, arguments.pictures, torch.Generator().manual_seed(1))
        images = torch.cat([generator.draw(part) for part in latents.split(500)])
        print(json.dumps(asdict(measure(judge, test, images, config)), indent=2))


if __name__ == "__main__":
    main()
