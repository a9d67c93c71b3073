"""Detectors of a comparison are asked together, and each answers for itself."""

import gc
import weakref

import numpy as np
import pytest
import torch

from diffgen.config import TaskConfig
from diffgen.errors import RunError, UserError
from diffgen.models import load
from diffgen.models.noise import settle_batches
from diffgen.models.panel import Member, panel_of, seated
from tests.models.squares import Squares, pictures

IMAGES = pictures(24)


def members(*models: Squares) -> tuple[Member, ...]:
    for model in models:
        model.prepare(IMAGES)
    return seated(models, TaskConfig())


def test_models_are_asked_once_for_all_members() -> None:
    """Two members cost no more queries than two models; whoever asks again is told anew."""
    models = Squares("a"), Squares("b", gain=0.8)
    one, other = members(*models)
    rows = [each.predict(IMAGES) for each in (one, other)]
    assert [each.asked for each in models] == [len(IMAGES)] * 2
    one.predict(IMAGES)
    assert [each.asked for each in models] == [2 * len(IMAGES)] * 2
    other.predict(IMAGES[:5])
    assert models[0].asked == 2 * len(IMAGES) + 5
    np.testing.assert_array_equal(np.stack(rows, axis=1), one.panel.task.contested(one.panel.answers(IMAGES)))
    assert (rows[0].argmax(axis=1) != rows[1].argmax(axis=1)).any()
    assert isinstance(one.predict(torch.from_numpy(IMAGES)), torch.Tensor)


def test_models_are_let_go_with_the_last_member() -> None:
    """Without waiting for a collection of cycles: what a session holds outside of Python hastens none."""
    seats = members(Squares("a"), Squares("b"))
    seats[0].predict(IMAGES)
    model = weakref.ref(seats[1].box)
    gc.disable()
    try:
        del seats
        assert model() is None
    finally:
        gc.enable()


def test_classes_are_matched_by_name() -> None:
    """The first class of one model may be the second of another."""
    same, swapped = Squares("a"), Squares("b", names=("moon", "sun"))
    one, other = members(same, swapped)
    assert one.class_names == other.class_names
    pairs = one.panel.task.counts(one.panel.answers(IMAGES)).sum(axis=0)
    assert pairs[3] == pairs[0] > 0  # each box is renamed


def test_a_member_is_its_model_in_all_else() -> None:
    """What is said and set of a member is that of the model."""
    model = Squares("a", offset=2)
    one, _ = members(model, Squares("b"))
    one.ask_alone()
    assert (model.alone, one.alone, one.name, one.own_class_names) == (True, True, "a", ("sun", "moon"))
    one.batch_size = 3
    assert model.batch_size == 3
    np.testing.assert_array_equal(one.raw_outputs(IMAGES), model.predict(IMAGES))


def test_numeric_noise_is_that_of_one_model() -> None:
    """A model whose scores move from call to call is told from one beside it that is steady."""

    class Unsteady(Squares):
        def predict(self, images: np.ndarray) -> np.ndarray:
            said = super().predict(images).reshape(len(images), -1, 6).copy()
            there = said[..., 5] >= 0
            said[..., 4] -= there * 0.02 * (self.asked % 7)
            return said.reshape(len(images), -1)

    steady, unsteady = (settle_batches(each, IMAGES) for each in members(Squares("a"), Unsteady("b")))
    assert steady.remaining == 0
    assert unsteady.repeat > 0.01


def test_models_of_two_kinds_are_refused() -> None:
    """Detectors and classifiers have nothing in common."""
    detector, classifier = Squares("boxes"), load(torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(6912, 3)))
    detector.prepare(IMAGES)
    classifier.prepare(IMAGES)
    with pytest.raises(UserError, match=r"A \(boxes\) for detection and B \(.*\) for classification; give models"):
        seated((detector, classifier), TaskConfig())
    with pytest.raises(UserError, match="and --task says classification"):
        seated((detector, detector), TaskConfig(name="classification"))
    assert panel_of(seated((classifier, classifier), TaskConfig())) is None


def test_a_class_that_nobody_knows_is_an_error() -> None:
    """It was in none of the real images that showed how many classes there are."""
    one, _ = members(Squares("a", names=("sun",)), Squares("b", names=("sun",)))
    with pytest.raises(RunError, match="found an object of class 1, but has only 1 class as far"):
        one.predict(IMAGES)
