"""Entry point of ``diffgen demo``: a comparison or a check on embedded digits, with classifiers trained on the spot."""

from __future__ import annotations

import warnings
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import nn

from diffgen.comparison.machine import resolve_device
from diffgen.comparison.stages import CompareResult
from diffgen.config import Budget, CheckConfig, CompareConfig, replace
from diffgen.data import load as load_data
from diffgen.events import Listener, Progress, StopToken
from diffgen.gate.result import CheckResult
from diffgen.numerics import seeded
from diffgen.runs.creation import check_output
from diffgen.runs.files import write_whole
from diffgen.runs.outputs import output_file
from diffgen.types import ImageSet
from diffgen.workflows.check import check
from diffgen.workflows.compare import compare
from diffgen.workflows.quantize import quantize

_PASSES = 30
_BATCH = 32
_CLASSES = 10


def convolutional_classifier(classes: int) -> nn.Sequential:
    """Model A: two convolutions and two dense layers, after LeNet-5, for 1x28x28 images."""
    return nn.Sequential(
        nn.Conv2d(1, 6, 5, padding=2),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(6, 16, 5),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(400, 84),
        nn.ReLU(),
        nn.Linear(84, classes),
    )


def dense_classifier(classes: int) -> nn.Sequential:
    """Model B: a multi-layer perceptron for 1x28x28 images."""
    return nn.Sequential(nn.Flatten(), nn.Linear(784, 128), nn.ReLU(), nn.Linear(128, classes))


def demo(
    *,
    output: str | Path = "demo-run",
    budget: Budget | None = None,
    force: bool = False,
    seed: int = 0,
    device: str = "auto",
    batch_size: int | None = None,
    events: Listener | None = None,
    stop: StopToken | None = None,
    command: str = "diffgen demo",
) -> CompareResult:
    """Train two classifiers on half of the digits, save them as files, and compare them on the other half.

    Raises:
        UserError: the output folder is not empty, or the device does not exist.
    """
    progress = Progress(events, stop)
    path = Path(output)
    names = "convolutional.pt", "dense.onnx"
    file_a, file_b, training = _prepare(path, names, force=force, device=device, progress=progress)
    model_a = train_classifier(
        convolutional_classifier(_CLASSES), training, seed=seed, name="model A", progress=progress
    )
    model_b = train_classifier(dense_classifier(_CLASSES), training, seed=seed, name="model B", progress=progress)
    save_torchscript(model_a, file_a)
    save_onnx(model_b, file_b)
    progress.say(f"Two classifiers trained and saved: {file_a} (TorchScript) and {file_b} (ONNX).")
    return compare(
        file_a,
        file_b,
        data="digits:test",
        config=CompareConfig(
            budget=budget or Budget(seconds=30.0),
            seed=seed,
            device=device,
            batch_size=batch_size,
        ),
        output=path,
        force=force,
        events=events,
        stop=stop,
        command=command,
    )


def demo_gate(
    *,
    output: str | Path = "demo-run",
    budget: Budget | None = None,
    force: bool = False,
    seed: int = 0,
    device: str = "auto",
    batch_size: int | None = None,
    events: Listener | None = None,
    stop: StopToken | None = None,
    command: str = "diffgen demo --gate",
) -> CheckResult:
    """Train a classifier on half of the digits, quantize it to 8 bits, and check on the other half what that changed.

    The limits are the default ones.

    Raises:
        UserError: the output folder is not empty, or the device does not exist.
    """
    progress = Progress(events, stop)
    path = Path(output)
    names = "float.onnx", "int8.onnx"
    base, candidate, training = _prepare(path, names, force=force, device=device, progress=progress)
    network = train_classifier(
        convolutional_classifier(_CLASSES), training, seed=seed, name="the base", progress=progress
    )
    save_onnx(network, base)
    made = quantize(base, data="digits:test", calibration_data="digits:train", output=candidate, force=force)
    progress.say(
        f"A classifier trained and quantized: {base} and {candidate}, {made.bytes[0]:,} and {made.bytes[1]:,} bytes."
    )
    defaults = CheckConfig()
    comparison = replace(
        defaults.compare,
        budget=budget or defaults.compare.budget,
        seed=seed,
        device=device,
        batch_size=batch_size,
    )
    return check(
        base,
        candidate,
        data="digits:test",
        config=replace(defaults, compare=comparison),
        output=path,
        force=force,
        events=events,
        stop=stop,
        command=command,
    )


def _prepare(
    path: Path, files: tuple[str, str], *, force: bool, device: str, progress: Progress
) -> tuple[Path, Path, ImageSet]:
    """Where two models are to be, and the half of the digits that trains them."""
    path = check_output(path, force=force)
    models = path.with_name(f"{path.name}-models")
    first, second = (output_file(models / name, force=force, parents=True) for name in files)
    resolve_device(device)
    progress.say(
        "The digits are the 1,797 real handwritten ones that ship inside scikit-learn: scans of 8x8 pixels, scaled up "
        "to 28x28. One half trains the classifiers, the other half is what they are compared on."
    )
    models.mkdir(parents=True, exist_ok=True)
    return first, second, load_data("digits:train")


def train_classifier(
    network: nn.Sequential,
    data: ImageSet,
    *,
    seed: int,
    passes: int = _PASSES,
    name: str = "a classifier",
    progress: Progress | None = None,
) -> nn.Module:
    """Train a classifier on labelled images (cross-entropy, Adam, on the CPU) and return it in eval mode."""
    assert data.labels is not None
    images = torch.from_numpy(data.images).to(torch.float32) / 255
    labels = torch.from_numpy(data.labels)
    rng = torch.Generator().manual_seed(seed)
    with seeded(seed):
        for layer in network:
            if isinstance(layer, nn.Conv2d | nn.Linear):
                layer.reset_parameters()
    optimiser = torch.optim.Adam(network.parameters(), lr=1e-3)
    with (progress or Progress()).stage(f"Training {name}", total=passes) as task:
        for _ in range(passes):
            for rows in torch.randperm(len(images), generator=rng).split(_BATCH):
                loss = F.cross_entropy(network(images[rows]), labels[rows])
                optimiser.zero_grad(set_to_none=True)
                loss.backward()
                optimiser.step()
            task.advance()
    return network.eval()


def save_torchscript(network: nn.Module, path: Path, image_shape: tuple[int, int, int] = (1, 28, 28)) -> None:
    """Save a classifier of (C, H, W) images as TorchScript, for batches of any size."""
    with warnings.catch_warnings():
        # torch announces torch.export as the successor; TorchScript files are what this model shall show
        warnings.filterwarnings("ignore", message=".*torch.jit", category=Warning)
        scripted = torch.jit.trace(network, torch.zeros(2, *image_shape))
        write_whole(path, lambda temporary: torch.jit.save(scripted, str(temporary)))


def save_onnx(
    network: nn.Module, path: Path, image_shape: tuple[int, int, int] = (1, 28, 28), output: str = "logits"
) -> None:
    """Save a network of (C, H, W) images as ONNX, for batches of any size."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", category=DeprecationWarning)
        write_whole(
            path,
            lambda temporary: torch.onnx.export(
                network,
                (torch.zeros(2, *image_shape),),
                str(temporary),
                dynamo=False,
                input_names=["images"],
                output_names=[output],
                dynamic_axes={"images": {0: "n"}, output: {0: "n"}},
            ),
        )
