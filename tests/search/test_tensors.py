"""NSGA-II on tensors gives what pymoo's own operators and the parts on arrays give; on a GPU, and on the processor."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from pymoo.core.population import Population
from pymoo.operators.crossover.sbx import SBX
from pymoo.operators.mutation.pm import PM
from pymoo.operators.survival.rank_and_crowding import RankAndCrowding

from diffgen.config import SearchConfig, replace
from diffgen.runs.arrays import read_arrays, write_arrays
from diffgen.runs.triggers import TriggerTable
from diffgen.search import tensor_survival
from diffgen.search.archive import Archive
from diffgen.search.engine import Nsga2Search
from diffgen.search.individuals import Individuals
from diffgen.search.loop import SearchLoop
from diffgen.search.mating import ArrayMating, FreshGenes
from diffgen.search.niches import NicheSurvival, places_in_turns
from diffgen.search.operators import SpaceCrossover, SpaceMutation
from diffgen.search.survival import crowding_distances
from diffgen.search.tensor_mating import TensorMating, are_new, tournament_winners
from diffgen.search.tensor_survival import TensorSurvival
from diffgen.search.turns import turns
from diffgen.sources.draws import NumpyDraws
from diffgen.sources.gan import GanSource
from diffgen.sources.learned.codes_space import Codes
from diffgen.sources.seeds_space import SeedsAndOperators
from diffgen.sources.space import Box, Crossing, Mutating, NormalShell, Space, WithCategories, WithClass
from diffgen.sources.tensor_space import (
    Bounds,
    TensorSpace,
    polynomial_mutation,
    simulated_binary_crossover,
    tensor_space,
)

DEVICES = [
    "cpu",
    pytest.param(
        "cuda",
        marks=[
            pytest.mark.gpu,
            pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
        ],
    ),
]
CPU = torch.device("cpu")
SEEDS = st.integers(0, 10_000)
on_every_device = pytest.mark.parametrize("device", DEVICES)
STILL = SimpleNamespace(rescore=lambda population: None, has_constraints=lambda: False)  # nothing moves
FEWER = settings(max_examples=30)
MakeSearch = Callable[..., tuple[Nsga2Search, SearchLoop]]


class Given:
    """In place of pymoo's random state: numbers that were drawn for all genes, where it asks for those of some."""

    def __init__(self, *draws: np.ndarray) -> None:
        self._draws = list(draws)
        self._some: np.ndarray | None = None

    def random(self, size: Any = None) -> np.ndarray:
        drawn = self._draws.pop(0)
        if drawn.shape == (size if isinstance(size, tuple) else (size,)):
            return drawn
        assert self._some is not None
        return drawn[self._some]

    def where(self, some: np.ndarray) -> Given:
        self._some = some
        return self


def genes_of(count: int, seed: int, *, grid: bool) -> np.ndarray:
    """Genes from -3 to 3; on a grid many are alike, and some lie on a bound."""
    rng = np.random.default_rng(seed)
    return rng.integers(-3, 4, (count, 6)).astype(float) if grid else rng.uniform(-3, 3, (count, 6))


def bounds(device: str = "cpu") -> Bounds:
    # the last gene has one value only
    low = torch.tensor([-3.0] * 5 + [1.0], dtype=torch.float64, device=device)
    return Bounds(low, low.abs())


def as_pymoo() -> SimpleNamespace:
    low, high = bounds().low.numpy(), bounds().high.numpy()
    return SimpleNamespace(n_var=6, xl=low, xu=high)


@on_every_device
@FEWER
@given(pairs=st.integers(1, 30), seed=SEEDS, grid=st.booleans(), share=st.sampled_from([0.3, 0.5, 0.9]))
def test_the_same_random_numbers_give_pymoos_children(
    device: str, pairs: int, seed: int, grid: bool, share: float
) -> None:
    parents = genes_of(2 * pairs, seed, grid=grid).reshape(2, pairs, 6)
    parents[..., 5] = 1.0
    draws = np.random.default_rng(seed + 1).random((3, pairs, 6))
    crossed = (draws[0] < share) & (np.abs(parents[0] - parents[1]) > 1e-14)
    crossed[:, 5] = False
    stub = Given(np.zeros((pairs, 1)), draws[0], draws[1], draws[2]).where(crossed)
    theirs = SBX(prob_var=share, eta=15.0)._do(as_pymoo(), parents, random_state=stub)
    given_draws = tuple(torch.from_numpy(each).to(device) for each in draws)
    ours = simulated_binary_crossover(
        torch.from_numpy(parents).to(device), bounds(device), Crossing(share, eta=15.0), given_draws
    )
    np.testing.assert_allclose(ours.cpu().numpy(), theirs, rtol=0, atol=1e-6)


