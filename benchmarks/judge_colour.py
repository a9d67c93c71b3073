"""The judge's classifiers of colour photographs: two convolutional networks of different kinds, trained epoch by epoch.

    python -m benchmarks.judge_colour TRAIN CACHE_FILE --kind residual

Those of ``benchmarks.judge`` are for grey pictures of 28x28 and know two of three photographs at best. These are shown
every picture mirrored at random, shifted, and half of the time also turned, zoomed, brighter or darker, with more or
less contrast, so that they know objects that a person knows too. Labels are smoothed in training, which makes answers
modest; a temperature, fitted on training images that were held out, makes them as sure as they are right.

After every epoch all that is needed to go on is written beside the file; the same command goes on where it stopped.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from safetensors.torch import save_file
from torch import nn
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

from diffgen.data import load
from diffgen.gan_training.trainer import autocast, has_bfloat16
from diffgen.runs.files import write_whole
from diffgen.types import ImageSet

FORMAT = "judge-colour-1"
KINDS = ("residual", "plain")
_CPU = torch.device("cpu")
_HALF = has_bfloat16(_CPU)  # the judge reads thousands of pictures
MANY = 10_000  # training images from which on the networks are wide
_LEARNING_RATE, _DECAY = 0.2, 5e-4  # for 256 at a time
_SMOOTHING = 0.1
_MEAN, _SPREAD = 0.47, 0.25  # about those of photographs, in 0..1
_TURN, _ZOOM, _SHIFT = 15.0, 0.15, 0.0625  # degrees; share of the size; share of the side: 2 pixels of 32
_BRIGHTER, _CONTRAST = 0.2, 0.4  # of the range of 0..1; as a factor 1 +- this
_HELD_OUT = 20  # one image in so many gives the temperature


@dataclass(frozen=True)
class Recipe:
    """How wide a network is, how often it is shown the training images, and how many of them at a time."""

    width: int
    epochs: int
    batch: int


def recipe(training: ImageSet) -> Recipe:
    """For CIFAR-10's 50,000 images about 25 minutes of one core a network, for some hundred 2 minutes."""
    return Recipe(width=32, epochs=16, batch=256) if len(training) >= MANY else Recipe(width=16, epochs=50, batch=64)


class Photographs(nn.Module):
    """A network for images in 0..1, which answers for a picture and its mirror image together.

    Args:
        kind: of ``KINDS``.
        width: channels of its first layers.
    """

    def __init__(self, kind: str, width: int, classes: int) -> None:
        super().__init__()
        self.body = _residual(width) if kind == "residual" else _plain(width)
        self.head = nn.Linear(8 * width, classes)
        self.temperature: torch.Tensor
        self.register_buffer("temperature", torch.ones(()))

    def features(self, values: torch.Tensor) -> torch.Tensor:
        """float32 (N, 8 * width) for float32 (N, 3, H, W) in 0..1."""
        values = ((values - _MEAN) / _SPREAD).contiguous(memory_format=torch.channels_last)
        with autocast(_CPU, enabled=_HALF):
            features: torch.Tensor = self.body(values)
        return features.float()

    def logits(self, values: torch.Tensor) -> torch.Tensor:
        """float32 (N, K), before the temperature."""
        answers: torch.Tensor = self.head(self.features(values))
        return answers / 8  # keeps the first steps at this learning rate tame

    def forward(self, values: torch.Tensor) -> torch.Tensor:
        """float32 (N, K), logarithms of probabilities."""
        both = [self.logits(each) / self.temperature for each in (values, values.flip(3))]
        return torch.stack(both).softmax(2).mean(0).clamp(min=1e-12).log()


class _Added(nn.Module):
    def __init__(self, *layers: nn.Module) -> None:
        super().__init__()
        self.body = nn.Sequential(*layers)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        return inputs + self.body(inputs)


