"""Two LeNet-5 for a data set of idx files, alike in accuracy, different in training data and seed.

    python -m benchmarks.lenet_pair DATA OUT

DATA is a folder with the training and the test files of MNIST or Fashion-MNIST. OUT gets lenet_a.pt (TorchScript,
trained on the first half of the training images), lenet_b.onnx (ONNX, trained on the second half) and lenet_a.onnx (the
first model again, for comparing a model with itself in another format).
"""

from __future__ import annotations

import argparse
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import nn

from diffgen.data import load
from diffgen.workflows.demo import save_onnx, save_torchscript

_EPOCHS = 4
_BATCH = 128


def lenet5(classes: int = 10) -> nn.Sequential:
    """LeNet-5 (LeCun et al. 1998) with ReLU and max pooling, logits for 1x28x28 images in 0..1."""
    return nn.Sequential(
        nn.Conv2d(1, 6, 5, padding=2),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(6, 16, 5),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(400, 120),
        nn.ReLU(),
        nn.Linear(120, 84),
        nn.ReLU(),
        nn.Linear(84, classes),
    )


def train(images: torch.Tensor, labels: torch.Tensor, *, seed: int, epochs: int = _EPOCHS) -> nn.Sequential:
    """Train a LeNet-5 on uint8 (N, 1, 28, 28) and int64 (N,)."""
    rng = torch.Generator().manual_seed(seed)
    torch.manual_seed(seed)
    network = lenet5()
    optimiser = torch.optim.Adam(network.parameters(), lr=2e-3)
    steps = epochs * (len(images) // _BATCH)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, max_lr=4e-3, total_steps=steps)
    for _ in range(epochs):
        for rows in torch.randperm(len(images), generator=rng).split(_BATCH)[: len(images) // _BATCH]:
            loss = F.cross_entropy(network(images[rows].float() / 255), labels[rows])
            optimiser.zero_grad(set_to_none=True)
            loss.backward()
            optimiser.step()
            schedule.step()
    return network.eval()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("out", type=Path)
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    training, test = load(f"{arguments.data}:train"), load(f"{arguments.data}:test")
    images, labels = torch.from_numpy(training.images), torch.from_numpy(training.labels)
    half = len(images) // 2
    for name, rows, seed in (("a", slice(0, half), 1), ("b", slice(half, None), 2)):
        network = train(images[rows], labels[rows], seed=seed)
        with torch.inference_mode():
            right = network(torch.from_numpy(test.images).float() / 255).argmax(1) == torch.from_numpy(test.labels)
        print(f"lenet_{name}: accuracy {right.float().mean():.4f} on {len(test):,} test images")
        if name == "a":
            save_torchscript(network, arguments.out / "lenet_a.pt")
        save_onnx(network, arguments.out / f"lenet_{name}.onnx")


if __name__ == "__main__":
    main()
