"""The tables of the papers that search from encoded images, from small runs."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from benchmarks.latent_tables import Run, begun_before_all_that_go_on, ends_of, top_two
from diffgen.config import SearchConfig, replace
from diffgen.sources.vae import VaeSettings
from diffgen.techniques.giftbench import GiftbenchSettings
from diffgen.techniques.sinvad import SinvadSettings
from diffgen.workflows.compare import compare
from tests.benchmarks.conftest import SMALL, Bench

_SEARCHES = {
    "boundary": ("sinvad", SinvadSettings(target="each", population=10, kept=4, generations=1, spread=2.0)),
    "escape": ("sinvad", SinvadSettings(search="escape", population=10, kept=4, generations=1, spread=2.0)),
    "walk": ("giftbench", GiftbenchSettings(population=10, kept=4, generations=1)),
    "argus": ("argus", None),
    "latte": ("latte", None),
}


def test_the_two_highest_probabilities() -> None:
    np.testing.assert_allclose(top_two(np.array([[[0.1, 0.7, 0.2], [0.5, 0.5, 0.0]]])), [[0.5, 0.0]])


def test_searches_begun_after_one_that_goes_on_do_not_count() -> None:
    number = np.array([1, 0, 3, 4, 0, 2])
    assert begun_before_all_that_go_on(number[:4], None).tolist() == [True, True, False, False]
    workers = np.array([0, 0, 0, 0, 1, 1])
    assert begun_before_all_that_go_on(number, workers).tolist() == [True, True, False, False, True, False]
    assert begun_before_all_that_go_on(number[:0], None).tolist() == []


def _run(models: tuple[Path, Path], name: str, folder: Path) -> None:
    technique, own = _SEARCHES[name]
    search = SearchConfig() if own is None else SearchConfig().with_technique(own)
    source = replace(SMALL.source.with_family(VaeSettings(steps=60)), family="vae")
    config = replace(SMALL, technique=technique, search=search, source=source, batch_size=16)
    compare(*models, data="digits:test", config=config, output=folder / name)


def _check_boundary(folder: Path) -> None:
    run = Run.open(folder)
    found, places = ends_of(run)
    assert len(found) == len(places) <= run.counted["reached"].sum()
    for row, place in zip(found.tolist(), places.tolist(), strict=True):
        assert run.triggers.labels[row, run.counted["aim"][place]] != run.counted["expected"][place]


def test_latent_tables(bench: Bench, models: tuple[Path, Path], tmp_path: Path) -> None:
    _run(models, "boundary", tmp_path)
    assert "| vae | sinvad |" in bench("latent_tables", tmp_path / "boundary")
    _check_boundary(tmp_path / "boundary")
    # a model against itself: what it is searched for is no disagreement
    _run((models[0], models[0]), "boundary", tmp_path / "nothing")
    assert "| vae | A | A | 0 of " in bench("latent_tables", tmp_path / "nothing" / "boundary")


@pytest.mark.slow
def test_tables_of_every_search(bench: Bench, models: tuple[Path, Path], tmp_path: Path) -> None:
    for name in _SEARCHES:
        _run(models, name, tmp_path)
    # a model against itself: nothing is found
    _run((models[0], models[0]), "walk", tmp_path / "nothing")
    assert "| vae | high | disagreement |" in bench("latent_tables", tmp_path / "nothing" / "walk")
    said = bench("latent_tables", *(tmp_path / name for name in _SEARCHES))
    assert said.count("\n## ") + said.startswith("## ") == 6
    assert said.count("| argus, vae | 1x28x28 |") == 6  # three shares, two models
    assert said.count("| latte, vae | 1x28x28 |") == 2
    assert "| vae | giftbench high |" in said and "| vae | sinvad |" in said
    assert "\n| the whole | 0.0076 | 0.8224 | 6.1 | 40.0% |\n" in said
    _check_boundary(tmp_path / "boundary")
