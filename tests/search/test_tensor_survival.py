"""Ranks, crowding and survivors of niches on tensors are pymoo's and those of arrays."""

from __future__ import annotations

import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st
from pymoo.core.population import Population
from pymoo.operators.survival.rank_and_crowding import RankAndCrowding

from diffgen.search import tensor_survival
from diffgen.search.individuals import Individuals
from diffgen.search.niches import NicheSurvival, places_in_turns
from diffgen.search.survival import crowding_distances
from diffgen.search.tensor_survival import TensorSurvival
from diffgen.search.turns import turns
from tests.search.on_tensors import FEWER, SEEDS, STILL, on_every_device


@on_every_device
@FEWER
@given(count=st.integers(1, 70), seed=SEEDS, alike=st.sampled_from([1, 2, 6, 1000]), objectives=st.integers(1, 3))
def test_ranks_and_crowding_are_pymoos(device: str, count: int, seed: int, alike: int, objectives: int) -> None:
    F = np.random.default_rng(seed).integers(0, alike, (count, objectives)) / 7
    X = np.arange(count)[:, None].astype(float)
    theirs = RankAndCrowding().do(
        STILL, Population.new(X=X, F=F), n_survive=count, random_state=np.random.default_rng(0)
    )
    own = Individuals({"X": torch.from_numpy(X).to(device), "F": torch.from_numpy(F).to(device)})
    ours = TensorSurvival(cells=None).do(STILL, own, n_survive=count, random_state=np.random.default_rng(0))
    by_row = np.argsort(ours.get("X")[:, 0])
    order = np.argsort(theirs.get("X")[:, 0])
    assert np.array_equal(ours.get("rank")[by_row], theirs.get("rank")[order])
    np.testing.assert_allclose(
        ours.get("crowding")[by_row], theirs.get("crowding")[order].astype(float), rtol=0, atol=1e-6
    )


@given(st.integers(1, 60), SEEDS, st.integers(0, 3))
def test_what_has_no_number_counts_in_crowding_as_on_arrays(count: int, seed: int, lost: int) -> None:
    rng = np.random.default_rng(seed)
    F, front = rng.random((count, 3)), np.unique(rng.integers(0, 3, count), return_inverse=True)[1]
    F[rng.integers(count, size=lost), 2] = np.inf
    # arrays want one front after the other
    order = np.argsort(front, kind="stable")
    found = tensor_survival.crowding_distances(torch.from_numpy(F), torch.from_numpy(front)).numpy()
    np.testing.assert_allclose(found[order], crowding_distances(F[order], front[order]), rtol=0, atol=1e-6)


def test_crowding_of_nobody() -> None:
    assert tensor_survival.crowding_distances(torch.empty(0, 2), torch.empty(0, dtype=torch.int64)).shape == (0,)


@on_every_device
@FEWER
@given(
    niches=st.lists(st.integers(-1, 20), min_size=12, max_size=40),
    survivors=st.integers(1, 12),
    cells=st.sampled_from([1, 4]),
    seed=SEEDS,
    alike=st.sampled_from([3, 1000]),
)
def test_survivors_of_niches_are_those_of_arrays(
    device: str, niches: list[int], survivors: int, cells: int, seed: int, alike: int
) -> None:
    F = np.random.default_rng(seed).integers(0, alike, (len(niches), 2)).astype(float)
    columns = {"X": np.arange(len(niches))[:, None].astype(float), "F": F, "niche": np.asarray(niches)}
    kept = []
    for survival, place in ((NicheSurvival(cells=cells), "cpu"), (TensorSurvival(cells=cells), device)):
        population = Individuals({name: torch.from_numpy(values).to(place) for name, values in columns.items()})
        stays = survival.do(STILL, population, n_survive=survivors, random_state=np.random.default_rng(0))
        kept.append((stays.get("X")[:, 0].tolist(), stays.get("rank").tolist(), stays.get("crowding").tolist()))
    if alike == 1000:
        assert kept[0] == kept[1]
    # those that are alike may stand for each other
    assert sorted(zip(*kept[0][1:], strict=True)) == sorted(zip(*kept[1][1:], strict=True))


@given(st.lists(st.integers(-1, 9), max_size=40), st.sampled_from([1, 4]))
def test_turns_are_those_of_arrays(niches: list[int], cells: int) -> None:
    niche = np.asarray(niches, dtype=np.int64)
    assert np.array_equal(tensor_survival.turns(torch.from_numpy(niche)).numpy(), turns(niche))
    if niches:
        found = tensor_survival.places_in_turns(torch.from_numpy(niche), cells)
        assert np.array_equal(found.numpy(), places_in_turns(niche, cells))
