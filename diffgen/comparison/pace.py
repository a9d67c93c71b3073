"""Makes generations small where models are slow, so that a budget of seconds has several of them."""

from __future__ import annotations

import time
from collections.abc import Sequence

import torch

from diffgen.config import CompareConfig, SearchConfig, replace
from diffgen.events import Progress
from diffgen.models import BlackBox
from diffgen.sampling import random_rows
from diffgen.types import ImageSet

_GENERATIONS = 10  # that a budget is to have; of fewer, selection has nothing to select
_FEWEST = 32  # individuals
_TIMED = 8  # images


def with_affordable_population(
    config: CompareConfig, models: Sequence[BlackBox], images: ImageSet, progress: Progress
) -> CompareConfig:
    """The settings with a population that ten generations of fit into the budget; said aloud where it is smaller.

    Halved until it does, so that two runs on one machine come to the same. With a budget in queries, or a population
    that the user chose, nothing changes.

    Args:
        config: of a new run.
        models: prepared.
        images: real images; the models are asked about a few.
        progress: is told.
    """
    usual, budget = SearchConfig().population, config.budget.seconds
    if budget is None or config.search.population != usual:
        return config
    seconds = seconds_a_query(models, images)
    population = affordable_population(usual, budget / seconds)
    if population == usual:
        return config
    progress.say(
        f"The models take {1000 * seconds:,.0f} ms an image: generations of {population} instead of {usual}, so that "
        f"the budget of {budget:g} s has several."
    )
    return replace(config, search=replace(config.search, population=population))


def affordable_population(usual: int, queries: float) -> int:
    """The usual population, halved until ten generations take no more queries than these, but no less than 32."""
    population = usual
    while population * _GENERATIONS > queries and population // 2 >= _FEWEST:
        population //= 2
    return population


def seconds_a_query(models: Sequence[BlackBox], images: ImageSet) -> float:
    """Seconds that all models together take for one image, measured on a few."""
    rows = random_rows(len(images), _TIMED)
    few = torch.from_numpy(images.images[rows])
    started = time.monotonic()
    for model in models:
        model.predict(few)
    return max(1e-9, (time.monotonic() - started) / len(rows))
