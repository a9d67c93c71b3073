"""Labels of the data and classes of the models, by their names."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from diffgen.comparison.classes import with_known_labels
from diffgen.comparison.label_order import in_order, namer, names_of_classes, order_of_labels
from diffgen.comparison.preflight import prepare_models
from diffgen.config import CompareConfig
from diffgen.errors import UserError
from diffgen.events import Progress
from diffgen.models import load
from diffgen.types import ImageSet, Int64Array

WORDS = ("zero", "one", "two", "three")


def data(names: tuple[str, ...] | None, labels: tuple[int, ...] = (0, 1)) -> ImageSet:
    return ImageSet(np.zeros((len(labels), 1, 2, 2), np.uint8), np.array(labels), names, "some")


@given(st.permutations(WORDS), st.lists(st.integers(0, 3), min_size=1, max_size=9))
def test_a_label_keeps_its_name(own: list[str], labels: list[int]) -> None:
    given_ = data(tuple(own), tuple(labels))
    order = order_of_labels(given_, WORDS)
    assert (order == ()) == (tuple(own) == WORDS)
    found = in_order(given_, order)
    assert found.labels is not None
    assert [WORDS[label] for label in found.labels] == [own[label] for label in labels]


@pytest.mark.parametrize(
    ("own", "names", "order"),
    [
        (("Zero", "TWO"), WORDS, (0, 2)),  # some classes, written otherwise
        (("traffic_light", "Stop sign"), ("stop-sign", "traffic light"), (1, 0)),
        (("zero", "five"), WORDS, ()),  # five is none of them
        (("zero", "Zero"), WORDS, ()),  # one class twice
        (("ZERO", "ONE"), ("one", "One", "zero"), ()),  # nobody knows which
        (("zero", "one"), ("one", "One", "zero"), (2, 0)),  # as it stands
        (("a", "b"), ("b", "a", "crane", "crane"), (1, 0)),  # twice, but not of the data's
        (("c", "c++", "java"), ("java", "c++", "c"), (2, 1, 0)),
        (("का", "कि"), ("कि", "का"), (1, 0)),
        (("1", "2", "4"), tuple("12345"), (0, 1, 3)),  # numbers that are the model's own names
        (("0", "1", "2", "10"), ("0", "1", "10", "2"), (0, 1, 3, 2)),
        (("10", "20", "40"), ("40", "20", "10"), (2, 1, 0)),
        (("0", "1", "3"), WORDS, (0, 1, 3)),  # a folder is missing
        (("0", "1", "3"), ("0", "1", "2", "3"), (0, 1, 3)),
        (("1", "2", "4"), tuple("01234"), ()),  # they may begin with 1
        (("0", "1", "9"), tuple("012"), ()),  # as many as the model has
        (("0", "9"), tuple("012"), ()),  # more than it has
        (("0", "1", "2"), WORDS, ()),  # the last is missing: they stay as they are
        (("00", "02"), tuple("012"), (0, 2)),
        (None, WORDS, ()),
    ],
)
def test_names_that_tell_an_order_and_others(
    own: tuple[str, ...] | None, names: tuple[str, ...], order: tuple[int, ...]
) -> None:
    assert order_of_labels(data(own), names) == order


def test_nothing_is_put_in_order_without_labels() -> None:
    bare = ImageSet(np.zeros((2, 1, 2, 2), np.uint8), None, ("one", "zero"), "some")
    assert order_of_labels(bare, WORDS) == ()
    assert in_order(bare, (1, 0)) is bare


NAMES = ("plane", "car", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
DIGITS = tuple(map(str, range(10)))


class Answers:
    """A model whose answers are known: image n shows the class n % 10."""

    def __call__(self, images: np.ndarray) -> np.ndarray:
        shown = np.round(images[:, 0, 0, 0] * 255).astype(np.int64)
        # the other classes are never equally likely, so that it matters which is left out
        return (20.0 * np.eye(10)[shown] + np.linspace(1, 0, 10)).astype(np.float32)


def shown_without(missing: Sequence[int], names: Sequence[str]) -> tuple[ImageSet, Int64Array]:
    """20 images of each class that has a folder, numbered in the order of these; and what the images show."""
    here = sorted({*range(10)} - {*missing}, key=names.__getitem__)
    shown = np.repeat(here, 20)
    images = np.zeros((len(shown), 1, 16, 16), np.uint8)
    images[:, 0, 0, 0] = shown
    return ImageSet(images, np.repeat(np.arange(len(here)), 20), tuple(names[label] for label in here), "some"), shown


@pytest.mark.parametrize("missing", range(10))
@pytest.mark.parametrize("named", [False, True])
def test_a_folder_that_is_missing_is_no_background(missing: int, named: bool) -> None:
    """One folder less than the model has classes: each of these has its own label, and no class is left out."""
    if missing == 0 and not named:
        return  # 1 to 9 may be all that there are
    some, shown = shown_without([missing], NAMES if named else DIGITS)
    models = [load(Answers(), class_names=NAMES if named else ()) for _ in range(2)]
    prepare_models(models, some)
    assert [model.num_classes for model in models] == [10, 10]
    found = in_order(some, order_of_labels(some, names_of_classes(models[0])))
    assert found.labels is not None
    np.testing.assert_array_equal(found.labels, shown)
    assert (models[0].predict(some.images).argmax(axis=1) == found.labels).all()


@pytest.mark.parametrize("missing", [(0,), (5,), (9,), (3, 8)])
@pytest.mark.parametrize("names", [NAMES, tuple(map(str, range(1, 11)))])
def test_a_folder_that_is_missing_is_refused_where_nothing_tells_which(
    missing: tuple[int, ...], names: tuple[str, ...]
) -> None:
    """All labels behind it would be shifted, in the eyes of every model alike; so they may be the other way round."""
    some, _ = shown_without(missing, names)
    models = [load(Answers()) for _ in range(2)]
    for data_labels in ("auto", "use", "ignore"):
        config = CompareConfig(data_labels=data_labels)  # type: ignore[arg-type]
        prepare_models(models, some)
        assert [model.num_classes for model in models] == [10, 10]
        assert order_of_labels(some, names_of_classes(models[0])) == ()
        if data_labels == "auto":
            with pytest.raises(UserError, match=f"name {10 - len(missing)} classes and not the 10 .*--class-names"):
                with_known_labels(models, some, config, Progress())
        else:  # somebody has said what they are
            found, _ = with_known_labels(models, some, config, Progress())
            assert (found.labels is None) == (data_labels == "ignore")
    # one more than the models know, wherever it stands
    more = replace(some, class_names=(*(some.class_names or ()), *(f"x{n}" for n in range(1 + len(missing)))))
    with pytest.raises(UserError, match="name 11 classes and not the 10 of the models: probably a folder is no class"):
        with_known_labels(models, more, CompareConfig(), Progress())


def test_folders_called_by_their_own_numbers_are_these() -> None:
    for missing in ((9,), (8, 9), (2,), (4, 9)):
        some, shown = shown_without(missing, DIGITS)
        models = [load(Answers()) for _ in range(2)]
        prepare_models(models, some)
        some = in_order(some, order_of_labels(some, names_of_classes(models[0])))
        found, _ = with_known_labels(models, some, CompareConfig(), Progress())
        np.testing.assert_array_equal(found.labels, shown)


def test_the_first_model_that_has_names_tells_and_a_label_map_does_not() -> None:
    bare, named = load(Answers()), load(Answers(), class_names=NAMES)
    assert namer([bare, named]) is named
    assert namer([bare, named], [False, True]) is bare


def test_an_order_that_is_damaged() -> None:
    with pytest.raises(UserError, match="the run folder is damaged"):
        in_order(data(WORDS, (0, 3)), (1, 0))
