"""diffgen.comparison.settle: slow models get small generations."""

from __future__ import annotations

import time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from diffgen.comparison.settle import affordable_population, halved_population
from diffgen.config import Budget, CompareConfig, SearchConfig, replace
from diffgen.data import load as load_data
from diffgen.events import Progress
from diffgen.models.loading import load


@given(st.integers(32, 5000), st.floats(0, 1e9))
def test_ten_generations_fit_or_the_population_is_the_smallest(usual: int, queries: float) -> None:
    found = halved_population(usual, queries)
    assert 32 <= found <= usual
    assert found * 10 <= queries or found // 2 < 32
    # no smaller than it has to be
    assert found == usual or found * 2 * 10 > queries - 10 * 2


@pytest.mark.parametrize(
    ("milliseconds", "budget", "population"), [(0, "60s", 500), (40, "60s", 62), (40, "9000q", 500)]
)
def test_slow_models_get_small_generations(milliseconds: int, budget: str, population: int) -> None:
    digits = load_data("digits")

    def slow(images: np.ndarray) -> np.ndarray:
        time.sleep(milliseconds / 1000 * len(images))
        return np.tile(np.linspace(0, 0.2, 10, dtype=np.float32), (len(images), 1)) + images.mean((1, 2, 3))[:, None]

    model = load(slow)
    model.prepare(digits.images[:8])
    said: list[str] = []

    class Listener(Progress):
        def say(self, text: str) -> None:
            said.append(text)

    config = CompareConfig(budget=Budget.parse(budget))
    found = affordable_population(config, [model, model], digits, Listener())
    assert found == population
    assert bool(said) == (population != 500)
    # what the user chose stays
    own = replace(config, search=SearchConfig(population=499))
    assert affordable_population(own, [model, model], digits, Listener()) == 499
