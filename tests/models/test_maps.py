"""Maps of classes: which layout a model gives, and what is read from it."""

import re
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from diffgen.config import Preprocessing
from diffgen.config.task import TaskConfig
from diffgen.errors import RunError, UserError
from diffgen.models import load
from diffgen.models.base import BlackBox
from diffgen.models.panel import seated
from diffgen.tasks.segmentation import NO_ANSWER
from tests.models.painters import NAMES, Painter, export, pictures

GROUP = "Maps of classes"
IMAGES, TRUTH = pictures(12)
GREEN = np.array([0, 1, 0], dtype=np.uint8)[:, None, None]
Told = Callable[[str, str, object], None]


def right(box: BlackBox, images: np.ndarray = IMAGES, truth: np.ndarray = TRUTH) -> float:
    """Share of the pixels that get their class."""
    return float((box.predict(images) == truth.reshape(len(truth), -1)).mean())


@pytest.mark.parametrize(
    ("gives", "head"),
    [("first", "classes-first"), ("last", "classes-last"), ("map", "class-map"), ("dict", "classes-first")],
)
def test_layouts_are_found_out(gives: str, head: str) -> None:
    """By shapes and values."""
    box = load(Painter(gives))
    box.prepare(IMAGES)
    assert (box.preprocessing.outputs, box.preprocessing.head, box.num_classes) == ("maps", head, 3)
    assert right(box) > 0.85


def test_one_value_is_for_there_against_the_background() -> None:
    """A logit, or a share."""
    red = (TRUTH == 1).astype(np.int64)
    box = load(Painter("one"), class_names=("red",))
    box.prepare(IMAGES)
    assert (box.num_classes, box.class_names) == (2, ("background", "red"))
    assert right(box, truth=red) > 0.9
    shares = load(torch.nn.Sequential(Painter("one"), torch.nn.Sigmoid()))
    shares.prepare(IMAGES)
    np.testing.assert_array_equal(shares.predict(IMAGES), box.predict(IMAGES))


@pytest.mark.parametrize("kind", ["onnx", "torchscript", "function"])
def test_files_and_functions(tmp_path: Path, kind: str) -> None:
    """As others have them; a file answers in a process of its own."""
    painter, path = Painter("dict" if kind == "torchscript" else "map"), tmp_path / "model"
    if kind == "onnx":
        model: Any = export(painter, path.with_suffix(".onnx"))
    elif kind == "torchscript":
        model = path.with_suffix(".pt")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            torch.jit.trace(painter, torch.zeros(2, 3, 48, 48), strict=False).save(str(model))
    else:

        def model(pixels: np.ndarray) -> np.ndarray:
            return painter(torch.from_numpy(pixels)).numpy()

    box = load(model)
    box.prepare(IMAGES)
    assert right(box) > 0.85


def test_several_maps_of_a_graph(tmp_path: Path) -> None:
    """That which is called out, as torchvision's networks call it."""

    class Two(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            found = Painter("dict")(x)
            return found["aux"], found["out"]

    path = tmp_path / "two.onnx"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        axes = {name: {0: "n"} for name in ("x", "aux", "out")}
        names = {"input_names": ["x"], "output_names": ["aux", "out"], "dynamic_axes": axes}
        torch.onnx.export(Two(), (torch.zeros(2, 3, 48, 48),), str(path), dynamo=False, **names)
    for output, isolate in (("", "auto"), ("out", "auto"), ("out", "off")):
        box = load(path, isolate=isolate, preprocessing=Preprocessing(output=output))
        box.prepare(IMAGES)
        assert right(box) > 0.85


def test_coarse_logits_are_weighed_before_the_highest_decides() -> None:
    """A map of a quarter of the sides is read at every pixel, finer than its own pixels are."""
    box = load(Painter(stride=4))
    box.prepare(IMAGES)
    assert right(box) > 0.85
    steps = box.predict(IMAGES).reshape(-1, 12, 4, 12, 4)
    assert (steps != steps[:, :, :1, :, :1]).any()


@pytest.mark.parametrize("fitting", ["stretch", "letterbox", "letterbox-top-left"])
def test_maps_are_brought_back_to_the_picture(fitting: str) -> None:
    """Of pictures in another size and with other proportions than the network has."""
    images, truth = IMAGES[:, :, :30], TRUTH[:, :30]
    box = load(Painter(), preprocessing=Preprocessing(size=(64, 96), fitting=fitting))
    box.prepare(images)
    assert right(box, images, truth) > 0.85


def test_large_pictures_have_coarser_cells() -> None:
    """128 of the longer side."""
    images, truth = pictures(4, side=256)
    box = load(Painter())
    box.prepare(images)
    found = box.predict(images).reshape(-1, 128, 128)
    assert (found == truth[:, 1::2, 1::2]).mean() > 0.9


def test_a_picture_without_finite_values_has_no_answer() -> None:
    """One that is lenient says nothing of it; the others are as before."""

    def model(pixels: np.ndarray) -> np.ndarray:
        found = Painter()(torch.from_numpy(pixels)).numpy()
        found[pixels[:, 1].mean(axis=(1, 2)) > 0.5] = np.nan
        return found

    white = np.concatenate([IMAGES, np.full((1, *IMAGES.shape[1:]), 255, dtype=np.uint8)])
    box = load(model)
    box.lenient = True
    box.prepare(white)
    assert (box.predict(white)[-1] == NO_ANSWER).all()
    assert box.without_answer(white).tolist() == [False] * len(IMAGES) + [True]


def test_classes_are_matched_by_name() -> None:
    """The second class of one model may be the third of another."""

    def swapped(pixels: np.ndarray) -> np.ndarray:
        return Painter()(torch.from_numpy(pixels))[:, [0, 2, 1]].numpy()

    one, other = load(Painter(), class_names=NAMES), load(swapped, class_names=("ground", "blue", "red"))
    for each in (one, other):
        each.prepare(IMAGES)
    members = seated((one, other), TaskConfig())
    assert members[0].class_names == members[1].class_names == NAMES
    a, b = np.moveaxis(members[0].panel.answers(IMAGES), 1, 0)
    np.testing.assert_array_equal(a, b)


def test_maps_that_show_one_class_alone_have_two() -> None:
    """Else there would be nothing to tell apart."""
    box = load(Painter("map", least=2))
    box.prepare(IMAGES)
    assert box.num_classes == 2
    members = seated((box, box), TaskConfig())
    assert (members[0].predict(IMAGES) == [1, 0]).all()


def test_a_classifier_is_none_of_these() -> None:
    """Also with as many classes as there are pixels."""
    box = load(torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(3 * 48 * 48, 48)))
    box.prepare(IMAGES)
    assert box.classifies