@on_every_device
@FEWER
@given(count=st.integers(1, 40), seed=SEEDS, grid=st.booleans(), share=st.sampled_from([None, 0.1, 0.8]))
def test_the_same_random_numbers_give_pymoos_mutants(
    device: str, count: int, seed: int, grid: bool, share: float | None
) -> None:
    X = genes_of(count, seed, grid=grid)
    X[:, 5] = 1.0
    draws = np.random.default_rng(seed + 1).random((2, count, 6))
    each = 1 / 6 if share is None else share
    changed = draws[0] < each
    changed[:, 5] = False
    stub = Given(draws[0], draws[1]).where(changed)
    theirs = PM(prob_var=each, eta=20.0)._do(as_pymoo(), X, random_state=stub)
    given_draws = tuple(torch.from_numpy(drawn).to(device) for drawn in draws)
    how = Mutating(share, category_probability=0.0, eta=20.0)
    ours = polynomial_mutation(torch.from_numpy(X).to(device), bounds(device), how, given_draws)
    np.testing.assert_allclose(ours.cpu().numpy(), theirs, rtol=0, atol=1e-6)


def shell(classes: int = 0) -> Space:
    inner = NormalShell(20, bound=3.0)
    return WithClass(inner, classes) if classes else inner


def on(device: str, space: Space) -> TensorSpace:
    found = tensor_space(space, torch.device(device))
    assert found is not None
    return found


@on_every_device
@pytest.mark.parametrize("space", [shell(), shell(7), Box(5, 1.0), WithCategories(Box(4), (3, 1))])
def test_repair_is_that_of_the_space(device: str, space: Space) -> None:
    rng = np.random.default_rng(0)
    genes = rng.normal(0, [[0.3], [1.0], [4.0]] * 40, (120, space.length))
    genes[0, : space.continuous] = 0
    ours = on(device, space).repair(torch.from_numpy(genes).to(device)).cpu().numpy()
    np.testing.assert_allclose(ours, space.repair(genes), rtol=0, atol=1e-12)


@on_every_device
def test_categories_are_crossed_and_mutated_as_on_arrays(device: str) -> None:
    space = WithCategories(Box(2), (5, 1))
    own, rng = on(device, space), torch.Generator(device).manual_seed(0)
    genes = torch.from_numpy(space.sample(8000, NumpyDraws(np.random.default_rng(0)))).to(device)
    parents = genes.reshape(2, 4000, -1)
    children = own.crossover(parents, Crossing(0.5, eta=15.0), rng)[..., 2]
    swapped = (children[0] == parents[1][:, 2]) & (children[1] == parents[0][:, 2])
    assert (swapped | (children == parents[..., 2]).all(dim=0)).all()
    differ = parents[0][:, 2] != parents[1][:, 2]
    assert swapped[differ].double().mean().item() == pytest.approx(0.5, abs=0.04)
    mutated = own.mutate(genes, Mutating(0.1, category_probability=0.3, eta=20.0), rng)
    changed = mutated[:, 2] != genes[:, 2]
    assert changed.double().mean().item() == pytest.approx(0.3, abs=0.03)
    steps = ((mutated[:, 2] - genes[:, 2]) % 5)[changed].long().bincount(minlength=5) / changed.sum()
    assert steps.tolist() == pytest.approx([0, 0.25, 0.25, 0.25, 0.25], abs=0.04)
    assert (mutated[:, 3] == 0).all()


def test_only_latent_vectors_have_a_form_for_tensors() -> None:
    assert tensor_space(Codes(-np.ones(3), np.ones(3), None), CPU) is not None
    assert tensor_space(SeedsAndOperators(50, 4, 2), CPU) is None

    class Stubborn(Box):
        def mutate(self, genes: Any, how: Mutating, rng: np.random.Generator) -> Any:
            return genes

    assert tensor_space(Stubborn(3), CPU) is None
    assert tensor_space(WithClass(Stubborn(3), 4), CPU) is None


