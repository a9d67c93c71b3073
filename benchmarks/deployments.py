"""Deployments of six models, with faults that can be planted; none of it is code of ``diffgen.causes``.

A deployment is a Python function around a model's own weights: pictures come in as bytes, Pillow and NumPy decode,
resize and normalise them, and probabilities come out.
"""

from __future__ import annotations

import io
from collections.abc import Callable
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image

from benchmarks.cifar_resnets import MEAN, STD
from benchmarks.nets_of_hands import pooled, train
from diffgen.config import Preprocessing
from diffgen.data import load
from diffgen.models import BlackBox
from diffgen.models import load as load_model
from diffgen.sampling import random_rows
from diffgen.types import Float32Array, ImageSet, UInt8Array

IMAGES = 512


@dataclass(frozen=True, eq=False)
class Model:
    """A model, how it is fed rightly, and pictures for it that are larger than its input and no squares."""

    name: str
    load: Callable[[Preprocessing], BlackBox]
    preprocessing: Preprocessing
    images: UInt8Array
    # (factor * grey level - mean) / std, as the network itself was trained, whatever the file does of it
    factor: float = 1 / 255
    mean: tuple[float, ...] = (0.0,)
    std: tuple[float, ...] = (1.0,)

    @property
    def size(self) -> tuple[int, int]:
        height, width = self.preprocessing.size or (0, 0)
        return height, width


@dataclass(frozen=True)
class Deployment:
    """What is done to a picture, and to the answers."""

    jpeg: int = 0
    turned: bool = False
    letterbox: bool = False
    crop: float = 0.0
    kernel: str = "antialias"
    shift: tuple[int, int] = (0, 0)
    bgr: bool = False
    inverted: bool = False
    rescaled: float = 1.0
    normalised: tuple[float, tuple[float, ...], tuple[float, ...]] | None = None
    layout: str = ""
    cut_off: float = 0.0
    batch_statistics: bool = False
    classes: str = ""
    softmax_twice: bool = False


@dataclass(eq=False)
class Deployed:
    """The function that a deployment is."""

    model: Model
    how: Deployment
    core: BlackBox = field(init=False)
    __name__: str = "deployed"

    def __post_init__(self) -> None:
        self.core = self.model.load(replace(self.model.preprocessing))
        self.core.prepare(self.model.images[:8])

    def __call__(self, pixels: Float32Array) -> Float32Array:
        images = np.asarray(pixels).astype(np.uint8)
        left = torch.from_numpy(self._inputs(images))  # of all at once, however few the network takes

        def next_of(some: torch.Tensor) -> torch.Tensor:
            nonlocal left
            inputs, left = left[: len(some)], left[len(some) :]
            return inputs.contiguous()

        with self.core.feeding(next_of):
            said = self.core.predict(images)
        if self.how.classes == "offset":
            said = np.roll(said, 1, axis=1)
        if self.how.classes == "permuted":
            said = said[:, np.random.default_rng(5).permutation(said.shape[1])]
        if self.how.softmax_twice:
            said = np.exp(said) / np.exp(said).sum(axis=1, keepdims=True)
        return said

    def _inputs(self, images: UInt8Array) -> Float32Array:
        how, model = self.how, self.model
        pixels = np.stack([self._picture(image) for image in images])
        if how.batch_statistics:
            mean, std = pixels.mean(axis=(0, 2, 3), keepdims=True), pixels.std(axis=(0, 2, 3), keepdims=True)
            pixels = 127.5 + 64 * (pixels - mean) / std
        if how.bgr:
            pixels = pixels[:, ::-1]
        if how.inverted:
            pixels = 255 - pixels
        shape = (-1, 1, 1)
        factor, mean, std = how.normalised or (model.factor, model.mean, model.std)
        inputs = (pixels * factor * how.rescaled - np.reshape(mean, shape)) / np.reshape(std, shape)
        if how.cut_off:
            inputs = np.round(np.clip(inputs, -how.cut_off, how.cut_off) * 127 / how.cut_off) / 127 * how.cut_off
        if how.layout == "nhwc as nchw":
            inputs = inputs.transpose(0, 2, 3, 1).reshape(inputs.shape)
        if how.layout == "transposed":
            inputs = inputs.transpose(0, 1, 3, 2)
        if self.core.preprocessing.layout == "nhwc":
            inputs = inputs.transpose(0, 2, 3, 1)
        return np.ascontiguousarray(inputs, dtype=np.float32)

    def _picture(self, image: UInt8Array) -> Float32Array:
        """float32 (C, H, W) grey levels in the size of the model."""
        how, (height, width) = self.how, self.model.size
        picture = Image.fromarray(image[0] if len(image) == 1 else image.transpose(1, 2, 0))
        if how.jpeg:
            buffer = io.BytesIO()
            picture.save(buffer, "JPEG", quality=how.jpeg)
            picture = Image.open(buffer)
        if how.turned:
            picture = picture.transpose(Image.Transpose.ROTATE_270)
        if how.crop:
            side = how.crop * min(picture.width / width, picture.height / height)
            half_w, half_h = side * width / 2, side * height / 2
            middle = picture.width / 2, picture.height / 2
            box = (middle[0] - half_w, middle[1] - half_h, middle[0] + half_w, middle[1] + half_h)
            picture = picture.crop([round(each) for each in box])  # type: ignore[arg-type]
        planes = np.asarray(picture, dtype=np.float32)
        planes = planes[None] if planes.ndim == 2 else planes.transpose(2, 0, 1)
        share = min(height / planes.shape[1], width / planes.shape[2])
        inner = tuple(round(side * share) for side in planes.shape[1:]) if how.letterbox else (height, width)
        made = np.stack([_resized(plane, (inner[0], inner[1]), how.kernel) for plane in planes])
        if how.letterbox:  # as Ultralytics does it
            above, left = (round((side - own) / 2 - 0.1) for side, own in zip((height, width), inner, strict=True))
            after = height - inner[0] - above, width - inner[1] - left
            made = np.pad(made, ((0, 0), (above, after[0]), (left, after[1])))
        if how.shift != (0, 0):
            wide = np.pad(made, ((0, 0), (1, 1), (1, 1)), mode="edge")
            down, right = how.shift
            made = wide[:, 1 + down : 1 + down + height, 1 + right : 1 + right + width]
        return made


