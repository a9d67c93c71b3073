"""The steps between the data's bytes and what a model is handed, and the outputs that it may give."""

from __future__ import annotations

import warnings
from collections import namedtuple

import numpy as np
import pytest
import torch
from PIL import Image

from diffgen.config import DEFAULT_PREPROCESSING, Preprocessing, from_dict, replace, to_dict
from diffgen.errors import UserError
from diffgen.models import load
from diffgen.models.inputs import before_crop
from diffgen.models.shapes import shapes_taken

COLOUR = np.random.default_rng(0).integers(0, 256, (6, 3, 12, 10), dtype=np.uint8)
GREY = COLOUR[:, :1]


def handed(images, **settings):
    """What a model gets for images."""
    seen = []

    def remember(pixels):
        seen.append(pixels.copy())
        return pixels.reshape(len(pixels), -1)[:, :2]

    box = load(remember, preprocessing=Preprocessing(scale="0..255", outputs="logits", **settings))
    box.prepare(images)
    box.predict(images)
    return seen[-1]


def test_channels_and_inversion():
    np.testing.assert_array_equal(handed(COLOUR, channels="bgr"), COLOUR[:, ::-1])
    np.testing.assert_array_equal(handed(GREY, channels="grey-to-rgb"), np.repeat(GREY, 3, axis=1))
    np.testing.assert_array_equal(handed(GREY, invert=True), 255 - GREY.astype(int))
    np.testing.assert_array_equal(handed(GREY, layout="nhwc", channels="grey-to-rgb")[..., 2], GREY[:, 0])
    weighed = COLOUR.astype(np.float64).transpose(0, 2, 3, 1) @ np.array([0.299, 0.587, 0.114])
    np.testing.assert_allclose(handed(COLOUR, channels="rgb-to-grey")[:, 0], weighed, atol=1e-4)


def test_mean_and_std_are_those_of_the_channels_that_the_model_takes():
    found = handed(COLOUR, channels="bgr", mean=(1.0, 2.0, 3.0), std=(2.0,))
    np.testing.assert_allclose(found, (COLOUR[:, ::-1] - np.array([1, 2, 3])[:, None, None]) / 2, atol=1e-5)
    with pytest.raises(UserError, match="mean of 2 values but the model is handed 3 channels"):
        handed(GREY, channels="grey-to-rgb", mean=(1.0, 2.0))


def plain_bilinear(image, height, width):
    """Bilinear interpolation between the centres of pixels, one pixel at a time."""
    rows, columns = image.shape
    out = np.empty((height, width))
    for y in range(height):
        for x in range(width):
            v = min(max((y + 0.5) * rows / height - 0.5, 0), rows - 1)
            u = min(max((x + 0.5) * columns / width - 0.5, 0), columns - 1)
            top, left = int(v), int(u)
            bottom, right = min(top + 1, rows - 1), min(left + 1, columns - 1)
            above = image[top, left] * (1 - (u - left)) + image[top, right] * (u - left)
            below = image[bottom, left] * (1 - (u - left)) + image[bottom, right] * (u - left)
            out[y, x] = above * (1 - (v - top)) + below * (v - top)
    return out


@pytest.mark.parametrize("size", [(30, 17), (24, 20)])
def test_images_are_enlarged_bilinearly(size):
    for antialias in (True, False):
        found = handed(COLOUR, size=size, antialias=antialias)
        for image, wanted in zip(found[:2], COLOUR[:2], strict=True):
            for channel, plain in zip(image, wanted.astype(np.float64), strict=True):
                np.testing.assert_allclose(channel, plain_bilinear(plain, *size), atol=1e-3)


def test_images_are_made_smaller_as_pillow_does_or_without_smoothing():
    found = handed(COLOUR, size=(6, 4))
    for image, original in zip(found, COLOUR, strict=True):
        for channel, plain in zip(image, original, strict=True):
            by_pillow = np.asarray(Image.fromarray(plain.astype(np.float32)).resize((4, 6), Image.Resampling.BILINEAR))
            np.testing.assert_allclose(channel, by_pillow, atol=0.01)
    rough = handed(COLOUR, size=(6, 4), antialias=False)
    np.testing.assert_allclose(rough[0, 0], plain_bilinear(COLOUR[0, 0].astype(np.float64), 6, 4), atol=1e-3)
    assert np.abs(rough - found).max() > 1


