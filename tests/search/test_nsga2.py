"""NSGA-II on the moving objective: same seed same run, resumed equals uninterrupted, objectives always up to date."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

from diffgen.config import SearchConfig, replace
from diffgen.runs.arrays import read_arrays, write_arrays
from diffgen.runs.triggers import TriggerTable
from diffgen.search.archive import Archive
from diffgen.search.behaviours import Behaviours
from diffgen.search.evaluator import Evaluator
from diffgen.search.loop import SearchLoop
from diffgen.search.nsga2 import Nsga2Search
from diffgen.sources.draws import NumpyDraws
from diffgen.sources.gan import GanSource

CONFIG = SearchConfig(population=40, reducer_dim=10, min_cluster_size=3)
Setup = Callable[..., tuple[Nsga2Search, SearchLoop]]


@pytest.fixture
def setup(make_search: Setup, generator: GanSource) -> Setup:
    def make(
        budget: str = "400q", *, config: SearchConfig = CONFIG, **settings: object
    ) -> tuple[Nsga2Search, SearchLoop]:
        return make_search(generator, budget, config, **settings)

    return make


def found(evaluator: Evaluator) -> np.ndarray:
    return evaluator.archive.images(np.arange(len(evaluator.archive)))


def test_same_seed_and_budget_give_the_same_triggers(setup: Setup) -> None:
    runs = []
    for seed in (1, 1, 2):
        _, loop = setup(seed=seed)
        loop.run()
        evaluator = loop.evaluator
        assert evaluator.queries == 400
        runs.append(found(evaluator))
    assert len(runs[0]) > 20
    assert np.array_equal(runs[0], runs[1])
    assert not np.array_equal(runs[0], runs[2])


def test_every_individual_competes_with_up_to_date_objectives(setup: Setup) -> None:
    search, loop = setup("800q", config=replace(CONFIG, cluster_growth=0.0))
    generations = []

    def check() -> None:
        problem, population = search.problem, search.population
        pictures = population["images"]
        again = problem.diversity.score(pictures, population["archive_number"]).numpy()
        assert np.allclose(-population["F"][:, 1].numpy(), again, atol=1e-6)
        probabilities = torch.stack([m.predict(pictures) for m in loop.evaluator.black_boxes], dim=1).numpy()
        for row, (p, q) in enumerate(probabilities):
            expected = np.sqrt(((p - q) ** 2).sum()) + (p.argmax() != q.argmax())
            assert -population["F"][row, 0].item() == pytest.approx(expected, abs=1e-5)
        generations.append(problem.diversity.version)

    loop.run(on_generation=check)
    assert len(generations) > 10
    assert generations[-1] > generations[0]  # the representatives did move


@pytest.mark.parametrize("prior", ["generator", "box"])
def test_a_resumed_search_ends_as_the_uninterrupted_one(setup: Setup, tmp_path: Path, prior: str) -> None:
    config = replace(CONFIG, prior=prior, bound=3.0 if prior == "generator" else 1.0)
    parts: list[TriggerTable] = []
    states: list[dict[str, object]] = []
    whole, whole_loop = setup("600q", config=config)
    whole_evaluator = whole_loop.evaluator
    whole_evaluator.archive._sink = parts.append

    def remember() -> None:
        whole_evaluator.archive.flush(everything=True)
        path = tmp_path / f"{len(states)}.npz"
        write_arrays(path, {**whole.checkpoint(), "queries": whole_evaluator.queries, "parts": len(parts)})
        states.append(read_arrays(path))

    whole_loop.run(on_generation=remember)
    assert len(states) > 8
    state = states[4]
    archive = Archive(whole_evaluator.archive.image_shape)
    kept = parts[: state["parts"]]
    archive.restore(TriggerTable.joined(kept))
    again, loop = setup("600q", config=config, archive=archive)
    again.restore(state)
    loop.start(queries=state["queries"])
    loop.run()
    assert loop.evaluator.queries == 600
    assert np.array_equal(found(loop.evaluator), found(whole_evaluator))


def test_a_generation_that_was_begun_is_proposed_again_after_a_resume(setup: Setup) -> None:
    """Told in part, or not at all: the same pictures of the same generation come again, from its first on."""
    config = replace(CONFIG, population=100)
    search, loop = setup("1000q", config=config, batch_size=40)
    assert loop.generation()
    state, queries = search.checkpoint(), loop.evaluator.queries
    assert (queries, search.between_generations) == (100, True)
    first = search.propose(40)
    assert (len(first), first.generation, search.between_generations) == (40, 2, False)
    # untold, it is proposed once more
    assert torch.equal(search.propose(40).images, first.images)
    search.learn(first, loop.evaluator.ask(first))
    second = search.propose(25)
    assert (len(second), search.between_generations) == (25, False)
    assert not torch.equal(second.genes, first.genes[:25])
    again, _ = setup("1000q", config=config, batch_size=40, archive=loop.evaluator.archive)
    again.restore(state)
    assert again.between_generations
    assert torch.equal(again.propose(40).images, first.images)
    # and restoring drops what this one had begun
    search.restore(state)
    assert search.between_generations
    assert torch.equal(search.propose(100).genes[40:65], second.genes)


@pytest.mark.parametrize("objectives", ["divergence", "diversity"])
def test_one_objective_alone(setup: Setup, objectives: str) -> None:
    search, loop = setup("300q", config=replace(CONFIG, objectives=objectives))
    loop.run()
    evaluator = loop.evaluator
    assert search.population["F"].shape == (40, 1)
    assert evaluator.queries == 300
    # the diversity is not even computed when it is no objective
    assert (search.problem.diversity.version > 0) == (objectives == "diversity")
    state = search.checkpoint()
    again, _ = setup("300q", config=replace(CONFIG, objectives=objectives), archive=evaluator.archive)
    again.restore(state)
    assert torch.equal(again.population["F"], search.population["F"])


def test_a_search_ends_when_nothing_new_is_found(setup: Setup) -> None:
    # one cell: with three, how the generator turned out on a processor decides whether the last comes so soon
    behaviours = Behaviours(lambda images: np.zeros(len(images), dtype=np.int64), 0.95)
    _, loop = setup("5000q", behaviours=behaviours, saturation_queries=300)
    loop.run()
    evaluator = loop.evaluator
    assert loop.saturated
    assert evaluator.queries < 5000
    assert evaluator.queries - evaluator.behaviours.latest_query >= 300


def test_a_checkpoint_is_plain_data(setup: Setup, tmp_path: Path) -> None:
    search, loop = setup("80q")
    loop.run()
    state = search.checkpoint()
    plain = {name: value for name, value in state.items() if not isinstance(value, np.ndarray)}
    assert json.loads(json.dumps(plain)) == plain
    assert all(value.dtype != object for value in state.values() if isinstance(value, np.ndarray))


def test_search_finds_more_than_the_first_population(setup: Setup) -> None:
    """Guided by the objectives, later generations hold a larger share of triggers than the first."""
    _, loop = setup("1200q")
    sizes = [0]
    loop.run(on_generation=lambda: sizes.append(len(loop.evaluator.archive)))
    first, last = sizes[1], np.mean(np.diff(sizes)[-5:])
    assert last > 1.2 * first


def test_prior_and_bounds_are_kept(setup: Setup) -> None:
    search, loop = setup("600q")
    loop.run()
    genes = search.population["X"].numpy()
    assert np.abs(genes).max() <= CONFIG.bound
    space = search.problem.space
    drawn = space.sample(500, NumpyDraws(np.random.default_rng(0)))
    assert abs(drawn.mean()) < 0.05
    assert abs(drawn.std() - 1) < 0.05
    repaired = space.repair(np.concatenate([0.1 * drawn, 3 * drawn, drawn]))
    norms = np.linalg.norm(repaired, axis=1)
    assert norms.min() > 1.0
    assert norms.max() < 8.0
    inside = (norms[-500:] == np.linalg.norm(drawn, axis=1)).mean()
    assert inside > 0.95  # what lies on the shell stays as it is