def _resized(plane: Float32Array, size: tuple[int, int], kernel: str) -> Float32Array:
    if kernel == "antialias":
        return np.asarray(Image.fromarray(plane, "F").resize(size[::-1], Image.Resampling.BILINEAR))
    if kernel == "nearest":
        return np.asarray(Image.fromarray(plane, "F").resize(size[::-1], Image.Resampling.NEAREST))
    for axis, side in enumerate(size):  # as OpenCV does it
        own = plane.shape[axis]
        places = np.clip((np.arange(side) + 0.5) * own / side - 0.5, 0, own - 1)
        low = places.astype(int)
        share = np.reshape(places - low, (-1, 1) if axis == 0 else (1, -1)).astype(np.float32)
        first, second = plane.take(low, axis), plane.take(np.minimum(low + 1, own - 1), axis)
        plane = first * (1 - share) + second * share
    return plane


# -- the faults ------------------------------------------------------------------------------------------------------


def faults(model: Model) -> dict[str, tuple[Deployment, tuple[str, ...]]]:
    """Fifteen: name -> what is deployed, and the causes that are right names for it."""
    grey = model.images.shape[1] == 1
    many = "MobileNet" in model.name
    other: tuple[float, tuple[float, ...], tuple[float, ...]] = (1 / 127.5, (1.0,), (1.0,))
    if model.factor == 1.0 or (len(model.mean) == 1 and model.mean[0] > 0):
        other = (1 / 255, MEAN, STD)
    by = 255.0 if model.factor != 1.0 else 1 / 255
    cut = 1.0 if model.mean == MEAN else 0.5
    if model.factor == 1.0:
        cut = 127.0
    return {
        "grey levels inverted" if grey else "BGR for RGB": (
            Deployment(inverted=True) if grey else Deployment(bgr=True),
            ("inverted",) if grey else ("channel order",),
        ),
        "0..255 for 0..1, or the reverse": (Deployment(rescaled=by), ("scale",)),
        "mean and std of another set": (Deployment(normalised=other), ("mean and std", "scale")),
        "axes exchanged" if grey else "NHWC read as NCHW": (
            Deployment(layout="transposed" if grey else "nhwc as nchw"),
            ("layout",),
        ),
        "without antialias": (Deployment(kernel="linear"), ("antialias",)),
        "nearest pixel": (Deployment(kernel="nearest"), ("resizing",)),
        "one pixel off": (Deployment(shift=(1, 1)), ("crop offset",)),
        "letterbox": (Deployment(letterbox=True), ("letterbox",)),
        "middle cut out": (Deployment(crop=0.875), ("crop",)),
        "JPEG once more": (Deployment(jpeg=60), ("decoder",)),
        "turned by 90 degrees": (Deployment(turned=True), ("orientation",)),
        "classes in another order": (Deployment(classes="offset" if many else "permuted"), ("order of classes",)),
        "softmax twice": (Deployment(softmax_twice=True), ("softmax twice",)),
        "batch statistics": (Deployment(batch_statistics=True), ("batch dependence",)),
        "8-bit input saturates": (Deployment(cut_off=cut), ("saturation",)),
    }