def _block(before: int, after: int, *, pooled: bool = False, bent: type[nn.Module] = nn.ReLU) -> nn.Sequential:
    pool = [nn.MaxPool2d(2)] if pooled else []
    return nn.Sequential(nn.Conv2d(before, after, 3, padding=1, bias=False), *pool, nn.BatchNorm2d(after), bent())


def _residual(width: int) -> nn.Sequential:
    """Nine layers with two residual blocks, in the manner of D. Page's ResNet-9 ("How to train your ResNet", 2018)."""
    return nn.Sequential(
        _block(3, width), _block(width, 2 * width, pooled=True),
        _Added(_block(2 * width, 2 * width), _block(2 * width, 2 * width)),
        _block(2 * width, 4 * width, pooled=True), _block(4 * width, 8 * width, pooled=True),
        _Added(_block(8 * width, 8 * width), _block(8 * width, 8 * width)), nn.AdaptiveMaxPool2d(1), nn.Flatten(),
    )  # fmt: skip


def _plain(width: int) -> nn.Sequential:
    """Three pairs of convolutions after one of 2x2, in the manner of K. Jordan's 94 % net (arXiv 2404.00498)."""
    block = partial(_block, bent=nn.GELU)
    return nn.Sequential(
        nn.Conv2d(3, width, 2), nn.GELU(), block(width, 2 * width, pooled=True), block(2 * width, 2 * width),
        block(2 * width, 8 * width, pooled=True), block(8 * width, 8 * width),
        block(8 * width, 8 * width, pooled=True), block(8 * width, 8 * width), nn.AdaptiveAvgPool2d(1), nn.Flatten(),
    )  # fmt: skip


