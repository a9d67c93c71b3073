"""DiverGet's rules: the divergence, the swarm's moves, the switches, and that a recipe draws its picture again."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.spatial.distance import jensenshannon

from diffgen.config import SearchConfig
from diffgen.gan_training.augmentation import plain_background
from diffgen.origins import read_recipe
from diffgen.runs.triggers import TriggerTable
from diffgen.search.loop import SearchLoop
from diffgen.sources.chains import applied
from diffgen.sources.operators import OPERATORS, Scene
from diffgen.techniques import RealImages
from diffgen.techniques.diverget import DiverGet, jensen_shannon, moved, switched_on

SMALL = SearchConfig(techniques={"diverget": {"population": 8, "rounds": 4}})


@given(st.integers(0, 10**6), st.integers(2, 5))
def test_the_divergence_of_two_is_that_of_scipy(seed: int, classes: int) -> None:
    answers = np.random.default_rng(seed).dirichlet(np.full(classes, 0.3), (6, 2)).astype(np.float32)
    expected = [jensenshannon(*each.astype(np.float64)) ** 2 for each in answers]
    assert jensen_shannon(answers).tolist() == pytest.approx(expected, abs=1e-6)


def test_the_divergence_of_many_is_none_where_they_agree_and_greatest_where_each_is_sure_of_another() -> None:
    sure = np.eye(3, dtype=np.float32)
    assert jensen_shannon(np.stack([sure[[0, 0, 0]], sure[[0, 1, 2]]])).tolist() == pytest.approx([0, np.log(3)])


@given(st.integers(0, 10**6))
def test_a_move_is_that_of_every_number_by_itself(seed: int) -> None:
    rng = np.random.default_rng(seed)
    places, velocities, own = rng.uniform(-1, 1, (3, 4, 5))
    swarm = rng.uniform(-1, 1, 5)
    now, faster = moved(places, velocities, own, swarm, np.random.default_rng(1))
    first, second = np.random.default_rng(1).random((2, 4, 5))
    for particle in range(4):
        for gene in range(5):
            place = places[particle, gene]
            pull = 0.5 * first[particle, gene] * (own[particle, gene] - place)
            pull += 0.5 * second[particle, gene] * (swarm[gene] - place)
            assert faster[particle, gene] == pytest.approx(0.5 * velocities[particle, gene] + pull)
            assert now[particle, gene] == pytest.approx(min(1, max(-1, place + faster[particle, gene])))


def test_a_quarter_of_a_switch_is_on_and_one_operator_at_least() -> None:
    switches = np.random.default_rng(0).uniform(-1, 1, (4000, 8))
    on = np.array([switched_on(each) for each in switches])
    assert (switches[on] > 0.5).mean() > 0.9 and 0.24 < on.mean() < 0.27
    assert on.any(axis=1).all() and switched_on(np.array([-0.9, -0.2, -0.5])).tolist() == [False, True, False]


def test_the_swarm_remembers_the_best_places(start: Callable[..., SearchLoop]) -> None:
    technique = start("diverget", config=SMALL, batch_size=16).technique
    assert isinstance(technique, DiverGet)
    technique.propose(16)
    first = technique._places[0].copy()
    technique._fitness[0] = np.linspace(-0.1, -0.8, 8, dtype=np.float32)
    technique.go_on(0)
    second = technique._places[0].copy()
    technique._fitness[0] = np.where(np.arange(8) == 3, -0.9, -0.01).astype(np.float32)
    technique.go_on(0)
    assert (first != second).any() and np.abs(technique._places).max() <= 1
    best = np.where((np.arange(8) == 3)[:, None], second, first)
    np.testing.assert_array_equal(technique._best_places[0], best)
    assert technique._best_fitness[0].argmin() == 3


def test_a_picture_is_what_its_recipe_makes_of_its_seed(
    start: Callable[..., SearchLoop], found: Callable[..., TriggerTable], real: RealImages
) -> None:
    parts: list[TriggerTable] = []
    columns = found(start("diverget", "800q", config=SMALL, batch_size=32, parts=parts), parts)
    assert columns.seeds is not None and columns.recipes is not None and len(columns) > 5
    labels = real.probabilities.argmax(axis=2)
    assert (labels[columns.seeds] == labels[columns.seeds, :1]).all()
    chains = [read_recipe(each.decode()) for each in columns.recipes.tolist()]
    assert all(chain and all(not OPERATORS[step.operator].learned for step in chain) for chain in chains)
    scene = Scene(torch.from_numpy(real.images), plain_background(torch.from_numpy(real.images)))
    again = applied(chains, torch.from_numpy(real.images[columns.seeds]), scene)
    np.testing.assert_array_equal(again.numpy(), columns.images)


def test_a_search_that_goes_on_from_a_checkpoint_ends_alike(start: Callable[..., SearchLoop]) -> None:
    whole = start("diverget", "480q", config=SMALL, batch_size=32)
    states = []
    whole.run(on_generation=lambda: states.append((_copied(whole.technique.checkpoint()), whole.evaluator.queries)))
    state, queries = states[len(states) // 2]
    rest = start("diverget", "480q", config=SMALL, batch_size=32)
    rest.technique.restore(state)
    rest.start(queries=queries)
    rest.run()
    for name in DiverGet.arrays:
        np.testing.assert_array_equal(rest.technique.checkpoint()[name], whole.technique.checkpoint()[name])


def _copied(state: dict[str, object]) -> dict[str, object]:
    return {name: value.copy() if isinstance(value, np.ndarray) else value for name, value in state.items()}