# -- what is refused ---------------------------------------------------------------------------------------------------


def refused(model: Any, words: str, **settings: Any) -> UserError:
    with pytest.raises(UserError, match=re.escape(words)) as caught:
        load(model, name="m", **settings).prepare(IMAGES)
    return caught.value


def test_an_axis_that_is_left_open_is_refused(told: Told) -> None:
    """Of a cube of values nobody knows which side is that of the classes."""
    cube = np.random.default_rng(0).normal(size=(12, 24, 24, 24)).astype(np.float32)

    def model(pixels: np.ndarray) -> np.ndarray:
        return cube[: len(pixels)]

    told(GROUP, "values of which either axis may be that of the classes", refused(model, "--head classes-first or"))
    box = load(model, preprocessing=Preprocessing(head="classes-last"))
    box.prepare(IMAGES)
    assert box.num_classes == 24


def test_other_numbers_of_names_are_refused(told: Told) -> None:
    """The background is a class like the others."""
    error = refused(Painter(), "gives maps of 3 classes or more but its class_names are 2", class_names=("red", "blue"))
    told(GROUP, "names without one for the background", error)
    refused(Painter("map"), "of 3 classes or more but its class_names are 2", class_names=("red", "blue"))


def test_several_maps_without_a_usual_name_are_refused() -> None:
    """With the option that names one."""
    refused(lambda x: {"one": x, "two": x}, "say with --output-name which one to read (one, two)")


def test_what_is_no_map_is_refused_as_no_classifier() -> None:
    """One that nobody takes for a map; said to be one, it is told what a map is."""
    refused(lambda x: x[:, :, :40, :2], "shape (N, K), here")
    said = {"preprocessing": Preprocessing(outputs="maps")}
    refused(lambda x: x[:, :, :40, :2], "and no maps of classes; export it so that it gives (N, C, H, W)", **said)
    refused(lambda x: x[:, 0, 0], "of which none is a map of classes", **said)


def test_a_class_that_nobody_knows_ends_the_run() -> None:
    """It was in none of the real images that showed how many classes there are."""

    def model(pixels: np.ndarray) -> np.ndarray:
        return (pixels[:, 1] > 0.5).astype(np.int64) * 7

    box = load(model, class_names=NAMES)
    box.prepare(IMAGES)
    with pytest.raises(RunError, match="found a pixel of class 7, but of 3 classes alone until now"):
        box.predict(np.full_like(IMAGES, 255))


def test_maps_that_hold_something_else_are_refused(told: Told) -> None:
    """Minus one for what is to be left out, or halves."""

    def model(pixels: np.ndarray) -> np.ndarray:
        return (pixels[:, 0] > 0.3).astype(np.int64) - (pixels[:, 1] > 0.5)

    box = load(model)
    box.prepare(IMAGES)
    with pytest.raises(UserError, match="gives -1 as the class of a pixel") as caught:
        box.predict(np.concatenate([IMAGES, np.full_like(IMAGES, 255) * GREEN]))
    told(GROUP, "a class below 0", caught.value)


def test_maps_of_another_size_than_before_are_refused() -> None:
    """One size of map for one size of picture."""
    sides = [48]

    def model(pixels: np.ndarray) -> np.ndarray:
        return Painter()(torch.from_numpy(pixels)).numpy()[:, :, : sides[0], : sides[0]]

    box = load(model)
    box.prepare(IMAGES)
    sides[0] = 24
    with pytest.raises(UserError, match="gives other maps than for the first images"):
        box.predict(IMAGES)


def test_a_deeplab_of_tensorflow_lite(shared_folder: Path) -> None:
    """Eight bits, and the classes themselves in its map of 513 pixels a side."""
    pytest.importorskip("ai_edge_litert", reason="the extra tflite is not installed")
    box = load(shared_folder / "models" / "pascal-deeplab-quant" / "deeplabv3_mnv2_dm05_pascal_quant.tflite")
    box.prepare(np.random.default_rng(0).integers(0, 255, (2, 3, 64, 96), dtype=np.uint8))
    assert box.preprocessing.head == "class-map"
    assert box.predict(np.zeros((1, 3, 64, 96), dtype=np.uint8)).shape == (1, 64 * 96)
