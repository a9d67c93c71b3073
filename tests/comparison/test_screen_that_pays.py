"""Whether a search screens is settled once: by cost where seconds count, and always where queries do."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch

from diffgen.comparison.technique_run import screen_that_pays
from diffgen.config import Budget, CompareConfig, SearchConfig
from diffgen.data import load
from diffgen.gan_training.augmentation import plain_background
from diffgen.sources.base import ImageSource
from diffgen.sources.operators import Scene
from diffgen.sources.seeds import SeedsSettings, SeedsSource


@pytest.mark.parametrize(
    ("budget", "asked", "times", "settled"),
    [
        ("2000q", "auto", (1e-6, 1e-6), "both"),
        ("60s", "auto", (1e-6, 1e-6), "none"),
        ("60s", "auto", (1e6, 1e-6), "both"),
        ("60s", "auto", (None, 1e-6), "both"),
        ("60s", "both", (1e-6, 1e-6), "both"),
        ("2000q", "none", (1e6, 1e6), "none"),
    ],
)
def test_seconds_are_not_spent_on_looking_where_models_are_quicker(
    budget: str, asked: str, times: tuple[float | None, ...], settled: str
) -> None:
    seeds = torch.from_numpy(load("digits:test").images[:50])
    source = SeedsSource(Scene(seeds, plain_background(seeds), None), SeedsSettings(), device=torch.device("cpu"))
    config = CompareConfig(budget=Budget.parse(budget), search=SearchConfig(screen=asked))
    real = SimpleNamespace(milliseconds=times)
    assert screen_that_pays(config, real, ImageSource(source, real=True), None) == settled


def test_nothing_is_settled_where_nothing_is_screened() -> None:
    real, config = SimpleNamespace(milliseconds=(1e6, 1e6)), CompareConfig(budget=Budget.parse("60s"))
    assert screen_that_pays(config, real, ImageSource(), None) == "auto"
