"""Two small networks for photographs of hands, whose inputs have 96 and 64 pixels a side.

    python -m benchmarks.nets_of_hands shared/data/sign-digits nets/

Writes ``nets/hands96.onnx`` and ``nets/hands64.onnx``, trained on ``train.zip``, and says how often each is right on
``test.zip``, for ``diffgen compare nets/hands96.onnx nets/hands64.onnx --data shared/data/sign-digits/test.zip``.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import nn

from benchmarks.judge_colour import changed
from diffgen.data import load
from diffgen.types import ImageSet
from diffgen.workflows.demo import save_onnx

_CLASSES = 10
_BATCH = 32


def pooled() -> nn.Sequential:
    """For inputs of 96 pixels."""
    return _network(((3, 12, 5, 2), (12, 24, 3, 1), (24, 32, 3, 1), (32, 48, 3, 1)), pool_from=1, cells=3)


def strided() -> nn.Sequential:
    """For inputs of 64 pixels."""
    return _network(((3, 16, 5, 2), (16, 32, 5, 2), (32, 48, 5, 2)), pool_from=3, cells=4)


_NETS = {96: pooled, 64: strided}


def _network(sizes: tuple[tuple[int, int, int, int], ...], *, pool_from: int, cells: int) -> nn.Sequential:
    """Convolutions (channels before and after, side, stride), and the mean over cells x cells parts of the picture."""
    layers: list[nn.Module] = []
    for number, (before, after, side, stride) in enumerate(sizes):
        layers += [nn.Conv2d(before, after, side, stride=stride, padding=side // 2), nn.BatchNorm2d(after), nn.ReLU()]
        layers += [nn.MaxPool2d(2)] if number >= pool_from else []
    last = nn.Linear(sizes[-1][1] * cells**2, _CLASSES)
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(cells), nn.Flatten(), last)


def train(network: nn.Sequential, data: ImageSet, side: int, *, epochs: int) -> None:
    """Adam on photographs that are changed a little; leaves the network in eval mode."""
    assert data.labels is not None
    torch.manual_seed(side)
    images, labels = resized(data, side), torch.from_numpy(data.labels)
    steps = max(1, epochs * -(-len(images) // _BATCH))
    optimiser = torch.optim.Adam(network.parameters(), lr=1e-3)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, 4e-3, total_steps=steps)
    network.train()
    for _ in range(epochs):
        for rows in torch.randperm(len(images)).split(_BATCH):
            loss = F.cross_entropy(network(changed(images[rows])), labels[rows])
            optimiser.zero_grad(set_to_none=True)
            loss.backward()
            optimiser.step()
            schedule.step()
    network.eval()


def resized(data: ImageSet, side: int) -> torch.Tensor:
    """float32 (N, 3, side, side) in 0..1."""
    pixels = torch.from_numpy(data.images).float() / 255
    return F.interpolate(pixels, size=(side, side), mode="bilinear", antialias=True, align_corners=False)


def arguments_of(program: str, about: str, *, epochs: int) -> argparse.Namespace:
    """The command line of a program that trains networks on the photographs."""
    parser = argparse.ArgumentParser(prog=f"python -m benchmarks.{program}", description=about.splitlines()[0])
    parser.add_argument("source", type=Path, help="folder with train.zip and test.zip")
    parser.add_argument("folder", type=Path, help="where the networks go")
    parser.add_argument("--epochs", type=int, default=epochs, help=f"passes over the photographs (default: {epochs})")
    return parser.parse_args()


def main() -> None:
    arguments = arguments_of("nets_of_hands", __doc__, epochs=12)
    arguments.folder.mkdir(parents=True, exist_ok=True)
    training, test = (load(str(arguments.source / f"{split}.zip"), resize=100) for split in ("train", "test"))
    for side, make in _NETS.items():
        network = make()
        train(network, training, side, epochs=arguments.epochs)
        path = arguments.folder / f"hands{side}.onnx"
        save_onnx(network, path, (3, side, side))
        with torch.inference_mode():
            said = torch.cat([network(part).argmax(dim=1) for part in resized(test, side).split(100)])
        print(f"{path}: {(said.numpy() == test.labels).mean():.1%} of {len(test)} photographs")


if __name__ == "__main__":
    main()