def test_an_image_is_resized_the_same_alone_and_among_others():
    many = np.random.default_rng(1).integers(0, 256, (200, 3, 32, 32), dtype=np.uint8)
    for layout in ("nchw", "nhwc"):
        together = handed(many, size=(224, 224), layout=layout)
        assert together.shape[1:] == ((3, 224, 224) if layout == "nchw" else (224, 224, 3))
        np.testing.assert_array_equal(handed(many[7:8], size=(224, 224), layout=layout)[0], together[7])


def test_a_model_for_larger_images_is_offered_the_resizing(net_of, save_torchscript):
    path = save_torchscript(net_of(channels=3, size=64), (1, 3, 64, 64))
    with pytest.raises(
        UserError, match="takes 3x64x64 images but the data has 1x12x10; add --channels grey-to-rgb --size 64 to"
    ):
        load(path).prepare(GREY)
    box = load(path, preprocessing=Preprocessing(channels="grey-to-rgb", size=(64, 64)))
    box.prepare(GREY)
    assert box.predict(GREY).shape == (6, 10)
    with pytest.raises(
        UserError, match="channels 'grey-to-rgb', which needs images of 1 channel, but the data has 3x12x10"
    ):
        load(path, preprocessing=Preprocessing(channels="grey-to-rgb")).prepare(COLOUR)


def test_shapes_taken_says_what_fits(net_of, save_torchscript, save_onnx):
    for save in (save_torchscript, save_onnx):
        assert shapes_taken(load(save(net_of(channels=3, size=64), (2, 3, 64, 64))), (1, 28, 28)) == [(3, 64, 64)]


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"scale": "0-1"}, "is '0-1'; give one of '0..1', '0..255'"),
        ({"layout": "NCHW"}, "layout .* is 'NCHW'"),
        ({"channels": "gray"}, "channels .* is 'gray'"),
        ({"mean": "imagenet"}, "is 'imagenet'; give a list of numbers"),
        ({"std": (1.0, "x")}, "is 'x'; give a number"),
        ({"size": (224,)}, "give height and width"),
        ({"size": (0, 5)}, "from 1 to 4096"),
        ({"size": (5, 5000)}, "from 1 to 4096"),
        ({"invert": "yes"}, "give true or false"),
        ({"output": 3}, "is 3; give text in quotation marks"),
    ],
)
def test_values_that_cannot_be_are_refused(values, message):
    with pytest.raises(UserError, match=message):
        Preprocessing(**values)


def test_what_is_said_goes_over_what_is_not():
    said = Preprocessing(scale="0..1", mean=(), invert=False)
    below = Preprocessing(scale="0..255", mean=(0.5,), invert=True, layout="nhwc")
    assert said.over(below) == Preprocessing(scale="0..1", mean=(), invert=False, layout="nhwc")
    assert Preprocessing().over(DEFAULT_PREPROCESSING) == DEFAULT_PREPROCESSING
    full = replace(DEFAULT_PREPROCESSING, size=(8, 9), mean=(0.5,))
    assert from_dict(Preprocessing, to_dict(full)) == full


# --- outputs


def test_one_value_for_two_classes():
    logit = torch.linspace(-4, 4, 64).reshape(64, 1)
    images = np.random.default_rng(0).integers(0, 256, (64, 1, 4, 4), dtype=np.uint8)
    second = torch.sigmoid(logit).numpy()
    for answers, kind in ((logit, "logits"), (torch.sigmoid(logit), "probabilities")):
        box = load(lambda pixels, answers=answers: answers[: len(pixels)])
        box.prepare(images)
        assert (box.preprocessing.outputs, box.num_classes) == (kind, 2)
        np.testing.assert_allclose(box.predict(images), np.hstack([1 - second, second]), atol=1e-6)
        assert box.predict(images[:0]).shape == (0, 2)


class Several(torch.nn.Module):
    """Features and logits by name."""

    def __init__(self, net):
        super().__init__()
        self.net = net

    def forward(self, pixels):
        return {"features": pixels.flatten(1), "logits": self.net(pixels)}


class Pair(Several):
    def forward(self, pixels):
        return pixels.flatten(1), self.net(pixels)


class Single(Several):
    def forward(self, pixels):
        return {"logits": self.net(pixels)}


def in_format(kind, module, tmp_path):
    path = tmp_path / "several.model"
    example = torch.zeros(2, 1, 28, 28)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if kind == "torchscript":
            torch.jit.save(torch.jit.trace(module, example, strict=False), str(path))
        elif kind == "export":
            torch.export.save(
                torch.export.export(module, (example,), dynamic_shapes=({0: torch.export.Dim("n")},)), path
            )
        else:
            names = ["features", "logits"]
            axes = {name: {0: "n"} for name in ("pixels", *names)}
            torch.onnx.export(
                module,
                (example,),
                str(path),
                dynamo=False,
                input_names=["pixels"],
                output_names=names,
                dynamic_axes=axes,
            )
    return path