def operators() -> tuple[SpaceCrossover, SpaceMutation]:
    return (
        SpaceCrossover(0.8, Crossing(gene_probability=0.5, eta=15.0)),
        SpaceMutation(0.7, Mutating(gene_probability=0.2, category_probability=0.2, eta=20.0)),
    )


def population_of(space: Space, count: int, device: str, seed: int = 0) -> Individuals:
    rng = np.random.default_rng(seed)
    X = space.repair(space.sample(count, NumpyDraws(rng)))
    columns = {"X": X, "F": rng.integers(0, 5, (count, 2)).astype(float), "crowding": rng.random(count)}
    return Individuals({name: torch.from_numpy(values).to(device) for name, values in columns.items()})


@on_every_device
def test_offspring_are_distributed_as_those_of_arrays(device: str) -> None:
    space = shell(4)
    crossover, mutation = operators()
    population = population_of(space, 600, device)
    theirs = [
        ArrayMating(crossover, mutation)
        .do(SimpleNamespace(space=space), population, 600, random_state=np.random.default_rng(seed))
        .get("X")
        for seed in range(5)
    ]
    mating = TensorMating(on(device, space), crossover, mutation, device=torch.device(device))
    ours = [mating.do(None, population, 600, random_state=np.random.default_rng(seed)).get("X") for seed in range(5)]
    their, our = np.concatenate(theirs), np.concatenate(ours)
    assert our.shape == their.shape == (3000, 21)
    np.testing.assert_allclose(space.repair(our), our, atol=1e-9)
    for share in (0.01, 0.1, 0.5, 0.9, 0.99):
        # of 60,000 genes: some standard errors
        assert np.quantile(our[:, :-1], share) == pytest.approx(np.quantile(their[:, :-1], share), abs=0.06)
    known = population.get("X")[:, 0]
    # genes that a child has from no parent: crossed or mutated ones
    made = [(~np.isclose(X[:, None, 0], known, rtol=0, atol=1e-12).any(axis=1)).mean() for X in (our, their)]
    assert made[0] == pytest.approx(made[1], abs=0.04)
    assert np.bincount(our[:, -1].astype(int)) / 3000 == pytest.approx(
        np.bincount(their[:, -1].astype(int)) / 3000, abs=0.05
    )


@on_every_device
def test_offspring_are_new_and_a_seed_repeats_them(device: str) -> None:
    space = WithCategories(Box(1, 1e-9), (3,))
    crossover, mutation = operators()
    mating = TensorMating(on(device, space), crossover, mutation, device=torch.device(device))
    population = population_of(space, 40, device)
    first, again, other = (
        mating.do(None, population, 101, random_state=np.random.default_rng(seed)).get("X") for seed in (1, 1, 2)
    )
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)
    assert len(first) == 101
    assert len(np.unique(np.concatenate([first, population.get("X")]), axis=0)) == 141
    # where none can be made there are none
    none = SpaceCrossover(0.0, crossover.how), SpaceMutation(0.0, mutation.how)
    still = TensorMating(on(device, space), *none, device=torch.device(device))
    assert len(still.do(None, population, 10, random_state=np.random.default_rng(0))) == 0


@given(st.integers(0, 60), st.integers(0, 60), SEEDS, st.sampled_from([2, 5]))
def test_doubles_are_those_that_bytes_tell(count: int, known: int, seed: int, alike: int) -> None:
    rng = np.random.default_rng(seed)
    genes, old = (rng.integers(0, alike, (size, 3)).astype(float) for size in (count, known))
    made = FreshGenes(old)
    made.take(genes)
    found = are_new(torch.from_numpy(genes), torch.from_numpy(old)).numpy()
    assert np.array_equal(genes[found], made.first(count))


