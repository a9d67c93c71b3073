"""The population is shared out among label pairs."""

from __future__ import annotations

from collections import Counter

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from pymoo.core.population import Population

from diffgen.search.niches import NicheSurvival
from diffgen.search.turns import turns


class StillProblem:
    """What survival needs of the problem when no representatives move."""

    def rescore(self, population: Population) -> None:
        pass

    def retain(self, population: Population) -> None:
        pass

    def has_constraints(self) -> bool:
        return False


@given(st.lists(st.integers(-1, 4), max_size=40))
def test_turns_count_earlier_members_of_the_same_niche(niches: list[int]) -> None:
    expected = [niches[:i].count(niche) for i, niche in enumerate(niches)]
    assert turns(np.asarray(niches, dtype=np.int64)).tolist() == expected


@given(st.lists(st.integers(-1, 5), min_size=20, max_size=60), st.integers(1, 20), st.integers(0, 99))
def test_no_niche_starves_while_another_feasts(niches: list[int], survivors: int, seed: int) -> None:
    F = np.random.default_rng(seed).random((len(niches), 2))
    population = Population.new(X=F, F=F, niche=np.asarray(niches))
    rng = np.random.default_rng(0)
    kept = NicheSurvival().do(StillProblem(), population, n_survive=survivors, random_state=rng)
    assert len(kept) == survivors
    there, left = Counter(niches), Counter(kept.get("niche").tolist())
    most = max(left.values())
    # who has fewer than the largest share less one has nobody left to send
    assert all(left[niche] >= min(count, most - 1) for niche, count in there.items())
    # within its niche nobody is kept whom a member left out dominates
    gone = {tuple(f) for f in F.tolist()} - {tuple(f) for f in kept.get("F").tolist()}
    pair_of = {tuple(f): niche for f, niche in zip(F.tolist(), niches, strict=True)}
    for individual in kept:
        rivals = [f for f in gone if pair_of[f] == individual.get("niche")]
        assert not any(f[0] < individual.F[0] and f[1] < individual.F[1] for f in rivals)
