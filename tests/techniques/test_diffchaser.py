"""DiffChaser's rules: k-uncertainty, who breeds, who stays, when a seed is done."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from diffgen.config import SearchConfig
from diffgen.runs.triggers import TriggerTable
from diffgen.search.loop import SearchLoop
from diffgen.techniques import RealImages
from diffgen.techniques.diffchaser import DiffChaser, changed, crossed, k_uncertainty, winners

SMALL = SearchConfig(techniques={"diffchaser": {"population": 8, "rounds": 5, "rate": 0.05}})


@given(st.integers(0, 10**6), st.integers(2, 6), st.integers(2, 4), st.integers(2, 5))
def test_k_uncertainty_is_the_gap_of_the_least_sure_model(seed: int, k: int, models: int, classes: int) -> None:
    probabilities = np.random.default_rng(seed).dirichlet(np.ones(classes), (6, models)).astype(np.float32)
    expected = []
    for image in probabilities.tolist():
        gaps = [sorted(of, reverse=True)[0] - sorted(of, reverse=True)[min(k, classes) - 1] for of in image]
        expected.append(min(gaps))
    assert k_uncertainty(probabilities, k).tolist() == pytest.approx(expected)


def test_a_child_has_each_pixel_from_a_parent() -> None:
    rng = np.random.default_rng(0)
    one, other = (rng.integers(0, 256, (5, 3, 9, 9)).astype(np.uint8) for _ in range(2))
    child = crossed(one, other, rng)
    from_one, from_other = (child == one).all(axis=1), (child == other).all(axis=1)
    assert (from_one | from_other).all(), "all channels of a pixel come from one parent"
    assert 0.3 < from_one.mean() < 0.7


def test_a_mutation_changes_a_share_of_the_pixels_by_no_more_than_the_step() -> None:
    images = np.full((40, 1, 20, 20), 100, dtype=np.uint8)
    made = changed(images, 0.1, 30, np.random.default_rng(0)).astype(int)
    assert np.abs(made - 100).max() == 30
    assert 0.08 < (made != 100).mean() < 0.12
    assert changed(np.full((9, 1, 8, 8), 250, np.uint8), 1, 255, np.random.default_rng(0)).max() == 255


def test_a_mutation_changes_one_pixel_at_least() -> None:
    images = np.full((50, 3, 8, 8), 128, dtype=np.uint8)
    made = changed(images, 0.0001, 5, np.random.default_rng(1))
    assert ((made != images).any(axis=1).sum(axis=(1, 2)) == 1).all()
    assert (made != images).any(axis=(2, 3)).all(), "each channel of that pixel"


@pytest.mark.parametrize("level", [0, 255])
def test_a_mutation_changes_a_picture_that_can_change_one_way_only(level: int) -> None:
    images = np.full((200, 3, 8, 8), level, dtype=np.uint8)
    made = changed(images, 0.0001, 64, np.random.default_rng(2))
    assert (made != images).any(axis=(1, 2, 3)).all()
    assert ((made != images).any(axis=1).sum(axis=(1, 2)) == 1).all()


def test_the_fitter_of_two_is_selected() -> None:
    fitness = np.array([0.9, 0.1, 0.5], dtype=np.float32)
    counts = np.bincount(winners(fitness, 90_000, np.random.default_rng(0)), minlength=3) / 90_000
    assert np.allclose(counts, [1 / 9, 5 / 9, 3 / 9], atol=0.01)


def test_all_but_the_fittest_are_replaced(start: Callable[..., SearchLoop]) -> None:
    technique = start("diffchaser", config=SMALL, batch_size=24).technique
    assert isinstance(technique, DiffChaser)
    technique.propose(24)
    technique._fitness[:] = np.linspace(1, 0.2, 8, dtype=np.float32)
    before = technique._pictures.copy()
    technique.go_on(0)
    np.testing.assert_array_equal(technique._pictures[0, 7], before[0, 7])
    assert np.isinf(technique._fitness[0, :7]).all() and technique._fitness[0, 7] == np.float32(0.2)
    np.testing.assert_array_equal(technique._pictures[1], before[1])


def test_a_seed_ends_with_its_first_trigger_or_after_its_rounds(
    start: Callable[..., SearchLoop], found: Callable[..., dict[str, np.ndarray]], real: RealImages
) -> None:
    parts: list[dict[str, np.ndarray]] = []
    loop = start("diffchaser", "3000q", config=SMALL, batch_size=32, parts=parts)
    columns = found(loop, parts)
    technique = loop.technique
    assert isinstance(technique, DiffChaser)
    labels = real.probabilities.argmax(axis=2)
    assert len(columns.seeds) > 3
    assert (labels[columns.seeds] == labels[columns.seeds, :1]).all()
    assert (technique._rounds < 5).all()
    # the triggers of one seed are of one generation, unless the seeds began anew
    if technique._turns.taken <= len(technique._turns):
        for seed in np.unique(columns.seeds):
            assert len(np.unique(columns.generation[columns.seeds == seed])) == 1


def test_how_many_pictures_there_is_room_for_changes_nothing(
    start: Callable[..., SearchLoop], found: Callable[..., TriggerTable]
) -> None:
    tables = []
    for room in (32, 5):
        parts: list[TriggerTable] = []
        strong = SearchConfig(techniques={"diffchaser": {"population": 8, "rate": 0.3, "step": 255}})
        loop = start("diffchaser", "960q", config=strong, batch_size=32, parts=parts)
        loop.batch_size = room
        table = found(loop, parts)
        tables.append((table.hashes.tobytes(), table.query.tolist(), table.generation.tolist()))
    assert tables[0] == tables[1] and len(tables[0][1]) > 3


def test_a_round_that_was_told_in_part_is_asked_about_again_after_a_break(start: Callable[..., SearchLoop]) -> None:
    whole, broken = (start("diffchaser", "600q", config=SMALL, batch_size=32) for _ in range(2))
    broken.batch_size = whole.batch_size = 12  # a round of 32 pictures takes three proposals
    whole.generation()
    state = deepcopy(whole.technique.checkpoint())
    proposal = whole.technique.propose(12)
    whole.technique.learn(proposal, whole.evaluator.ask(proposal))
    assert not whole.technique.between_generations
    broken.technique.restore(state)
    assert broken.technique.between_generations
    np.testing.assert_array_equal(broken.technique.propose(12).images.numpy(), proposal.images.numpy())
