"""Models that refuse the data's shape: the message names both sides."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from diffgen.config import Preprocessing
from diffgen.errors import UserError
from diffgen.models import load


def blank(*shape):
    return np.zeros((5, *shape), dtype=np.uint8)


def message_of(model, images, **settings) -> str:
    with pytest.raises(UserError) as caught:
        load(model, **settings).prepare(images)
    return str(caught.value)


@pytest.mark.parametrize("shape", [(3, 32, 32), (3, 28, 28), (1, 32, 32), (1, 28, 31)])
def test_both_sides_are_named(net, save_torchscript, save_onnx, shape):
    own = "x".join(str(side) for side in shape)
    for model, name in (
        (save_torchscript(net), "net.pt"),
        # a file that declares another size has the images resized for it
        *([(save_onnx(net), "net.onnx")] if shape[0] != 1 else []),
        (net, "Sequential"),
        (lambda pixels: net(torch.from_numpy(pixels)).detach().numpy(), "<lambda>"),
    ):
        assert message_of(model, blank(*shape)).startswith(
            f"Model {name} takes 1x28x28 images but the data has {own}; "
        )


def test_a_declared_size_becomes_part_of_the_preprocessing(net, save_onnx):
    path, images = save_onnx(net), np.random.default_rng(0).integers(0, 256, (60, 1, 31, 40), dtype=np.uint8)
    adopted, said = load(path), load(path, preprocessing=Preprocessing(size=(28, 28)))
    assert adopted.input_size == (28, 28)
    for each in (adopted, said):
        each.prepare(images)
    assert adopted.preprocessing == said.preprocessing
    assert np.array_equal(adopted.predict(images), said.predict(images))


def test_what_fits_is_left_alone(net, save_onnx):
    model = load(save_onnx(net))
    model.prepare(blank(1, 28, 28))
    assert model.preprocessing.size == ()


def test_colour_models_on_grey_data(net_of, save_torchscript):
    path = save_torchscript(net_of(channels=3, size=32), (1, 3, 32, 32))
    assert message_of(path, blank(1, 28, 28)).startswith("Model net.pt takes 3x32x32 images but the data has 1x28x28;")


def test_a_network_for_any_size_differs_in_channels_only():
    net = torch.nn.Sequential(
        torch.nn.Conv2d(3, 4, 3), torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten(), torch.nn.Linear(4, 5)
    )
    assert "takes 3-channel images but the data has 1x28x28" in message_of(net, blank(1, 28, 28))


def test_a_network_that_wants_large_images_names_some():
    layers = [layer for _ in range(5) for layer in (torch.nn.Conv2d(3, 3, 3), torch.nn.MaxPool2d(2))]
    net = torch.nn.Sequential(*layers, torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten())
    assert "takes 3x96x96, 3x128x128 or 3x224x224 images but the data has 3x32x32" in message_of(net, blank(3, 32, 32))


def test_rows_of_a_wrong_number_are_a_refusal_too():
    """A network that flattens with view(-1, 784) makes three rows of a colour image, and does not complain."""

    class Flat(torch.nn.Module):
        def forward(self, pixels):
            return pixels.reshape(-1, 784)[:, :10]

    assert "takes 1x28x28 images but the data has 3x28x28" in message_of(Flat(), blank(3, 28, 28))


def channels_last(pixels):
    assert pixels.shape[1:] == (28, 28, 1), f"cannot use {pixels.shape}"
    return pixels.reshape(len(pixels), -1)[:, :3]


def test_the_layout_is_found_or_named():
    box = load(channels_last)
    box.prepare(blank(1, 28, 28))
    assert box.preprocessing.layout == "nhwc"
    forced = message_of(channels_last, blank(1, 28, 28), preprocessing=Preprocessing(layout="nchw"))
    assert "takes 1x28x28 images in the layout nhwc but its pre-processing says nchw; set layout to nhwc" in forced
    assert "takes 1x28x28 images but the data has 3x32x32" in message_of(channels_last, blank(3, 32, 32))


def test_a_model_that_takes_nothing_is_quoted():
    def broken(pixels):
        raise KeyError("weights\nof the second line")

    assert message_of(broken, blank(1, 28, 28)).startswith(
        "Model broken fails on the data's 1x28x28 images: KeyError: "
    )


def test_a_failure_that_is_not_the_shape_is_not_blamed_on_it():
    def fussy(pixels):
        if pixels.max() > 0:
            raise ValueError("too bright")
        return pixels.reshape(len(pixels), -1)[:, :3]

    text = message_of(fussy, blank(1, 28, 28) + np.uint8(9))
    assert text == "Model fussy fails on the data's 1x28x28 images: ValueError: too bright"


def test_the_cause_is_read_from_the_end_of_torchscripts_traceback(save_torchscript):
    torch.manual_seed(0)
    path = save_torchscript(torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(5 * 5, 3)), (1, 1, 5, 5))
    text = message_of(path, blank(1, 28, 28))
    assert text.startswith("Model net.pt fails on the data's 1x28x28 images: RuntimeError: ")
    assert "cannot be multiplied" in text and "Traceback" not in text
