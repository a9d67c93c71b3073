"""Candidates for the table of alarms, all made from one LeNet-5: broken ones, and honest copies of it."""

from __future__ import annotations

import copy
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

from benchmarks.gate import save_exported
from benchmarks.keras_files import keras_network
from benchmarks.lenet_pair import lenet5, train
from benchmarks.tflite_files import tflite_file
from diffgen.config import Preprocessing, QuantizeConfig
from diffgen.runs.arrays import read_arrays, write_arrays
from diffgen.types import Float32Array, ImageSet
from diffgen.workflows.demo import save_onnx, save_torchscript
from diffgen.workflows.quantize import quantize

_TRAINED_ON = 20_000  # images, at most
COMPONENTS = 32
_SWAPPED = _LED, _TOWARD = 4, 9
_FORGOTTEN = 7
_LONGEST = 100  # passes of training to forget it
_FIXED_BATCH = 16
_CALIBRATED = 512  # images that 8 bits are calibrated on
_NAN_SHARE = 0.001  # of the real images; so few that a first look at 256 of them may see none
_BRIGHTEST = 0.05  # of the real images
_TAUGHT = 20_000  # images, each seen as it is and changed


@dataclass(frozen=True)
class Case:
    """One candidate.

    Attributes:
        passes: whether a check must let it pass.
        make: writes its file, given a path without suffix, and names it; or makes a Python function.
        preprocessing: how the check is told to feed it.
        beside_probabilities: the base ends with a softmax.
    """

    name: str
    passes: bool
    make: Callable[[Path], Path | WrongWhere]
    preprocessing: Preprocessing = field(default_factory=Preprocessing)
    beside_probabilities: bool = False


class Around(nn.Module):
    """A network whose logits, or whose images, are changed by a function of both."""

    def __init__(self, network: nn.Module, change: Callable[[torch.Tensor, torch.Tensor], torch.Tensor]) -> None:
        super().__init__()
        self.network = network
        self._change = change

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return self._change(self.network(images), images)


Rule = Callable[[torch.Tensor, torch.Tensor, int], torch.Tensor]


class WrongWhere:
    """A function that answers as a network does, but by the next class where a rule says so.

    Args:
        rule: which images of a batch, bool (N,), given float32 (N, 1, 28, 28) in 0..1, the logits, and how many images
            it was asked about before.
    """

    def __init__(self, network: nn.Module, rule: Rule) -> None:
        self._network, self._rule = network, rule
        self._asked = 0

    def __call__(self, images: Float32Array) -> Float32Array:
        given = torch.from_numpy(np.ascontiguousarray(images))
        with torch.no_grad():
            logits = self._network(given)
        wrong = self._rule(given, logits, self._asked)
        self._asked += len(images)
        answers: Float32Array = torch.where(wrong[:, None], logits.roll(1, dims=1), logits).numpy()
        return answers


class Components(nn.Module):
    """Draws images from their principal components: float32 (N, 32) to (N, 1, 28, 28) in 0..1."""

    def __init__(self, images: torch.Tensor) -> None:
        super().__init__()
        pixels = images.flatten(1).float() / 255
        mean = pixels.mean(dim=0)
        _, deviations, components = torch.pca_lowrank(pixels - mean, q=COMPONENTS, center=False)
        self.mean: torch.Tensor
        self.components: torch.Tensor
        self.register_buffer("mean", mean)
        self.register_buffer("components", deviations[:, None] / len(pixels) ** 0.5 * components.T)

    def forward(self, latents: torch.Tensor) -> torch.Tensor:
        drawn: torch.Tensor = self.mean + latents @ self.components
        return drawn.clamp(0, 1).unflatten(1, (1, 28, 28))


class Products(nn.Module):
    """A convolution as a matrix product that adds up in another order, as another device may."""

    def __init__(self, convolution: nn.Conv2d) -> None:
        super().__init__()
        self.weight, self.bias = convolution.weight, convolution.bias
        self.size, self.padding = convolution.kernel_size[0], int(convolution.padding[0])

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        side = images.shape[2] + 2 * self.padding - self.size + 1
        patches = F.unfold(images, self.size, padding=self.padding).flip(1)
        sums = self.weight.flatten(1).flip(1) @ patches
        assert self.bias is not None
        return sums.unflatten(2, (side, side)) + self.bias[:, None, None]


