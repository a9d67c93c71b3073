"""DFlare's rules: states, acceptance, reward, one trigger a seed, when a seed is given up."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from diffgen.config import SearchConfig
from diffgen.search.loop import SearchLoop
from diffgen.techniques import RealImages
from diffgen.techniques.dflare import MIN_GAP_GROWTH, MUTATORS, NEW_STATE, DFlare, DFlareSettings, gap, is_new
from diffgen.techniques.mutation import FIRST


def answers(*pairs: tuple[float, float]) -> np.ndarray:
    """float32 (n, 2, 2): the probability of class 0 that A and B give."""
    return np.array([[[a, 1 - a], [b, 1 - b]] for a, b in pairs], dtype=np.float32)


def test_states_are_new_when_far_from_all_before() -> None:
    rng = np.random.default_rng(0)
    kept = rng.random((30, 4, 6), dtype=np.float32)
    kept[:10, 2:] = np.inf
    states = rng.random((30, 6), dtype=np.float32)
    slow = [
        all(((one - state) ** 2).sum() > NEW_STATE for one in of if np.isfinite(one[0]))
        for state, of in zip(states, kept, strict=True)
    ]
    assert is_new(states, kept).tolist() == slow
    assert 0 < sum(slow) < 30


def test_the_gap_is_that_of_the_highest_probabilities() -> None:
    np.testing.assert_allclose(gap(answers((0.9, 0.6), (0.2, 0.9), (0.3, 0.7))), [0.3, 0.1, 0.0], atol=1e-6)


def test_a_mutant_is_kept_for_a_larger_gap_or_a_new_state_never_for_a_smaller_gap(
    start: Callable[..., SearchLoop],
) -> None:
    technique = start("dflare", batch_size=4).technique
    assert isinstance(technique, DFlare)
    before = technique._pictures.copy()
    first = np.zeros(20, dtype=np.float32)
    first[[0, 10]] = 0.7, 0.6
    first[[1, 11]] = 0.3, 0.4
    technique._states[:, 0] = first
    technique._largest[:] = 0.1

    def said(a: float, b: float) -> np.ndarray:
        probabilities = np.zeros((2, 10), dtype=np.float32)
        probabilities[0, :2] = a, 1 - a
        probabilities[1, :2] = b, 1 - b
        return probabilities

    mutants = np.full_like(before, 9)
    # a larger gap; a smaller one; one that is larger by less than counts; a smaller one, and a new state
    probabilities = np.stack([said(0.75, 0.6), said(0.65, 0.6), said(0.7 + MIN_GAP_GROWTH / 2, 0.6), said(0.05, 0.1)])
    kept = technique._keep(np.arange(4), mutants, probabilities)
    assert kept.tolist() == [True, False, False, True]
    np.testing.assert_array_equal(technique._pictures[1:3], before[1:3])
    assert (technique._pictures[0] == 9).all()
    # the largest gap never falls, and a state is new once
    np.testing.assert_allclose(technique._largest, [0.15, 0.1, 0.1, 0.1], atol=1e-6)
    assert technique._keep(np.array([3]), mutants[3:], probabilities[3:]).tolist() == [False]


def test_one_trigger_a_seed_and_every_seed_its_turn(
    start: Callable[..., SearchLoop], found: Callable[..., dict[str, np.ndarray]], real: RealImages
) -> None:
    parts: list[dict[str, np.ndarray]] = []
    loop = start("dflare", "3000q", parts=parts)
    columns = found(loop, parts)
    technique = loop.technique
    assert isinstance(technique, DFlare)
    labels = real.probabilities.argmax(axis=2)
    assert technique._turns.taken <= len(technique._turns)  # still the first pass
    assert len(np.unique(columns.seeds)) == len(columns.seeds) > 20
    assert (labels[columns.seeds, 0] == labels[columns.seeds, 1]).all()
    assert (technique._rewards <= technique._used).all()
    assert (technique._used.sum(axis=1) == technique._tried).all()
    assert (technique._tried < technique.settings.mutations).all()


def test_a_seed_is_given_up_and_the_next_begins_anew(start: Callable[..., SearchLoop], real: RealImages) -> None:
    # the same models twice never disagree
    config = SearchConfig().with_technique(DFlareSettings(mutations=3))
    loop = start("dflare", "100000q", config=config, batch_size=16)
    technique = loop.technique
    assert isinstance(technique, DFlare)
    loop.evaluator.black_boxes = (loop.evaluator.black_boxes[0],) * 2
    seen = [technique._rows.copy()]
    for number in range(1, 7):
        assert loop.generation()
        assert technique._tried.tolist() == [number % 3] * 16
        if number % 3 == 0:
            seen.append(technique._rows.copy())
            assert (technique._last == FIRST).all()
            assert not technique._used.any()
            np.testing.assert_array_equal(technique._pictures, real.images[technique._rows])
            assert np.isinf(technique._states[:, 1:]).all()
    assert len(np.unique(np.concatenate(seen))) == 3 * 16


def test_a_mutator_that_led_on_is_remembered(start: Callable[..., SearchLoop]) -> None:
    loop = start("dflare", "100000q", batch_size=32)
    technique = loop.technique
    assert isinstance(technique, DFlare)
    for _ in range(6):
        assert loop.generation()
    rewarded = technique._rewards.sum(axis=1) > 0
    assert rewarded.any()
    assert ((technique._last != FIRST) == rewarded).all()
    assert (technique._rewards[rewarded, technique._last[rewarded]] > 0).all()
    assert technique._rewards.shape == (32, len(MUTATORS))
