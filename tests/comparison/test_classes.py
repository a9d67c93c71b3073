"""Which value is for the background, and labels that the models do not know: found out on real digits, or said."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from diffgen.comparison.classes import background_remarks, background_smell, with_known_labels
from diffgen.comparison.preflight import prepare_models
from diffgen.comparison.results import announce_numbers
from diffgen.config import CompareConfig, Preprocessing
from diffgen.data import load as load_data
from diffgen.errors import UserError
from diffgen.events import Event, Progress
from diffgen.models import BlackBox, load
from diffgen.types import Float32Array, ImageSet

Model = Callable[[Float32Array], Float32Array]
NAMES = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")


@pytest.fixture(scope="module")
def digits() -> ImageSet:
    return load_data("digits:test")


@pytest.fixture(scope="module")
def net() -> Model:
    """Logits of ten digits: how near each one's mean is."""
    data = load_data("digits:train")
    assert data.labels is not None
    flat = data.images.reshape(len(data), -1).astype(np.float32) / 255
    means = np.stack([flat[data.labels == digit].mean(axis=0) for digit in range(10)])

    def answer(pixels: Float32Array) -> Float32Array:
        given = pixels.reshape(len(pixels), 1, -1)
        return -np.square(given - means).sum(axis=2).astype(np.float32)

    return answer


def padded(net: Model, first: int, last: int, value: float = -1e3) -> Model:
    """The same with so many values before and behind, which it hardly ever gives."""
    return lambda pixels: np.pad(net(pixels), ((0, 0), (first, last)), constant_values=value)


def opened(models: dict[str, Model], **settings: Any) -> tuple[BlackBox, ...]:
    return tuple(load(model, name=name, **settings) for name, model in models.items())


