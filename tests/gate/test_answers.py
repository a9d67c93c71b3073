"""What the answers of base and candidate come to, against counting image by image."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from diffgen.config import Limits
from diffgen.gate.answers import Answers, labels_alone
from diffgen.gate.conditions import evaluate
from diffgen.gate.values import GateValues
from diffgen.tasks.kept_answers import KeptAnswers
from tests.gate.made_values import changed

LEVELS = st.lists(st.integers(0, 4), min_size=6, max_size=6)


def answers(probabilities: np.ndarray, labels: np.ndarray | None = None) -> Answers:
    """Without background and without NaN."""
    none = np.zeros((len(probabilities), 2), dtype=np.bool_)
    return Answers(KeptAnswers.of(probabilities), 1e-6, none, none, labels)


def fails(probabilities: np.ndarray) -> bool:
    found = evaluate(changed(GateValues(), undecided_real=answers(probabilities).undecided()), Limits())
    return next(each.status.value for each in found if each.name == "undecided_real") == "FAIL"


@given(st.lists(LEVELS, max_size=30))
def test_undecided_is_counted_image_by_image(levels: list[list[int]]) -> None:
    probabilities = np.array(levels, dtype=np.float32).reshape(-1, 2, 3) / 4
    ties = [[sorted(one)[-1] == sorted(one)[-2] for one in image] for image in probabilities.tolist()]
    found = answers(probabilities).undecided()
    assert found.of == len(levels)
    assert found.count == sum(candidate and not base for base, candidate in ties)
    assert found.only_base == sum(base and not candidate for base, candidate in ties)


def test_who_answers_the_same_for_everything_or_ties_everywhere_fails_and_two_coarse_networks_do_not() -> None:
    rng = np.random.default_rng(0)
    fine = rng.dirichlet(np.ones(5), 600).astype(np.float32)
    alike = np.full_like(fine, 0.2)
    assert fails(np.stack([fine, alike], axis=1))
    tied = np.sort(fine, axis=1)
    tied[:, -1] = tied[:, -2]
    assert fails(np.stack([fine, tied], axis=1))
    one, other = (np.round(rng.dirichlet(np.ones(5), 600) * 32).astype(np.float32) / 32 for _ in range(2))
    found = answers(np.stack([one, other], axis=1)).undecided()
    assert found.only_base and min(found.count, found.only_base) > 0.04 * 600
    assert not fails(np.stack([one, other], axis=1))
    # a coarse base is no licence: a candidate that ties on far more fails all the same
    assert fails(np.stack([one, alike], axis=1))


def calibration(base: np.ndarray, candidate: np.ndarray, labels: np.ndarray) -> str:
    """How the condition comes out, or nothing."""
    rise = answers(np.stack([base, candidate], axis=1), labels).calibration_rise()
    found = changed(GateValues(), calibration_rise=rise)
    return next((each.status.value for each in evaluate(found, Limits()) if each.name == "calibration_rise"), "")


def test_probabilities_that_say_nothing_any_more_fail_and_few_images_warn() -> None:
    rng = np.random.default_rng(0)
    base = rng.dirichlet(np.full(10, 0.01), 500).astype(np.float32)
    labels = np.array([rng.choice(10, p=row / row.sum()) for row in base.astype(np.float64)])
    flat = np.float32(np.exp(base) / np.exp(base).sum(axis=1, keepdims=True))  # a softmax too much
    assert (flat.argmax(axis=1) == base.argmax(axis=1)).all()
    assert calibration(base, flat, labels) == "FAIL"
    assert calibration(base[:4], flat[:4], labels[:4]) == "WARN"
    # no more sure than it was, as sure, and coarse as eight bits leave it
    assert calibration(flat, base, labels) == "PASS"
    assert calibration(base, base, labels) == "PASS"
    assert calibration(base, np.round(base * 256) / 256, labels) == "PASS"


def test_labels_alone_are_told_from_probabilities() -> None:
    rng = np.random.default_rng(0)
    sure = rng.dirichlet(np.full(10, 0.01), 300).astype(np.float32)
    alone = np.eye(10, dtype=np.float32)[rng.integers(10, size=300)]
    assert labels_alone(KeptAnswers.of(np.stack([sure, alone], axis=1))) == (False, True)
    assert labels_alone(KeptAnswers.of(np.stack([alone, alone], axis=1))) == (True, True)
    # one image without such an answer, and they are probabilities
    alone[0] = 0.1
    assert labels_alone(KeptAnswers.of(np.stack([sure, alone], axis=1))) == (False, False)


@given(st.lists(st.tuples(st.integers(-1, 2), st.integers(-1, 2)), max_size=20))
def test_a_background_is_another_label_and_decided(said: list[tuple[int, int]]) -> None:
    """Whatever the second-best answers are: here both models' are the same, and undecided on every third image."""
    levels = np.array([[0.5, 0.5, 0.0] if row % 3 == 0 else [0.7, 0.2, 0.1] for row in range(len(said))], np.float32)
    probabilities = np.repeat(levels.reshape(-1, 1, 3), 2, axis=1)
    background = np.array(said, dtype=np.int64).reshape(-1, 2) == -1
    found = replace(answers(probabilities), background=background).disagreement()
    assert (found.count, found.undecided) == (sum((one == -1) != (other == -1) for one, other in said), 0)