NO_FAULT = Deployment()


def both(one: Deployment, other: Deployment) -> Deployment:
    """A deployment with two faults."""
    changed = {each.name: getattr(other, each.name) for each in fields(other)}
    return replace(one, **{name: value for name, value in changed.items() if value != getattr(NO_FAULT, name)})


# -- the models ------------------------------------------------------------------------------------------------------


def lenet(shared: Path, nets: Path) -> Model:
    path = shared / "models" / "mnist-lenet5-family" / "base.h5"
    return Model("LeNet-5", _opened(path), Preprocessing(size=(28, 28)), _digits(shared))


def resnet20(shared: Path, nets: Path) -> Model:
    path = shared / "models" / "cifar10-resnet-he" / "resnet20.state_dict.th"
    fed = Preprocessing(size=(32, 32), mean=MEAN, std=STD)
    opened = _opened(path, arch="benchmarks.cifar_resnets:resnet20")
    return Model("ResNet-20", opened, fed, _cifar(shared), mean=MEAN, std=STD)


def mobilenet_v1(shared: Path, nets: Path) -> Model:
    return _mobilenet("MobileNet v1", shared, "mobilenet_v1_0.75_192_quant", 192)


def mobilenet_v2(shared: Path, nets: Path) -> Model:
    return _mobilenet("MobileNet v2", shared, "mobilenet_v2_1.0_224_quant", 224)


def resnet8(shared: Path, nets: Path) -> Model:
    path = shared / "models" / "cifar10-resnet8-tiny" / "float32.tflite"
    return Model("ResNet-8", _opened(path), Preprocessing(size=(32, 32), scale="0..255"), _cifar(shared), 1.0)


def own(shared: Path, nets: Path) -> Model:
    fed = Preprocessing(size=(96, 96), mean=(0.5,), std=(0.5,))
    return Model("own, 96 pixels", _opened(own_network(shared, nets)), fed, _hands(shared), mean=(0.5,), std=(0.5,))


MODELS: dict[str, Callable[[Path, Path], Model]] = {
    "LeNet-5": lenet,
    "ResNet-20": resnet20,
    "MobileNet v1": mobilenet_v1,
    "MobileNet v2": mobilenet_v2,
    "ResNet-8": resnet8,
    "own, 96 pixels": own,
}


def _opened(path: Path, **more: Any) -> Callable[[Preprocessing], BlackBox]:
    return lambda preprocessing: load_model(path, preprocessing=preprocessing, isolate="off", **more)


def _mobilenet(name: str, shared: Path, file: str, side: int) -> Model:
    path = shared / "models" / "imagenet-mobilenet-quant" / f"{file}.tflite"
    fed, photos = Preprocessing(size=(side, side), background="first"), shared / "data" / "photographs" / "images"
    images = some_of(load(str(photos), resize=(256, 320)))
    return Model(name, _opened(path), fed, images, mean=(128 / 255,), std=(128 / 255,))  # as the file declares


def _digits(shared: Path) -> UInt8Array:
    return some_of(load(f"{shared / 'data' / 'mnist'}:test", resize=(42, 56), fit="stretch"))


def _cifar(shared: Path) -> UInt8Array:
    return some_of(load(str(shared / "data" / "cifar10" / "test.zip"), resize=(48, 64), fit="stretch"))


def _hands(shared: Path) -> UInt8Array:
    return some_of(load(str(shared / "data" / "sign-digits" / "test.zip"), resize=(144, 192), fit="stretch"))


def some_of(images: ImageSet) -> UInt8Array:
    return images.images[random_rows(len(images), IMAGES)]


def own_network(shared: Path, folder: Path, *, seed: int = 0) -> Path:
    """A network for photographs of hands, as TorchScript; -1..1 in place of its 0..1."""
    path = folder / f"hands96-{seed}.pt"
    if not path.exists():
        folder.mkdir(parents=True, exist_ok=True)
        torch.manual_seed(seed)
        network = pooled()
        train(network, load(str(shared / "data" / "sign-digits" / "train.zip"), resize=96), 96, epochs=6)

        class Centred(torch.nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.network = network

            def forward(self, x: torch.Tensor) -> torch.Tensor:
                return self.network(x * 0.5 + 0.5)

        torch.jit.trace(Centred().eval(), torch.zeros(2, 3, 96, 96)).save(str(path))
    return path
