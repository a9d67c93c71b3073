"""Runs on islands: the same whoever is faster, whoever dies, and wherever they break off."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from diffgen.comparison import checkpoints
from diffgen.comparison.line import CompareResult
from diffgen.config import Budget, CompareConfig, FilterConfig, IslandConfig, SearchConfig, replace
from diffgen.config.filters import JurySettings
from diffgen.data import load
from diffgen.errors import RunError
from diffgen.events import StopToken
from diffgen.islands import driver
from diffgen.islands.begin import job_of
from diffgen.islands.island import config_of
from diffgen.runs.folder import RunFolder
from diffgen.workflows.compare import compare
from diffgen.workflows.demo import (
    convolutional_classifier,
    dense_classifier,
    save_torchscript,
    train_classifier,
)
from diffgen.workflows.resume import resume
from tests.islands.in_turn import InTurn
from tests.recording import Recording
from tests.workflows.breaking import assert_same, columns

CONFIG = CompareConfig(
    technique="seeds",
    budget=Budget(queries=1_201),
    seed=7,
    device="cpu",
    search=SearchConfig(population=50),
    filters=FilterConfig(names=("neighbors",), jury=JurySettings(shown=2_000)),
    islands=IslandConfig(workers=3, generations=2),
)
Start = Callable[..., CompareResult]


@pytest.fixture(scope="session")
def files(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Two small networks."""
    folder, training = tmp_path_factory.mktemp("models"), load("digits:train")
    for name, network in (("a", convolutional_classifier(10)), ("b", dense_classifier(10))):
        save_torchscript(train_classifier(network, training, seed=0, passes=2), folder / f"{name}.pt")
    return folder / "a.pt", folder / "b.pt"


@pytest.fixture
def start(files: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Start:
    """Runs a comparison on islands that search in this process."""

    def start(name: str = "run", *, config: CompareConfig = CONFIG, **how: Any) -> CompareResult:
        crew = {key: how.pop(key) for key in ("seed", "dies", "after_report") if key in how}
        monkeypatch.setattr(
            driver, "make_crew", lambda prepared, reopening: InTurn(job_of(prepared, reopening), **crew)
        )
        return compare(*how.pop("models", files), data="digits:test", config=config, output=tmp_path / name, **how)

    return start


@pytest.fixture(scope="session")
def finished(files: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory) -> CompareResult:
    """A finished run; not to be changed."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(driver, "make_crew", lambda prepared, reopening: InTurn(job_of(prepared, reopening)))
        folder = tmp_path_factory.mktemp("runs") / "finished"
        return compare(*files, data="digits:test", config=CONFIG, output=folder)


# -- what a run on islands is ----------------------------------------------------------------------------------------


def test_the_budget_is_shared_out_and_nothing_counts_twice(finished: CompareResult) -> None:
    found = columns(finished.run)
    assert finished.queries == 1_201
    assert finished.triggers > 50
    assert len({digest.tobytes() for digest in found["hashes"]}) == len(found["hashes"])
    assert found["query"].min() >= 1
    assert found["query"].max() <= finished.queries
    history = RunFolder.open(finished.run).results()["history"]
    assert history["queries"][-1] == finished.queries
    assert history["queries"] == sorted(history["queries"])


def test_islands_have_shares_of_the_queries_and_seeds_of_their_own() -> None:
    configs = [config_of(CONFIG, island, 3) for island in range(3)]
    assert [each.budget.queries for each in configs] == [401, 400, 400]
    assert len({each.seed for each in configs}) == 3
    assert configs == [config_of(CONFIG, island, 3) for island in range(3)]


@pytest.mark.parametrize("seed", [1, 2])
def test_it_is_the_same_whoever_is_faster(start: Start, finished: CompareResult, seed: int) -> None:
    assert_same(start(seed=seed).run, finished.run)


def test_migrants_change_what_is_found(start: Start, finished: CompareResult) -> None:
    alone = start(config=replace(CONFIG, islands=replace(CONFIG.islands, migrants=0)))
    assert alone.queries == finished.queries
    found, wanted = columns(alone.run), columns(finished.run)
    # until the first migrants come, at the beginning of the third epoch, nothing is different
    early = wanted["query"] <= 3 * 2 * 50
    np.testing.assert_array_equal(found["images"][: early.sum()], wanted["images"][early])
    assert found["images"].shape != wanted["images"].shape or (found["images"] != wanted["images"]).any()


# -- faults ----------------------------------------------------------------------------------------------------------


def test_a_worker_that_dies_changes_nothing(start: Start, finished: CompareResult) -> None:
    rng, died = np.random.default_rng(3), []

    def dies(number: int, epoch: Any) -> bool:
        if rng.random() < 0.4 and died[-2:] != [(number, epoch.number)] * 2:
            died.append((number, epoch.number))
            return True
        return False

    listener = Recording()
    assert_same(start(dies=dies, events=listener).run, finished.run)
    assert len(died) > 3
    assert sum("another one takes its place" in line for line in listener.warnings) == len(died)


def test_an_island_that_cannot_go_on_is_given_up_and_the_others_go_on(start: Start, finished: CompareResult) -> None:
    listener = Recording()
    result = start(dies=lambda number, epoch: (number, epoch.number) == (1, 3), events=listener)
    # two epochs of island 1 were reported: a generation each is of 50
    assert result.queries == 401 + 400 + 2 * 2 * 50
    assert "3 times in a row" in listener.warnings[-1]
    assert result.triggers > 0


def test_no_worker_left(start: Start, finished: CompareResult, tmp_path: Path) -> None:
    with pytest.raises(RunError, match="No worker is left") as caught:
        start(dies=lambda number, epoch: epoch.number == 3)
    assert any("--resume" in note for note in caught.value.__notes__)
    kept, wanted = columns(tmp_path / "run"), columns(finished.run)
    np.testing.assert_array_equal(kept["images"], wanted["images"][: len(kept["images"])])
    assert len(kept["images"]) > 0
    assert_same(resume(tmp_path / "run").run, finished.run)


@pytest.mark.parametrize("epoch", [1, 3])
def test_a_driver_that_is_gone_can_be_resumed(
    start: Start, finished: CompareResult, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, epoch: int
) -> None:
    monkeypatch.setattr(checkpoints, "SECONDS", 0.0)
    monkeypatch.setattr(checkpoints, "SHARE", 1e9)

    def gone(reported: int) -> None:
        if reported > epoch:
            raise MemoryError

    with pytest.raises(MemoryError):
        start(after_report=gone)
    monkeypatch.setattr(
        driver, "make_crew", lambda prepared, reopening: InTurn(job_of(prepared, reopening), seed=epoch)
    )
    assert_same(resume(tmp_path / "run").run, finished.run)


def test_a_search_that_is_stopped_ends_in_good_order_and_goes_on(
    start: Start, finished: CompareResult, tmp_path: Path
) -> None:
    stop = StopToken()
    result = start(stop=stop, after_report=lambda epoch: stop.stop() if epoch == 2 else None)
    assert result.interrupted
    assert 0 < result.queries < finished.queries
    assert_same(resume(tmp_path / "run").run, finished.run)


def test_saturation_is_that_of_all_islands(start: Start) -> None:
    config = replace(CONFIG, until="saturated", saturation_queries=150, budget=Budget(queries=20_000))
    first, second = start("first", config=config), start("second", config=config, seed=5)
    assert first.saturated
    assert first.queries < 20_000
    assert_same(second.run, first.run)
