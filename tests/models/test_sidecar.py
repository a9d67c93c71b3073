"""The sidecar beside a model's file: read, overruled, written; every mistake in it is told."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from diffgen.config import DEFAULT_PREPROCESSING, Preprocessing, replace
from diffgen.errors import UserError
from diffgen.models import load, read_sidecar
from diffgen.models.sidecar import Sidecar, sidecar_path, sidecar_text


@pytest.fixture
def model(net, save_torchscript):
    return save_torchscript(net)


def beside(model, text):
    sidecar_path(model).write_text(text, encoding="utf-8")
    return model


def test_it_is_named_after_the_whole_file(model):
    assert sidecar_path(model).name == "net.pt.toml"
    assert read_sidecar(model) == read_sidecar(model.with_name("other.pt"))
    assert read_sidecar(model).preprocessing == Preprocessing()


def test_it_is_read_and_options_win_over_it(model, images):
    beside(
        model,
        'scale = "0..255"\nmean = 0.5\nclass_names = ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j"]\nsize = 28',
    )
    box = load(model)
    assert (box.preprocessing.scale, box.preprocessing.mean, box.preprocessing.size) == ("0..255", (0.5,), (28, 28))
    box.prepare(images)
    assert box.class_names == tuple("abcdefghij")
    box = load(model, preprocessing=Preprocessing(scale="0..1", mean=()))
    assert (box.preprocessing.scale, box.preprocessing.mean, box.preprocessing.size) == ("0..1", (), (28, 28))
    assert load(model, sidecar=False).preprocessing == DEFAULT_PREPROCESSING


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("scal = 1", "sets 'scal', which is not known; did you mean 'scale'"),
        ("xyz = 1", "not known; known are channels,"),
        ("scale = ", "is not valid TOML"),
        ('scale = "0..2"', r"cannot be used: The setting preprocessing\.scale .--scale. is '0\.\.2'"),
        ("mean = ['x']", "cannot be used: The setting preprocessing.mean .--mean. is"),
        ("mean = true", "give a list of numbers"),
        ("size = [1, 2, 3]", "give height and width"),
        ("size = true", "give a list of whole numbers"),
        ("class_names = ['a', 'a']", "not a list of different names"),
        ("class_names = [1, 2]", "not a list of different names"),
        ('class_names = ["a", "\\u001b[31mb"]', "hold .* which is not printable text"),
        (
            "arch = 'nets:build'",
            "sets arch, which runs code and cannot be allowed by a file; remove it and give --arch",
        ),
        ("allow_pickle = true", "give --allow-pickle"),
    ],
)
def test_every_mistake_is_told(model, text, message, told):
    with pytest.raises(UserError, match=message) as caught:
        load(beside(model, text))
    assert "net.pt.toml" in str(caught.value)
    told("Sidecars", f"`{text}`", caught.value)


def test_a_name_that_is_too_long_to_have_one(tmp_path):
    assert read_sidecar(tmp_path / ("m" * 252 + ".pt")) == Sidecar()


def test_one_that_is_nested_very_deeply(model, told):
    with pytest.raises(UserError, match=r"net\.pt\.toml is nested too deeply; repair or remove it") as caught:
        load(beside(model, f"mean = {'[' * 5000}{']' * 5000}"))
    told("Sidecars", "5,000 brackets", caught.value)


def test_one_that_is_very_large(model, told):
    with pytest.raises(UserError, match=r"has more than 4 MiB; repair or remove it") as caught:
        load(beside(model, "#" * (4 << 20) + "\n"))
    told("Sidecars", "4 MiB of a comment", caught.value)


def test_a_large_size_bounds_the_images_at_once(tmp_path):
    """One image of 4096 x 4096 takes 64 MiB, and a model is handed 1 GiB at most."""

    class Means(torch.nn.Module):
        def forward(self, pixels):
            return pixels.mean(dim=(2, 3)) * torch.tensor([1.0, 2.0])

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.jit.save(torch.jit.script(Means()), str(tmp_path / "net.pt"))
    box = load(beside(tmp_path / "net.pt", "size = 4096"))
    box.prepare(np.zeros((2, 1, 8, 8), dtype=np.uint8))
    assert box.batch_size == 16


def test_names_that_are_not_as_many_as_classes(model, images, told):
    with pytest.raises(UserError, match="10 classes but its class_names are 2") as caught:
        load(beside(model, 'class_names = ["a", "b"]')).prepare(images)
    told("Sidecars", "two class names for ten classes", caught.value)


def test_bytes_that_are_no_text(model):
    sidecar_path(model).write_bytes(b"\xff\xfe\x00")
    with pytest.raises(UserError, match="is not valid TOML"):
        load(model)


CHOICES = st.builds(
    lambda **values: replace(DEFAULT_PREPROCESSING, **values),
    channels=st.sampled_from(["rgb", "bgr", "grey-to-rgb"]),
    invert=st.booleans(),
    size=st.sampled_from([(), (224, 224), (7, 9)]),
    crop=st.sampled_from([0.0, 0.875, 1.0]),
    interpolation=st.sampled_from(["bilinear", "bicubic", "nearest"]),
    antialias=st.booleans(),
    scale=st.sampled_from(["0..1", "0..255"]),
    mean=st.lists(st.floats(-300, 300), max_size=3).map(tuple),
    std=st.lists(st.floats(0.001, 300), max_size=3).map(tuple),
    layout=st.sampled_from(["nchw", "nhwc"]),
    outputs=st.sampled_from(["probabilities", "logits", "scores"]),
    output=st.text(max_size=5),
)


NAMES = st.text(max_size=6).filter(lambda text: bool(text.strip()) and text.isprintable())


@given(preprocessing=CHOICES, names=st.lists(NAMES, unique=True, max_size=4), remark=st.text(max_size=30))
def test_what_is_written_is_read_back(tmp_path_factory, preprocessing, names, remark):
    model = tmp_path_factory.getbasetemp() / "written.onnx"
    text = sidecar_text(preprocessing, tuple(names), remark)
    sidecar_path(model).write_text(text, encoding="utf-8")
    found = read_sidecar(model)
    assert found.preprocessing.over(DEFAULT_PREPROCESSING) == preprocessing
    assert found.class_names == tuple(names)
    assert text.startswith("# ")


def test_a_byte_order_mark_is_passed_over(model):
    assert load(beside(model, "\ufeffscale = '0..255'")).preprocessing.scale == "0..255"