class Heard:
    """What a user is told."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self.progress = Progress(self._hear)

    def _hear(self, event: Event) -> None:
        self.texts.append(getattr(event, "text", ""))

    def all(self) -> str:
        return " ".join(self.texts)


@pytest.mark.parametrize("where", ["first", "last"])
def test_the_other_model_shows_which_value_is_for_the_background(net: Model, digits: ImageSet, where: str) -> None:
    first, last = (1, 0) if where == "first" else (0, 1)
    heard, models = Heard(), opened({"wide": padded(net, first, last), "plain": net})
    prepare_models(models, ImageSet(digits.images, None, None, "photographs"), heard.progress)
    wide, plain = models
    assert wide.preprocessing.background == where and plain.preprocessing.background == "none"
    assert wide.num_classes == plain.num_classes == 10
    assert "answers with 11 values for 10 classes" in heard.all() and f"the {where} one" in heard.all()
    assert background_remarks(models) == (
        f"Model A (wide) answers with 11 values; the {where} one, for the background, is left out.",
    )
    np.testing.assert_allclose(wide.predict(digits.images), plain.predict(digits.images), atol=1e-6)
    # a second look, as quantize has it, finds the same
    prepare_models(models, digits)
    assert wide.preprocessing.background == where


@pytest.mark.parametrize(("more", "names", "said"), [(30, (), True), (20, (), False), (30, ("hen",), False)])
def test_many_classes_without_names_are_said(
    net: Model, digits: ImageSet, more: int, names: tuple[str, ...], said: bool
) -> None:
    words = tuple(f"{name} {number}" for name in names for number in range(10 + more))
    data = ImageSet(digits.images, None, words or None, "photographs")
    heard, models = Heard(), opened({"a": padded(net, 0, more), "b": padded(net, 0, more)})
    prepare_models(models, data)
    announce_numbers(models, data, heard.progress)
    number = "The 40 classes go by their numbers; --class-names FILE gives them names."
    assert heard.texts == ([number] if said else [])


def test_what_is_left_out_leaves_probabilities(net: Model, digits: ImageSet) -> None:
    """Each row is what it was, divided by what the background does not have; logits and probabilities alike."""

    def softmax(pixels: Float32Array) -> Float32Array:
        values = padded(net, 1, 0, value=-30.0)(pixels)
        raised = np.exp(values - values.max(axis=1, keepdims=True))
        return raised / raised.sum(axis=1, keepdims=True)

    said = Preprocessing(background="first")
    logits, shares = opened({"logits": padded(net, 1, 0, value=-30.0), "shares": softmax}, preprocessing=said)
    for box in (logits, shares):
        box.prepare(digits.images)
    whole = softmax(digits.images.astype(np.float32) / 255)
    assert whole[:, 0].max() > 0.5  # here and there the background would be the answer
    wanted = whole[:, 1:] / whole[:, 1:].sum(axis=1, keepdims=True)
    for box in (logits, shares):
        np.testing.assert_allclose(box.predict(digits.images), wanted, atol=2e-5)
    assert logits.predict(digits.images[:0]).shape == (0, 10)
    assert logits.raw_outputs(digits.images[:3]).shape == (3, 10)


def test_two_models_with_a_background_and_labels_without(net: Model, digits: ImageSet) -> None:
    models = opened({"a": padded(net, 1, 0), "b": padded(net, 1, 0, value=-500.0)})
    prepare_models(models, digits)
    assert [box.num_classes for box in models] == [10, 10]
    assert all((box.predict(digits.images).argmax(axis=1) == digits.labels).mean() > 0.7 for box in models)
    # of eleven classes that the data has ten of, none is left out: the labels fit as they are
    models = opened({"a": padded(net, 0, 1), "b": padded(net, 0, 1, value=-500.0)})
    prepare_models(models, digits)
    assert [box.num_classes for box in models] == [11, 11]
    # and nobody guesses where nothing is known
    models = opened({"a": padded(net, 1, 0), "b": padded(net, 1, 0, value=-500.0)})
    prepare_models(models, ImageSet(digits.images, None, None, "photographs"))
    assert [box.num_classes for box in models] == [11, 11]


def test_what_the_images_do_not_show_has_to_be_said(net: Model, digits: ImageSet) -> None:
    def dull(pixels: Float32Array) -> Float32Array:
        return np.tile(np.linspace(0, 1, 11, dtype=np.float32), (len(pixels), 1))

    with pytest.raises(UserError, match=r"dull answers with 11 classes, one more than model plain.*--background"):
        prepare_models(opened({"plain": net, "dull": dull}), digits)
    plain, dull_box = load(net), load(dull, name="dull", preprocessing=Preprocessing(background="last"))
    prepare_models((plain, dull_box), digits)
    assert dull_box.num_classes == 10
    # what was said to have none has none
    none = load(padded(net, 1, 0), name="wide", preprocessing=Preprocessing(background="none"))
    with pytest.raises(UserError, match="give models with the same classes"):
        prepare_models((plain, none), digits)
    with pytest.raises(UserError, match="give models with the same classes"):
        prepare_models(opened({"plain": net, "wider": padded(net, 1, 1)}), digits)


def test_names_with_a_line_for_the_background(net: Model, digits: ImageSet) -> None:
    for names, where in ((("background", *NAMES), "first"), ((*NAMES, "__Background__"), "last")):
        first, last = (1, 0) if where == "first" else (0, 1)
        wide = load(padded(net, first, last), class_names=names)
        plain = load(net, class_names=names)
        prepare_models((wide, plain), ImageSet(digits.images, None, None, "photographs"))
        assert wide.preprocessing.background == where
        assert wide.class_names == plain.class_names == NAMES
    # names of the classes alone, where it is said which value is none of them
    wide = load(padded(net, 0, 1), class_names=NAMES, preprocessing=Preprocessing(background="last"))
    wide.prepare(digits.images)
    assert wide.class_names == wide.own_class_names == NAMES
    wide.map_classes(tuple(range(9, -1, -1)))
    assert wide.class_names == NAMES[::-1]
    np.testing.assert_allclose(
        wide.predict(digits.images)[:, ::-1], load_prepared(net, digits).predict(digits.images), atol=1e-6
    )
    with pytest.raises(UserError, match=r"answers with 11 classes but its class_names are 10; .*--background"):
        load(padded(net, 0, 1), class_names=NAMES).prepare(digits.images)


def load_prepared(model: Model, digits: ImageSet) -> BlackBox:
    box = load(model)
    box.prepare(digits.images)
    return box


def test_a_class_called_background_stays_where_the_data_has_images_of_it(net: Model, digits: ImageSet) -> None:
    names = ("background", *NAMES[1:])
    for own in (names, None):
        models = tuple(load(net, name=name, class_names=names) for name in "ab")
        data = ImageSet(digits.images, digits.labels, own, "digits")
        prepare_models(models, data)
        assert [box.num_classes for box in models] == [10, 10]
        assert all(box.class_names == names for box in models) and background_remarks(models) == ()
        images, config = with_known_labels(models, data, CompareConfig(), Progress())
        assert images is data and config.data_labels == "use"
        assert (models[0].predict(digits.images).argmax(axis=1) == digits.labels).mean() > 0.7
    # without labels the name alone tells
    prepare_models(models, ImageSet(digits.images, None, None, "photographs"))
    assert [box.num_classes for box in models] == [9, 9]


def test_a_value_that_is_the_answer_to_real_images_is_no_background(net: Model, digits: ImageSet) -> None:
    """Whichever value it is, and whatever shows the background: left out, the second-best answer would count."""

    def winning(where: str) -> Model:
        def answer(pixels: Float32Array) -> Float32Array:
            values = net(pixels)
            best = values.max(axis=1, keepdims=True) + 10
            return np.concatenate([best, values] if where == "first" else [values, best], axis=1)

        return answer

    bare = ImageSet(digits.images, None, None, "photographs")
    for where in ("first", "last"):
        wanted = f"Model candidate answers with 11 values.*the {where} one.*its answer to 100% of the real images"
        for data in (digits, bare):
            with pytest.raises(UserError, match=wanted):
                prepare_models(opened({"base": net, "candidate": winning(where)}), data)
    # as many values as the base, whose background the labels show
    with pytest.raises(UserError, match=r"Model candidate .*the first one.*100% of the real images"):
        prepare_models(opened({"base": padded(net, 1, 0), "candidate": winning("first")}), digits)
    # who says that it is the background is told what the model answers
    base, candidate = load(net, name="base"), load(winning("last"), preprocessing=Preprocessing(background="last"))
    prepare_models((base, candidate), digits)
    sentence, sound, of = background_smell(candidate, "B", digits)
    assert "100% of the real images with the value for the background" in sentence and (sound, of) == (0, 200)
    assert background_smell(base, "A", digits) == ("", 200, 200)


def test_a_candidate_that_lost_a_class_has_no_background_less(net: Model, digits: ImageSet) -> None:
    fewer = opened({"base": net, "candidate": lambda pixels: net(pixels)[:, :9]})
    for names in (None, NAMES):  # the labels tell of ten classes
        with pytest.raises(UserError, match=r"answers with 10 classes but model B \(candidate\) with 9"):
            prepare_models(fewer, ImageSet(digits.images, digits.labels, names, "digits"))
    # without labels the base's own answers do
    with pytest.raises(UserError, match=r"Model base answers with 10 values for 9 classes.*is its answer to"):
        prepare_models(fewer, ImageSet(digits.images, None, None, "photographs"))


def test_imagenet_nets_of_tensorflow_have_it_first(net: Model, digits: ImageSet) -> None:
    box = load(padded(net, 1, 990), class_names=[f"class {number}" for number in range(1000)])
    box.prepare(digits.images)
    assert (box.preprocessing.background, box.num_classes, len(box.class_names)) == ("first", 1000, 1000)


def test_two_values_are_two_classes(digits: ImageSet) -> None:
    def two_values(pixels: Float32Array) -> Float32Array:
        return pixels.reshape(len(pixels), -1)[:, 300:302]

    box = load(two_values, preprocessing=Preprocessing(background="last"))
    with pytest.raises(UserError, match="nothing to tell apart; leave --background out"):
        box.prepare(digits.images)
    # neither a name nor labels of one class take one of them away
    for settings in ({}, {"class_names": ("background", "cell")}):
        boxes = tuple(load(two_values, name=name, **settings) for name in "ab")
        prepare_models(boxes, ImageSet(digits.images, np.zeros(len(digits), dtype=np.int64), None, "one class"))
        assert [box.num_classes for box in boxes] == [2, 2]


# -- labels ----------------------------------------------------------------------------------------------------------


def prepared_pair(net: Model, digits: ImageSet, *, more: int = 0, before: int = 0) -> tuple[BlackBox, ...]:
    models = opened({"a": padded(net, before, more), "b": padded(net, before, more, value=-900.0)})
    for box in models:
        box.prepare(digits.images)
    return models


def test_labels_that_the_models_know_are_used(net: Model, digits: ImageSet) -> None:
    for more in (0, 90):  # ten classes, and a hundred of which the data has ten
        heard = Heard()
        images, config = with_known_labels(
            prepared_pair(net, digits, more=more), digits, CompareConfig(), heard.progress
        )
        assert images is digits and config.data_labels == "use"
        assert heard.texts == []


def test_labels_of_another_task_are_not_used(net: Model, digits: ImageSet) -> None:
    # the nets' digits are their classes 50 to 59: they never say 0 to 9
    models, heard = prepared_pair(net, digits, before=50, more=40), Heard()
    images, config = with_known_labels(models, digits, CompareConfig(), heard.progress)
    assert images.labels is None and images.class_names is None
    assert config.data_labels == "ignore"
    assert "The labels of digits:test are not used" in heard.all() and "nobody can be named wrong" in heard.all()
    # said already, nothing is asked and nothing is said again
    silent = Heard()
    again, _ = with_known_labels(models, digits, config, silent.progress)
    assert again.labels is None and silent.texts == []
    used, config = with_known_labels(models, digits, CompareConfig(data_labels="use"), heard.progress)
    assert used is digits and config.data_labels == "use"


def test_one_model_that_knows_them_is_enough(net: Model, digits: ImageSet) -> None:
    right, _ = prepared_pair(net, digits, more=90)
    wrong, _ = prepared_pair(net, digits, before=50, more=40)
    images, _ = with_known_labels((wrong, right), digits, CompareConfig(), Progress())
    assert images is digits


def test_more_labels_than_classes(net: Model, digits: ImageSet) -> None:
    """Of another task when the models know none of them; else strange images would take the labels of the others."""
    assert digits.labels is not None
    models, heard = prepared_pair(net, digits), Heard()
    from_one = ImageSet(digits.images, digits.labels + 1, None, "digits from 1")
    images, config = with_known_labels(models, from_one, CompareConfig(), heard.progress)
    assert images.labels is None and config.data_labels == "ignore"
    assert "it has the label 10 and the models only answer with 0 to 9" in heard.all()

    strange = digits.labels.copy()
    strange[7] = 10
    data = ImageSet(digits.images, strange, None, "the folder")
    with pytest.raises(UserError, match=rf"{len(digits)} images in the folder, 1 have labels \(10\) that.*leave"):
        with_known_labels(models, data, CompareConfig(), Progress())
    images, config = with_known_labels(models, data, CompareConfig(data_labels="ignore"), Progress())
    assert images.labels is None
    few = prepared_pair(lambda pixels: net(pixels)[:, :5], digits)
    with pytest.raises(UserError, match=r"labels \(5, 6, 7 and more\) that are none of the models' 5 classes"):
        with_known_labels(few, digits, CompareConfig(), Progress())
    with pytest.raises(UserError, match="has the label 9 but the models answer with only 5 classes"):
        with_known_labels(few, digits, CompareConfig(data_labels="use"), Progress())
    beyond = ImageSet(digits.images, digits.labels + 10, None, "others")
    assert with_known_labels(models, beyond, CompareConfig(), Progress())[0].labels is None


def test_nothing_is_said_of_images_without_labels(net: Model, digits: ImageSet) -> None:
    bare = ImageSet(digits.images, None, None, "photographs")
    images, config = with_known_labels(prepared_pair(net, digits), bare, CompareConfig(), Progress())
    assert images is bare and config.data_labels == "auto"