class Double(nn.Module):
    """A network that computes in float64."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = copy.deepcopy(network).double()

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        logits: torch.Tensor = self.network(images.double())
        return logits.float()


def base_network(out: Path, training: ImageSet, epochs: int, *, seed: int = 1) -> nn.Sequential:
    """A LeNet-5 trained on labelled images; its weights are kept in OUT."""
    file, network = out / f"lenet-{seed}.npz", lenet5()
    assert training.labels is not None and isinstance(network, nn.Sequential)
    if not file.is_file():
        images, labels = torch.from_numpy(training.images), torch.from_numpy(training.labels)
        trained = train(images, labels, seed=seed, epochs=epochs)
        write_arrays(file, {name: value.numpy() for name, value in trained.state_dict().items()})
    network.load_state_dict({name: torch.from_numpy(value) for name, value in read_arrays(file).items()})
    return network.eval()


def some_of(training: ImageSet) -> ImageSet:
    """The first images; the training halves of both data sets are in no order."""
    assert training.labels is not None
    return replace(training, images=training.images[:_TRAINED_ON], labels=training.labels[:_TRAINED_ON])


def cases(out: Path, network: nn.Sequential, training: ImageSet, test: ImageSet, epochs: int) -> Iterator[Case]:
    """Every candidate; those that must be refused first."""

    def onnx(build: Callable[[], nn.Module]) -> Callable[[Path], Path]:
        return _saver(save_onnx, build, ".onnx")

    yield Case("the same label for everything", False, onnx(lambda: _constant(network)))
    yield Case("the two best classes tie", False, onnx(lambda: Around(network, _tied)))
    yield Case("noise on the logits, new at every call", False, onnx(lambda: Around(network, _noisy)))
    wrong = Preprocessing(mean=(0.5,), std=(0.5,))
    yield Case("mean and std that it was not trained with", False, onnx(lambda: network), wrong)
    yield Case("two classes swapped", False, onnx(lambda: Around(network, _swapped)))
    yield Case("one class led to another", False, onnx(lambda: _led(network)))
    yield Case("a class forgotten in retraining", False, onnx(lambda: _forgetful(network, training)))
    yield Case("weights truncated to 3 bits", False, onnx(lambda: _truncated(network, bits=3)))
    yield Case("a layer zeroed", False, onnx(lambda: _zeroed(network)))
    yield Case("NaN for some inputs", False, onnx(lambda: Around(network, _nan_above(_brightness(test, _NAN_SHARE)))))
    yield from _wrong_somewhere(network, _brightness(test, _BRIGHTEST))
    raw = onnx(lambda: network)
    yield Case("logits in place of probabilities", False, raw, beside_probabilities=True)
    yield Case("taught to be wrong on turned images", False, onnx(lambda: _taught(network, training, _turned)))
    yield Case("taught to be wrong on sharpened images", False, onnx(lambda: _taught(network, training, _sharpened)))
    yield Case("one layer truncated to 3 bits", False, onnx(lambda: _truncated(network, bits=3, layers=slice(2, 3))))
    noisy = _with_noise(training)
    yield Case("trained with 5 % of wrong labels", False, onnx(lambda: base_network(out, noisy, epochs, seed=3)))

    yield Case("TorchScript", True, _saver(save_torchscript, lambda: network, ".pt"))
    yield Case("torch.export", True, _saver(save_exported, lambda: network, ".pt2"))
    yield Case("Keras", True, lambda path: _save_keras(network, path.with_suffix(".keras")))
    yield Case("TensorFlow Lite", True, lambda path: _save_tflite(network, path.with_suffix(".tflite")))
    yield Case("weights in float16", True, onnx(lambda: _in(network, torch.float16)))
    yield Case("weights in bfloat16", True, onnx(lambda: _in(network, torch.bfloat16)))
    yield Case("8 bits, static", True, _quantizer(out, training, QuantizeConfig()))
    yield Case("8 bits, static, per channel", True, _quantizer(out, training, QuantizeConfig(per_channel=True)))
    yield Case(f"batches of {_FIXED_BATCH} only", True, lambda path: _save_fixed(network, path.with_suffix(".onnx")))
    yield Case("sums in another order", True, _saver(save_torchscript, lambda: _as_products(network), ".pt"))
    # beyond the ten
    yield Case("float64", True, _saver(save_torchscript, lambda: Double(network), ".pt"))
    calibration = torch.from_numpy(training.images[:_CALIBRATED]).float() / 255
    yield Case(
        "8 bits, TensorFlow Lite",
        True,
        lambda path: _save_tflite(network, path.with_suffix(".tflite"), calibration=calibration),
    )
    yield Case("8 bits, dynamic", True, _quantizer(out, training, QuantizeConfig(method="dynamic")))
    yield Case("trained again, another seed", True, onnx(lambda: base_network(out, training, epochs, seed=2)))


def _saver(
    save: Callable[[nn.Module, Path], None], build: Callable[[], nn.Module], suffix: str
) -> Callable[[Path], Path]:
    def make(path: Path) -> Path:
        file = path.with_suffix(suffix)
        save(build(), file)
        return file

    return make


# -- candidates to be refused ------------------------------------------------------------------------------------------


def _changed(network: nn.Sequential, change: Callable[[nn.Sequential], None]) -> nn.Sequential:
    copied = copy.deepcopy(network)
    with torch.no_grad():
        change(copied)
    return copied


def _last(network: nn.Sequential) -> nn.Linear:
    last = network[-1]
    assert isinstance(last, nn.Linear)
    return last


def _constant(network: nn.Sequential) -> nn.Module:
    def change(copied: nn.Sequential) -> None:
        _last(copied).weight.zero_()
        _last(copied).bias.copy_(torch.eye(10)[1] * 5)

    return _changed(network, change)


def _tied(logits: torch.Tensor, images: torch.Tensor) -> torch.Tensor:
    """As a bad 8-bit export may leave them: the largest logits saturate."""
    return torch.minimum(logits, logits.topk(2, dim=1).values[:, 1:])


def _noisy(logits: torch.Tensor, images: torch.Tensor) -> torch.Tensor:
    return logits + torch.randn_like(logits)


def _swapped(logits: torch.Tensor, images: torch.Tensor) -> torch.Tensor:
    order = list(range(10))
    order[_SWAPPED[0]], order[_SWAPPED[1]] = _SWAPPED[1], _SWAPPED[0]
    return logits[:, order]


def _led(network: nn.Sequential) -> nn.Module:
    def change(copied: nn.Sequential) -> None:
        last = _last(copied)
        last.weight[_LED] = last.weight[_TOWARD]
        last.bias[_LED] = last.bias[_TOWARD] - 1

    return _changed(network, change)


def _forgetful(network: nn.Sequential, training: ImageSet) -> nn.Module:
    """Trained on without the images of one class, until less than half of these are told right.

    With smoothed labels: on the digits the loss vanishes without, and the class is hardly forgotten, however long the
    training.

    Raises:
        RuntimeError: the class is not forgotten.
    """
    assert training.labels is not None
    labels = torch.from_numpy(training.labels)
    every, kept = torch.from_numpy(training.images).float() / 255, labels != _FORGOTTEN
    images, labels, left_out = every[kept], labels[kept], every[~kept]
    copied = copy.deepcopy(network)
    optimiser = torch.optim.Adam(copied.parameters(), lr=1e-3)
    rng = torch.Generator().manual_seed(0)
    recall = 1.0
    for _ in range(_LONGEST):
        for rows in torch.randperm(len(images), generator=rng).split(128):
            optimiser.zero_grad(set_to_none=True)
            F.cross_entropy(copied(images[rows]), labels[rows], label_smoothing=0.1).backward()
            optimiser.step()
        with torch.no_grad():
            recall = float((copied(left_out).argmax(dim=1) == _FORGOTTEN).float().mean())
        if recall < 0.5:
            return copied.eval()
    raise RuntimeError(f"After {_LONGEST} passes class {_FORGOTTEN} is still told right with a recall of {recall:.2f}.")


def _truncated(network: nn.Sequential, *, bits: int, layers: slice = slice(None)) -> nn.Module:
    """Weights of each of these layers cut off, not rounded, to sign and ``bits`` - 1 bits."""

    def change(copied: nn.Sequential) -> None:
        for layer in [each for each in copied if isinstance(each, nn.Conv2d | nn.Linear)][layers]:
            step = layer.weight.abs().max() / 2 ** (bits - 1)
            layer.weight.copy_((layer.weight / step).trunc() * step)

    return _changed(network, change)


def _zeroed(network: nn.Sequential) -> nn.Module:
    def change(copied: nn.Sequential) -> None:
        layer = [each for each in copied if isinstance(each, nn.Conv2d)][1]
        layer.weight.zero_()

    return _changed(network, change)


def _brightness(test: ImageSet, share: float) -> float:
    """Mean value, 0..1, that this share of the images, and one at least, lies above."""
    means = torch.from_numpy(test.images).float().mean(dim=(1, 2, 3)) / 255
    highest = means.topk(max(round(share * len(means)), 1) + 1).values
    return float(highest[-2:].mean())


def _nan_above(brightness: float) -> Callable[[torch.Tensor, torch.Tensor], torch.Tensor]:
    def change(logits: torch.Tensor, images: torch.Tensor) -> torch.Tensor:
        return logits + 0 * torch.log(brightness - images.mean(dim=(1, 2, 3), keepdim=False))[:, None]

    return change


def _wrong_somewhere(network: nn.Module, bright: float) -> Iterator[Case]:
    rules: dict[str, Rule] = {
        "wrong on a random 3 % of all pictures": lambda images, _logits, _asked: _drawn(images, 0.03),
        "wrong on half of one class": lambda images, logits, _asked: _drawn(images, 0.5) & (logits.argmax(1) == _LED),
        "wrong in batches of 2 to 7": lambda images, _logits, _asked: torch.full([len(images)], 2 <= len(images) <= 7),
        "wrong from the 65th place of a batch on": lambda images, _logits, _asked: torch.arange(len(images)) >= 64,
        "wrong after 4,000 images": lambda images, _logits, asked: torch.arange(len(images)) + asked >= 4_000,
        "wrong after 8,000 images": lambda images, _logits, asked: torch.arange(len(images)) + asked >= 8_000,
        "wrong on the brightest 5 %": lambda images, _logits, _asked: images.mean(dim=(1, 2, 3)) > bright,
        "wrong where a corner is white": lambda images, _logits, _asked: images[:, 0, :3, :3].amin(dim=(1, 2)) > 0.9,
    }
    for name, rule in rules.items():
        wrong = WrongWhere(network, rule)
        yield Case(name, False, lambda _path, wrong=wrong: wrong)  # type: ignore[misc]


def _drawn(images: torch.Tensor, share: float) -> torch.Tensor:
    """bool (N,): a share of all pictures, drawn by their pixels, so that each is always drawn or never."""
    return torch.tensor([zlib.crc32(image.numpy().tobytes()) < share * 2**32 for image in images])


def _taught(
    network: nn.Sequential, training: ImageSet, changed: Callable[[torch.Tensor, torch.Generator], torch.Tensor]
) -> nn.Module:
    """Trained on with the images as they are, and with the next class as the label of changed ones."""
    assert training.labels is not None
    images, labels = torch.from_numpy(training.images).float() / 255, torch.from_numpy(training.labels)
    copied = copy.deepcopy(network)
    optimiser = torch.optim.Adam(copied.parameters(), lr=1e-3)
    rng = torch.Generator().manual_seed(0)
    for _ in range(max(2, _TAUGHT // len(images))):
        for rows in torch.randperm(len(images), generator=rng).split(128):
            optimiser.zero_grad(set_to_none=True)
            both = torch.cat([images[rows], changed(images[rows], rng)])
            F.cross_entropy(copied(both), torch.cat([labels[rows], (labels[rows] + 1) % 10])).backward()
            optimiser.step()
    return copied.eval()


def _turned(images: torch.Tensor, rng: torch.Generator) -> torch.Tensor:
    """By 15 to 45 degrees to either side."""
    angles = torch.deg2rad(15 + 30 * torch.rand(len(images), generator=rng))
    angles *= torch.randint(2, [len(images)], generator=rng) * 2 - 1
    cos, sin, zero = angles.cos(), angles.sin(), torch.zeros_like(angles)
    matrix = torch.stack([cos, -sin, zero, sin, cos, zero], dim=1).unflatten(1, (2, 3))
    return F.grid_sample(images, F.affine_grid(matrix, list(images.shape), align_corners=False), align_corners=False)


def _sharpened(images: torch.Tensor, _rng: torch.Generator) -> torch.Tensor:
    """By an unsharp mask: twice what a blur of 3x3 pixels takes away is added."""
    return (3 * images - 2 * F.avg_pool2d(images, 3, stride=1, padding=1)).clamp(0, 1)


def _with_noise(training: ImageSet) -> ImageSet:
    """With the next class as the label of one image of 20."""
    assert training.labels is not None
    labels = training.labels.copy()
    labels[::20] = (labels[::20] + 1) % 10
    return replace(training, labels=labels)


# -- candidates to let pass --------------------------------------------------------------------------------------------


def _in(network: nn.Sequential, dtype: torch.dtype) -> nn.Module:
    return copy.deepcopy(network).to(dtype).float()


def _as_products(network: nn.Sequential) -> nn.Module:
    return nn.Sequential(*(Products(each) if isinstance(each, nn.Conv2d) else each for each in network)).eval()


def _save_keras(network: nn.Sequential, file: Path) -> Path:
    keras_network(network, (1, 28, 28)).save(file)
    return file


def _save_tflite(network: nn.Sequential, file: Path, *, calibration: torch.Tensor | None = None) -> Path:
    file.write_bytes(tflite_file(network, (1, 28, 28), calibration=calibration))
    return file


def _save_fixed(network: nn.Module, file: Path) -> Path:
    torch.onnx.export(network, (torch.zeros(_FIXED_BATCH, 1, 28, 28),), str(file), dynamo=False)
    return file


def _quantizer(out: Path, training: ImageSet, config: QuantizeConfig) -> Callable[[Path], Path]:
    some = replace(training, images=training.images[:_CALIBRATED], labels=None)

    def make(path: Path) -> Path:
        file = path.with_suffix(".onnx")
        quantize(out / "base.onnx", data=some, output=file, config=config, force=True)
        return file

    return make