def train(training: ImageSet, kind: str, path: Path, *, seed: int, epochs: int | None = None) -> None:
    """Train a network and write it to ``path``; goes on from the last epoch that was finished, if there is one.

    Args:
        kind: of ``KINDS``.
        seed: of initial weights, order and changes.
        epochs: in place of the recipe's, also of a training that was begun with another number.
    """
    assert training.labels is not None
    asked = recipe(training)
    asked = replace(asked, epochs=epochs or asked.epochs)
    torch.manual_seed(seed)
    order = torch.randperm(len(training))
    held, rows = order[: len(order) // _HELD_OUT], order[len(order) // _HELD_OUT :]
    images, labels = torch.from_numpy(training.images), torch.from_numpy(training.labels)
    network = Photographs(kind, asked.width, int(labels.max()) + 1).to(memory_format=torch.channels_last)
    batches = -(-len(rows) // asked.batch)
    # the mean over the last steps is better than the last step, and of use before the training is at its end
    decay = max(0.0, 1 - 6 / (asked.epochs * batches))
    mean = AveragedModel(network, multi_avg_fn=get_ema_multi_avg_fn(decay), use_buffers=True)
    averaged = mean.module
    assert isinstance(averaged, Photographs)
    optimiser = torch.optim.SGD(
        network.parameters(), lr=_LEARNING_RATE * asked.batch / 256, momentum=0.9, nesterov=True, weight_decay=_DECAY
    )
    schedule = torch.optim.lr_scheduler.LambdaLR(optimiser, partial(_rate, total=asked.epochs * batches))
    parts: dict[str, Any] = {"network": network, "mean": mean, "optimiser": optimiser, "schedule": schedule}
    done, unfinished = 0, path.with_suffix(".unfinished")
    if unfinished.is_file():
        state = torch.load(unfinished, weights_only=True)
        done = state.pop("epochs")
        for name, part in parts.items():
            part.load_state_dict(state[name])
    for epoch in range(done, asked.epochs):
        torch.manual_seed(1000 * seed + epoch)
        started, total = time.process_time(), 0.0
        network.train()
        for batch in rows[torch.randperm(len(rows))].split(asked.batch):
            answers = network.logits(changed(images[batch].float() / 255))
            loss = F.cross_entropy(answers, labels[batch], label_smoothing=_SMOOTHING)
            optimiser.zero_grad(set_to_none=True)
            loss.backward()
            optimiser.step()
            schedule.step()
            mean.update_parameters(network)
            total += loss.item()
        right = _accuracy(averaged.eval(), images[held], labels[held])
        print(
            f"{kind}, epoch {epoch + 1} of {asked.epochs}: loss {total / batches:.3f}, held-out accuracy {right:.4f}, "
            f"{time.process_time() - started:.0f} s of CPU",
            flush=True,
        )
        state = {"epochs": epoch + 1} | {name: part.state_dict() for name, part in parts.items()}
        write_whole(unfinished, partial(torch.save, state))
    finished = max((averaged.eval(), network.eval()), key=lambda each: _accuracy(each, images[held], labels[held]))
    finished.temperature.copy_(_temperature(finished, images[held], labels[held]))
    weights = {name: value.contiguous() for name, value in finished.state_dict().items()}
    write_whole(path, partial(save_file, weights))
    unfinished.unlink(missing_ok=True)


def _rate(step: int, total: int) -> float:
    """Up for a fifth of the steps, then down to nothing, along straight lines."""
    rise = total / 5
    return min((step + 1) / rise, max(total - step, 0) / (total - rise))


def changed(values: torch.Tensor) -> torch.Tensor:
    """float32 (N, 3, H, W) in 0..1, each image mirrored, shifted, and half of them changed in other ways, at random."""
    count = len(values)

    def within(limit: float, *shape: int) -> torch.Tensor:
        return (torch.rand(count, *shape) * 2 - 1) * limit

    more = (torch.rand(count) < 0.5).float()
    angle, zoom = within(_TURN * torch.pi / 180) * more, 1 + within(_ZOOM) * more
    mirror = torch.randint(0, 2, (count,)) * 2.0 - 1
    side = values.shape[3]
    # affine_grid's side is 2 long; whole pixels, so that images that are only shifted stay sharp
    shift = (within(2 * _SHIFT, 2) * side / 2).round() * 2 / side
    rows = (
        torch.stack([angle.cos() * zoom * mirror, -angle.sin() * zoom, shift[:, 0]], dim=1),
        torch.stack([angle.sin() * zoom * mirror, angle.cos() * zoom, shift[:, 1]], dim=1),
    )
    grid = F.affine_grid(torch.stack(rows, dim=1), list(values.shape), align_corners=False)
    moved = F.grid_sample(values, grid, padding_mode="reflection", align_corners=False)
    contrast, brighter = (1 + within(_CONTRAST) * more), within(_BRIGHTER) * more
    middle = moved.mean(dim=(1, 2, 3), keepdim=True)
    return ((moved - middle) * contrast.view(-1, 1, 1, 1) + middle + brighter.view(-1, 1, 1, 1)).clamp(0, 1)


@torch.inference_mode()
def _accuracy(network: Photographs, images: torch.Tensor, labels: torch.Tensor) -> float:
    said = torch.cat([network(part.float() / 255).argmax(1) for part in images.split(500)])
    return (said == labels).float().mean().item()


@torch.inference_mode()
def _temperature(network: Photographs, images: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """The one of 0.2 to 3 under which held-out images are least surprising (Guo et al. 2017, section 4.2)."""
    logits = torch.cat([network.logits(part.float() / 255) for part in images.split(500)])
    candidates = torch.linspace(0.2, 3, 57)
    return candidates[torch.stack([F.cross_entropy(logits / each, labels) for each in candidates]).argmin()]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("training", help="the labelled training images")
    parser.add_argument("file", type=Path, help="where the network is written")
    parser.add_argument("--kind", choices=KINDS, required=True)
    parser.add_argument("--epochs", type=int, help="fewer or more than the recipe's")
    arguments = parser.parse_args()
    kind = arguments.kind
    train(load(arguments.training), kind, arguments.file, seed=KINDS.index(kind), epochs=arguments.epochs)


if __name__ == "__main__":
    main()
