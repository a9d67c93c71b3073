"""The worst class: against a slow count, and what it tells of candidates that forgot one class of many."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from diffgen.config import Limits
from diffgen.gate.answers import worst_classes
from diffgen.gate.conditions import UNMEASURED, evaluate, table
from diffgen.gate.measurements import AccuracyDrop, ClassDrop
from diffgen.gate.rules import Condition
from diffgen.gate.values import GateValues, SearchState
from diffgen.metrics.intervals import simultaneous_paired_intervals
from diffgen.types import Int64Array
from tests.gate.made_values import changed

CLASSES = 100
NAMES = tuple(f"c{label}" for label in range(10_000))
MEASURED = GateValues(UNMEASURED, drawn=1, accepted=1, search=SearchState(100))


def slowly(said: Int64Array, labels: Int64Array) -> tuple[ClassDrop, ClassDrop]:
    """Class by class, in the order of preference."""
    found = []
    present = sorted(set(labels.tolist()))
    for label in present:
        rows = [
            (base == label, candidate == label)
            for (base, candidate), true in zip(said, labels, strict=True)
            if true == label
        ]
        base, candidate = (sum(int(row[model]) for row in rows) for model in (0, 1))
        only_base = sum(int(one and not other) for one, other in rows)
        found.append(ClassDrop(base, candidate, only_base, len(rows), label, NAMES[label], len(present)))
    return (
        max(found, key=lambda each: (max(each.interval[0], 0.0), each.share, -each.label)),
        max(found, key=lambda each: (each.share, -each.label)),
    )


@given(st.integers(1, 60).flatmap(lambda n: arrays(np.int64, (n, 3), elements=st.integers(0, 3))))
def test_they_are_those_that_a_slow_count_finds(answers: Int64Array) -> None:
    said, labels = answers[:, :2], answers[:, 2]
    assert worst_classes(said, labels, NAMES[:4]) == slowly(said, labels)


def with_classes(said: Int64Array, labels: Int64Array, classes: int) -> GateValues:
    """What a check measures of the classes."""
    found = worst_classes(said, labels, NAMES[:classes])
    return changed(MEASURED, class_accuracy_drop=found[0], largest_class_drop=found[1])


class Answers:
    """Those of models that are right on 97 % of the images of each of 100 classes, 100 images each."""

    def __init__(self, classes: int = CLASSES, images: int = 100) -> None:
        self._rng = np.random.default_rng(0)
        self.labels = np.repeat(np.arange(classes), images)
        self.classes = classes
        self.base = self.right_on(0.97)

    def right_on(self, share: float) -> Int64Array:
        wrong = (self.labels + 1 + self._rng.integers(0, self.classes - 1, len(self.labels))) % self.classes
        return np.where(self._rng.random(len(self.labels)) < share, self.labels, wrong)

    def retrained(self) -> Int64Array:
        """As often right, on other images."""
        return self.right_on(0.97)

    def quantized(self) -> Int64Array:
        """Other labels for one image of 200."""
        return np.where(self._rng.random(len(self.labels)) < 0.005, self.right_on(0.5), self.base)

    def forgetful(self, label: int) -> Int64Array:
        """The base, which now takes one class for another."""
        return np.where(self.base == label, (label + 1) % self.classes, self.base)

    def conditions(self, candidate: Int64Array) -> dict[str, Condition]:
        said = np.stack([self.base, candidate], axis=1)
        right = said == self.labels[:, None]
        base, now = (int(count) for count in right.sum(axis=0))
        values = changed(
            with_classes(said, self.labels, self.classes),
            accuracy_drop=AccuracyDrop(base, now, int((right[:, 0] & ~right[:, 1]).sum()), len(said)),
        )
        return {each.name: each for each in evaluate(values, Limits())}


def test_one_class_of_a_hundred_forgotten_fails_though_all_lose_less_than_a_point() -> None:
    answers = Answers()
    found = answers.conditions(answers.forgetful(47))
    assert found["accuracy_drop"].status.value == "WARN"  # less than a point, and perhaps more
    assert found["class_accuracy_drop"].status.value == "FAIL"
    assert "Class c47 loses" in found["class_accuracy_drop"].sentence


def test_a_retrained_and_a_quantized_candidate_keep_every_class() -> None:
    answers = Answers()
    for candidate in (answers.base, answers.retrained(), answers.quantized()):
        assert answers.conditions(candidate)["class_accuracy_drop"].status.value == "PASS"


def test_of_ten_thousand_classes_the_forgotten_one_is_found_and_no_other() -> None:
    answers = Answers(classes=10_000, images=20)
    assert "Class c8123 loses" in answers.conditions(answers.forgetful(8123))["class_accuracy_drop"].sentence
    # the worst of so many looks bad, and is not shown to be
    again = answers.conditions(answers.retrained())["class_accuracy_drop"]
    assert again.status.value == "WARN"
    assert "too few to show it of one of 10,000 classes" in again.sentence


@pytest.mark.parametrize(("images", "status"), [(1, "WARN"), (4, "WARN"), (30, "FAIL")])
def test_a_class_of_few_images_cannot_fail_whoever_set_the_limit(images: int, status: str) -> None:
    labels = np.concatenate([np.repeat(np.arange(9), 100), np.full(images, 9)])
    said = np.stack([labels, np.where(labels == 9, 0, labels)], axis=1)
    values = with_classes(said, labels, 10)
    for limits in (Limits(), Limits(max_class_accuracy_drop=0.2)):
        found = {each.name: each.status.value for each in evaluate(values, limits)}
        assert found["class_accuracy_drop"] == status


def test_a_class_that_was_lost_for_certain_goes_before_one_of_a_single_image() -> None:
    labels = np.array([0] * 100 + [1] + [2] * 100)
    candidate = labels.copy()
    candidate[:40] = 2
    candidate[100] = 2
    values = with_classes(np.stack([labels, candidate], axis=1), labels, 3)
    found = values["class_accuracy_drop"]
    assert (found.name, found.share, found.classes) == ("c0", 0.4, 3)
    text = {each.name: each for each in table(values)}["class_accuracy_drop"]
    lost = "100.00 points of 1 image of class c1"
    assert text.value == f"40.00 points (100.00%, now 60.00% of 100 images of class c0; {lost})"
    low, high = found.interval
    assert text.interval == f"{low * 100:.2f} to {high * 100:.2f} points"


@pytest.mark.parametrize(("mislaid", "status", "named"), [(0, "WARN", "c9"), (9, "WARN", "c9"), (40, "FAIL", "c0")])
def test_a_rare_class_that_was_lost_does_not_hide_behind_another(mislaid: int, status: str, named: str) -> None:
    """A loss of 9 points of another class is shown, and allowed."""
    labels = np.concatenate([np.repeat(np.arange(9), 100), np.full(4, 9)])
    candidate = np.where(labels == 9, 1, labels)
    candidate[:mislaid] = 1
    values = with_classes(np.stack([labels, candidate], axis=1), labels, 10)
    assert values["largest_class_drop"].name == "c9"
    assert values["class_accuracy_drop"].name == ("c0" if mislaid else "c9")
    (found,) = (each for each in evaluate(values, Limits()) if each.name == "class_accuracy_drop")
    assert (found.status.value, f"Class {named} loses" in found.sentence) == (status, True)


def test_all_intervals_hold_at_once_in_95_of_100_cases() -> None:
    """40 classes of 50 images, of which the candidate loses 6 % and mends 3 %."""
    rng = np.random.default_rng(0)
    drawn = rng.multinomial(50, [0.06, 0.03, 0.91], size=(2000, 40))
    flat = drawn.reshape(-1, 3)
    low, high = simultaneous_paired_intervals(flat[:, 0], flat[:, 1], np.full(len(flat), 50), among=40)
    held = ((low <= 0.03) & (high >= 0.03)).reshape(2000, 40).all(axis=1)
    assert held.mean() >= 0.95
