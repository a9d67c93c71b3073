"""The population is shared out among label pairs."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from pymoo.core.population import Population
from pymoo.operators.survival.rank_and_crowding import RankAndCrowding

from diffgen.search.individuals import Individuals
from diffgen.search.niches import NicheSurvival
from diffgen.search.turns import turns


class StillProblem:
    """What survival needs of the problem when no representatives move."""

    def rescore(self, population: Individuals) -> None:
        pass

    def has_constraints(self) -> bool:
        return False


@given(st.lists(st.integers(-1, 4), max_size=40))
def test_turns_count_earlier_members_of_the_same_niche(niches: list[int]) -> None:
    expected = [niches[:i].count(niche) for i, niche in enumerate(niches)]
    assert turns(np.asarray(niches, dtype=np.int64)).tolist() == expected


CELLS = 4


def slow_survivors(F: list[list[float]], niches: list[int], survivors: int, cells: int) -> list[int]:
    """Who stays, one place after the other, with pymoo's own rank and crowding of all."""
    ranked = Population.new(X=np.arange(len(F))[:, None].astype(float), F=np.asarray(F))
    ranked = RankAndCrowding().do(StillProblem(), ranked, n_survive=len(F), random_state=np.random.default_rng(0))
    order = sorted(ranked, key=lambda one: (one.get("rank"), -one.get("crowding")))
    left = [int(one.X[0]) for one in order]
    kept: list[int] = []
    in_niche: Counter[int] = Counter()
    while len(kept) < survivors:
        # one turn: no niche twice
        open_niches = {niches[i] for i in left}
        in_pair: Counter[int] = Counter()
        while open_niches and len(kept) < survivors:
            fewest = min(in_pair[niche // cells] for niche in open_niches)
            best = next(i for i in left if niches[i] in open_niches and in_pair[niches[i] // cells] == fewest)
            kept.append(best)
            left.remove(best)
            open_niches.remove(niches[best])
            in_pair[niches[best] // cells] += 1
            in_niche[niches[best]] += 1
    return sorted(kept)


def survivors_of(F: Any, niches: list[int], survivors: int, cells: int) -> list[int]:
    population = Individuals.unasked(np.arange(len(F))[:, None].astype(float))
    population.set("F", np.asarray(F))
    population.set("niche", np.asarray(niches))
    rng = np.random.default_rng(0)
    kept = NicheSurvival(cells=cells).do(StillProblem(), population, n_survive=survivors, random_state=rng)
    return sorted(kept.get("X")[:, 0].astype(int).tolist())


@given(
    st.lists(st.integers(-1, 5 * CELLS), min_size=12, max_size=40),
    st.integers(1, 12),
    st.sampled_from([1, CELLS]),
    st.integers(0, 99),
)
def test_survivors_are_those_of_a_plain_loop(niches: list[int], survivors: int, cells: int, seed: int) -> None:
    F = np.random.default_rng(seed).random((len(niches), 2))
    assert survivors_of(F, niches, survivors, cells) == slow_survivors(F.tolist(), niches, survivors, cells)


@given(st.lists(st.integers(-1, 5), min_size=20, max_size=60), st.integers(6, 20), st.integers(0, 99))
def test_no_niche_starves_while_another_feasts(niches: list[int], survivors: int, seed: int) -> None:
    """At least as many places as niches (from -1 to 5 there are 7): every niche has its even share, or all it has."""
    F = np.random.default_rng(seed).random((len(niches), 2))
    survivors = max(survivors, len(set(niches)))
    kept = survivors_of(F, niches, survivors, 1)
    assert len(kept) == survivors
    there, left = Counter(niches), Counter(niches[i] for i in kept)
    most = max(left.values())
    assert set(left) == set(there)
    assert all(left[niche] >= min(count, most - 1) for niche, count in there.items())
    # within its niche nobody is kept whom a member left out dominates
    for one in kept:
        rivals = [F[i] for i in range(len(niches)) if niches[i] == niches[one] and i not in kept]
        assert not any((rival < F[one]).all() for rival in rivals)


def test_a_thousand_niches_at_five_hundred_places() -> None:
    """90 label pairs with up to 30 cells each: no niche has two places, and no label pair is lost."""
    rng = np.random.default_rng(0)
    # most disagreements are of a few pairs, as in real runs
    pairs = np.minimum(rng.exponential(12, size=2000).astype(int), 89)
    pairs[:90] = np.arange(90)
    niches = pairs * CELLS * 10 + rng.integers(0, 30, size=2000)
    assert len(np.unique(niches)) > 800
    kept = niches[survivors_of(rng.random((2000, 2)), niches.tolist(), 500, CELLS * 10)]
    assert len(np.unique(kept)) == len(kept) == 500
    places = Counter((kept // (CELLS * 10)).tolist())
    there = {pair: len(np.unique(niches[pairs == pair])) for pair in range(90)}
    most = max(places.values())
    assert all(places[pair] >= min(there[pair], most - 1) for pair in range(90))
    # one niche for each label pair, and more label pairs than places: those whose best is best
    F = np.arange(1000.0)[:, None].repeat(2, axis=1)
    assert survivors_of(F, list(range(1000)), 500, 1) == list(range(500))
