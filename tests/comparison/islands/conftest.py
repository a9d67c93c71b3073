"""Two small networks, and everything that a search on islands between them works with."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from torch import nn

from diffgen.comparison import checkpoints
from diffgen.comparison.islands import driver
from diffgen.comparison.islands.begin import job_of
from diffgen.comparison.plan import Objects, Prepared
from diffgen.comparison.settle import Request, settled_plan
from diffgen.comparison.stages import begin, given_jury, learn, look
from diffgen.comparison.technique_run import SearchOutcome
from diffgen.config import (
    Budget,
    CompareConfig,
    FilterConfig,
    IslandConfig,
    SearchConfig,
    SourceConfig,
    replace,
    to_dict,
)
from diffgen.data import load
from diffgen.events import Progress
from diffgen.pool.calls import Pool
from diffgen.runs.folder import RunFolder
from diffgen.workflows.demo import convolutional_classifier, dense_classifier, train_classifier
from tests.comparison.islands.in_turn import InTurn
from tests.recording import Recording

CONFIG = CompareConfig(
    budget=Budget(queries=401),
    seed=7,
    device="cpu",
    search=SearchConfig(population=20),
    filters=FilterConfig(
        names=("neighbors",), filters={"jury": {"shown": 500}, "reconstruction": {"training_steps": 80}}
    ),
    islands=IslandConfig(workers=2, generations=2),
    source=SourceConfig(family="seeds"),
)


@pytest.fixture(scope="session")
def networks() -> tuple[nn.Module, nn.Module]:
    """Two small classifiers, asked in this process."""
    training = load("digits:train")
    conv = train_classifier(convolutional_classifier(10), training, seed=0, passes=1)
    return conv, train_classifier(dense_classifier(10), training, seed=0, passes=2)


@pytest.fixture(scope="session")
def prepared(networks: tuple[nn.Module, nn.Module], tmp_path_factory: pytest.TempPathFactory) -> Prepared:
    """What a search on islands works with; its folder is not to be changed."""
    folder = tmp_path_factory.mktemp("runs") / "prepared"
    request = Request(networks, "digits:test", CONFIG, folder, force=False, command="a test")
    with settled_plan(request, Progress()) as plan:
        return begin(learn(plan, look(plan), given_jury(plan)))


@dataclass
class Search:
    """A search on islands that take turns in this process.

    Attributes:
        networks: the models; None: they are opened from the files that the manifest names.
        run: its folder.
        listener: what was said.
    """

    prepared: Prepared
    networks: tuple[nn.Module | None, ...]
    run: Path
    listener: Recording

    def __call__(self, **how: Any) -> SearchOutcome:
        """Begin, or go on; ``how`` is that of :class:`tests.comparison.islands.in_turn.InTurn`."""
        return self.on(InTurn(**how))

    def on(self, pool: Pool) -> SearchOutcome:
        """Begin, or go on, with workers in ``pool``."""
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(driver, "make_pool", lambda prepared: (pool, job_of(prepared)))
            folder, objects = RunFolder.open(self.run), Objects(self.networks)
            return driver.search_on_islands(
                replace(self.prepared, folder=folder, objects=objects, progress=self.listener.progress)
            )

    @property
    def columns(self) -> dict[str, np.ndarray]:
        """All triggers."""
        return RunFolder.open(self.run).read_triggers().columns()


@pytest.fixture
def search(prepared: Prepared, networks: tuple[nn.Module, ...], tmp_path: Path) -> Callable[..., Search]:
    """Makes searches in folders of their own."""

    def make(name: str = "run", *, config: CompareConfig | None = None, listener: Recording | None = None) -> Search:
        return make_search(prepared, networks, tmp_path / name, config, listener)

    return make


def make_search(
    prepared: Prepared,
    networks: tuple[nn.Module, ...],
    path: Path,
    config: CompareConfig | None = None,
    listener: Recording | None = None,
) -> Search:
    """A search in a new run folder."""
    config = prepared.config if config is None else config
    manifest = {name: value for name, value in prepared.folder.manifest.items() if name != "parts"}
    RunFolder.create(path, config=to_dict(config), manifest=manifest, force=False)
    return Search(replace(prepared, config=config), networks, path, listener or Recording())


@pytest.fixture(scope="session")
def finished(
    prepared: Prepared, networks: tuple[nn.Module, ...], tmp_path_factory: pytest.TempPathFactory
) -> tuple[SearchOutcome, dict[str, Any]]:
    """How a search went that nothing disturbed, and its triggers."""
    search = make_search(prepared, networks, tmp_path_factory.mktemp("runs") / "finished")
    return search(), search.columns


@pytest.fixture
def checkpoint_after_every_epoch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checkpoints, "SECONDS", 0.0)
    monkeypatch.setattr(checkpoints, "SHARE", 1e9)
