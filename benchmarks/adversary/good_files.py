"""The good files that every case begins with: real digits, three small classifiers, a generator, a finished run."""

from __future__ import annotations

import os
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import torch

from benchmarks.adversary.harness import REPOSITORY
from diffgen.data import load

_IMAGES = 200


def make(folder: Path) -> None:
    """Fill a folder with data.npz, pictures/, a.pt, b.onnx, c.pt2, g.pt and run/."""
    folder.mkdir(parents=True)
    data = load("digits:train")
    rows = np.random.default_rng(0).permutation(len(data))
    assert data.labels is not None
    np.savez_compressed(folder / "data.npz", images=data.images[rows[:_IMAGES]], labels=data.labels[rows[:_IMAGES]])
    nets = [_trained(data.images, data.labels, seed) for seed in range(3)]
    example = torch.zeros(2, 1, 28, 28)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.jit.trace(nets[0], example).save(str(folder / "a.pt"))
        axes = {"x": {0: "n"}}
        torch.onnx.export(
            nets[1],
            (example,),
            folder / "b.onnx",
            dynamo=False,
            input_names=["x"],
            output_names=["y"],
            dynamic_axes=axes,
        )
        count = torch.export.Dim("n", min=1, max=4096)
        torch.export.save(torch.export.export(nets[2], (example,), dynamic_shapes=({0: count},)), folder / "c.pt2")
        torch.jit.trace(_Blend(data.images[rows[:8]]).eval(), torch.zeros(2, 8)).save(str(folder / "g.pt"))
    command = (
        "compare a.pt b.onnx --data data.npz --generator g.pt --latent-dim 8 --filters none --budget 400q --seed 1 "
        "--device cpu -q -o run"
    )
    environment = {
        **os.environ,
        "PYTHONPATH": str(REPOSITORY),
        "DIFFGEN_CACHE": str(folder.parent / "cache"),
        "OMP_NUM_THREADS": "1",
    }
    subprocess.run([sys.executable, "-m", "diffgen", *command.split()], cwd=folder, env=environment, check=True)


class _Blend(torch.nn.Module):
    """Draws weighted means of real digits: a generator that takes no training."""

    def __init__(self, images: np.ndarray) -> None:
        super().__init__()
        self.register_buffer("digits", torch.from_numpy(images.astype(np.float32) / 255))

    def forward(self, latents: torch.Tensor) -> torch.Tensor:
        return torch.einsum("nk,kchw->nchw", torch.softmax(3 * latents, dim=1), self.digits)


def _trained(images: np.ndarray, labels: np.ndarray, seed: int) -> torch.nn.Module:
    torch.manual_seed(seed)
    net = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(784, 16), torch.nn.ReLU(), torch.nn.Linear(16, 10))
    pixels, classes = torch.from_numpy(images).float() / 255, torch.from_numpy(labels)
    optimizer = torch.optim.Adam(net.parameters(), lr=0.01)
    for _ in range(30):
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(net(pixels), classes).backward()
        optimizer.step()
    return net.eval()
