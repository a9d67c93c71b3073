"""``inspect`` finds the pre-processing that a real classifier was trained with, and writes it beside the file."""

from __future__ import annotations

import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from diffgen.cli.inspect import option_text
from diffgen.comparison.preprocessings import Tried, _balanced, alike
from diffgen.config import ModelSpec, Preprocessing
from diffgen.errors import UserError
from diffgen.models import load, read_sidecar
from diffgen.models.sidecar import sidecar_path
from diffgen.sampling import random_rows
from diffgen.types import ImageSet
from diffgen.workflows.inspect import inspect
from tests.recording import Recording


class Fed(torch.nn.Module):
    """A classifier that wants its images otherwise: scaled, inverted, in colour, larger."""

    def __init__(self, network: torch.nn.Module, *, factor: float = 1, shift: float = 0, side: int = 28) -> None:
        super().__init__()
        self.network, self.factor, self.shift, self.side = network, factor, shift, side

    def forward(self, pixels: torch.Tensor) -> torch.Tensor:
        if self.side != 28:
            pixels = pixels.reshape(-1, 3, self.side, self.side)
            pixels = torch.nn.functional.avg_pool2d(pixels[:, :1], self.side // 28)
        return self.network(pixels * self.factor + self.shift)


@pytest.fixture(scope="module")
def network(model_files: dict[str, Path]) -> torch.nn.Module:
    return torch.jit.load(str(model_files["a"]))


def save(module: torch.nn.Module, path: Path, shape: tuple[int, ...] = (2, 1, 28, 28)) -> Path:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.jit.save(torch.jit.trace(module.eval(), torch.zeros(shape)), str(path))
    return path


def test_the_plain_one_is_chosen_where_several_do(model_files: dict[str, Path], digits: ImageSet) -> None:
    found = inspect(model_files["a_onnx"], data=digits)
    assert (found.format, found.takes, found.classes, found.labelled) == ("an ONNX file", ((1, 28, 28),), 10, True)
    assert found.chosen.name == "0..1"
    assert found.candidates.index(found.chosen) < found.alike
    assert found.now is found.chosen and not found.now_at_chance
    box = load(model_files["a_onnx"])
    box.prepare(digits.images[:256])
    accuracy = (box.predict(digits.images).argmax(axis=1) == digits.labels).mean()
    assert abs(found.chosen.accuracy - accuracy) < 0.08  # of 200 of them
    assert [c.images for c in found.candidates[: found.alike]] == [200] * found.alike == [found.images] * found.alike
    assert {c.images for c in found.candidates[found.alike :]} & {20, 40, 80, 160}  # no more was needed
    assert not sidecar_path(model_files["a_onnx"]).exists()


def test_inversion_is_found_and_written(network: torch.nn.Module, digits: ImageSet, tmp_path: Path) -> None:
    path = save(Fed(network, factor=-255.0, shift=255.0), tmp_path / "inverted.pt")
    found = inspect(path, data=digits, write=True)
    assert found.chosen.preprocessing.invert
    assert (found.now.name, found.now_at_chance) == ("0..1", True)
    assert found.written == str(tmp_path / "inverted.pt.toml")
    box = load(path)  # as the sidecar says
    box.prepare(digits.images[:256])
    assert found.chosen.accuracy is not None and found.chosen.accuracy > 0.8
    assert abs((box.predict(digits.images).argmax(axis=1) == digits.labels).mean() - found.chosen.accuracy) < 0.08
    with pytest.raises(UserError, match="exists; add --force"):
        inspect(path, data=digits, write=True)
    sidecar_path(path).write_text('scale = "0..255"\nclass_names = ["z","o","t","th","f","fi","s","se","e","n"]')
    again = inspect(path, data=digits, write=True, force=True)
    assert again.now is next(each for each in again.candidates if each.name == "as the sidecar says")
    assert again.now_at_chance
    assert again.chosen.name == found.chosen.name
    assert read_sidecar(path).class_names[0] == "z"  # what a person wrote there is kept


@pytest.mark.slow
def test_a_larger_model_in_colour_is_fed(network: torch.nn.Module, digits: ImageSet, tmp_path: Path) -> None:
    path = save(Fed(network, side=224), tmp_path / "large.pt", (2, 3, 224, 224))
    some = ImageSet(digits.images[:200], digits.labels[:200], None, "some digits")
    with pytest.raises(UserError, match=r"takes 3x224x224 .* add --channels grey-to-rgb --size 224"):
        load(path).prepare(some.images)
    found = inspect(path, data=some)
    assert found.takes[0] == (3, 224, 224)
    assert found.now is None
    assert (found.chosen.preprocessing.channels, found.chosen.preprocessing.size) == ("grey-to-rgb", (224, 224))
    assert found.chosen.accuracy > 0.8


def test_bgr_and_its_mean(digits: ImageSet) -> None:
    """Colour images, of which only the first channel tells anything, and a function that looks at the last."""
    generator = np.random.default_rng(0)
    labels = digits.labels
    assert labels is not None
    images = generator.integers(0, 256, (len(digits), 3, 28, 28), dtype=np.uint8)
    images[:, 0] = (labels[:, None, None] * 25).astype(np.uint8)
    colour = ImageSet(images, labels, None, "colour")

    def last_channel(pixels: np.ndarray) -> np.ndarray:
        level = pixels[:, 2].mean(axis=(1, 2)) / 25
        return -np.abs(level[:, None] - np.arange(10)[None])

    found = inspect(last_channel, data=colour)
    assert found.chosen.name == "0..255, BGR"
    assert found.chosen.accuracy == 1
    swapped = next(each for each in found.candidates if each.name == "ImageNet mean and std, BGR").preprocessing
    assert swapped.mean == (0.406, 0.456, 0.485)
    with pytest.raises(UserError, match="Python object; give a file"):
        inspect(last_channel, data=colour, write=True)


def test_without_labels_sure_and_varied_answers_count(
    network: torch.nn.Module, digits: ImageSet, tmp_path: Path
) -> None:
    path = save(Fed(network, factor=1 / 255), tmp_path / "grey-levels.pt")
    found = inspect(path, data=replace(digits, labels=None))
    assert not found.labelled
    assert all(each.accuracy is None for each in found.candidates)
    assert found.chosen.preprocessing.scale == "0..255"
    assert not found.chosen.preprocessing.invert


def test_what_the_options_say_is_not_varied(model_files: dict[str, Path], digits: ImageSet) -> None:
    known = ModelSpec(preprocessing=Preprocessing(mean=(0.3,), invert=False))
    found = inspect(model_files["a"], data=digits, options=known)
    assert [each.name for each in found.candidates] == ["as the options say"]
    assert found.chosen.preprocessing.mean == (0.3,)


def test_a_model_that_takes_nothing(digits: ImageSet) -> None:
    def broken(pixels: np.ndarray) -> np.ndarray:
        raise KeyError("weights")

    with pytest.raises(UserError, match="Model broken fails on the data's 1x28x28 images: KeyError"):
        inspect(broken, data=digits)

    def several(pixels: np.ndarray) -> dict[str, np.ndarray]:
        return {"one": pixels, "two": pixels}

    with pytest.raises(UserError, match="--output-name"):
        inspect(several, data=digits)


def test_labels_that_the_model_does_not_know_are_not_evidence(
    network: torch.nn.Module, digits: ImageSet, tmp_path: Path
) -> None:
    """Its digits are the classes 50 to 59 of a hundred, or the data has more labels than it has classes."""

    class Shifted(torch.nn.Module):
        def __init__(self, classes: int) -> None:
            super().__init__()
            self.network, self.classes = network, classes

        def forward(self, pixels: torch.Tensor) -> torch.Tensor:
            if self.classes < 10:
                return self.network(pixels)[:, : self.classes]
            return torch.nn.functional.pad(self.network(pixels), (50, self.classes - 60), value=-50.0)

    said: list[str] = []
    for classes in (100, 5):
        model = save(Shifted(classes), tmp_path / f"{classes}.pt")
        found = inspect(model, data=digits, events=lambda event: said.append(getattr(event, "text", "")))
        assert (found.classes, found.labelled) == (classes, False)
        assert all(each.accuracy is None for each in found.candidates)
    assert sum("The labels of" in text and "are not used" in text for text in said) == 2


class WithBackground(torch.nn.Module):
    """Of bytes, with one more value in front that is for none of the classes."""

    def __init__(self, network: torch.nn.Module) -> None:
        super().__init__()
        self.network = network

    def forward(self, pixels: torch.Tensor) -> torch.Tensor:
        answers = self.network(pixels / 255)
        return torch.cat([answers.amin(dim=1, keepdim=True), answers], dim=1)


def test_a_value_for_the_background_is_found(network: torch.nn.Module, digits: ImageSet, tmp_path: Path) -> None:
    path = save(WithBackground(network), tmp_path / "background.pt")
    found = inspect(path, data=digits, write=True)
    assert (found.chosen.name, found.chosen.preprocessing.background, found.classes) == ("0..255", "first", 10)
    assert found.chosen.accuracy is not None and found.chosen.accuracy > 0.9
    assert "--background first" in option_text(found.chosen)
    box = load(path)
    box.prepare(digits.images[:256])
    assert abs((box.predict(digits.images).argmax(axis=1) == digits.labels).mean() - found.chosen.accuracy) < 0.08


class Root(torch.nn.Module):
    """NaN below zero."""

    def __init__(self, network: torch.nn.Module) -> None:
        super().__init__()
        self.network = network

    def forward(self, pixels: torch.Tensor) -> torch.Tensor:
        return self.network(torch.sqrt(pixels) ** 2)


def test_a_candidate_that_fails_last_takes_no_labels_away(
    network: torch.nn.Module, digits: ImageSet, tmp_path: Path
) -> None:
    found = inspect(save(Root(network), tmp_path / "root.pt"), data=digits)
    assert found.labelled
    assert found.chosen.name == "0..1"


def test_classes_in_another_order_are_known_by_name(model_files: dict[str, Path], digits: ImageSet) -> None:
    assert digits.labels is not None
    words = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
    by_alphabet = sorted(words)
    labels = np.array([by_alphabet.index(words[label]) for label in digits.labels])
    data = replace(digits, labels=labels, class_names=tuple(by_alphabet))
    named, unnamed = Recording(), Recording()
    plain = inspect(model_files["a_onnx"], data=digits)
    found = inspect(model_files["a_onnx"], data=data, options=ModelSpec(class_names=words), events=named)
    assert found.chosen == plain.chosen
    lost = inspect(model_files["a_onnx"], data=data, events=unnamed)
    assert lost.chosen.accuracy is not None and lost.chosen.accuracy < 0.5
    (warning,) = (line for line in unnamed.warnings if "right on only" in line)
    assert "--class-names names them" in warning
    assert named.warnings == []
    assert any("by their names: 'eight' is class 8 there, and not 0" in line for line in named.lines)


@pytest.mark.parametrize("missing", [0, 4])
def test_labels_that_a_missing_folder_shifts_are_no_evidence(
    missing: int, model_files: dict[str, Path], digits: ImageSet
) -> None:
    """Without the first folder they would fit a model whose first value is for the background."""
    assert digits.labels is not None
    here = digits.labels != missing
    names = tuple(f"digit {label}" for label in range(10))
    labels = digits.labels[here] - (digits.labels[here] > missing)
    data = ImageSet(digits.images[here], labels, names[:missing] + names[missing + 1 :], "nine folders")
    heard = Recording()
    found = inspect(model_files["a_onnx"], data=data, events=heard)
    assert not found.labelled and found.classes == 10 and found.chosen.preprocessing.background == "none"
    (warning,) = heard.warnings
    assert "name 9 classes and not the 10 of model conv.onnx" in warning and "--class-names FILE" in warning
    named = inspect(model_files["a_onnx"], data=data, options=ModelSpec(class_names=names))
    assert named.chosen.accuracy is not None and named.chosen.accuracy > 0.7  # shifted: at most half


def test_what_is_right_on_few_is_not_written_unasked(
    network: torch.nn.Module, digits: ImageSet, tmp_path: Path
) -> None:
    assert digits.labels is not None
    shifted = replace(digits, labels=(digits.labels + 1) % 10)
    path = save(network, tmp_path / "a.pt")
    with pytest.raises(UserError, match=r"right on only .* Nothing is written; add --force to write it all the same"):
        inspect(path, data=shifted, write=True)
    assert not sidecar_path(path).exists()
    assert inspect(path, data=shifted, write=True, force=True).written == str(sidecar_path(path))


def test_images_of_each_class_are_looked_at_in_turn() -> None:
    """Also of data in which one class has a hundred times as many as another."""
    labels = np.repeat(np.arange(4), (400, 300, 4, 50))
    rows = _balanced(random_rows(len(labels), len(labels)), labels)
    assert np.array_equal(np.sort(rows), np.arange(len(labels)))
    for upto in (4, 8, 16):
        assert np.bincount(labels[rows[:upto]]).tolist() == [upto // 4] * 4
    assert np.bincount(labels[rows[:64]]).tolist() == [20, 20, 4, 20]


def test_one_picture_of_fifty_tells_nothing_apart() -> None:
    def tried(wrong: int) -> Tried:
        right = np.arange(50) >= wrong
        return Tried(("some", Preprocessing()), Preprocessing(), np.ones((50, 10), dtype=np.float32), right)

    assert alike(tried(1), tried(0))
    assert alike(tried(2), tried(1))
    assert not alike(tried(8), tried(0))
