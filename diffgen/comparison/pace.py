"""Makes generations small where models are slow, so that a budget of seconds has several of them."""

from __future__ import annotations

import time
from collections.abc import Sequence

import torch

from diffgen.config import CompareConfig, SearchConfig
from diffgen.events import Progress
from diffgen.models import BlackBox
from diffgen.sampling import random_rows
from diffgen.types import ImageSet

_GENERATIONS = 10  # that a budget is to have; of fewer, selection has nothing to select
_FEWEST = 32  # individuals
_TIMED = 8  # images


def affordable_population(
    config: CompareConfig, models: Sequence[BlackBox], images: ImageSet, progress: Progress
) -> int:
    """The population, such that ten generations fit into the budget; said aloud where it is smaller than usual.

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
        return config.search.population
    seconds = seconds_a_query(models, images)
    population = halved_population(usual, budget / seconds)
    if population < usual:
        progress.say(
            f"The models take {1000 * seconds:,.0f} ms an image: generations of {population} instead of {usual}, so "
            f"that the budget of {budget:g} s has several."
        )
    return population


def halved_population(usual: int, queries: float) -> int:
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