def test_no_two_of_many_alike_genes_have_one_hash() -> None:
    """One last bit in one of a hundred genes, the same value in another column, the sign alone."""
    base = torch.rand(1, 100, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    bits = base.repeat(300, 1).view(torch.int64)
    bits[torch.arange(100), torch.arange(100)] += 1
    bits[torch.arange(100, 200), torch.arange(100)] ^= 1 << 62
    bits[torch.arange(200, 299), torch.arange(99)] = base.view(torch.int64)[0, 1:]
    rows = torch.cat(
        [bits.view(torch.float64), torch.eye(100, dtype=torch.float64), -torch.eye(100, dtype=torch.float64)]
    )
    assert are_new(rows, rows[:0]).sum() == len(torch.unique(rows.contiguous().view(torch.int64), dim=0))


@on_every_device
def test_the_better_one_wins_a_tournament(device: str) -> None:
    F = torch.tensor([[0.0, 0.0], [1.0, 1.0], [0.0, 2.0], [0.0, 2.0]], dtype=torch.float64, device=device)
    crowding = torch.tensor([0.5, 9.0, 0.7, 0.7], dtype=torch.float64, device=device)
    winners = tournament_winners(F, crowding, 6000, torch.Generator(device).manual_seed(0))
    # 0 dominates all; between 1 and the others crowding decides, and between these nothing
    shares = winners.bincount(minlength=4) / 6000
    assert shares.tolist() == pytest.approx([1 / 2, 1 / 3, 1 / 12, 1 / 12], abs=0.03)
    # everybody is drawn as often
    assert (
        tournament_winners(F[:1].repeat(50, 1), crowding[:1].repeat(50), 25, torch.Generator(device)).unique().numel()
        == 25
    )


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


CONFIG = SearchConfig(population=40, reducer_dim=10, operators="tensors")


def pictures(loop: SearchLoop) -> np.ndarray:
    archive = loop.evaluator.archive
    return archive.images(np.arange(len(archive)))


@pytest.mark.parametrize("niches", ["label_pair", "none"])
def test_a_search_on_tensors_repeats_itself_and_goes_on_after_a_resume(
    make_search: MakeSearch, generator: Any, tmp_path: Any, niches: str
) -> None:
    config = replace(CONFIG, niches=niches)
    parts: list[TriggerTable] = []
    whole, loop = make_search(generator, "400q", config)
    assert isinstance(whole.algorithm.mating, TensorMating)
    loop.evaluator.archive._sink = parts.append
    states: list[tuple[dict[str, Any], int]] = []

    def remember() -> None:
        loop.evaluator.archive.flush(everything=True)
        write_arrays(tmp_path / "state.npz", {**whole.checkpoint(), "queries": loop.evaluator.queries})
        states.append((read_arrays(tmp_path / "state.npz"), len(parts)))

    loop.run(on_generation=remember)
    assert len(pictures(loop)) > 20
    _, again = make_search(generator, "400q", config)
    again.run()
    assert np.array_equal(pictures(again), pictures(loop))
    state, written = states[4]
    archive = Archive(generator.image_shape)
    archive.restore(TriggerTable.joined(parts[:written]))
    resumed, rest = make_search(generator, "400q", config, archive=archive)
    resumed.restore(state)
    rest.start(queries=state["queries"])
    rest.run()
    assert np.array_equal(pictures(rest), pictures(loop))


def test_a_search_on_tensors_finds_as_much_as_one_on_arrays(make_search: MakeSearch, generator: Any) -> None:
    found: dict[str, list[int]] = {"tensors": [], "arrays": []}
    for operators_on, counts in found.items():
        for seed in range(3):
            _, loop = make_search(generator, "600q", replace(CONFIG, operators=operators_on), seed=seed)
            loop.run()
            counts.append(len(pictures(loop)))
    assert np.mean(found["tensors"]) == pytest.approx(np.mean(found["arrays"]), rel=0.25)


def test_arrays_where_nobody_asks_or_genes_are_more_than_a_vector(make_search: MakeSearch, generator: Any) -> None:
    for config in (replace(CONFIG, operators="auto"), replace(CONFIG, sharing="even")):
        search, _ = make_search(generator, "40q", config)
        assert isinstance(search.algorithm.mating, ArrayMating)
        assert search.problem.place == CPU


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_on_a_gpu_tensors_are_chosen_and_pictures_stay_there(make_search: MakeSearch, generator: Any) -> None:
    device = torch.device("cuda")
    source = GanSource(deepcopy(generator._network), device=device)
    search, loop = make_search(source, "200q", replace(CONFIG, operators="auto"), device=device)
    loop.run()
    assert isinstance(search.algorithm.mating, TensorMating)
    for name in ("X", "F", "crowding", "images"):
        assert search.algorithm.pop.column(name).device.type == "cuda"
