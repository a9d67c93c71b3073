"""Validity filters inside the search: a real filter chain as constraint and as third objective."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from diffgen.config import SearchConfig, replace
from diffgen.filters import FilterPipeline, SsimFilter
from diffgen.metrics.near_duplicates import DistinctPictures
from diffgen.search.behaviours import Behaviours
from diffgen.search.evaluator import Evaluator, by_filters
from diffgen.search.loop import SearchLoop
from diffgen.search.nsga2 import Nsga2Search
from diffgen.search.proposal import NO_PAIR
from diffgen.types import ImageSet

CONFIG = SearchConfig(population=40, validity="post")
MakeSearch = Callable[..., tuple[Nsga2Search, SearchLoop]]


@pytest.fixture(scope="module")
def chain(digits: ImageSet, generator: Any) -> FilterPipeline:
    """Accepts about half of what the generator draws at random: it is a poor one."""
    images = torch.from_numpy(digits.images)
    plain = SsimFilter(neighbors=3)
    plain.fit(images[100:])
    drawn = generator.draw(torch.randn(200, 16, generator=torch.Generator().manual_seed(1)))
    pipeline = FilterPipeline([SsimFilter(threshold=float(plain.score(drawn).median()), neighbors=3)])
    pipeline.fit(images[100:], images[:100])
    return pipeline


def searched(
    make_search: MakeSearch,
    generator: Any,
    chain: FilterPipeline | None,
    config: SearchConfig,
    budget: str = "600q",
) -> tuple[Nsga2Search, Evaluator]:
    search, loop = make_search(
        generator, budget, config, examine=None if chain is None else by_filters(chain.violation)
    )
    loop.run()
    return search, loop.evaluator


def margins(search: Nsga2Search, chain: FilterPipeline) -> np.ndarray:
    """By how much each individual passes, from the scores themselves; infinity for those that are no triggers."""
    population = search.population
    scores = chain.scores(population["images"])
    calibration = chain.calibration
    margin = ((scores - calibration.thresholds) / calibration.scores.std(axis=0)).min(axis=1)
    return np.where(population["archive_number"].numpy() >= 0, margin, np.inf)


def test_what_is_rejected_loses_against_what_is_accepted(
    make_search: MakeSearch, generator: Any, chain: FilterPipeline
) -> None:
    # the first generation, of which nothing has lost yet
    constrained = replace(CONFIG, population=120, validity="constraint")
    search, _ = searched(make_search, generator, chain, constrained, "120q")
    population, margin = search.population, margins(search, chain)
    objectives = population["F"].numpy()
    rejected = margin < -1e-3  # a decision may hang on the last digit
    assert rejected.any()
    assert (objectives[margin > 1e-3] <= 0).all()
    np.testing.assert_allclose(objectives[rejected], -margin[rejected, None].repeat(2, axis=1), atol=1e-3)
    assert (population["niche"].numpy()[rejected] == NO_PAIR).all()
    # it pays: more of what is found is accepted than when nothing in the search asks
    search, evaluator = searched(make_search, generator, chain, replace(CONFIG, validity="constraint"))
    assert (margins(search, chain) > -1e-3).all()
    _, without = searched(make_search, generator, None, CONFIG)

    def accepted(own: Evaluator) -> float:
        images = own.archive.images(np.arange(len(own.archive)))
        return float(chain.apply(torch.from_numpy(images)).accepted.mean())

    assert accepted(evaluator) > accepted(without)


def test_what_looks_like_an_earlier_find_comes_just_before_what_is_rejected(
    make_search: MakeSearch, generator: Any, chain: FilterPipeline
) -> None:
    def brightness(images: torch.Tensor) -> np.ndarray:
        return (images.to(torch.float32).flatten(1).mean(dim=1) / 16).numpy().astype(np.int64)

    # how many look alike depends on how the generator turned out: of these some always do
    constrained = replace(CONFIG, population=600, validity="constraint")
    # a low bar: many pictures of a poor generator look alike
    behaviours = Behaviours(brightness, 0.7)
    search, loop = make_search(
        generator, "600q", constrained, examine=by_filters(chain.violation), behaviours=behaviours
    )
    loop.run()
    population, margin = search.population, margins(search, chain)
    numbers = population["archive_number"].numpy()
    archive, accepted = loop.evaluator.archive, (numbers >= 0) & (margin > 1e-3)
    # of what the filters accept, in the order of the archive
    passed = np.sort(numbers[accepted])
    distinct = DistinctPictures(0.7).add(archive.images(passed), archive.labels()[passed], passed)
    known = np.isin(numbers, passed[distinct != passed])
    assert known.any()
    assert (accepted & ~known).any()
    assert (population["F"].numpy()[known] == np.float32(1e-6)).all()
    assert (population["niche"].numpy()[known] == NO_PAIR).all()
    assert (population["F"].numpy()[accepted & ~known] <= 0).all()


def test_a_restored_search_goes_on_alike(make_search: MakeSearch, generator: Any, chain: FilterPipeline) -> None:
    search, _ = searched(make_search, generator, chain, CONFIG)
    state = search.checkpoint()
    again, _ = searched(make_search, generator, chain, CONFIG)
    again.restore(state)
    assert torch.equal(again.population["F"], search.population["F"])
