"""Models that take each image as one row of values, as many published files of MNIST do."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from diffgen.config import Preprocessing
from diffgen.data import load as load_data
from diffgen.errors import UserError
from diffgen.models import BlackBox, load
from diffgen.workflows.inspect import inspect


class Column(torch.nn.Module):
    """Takes (N, D, 1)."""

    def __init__(self, dense: torch.nn.Linear) -> None:
        super().__init__()
        self.dense = dense

    def forward(self, pixels: torch.Tensor) -> torch.Tensor:
        return self.dense(pixels.squeeze(2))


def dense(values: int = 784, seed: int = 0) -> torch.nn.Linear:
    torch.manual_seed(seed)
    return torch.nn.Linear(values, 10)


@pytest.fixture(scope="module")
def trained() -> torch.nn.Linear:
    """A linear classifier of real digits."""
    data = load_data("digits:train")
    net = dense()
    pixels, labels = torch.from_numpy(data.images).flatten(1) / 255, torch.from_numpy(data.labels)
    optimizer = torch.optim.Adam(net.parameters(), lr=0.01)
    for _ in range(60):
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(net(pixels), labels).backward()
        optimizer.step()
    return net


def saved(net: torch.nn.Module, kind: str, folder: Path) -> Path:
    """A file of a network that takes (N, 784), or as a column (N, 784, 1)."""
    form, _, column = kind.partition("-")
    module, example = (Column(net), torch.rand(2, 784, 1)) if column else (net, torch.rand(2, 784))
    module = module.eval()
    path = folder / f"{kind}.{form}"
    if form == "onnx":
        torch.onnx.export(
            module, (example,), path, dynamo=False, dynamic_axes={"x": {0: "n"}}, input_names=["x"], output_names=["y"]
        )
    elif form == "pt2":
        count = torch.export.Dim("n", min=1, max=4096)
        torch.export.save(torch.export.export(module, (example,), dynamic_shapes=({0: count},)), path)
    else:
        torch.jit.trace(module, example).save(path)
    return path


@pytest.mark.parametrize(
    "kind", ["onnx", "onnx-column", "pt", "pt-column", "pt2", pytest.param("pt2-column", marks=pytest.mark.slow)]
)
@pytest.mark.filterwarnings("ignore")
def test_a_row_of_values_is_found_and_answered_as_by_the_network_itself(kind, trained, tmp_path):
    data = load_data("digits:test")
    box = load(saved(trained, kind, tmp_path))
    box.prepare(data.images[:100])
    assert box.preprocessing.layout == ("flat-1" if "column" in kind else "flat")
    with torch.no_grad():
        expected = torch.softmax(trained(torch.from_numpy(data.images).flatten(1) / 255), dim=1).numpy()
    np.testing.assert_allclose(box.predict(data.images), expected, atol=1e-5)
    assert (box.predict(data.images).argmax(axis=1) == data.labels).mean() > 0.85

    said = load(box.path, preprocessing=Preprocessing(layout="flat"))
    said.prepare(data.images[:100])
    assert said.preprocessing.layout == box.preprocessing.layout
    recorded = load(box.path, preprocessing=box.preprocessing)
    recorded.prepare(data.images[:100])
    np.testing.assert_array_equal(recorded.predict(data.images), box.predict(data.images))


def test_a_row_goes_channel_by_channel():
    pixels = np.random.default_rng(0).integers(0, 256, (5, 3, 4, 4), dtype=np.uint8)
    net = dense(48)

    def rows(batch: np.ndarray) -> np.ndarray:
        assert batch.shape[1:] == (48,), f"cannot use {batch.shape}"
        return net(torch.from_numpy(batch)).detach().numpy()

    mean, std = (0.1, 0.2, 0.3), (0.5, 0.6, 0.7)
    box = load(rows, preprocessing=Preprocessing(layout="flat", mean=mean, std=std, outputs="logits"))
    box.prepare(pixels)
    per_channel = (pixels / 255.0 - np.reshape(mean, (3, 1, 1))) / np.reshape(std, (3, 1, 1))
    expected = torch.softmax(net(torch.from_numpy(per_channel.reshape(5, -1)).float()), dim=1).detach().numpy()
    np.testing.assert_allclose(box.predict(pixels), expected, atol=1e-5)


def message_of(model: object, pixels: np.ndarray, **options: object) -> str:
    box: BlackBox = load(model, **options)
    with pytest.raises(UserError) as error:
        box.prepare(pixels)
    return str(error.value)


def test_images_of_another_size_are_refused_with_what_converts_them(trained, tmp_path, told):
    path = saved(trained, "onnx", tmp_path)
    sentence = message_of(path, np.zeros((4, 3, 32, 32), np.uint8))
    assert "takes 1x28x28 images but the data has 3x32x32; add --channels rgb-to-grey --size 28" in sentence
    told("Model files", "an ONNX model that takes rows of 784 values, on images of 3x32x32", sentence)
    other = message_of(path, np.zeros((4, 1, 28, 28), np.uint8), preprocessing=Preprocessing(layout="nhwc"))
    assert "takes 1x28x28 images in the layout flat but its pre-processing says nhwc; set layout to flat" in other


def test_inspect_finds_the_row(trained, tmp_path):
    found = inspect(saved(trained, "onnx-column", tmp_path), data="digits:test")
    assert found.chosen.preprocessing.layout == "flat-1"
    assert found.chosen.accuracy > 0.85
    assert found.takes[0] == (1, 28, 28)