@pytest.mark.parametrize("kind", ["torchscript", "export", "onnx"])
def test_one_of_several_outputs_is_read_by_name(kind, net, images, expected, tmp_path):
    path = in_format(kind, Several(net).eval(), tmp_path)
    with pytest.raises(UserError, match=r"say with --output-name which one to read \(features, logits\)"):
        load(path).prepare(images)
    with pytest.raises(UserError, match=r"no output 'logit' \(it gives features, logits\); did you mean 'logits'\?"):
        load(path, preprocessing=Preprocessing(output="logit")).prepare(images)
    box = load(path, preprocessing=Preprocessing(output="logits"))
    box.prepare(images)
    np.testing.assert_allclose(box.predict(images), expected(net, images), atol=1e-5)


@pytest.mark.parametrize("kind", ["torchscript", pytest.param("export", marks=pytest.mark.slow)])
def test_unnamed_outputs_have_numbers(kind, net, images, expected, tmp_path):
    path = in_format(kind, Pair(net).eval(), tmp_path)
    with pytest.raises(
        UserError, match=r"gives a tuple of 2 outputs; say with --output-name which one to read \(0, 1\)"
    ):
        load(path).prepare(images)
    box = load(path, preprocessing=Preprocessing(output="1"))
    box.prepare(images)
    np.testing.assert_allclose(box.predict(images), expected(net, images), atol=1e-5)


@pytest.mark.parametrize("kind", ["torchscript", pytest.param("export", marks=pytest.mark.slow)])
def test_a_dict_of_one_output_needs_no_name(kind, net, images, expected, tmp_path):
    box = load(in_format(kind, Single(net).eval(), tmp_path))
    box.prepare(images)
    np.testing.assert_allclose(box.predict(images), expected(net, images), atol=1e-5)


def test_functions_may_give_named_tuples(images):
    Answer = namedtuple("Answer", "logits features")
    box = load(
        lambda pixels: Answer(pixels.reshape(len(pixels), -1)[:, :3], 0), preprocessing=Preprocessing(output="logits")
    )
    box.prepare(images)
    assert box.num_classes == 3


def test_a_transposed_answer_is_not_taken_for_a_fixed_batch(images):
    with pytest.raises(UserError, match=r"shape \(10, 64\)"):
        load(lambda pixels: pixels.reshape(len(pixels), -1)[:, :10].T).prepare(images)


@pytest.mark.parametrize("size", [(32, 18), (8, 4)])  # no pixel lies midway between two
@pytest.mark.parametrize("how", ["nearest", "bicubic"])
def test_other_interpolations_are_pillows(how, size):
    rule = {"nearest": Image.Resampling.NEAREST, "bicubic": Image.Resampling.BICUBIC}[how]
    found = handed(COLOUR, size=size, interpolation=how)
    for image, resized in zip(COLOUR, found, strict=True):
        for channel, plane in zip(image, resized, strict=True):
            own = Image.fromarray(channel.astype(np.float32)).resize(size[::-1], rule)
            np.testing.assert_allclose(plane, np.clip(np.asarray(own), 0, 255), atol=1e-3)


@pytest.mark.parametrize("shape", [(40, 61), (61, 40), (50, 50), (33, 28)])
@pytest.mark.parametrize("layout", ["nchw", "nhwc"])
def test_the_middle_of_what_was_resized_is_cut_out_as_torchvision_does_it(shape, layout):
    from torchvision import transforms

    images = np.random.default_rng(1).integers(0, 256, (3, 3, *shape), dtype=np.uint8)
    steps = transforms.Compose([transforms.Resize(32, antialias=True), transforms.CenterCrop(28)])
    found = handed(images, size=(28, 28), crop=28 / 32, layout=layout)
    wanted = steps(torch.from_numpy(images).float()).numpy()
    np.testing.assert_allclose(found, wanted.transpose(0, 2, 3, 1) if layout == "nhwc" else wanted, atol=1e-3)


def test_a_share_that_is_no_float_cuts_out_of_what_it_was_made_from():
    """224 of 232: 224 / (224 / 232) is a little less than 232."""
    assert all(
        before_crop((small, small), small / large) == (large, large) for large in range(1, 400) for small in (1, large)
    )
    assert before_crop((224, 224), 224 / 232) == (232, 232)
    assert before_crop((224, 224), 0.95) == (235, 235)  # as timm, which rounds down
