"""What tests of isolated models share: a model behind the wall, its file, its process and the process's end."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from diffgen.models import load
from diffgen.models.base import BlackBox
from diffgen.models.isolation import process
from diffgen.models.isolation.model import IsolatedModel

Images = NDArray[np.uint8]


def child_of(box: BlackBox) -> process.Child:
    assert isinstance(box, IsolatedModel)
    return box._child


def prepared(path: Path, images: Images, **settings: Any) -> BlackBox:
    box = load(path, **settings)
    box.prepare(images)
    return box


def save(net: torch.nn.Module, path: Path, calibration: Images | None = None) -> Path:
    """As the format that the name says, with an open batch; ``int8.tflite`` in 8 bits."""
    example = torch.zeros(2, 1, 28, 28)
    if path.suffix == ".pt":
        torch.jit.save(torch.jit.trace(net, example), str(path))
    elif path.suffix == ".pt2":
        sides = {0: torch.export.Dim("batch", min=1, max=512)}
        torch.export.save(torch.export.export(net, (example,), dynamic_shapes=(sides,)), path)
    elif path.suffix == ".tflite":
        from benchmarks.tflite_files import tflite_file

        assert isinstance(net, torch.nn.Sequential) and calibration is not None
        values = torch.from_numpy(calibration).float() / 255 if path.stem == "int8" else None
        path.write_bytes(tflite_file(net, (1, 28, 28), calibration=values))
    else:
        torch.onnx.export(net, (example,), str(path), dynamo=False, dynamic_axes={"x": {0: "n"}}, input_names=["x"])
    return path


class Looping(torch.nn.Module):
    def forward(self, pixels: torch.Tensor) -> torch.Tensor:
        rounds = 0
        while bool(pixels.sum() * 0 == 0):
            rounds += 1
        return pixels.flatten(1)[:, :3]


class Slow(torch.nn.Module):
    """Computes for some tenths of a second, whatever the batch."""

    def forward(self, pixels: torch.Tensor) -> torch.Tensor:
        work = torch.ones(256, 256)
        for _ in range(400):
            work = work @ work * 0 + 1
        return pixels.flatten(1)[:, :3] * work.mean()


def gone(pid: int) -> None:
    """Wait until a process has ended."""
    for _ in range(100):
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
        except FileNotFoundError:
            return
        if state == "Z":
            return
        time.sleep(0.05)
    raise AssertionError(f"process {pid} goes on")
