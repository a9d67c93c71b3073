"""A search on the fixed networks that is driven one generation at a time."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from benchmarks.fixed_networks import FixedNetworks, fill_archive
from diffgen.comparison.machine import search_batch_size
from diffgen.config import Budget, FilterConfig, SearchConfig
from diffgen.features.cells import CELLS, Cells
from diffgen.features.encoder import FEATURES, DomainEncoder
from diffgen.filters import FilterPipeline
from diffgen.search.archive import Archive
from diffgen.search.behaviours import Behaviours
from diffgen.search.diversity import Diversity, PixelEmbedding, warm_up
from diffgen.search.evaluator import Evaluator, by_filters
from diffgen.search.loop import SearchLoop
from diffgen.search.memory import BatchHalver
from diffgen.search.nsga2 import Nsga2Search
from diffgen.search.problem import GeneProblem

_ENDLESS = Budget(queries=10**12)


@dataclass(frozen=True)
class Cost:
    """Seconds of the clock and of the processor (all threads)."""

    wall: float
    cpu: float

    def __add__(self, other: Cost) -> Cost:
        return Cost(self.wall + other.wall, self.cpu + other.cpu)

    def __mul__(self, factor: float) -> Cost:
        return Cost(self.wall * factor, self.cpu * factor)


class Stopwatch:
    """Measures a block; on a GPU it waits for what was sent there."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self.cost = Cost(0.0, 0.0)

    def __enter__(self) -> Stopwatch:
        self._wait()
        self._start = time.perf_counter(), time.process_time()
        return self

    def __exit__(self, *_: object) -> None:
        self._wait()
        self.cost = Cost(time.perf_counter() - self._start[0], time.process_time() - self._start[1])

    def _wait(self) -> None:
        if self._device.type == "cuda":
            torch.cuda.synchronize(self._device)


class _Search(Nsga2Search):
    """As a technique that counts nothing of its own."""

    def outcomes(self) -> Mapping[str, Any]:
        return {}


class MeasuredSearch:
    """NSGA-II beside an archive that is full already.

    Clustering is kept out of the generations where the schedule makes it rare, so that a short measurement neither
    meets it by chance nor misses it; ``clustering`` says what it costs and ``clusterings_per_trigger`` how often it
    comes. Where it comes in every generation it stays there.

    Args:
        batch_size: images handed over at once.
        filters: asked about every trigger, as a constraint; None: not asked.
        device: where the networks are.
    """

    def __init__(
        self,
        networks: FixedNetworks,
        config: SearchConfig,
        *,
        archived: int,
        batch_size: int,
        device: torch.device,
        filters: FilterPipeline | None = None,
    ) -> None:
        self._device = device
        shape = networks.generator.image_shape
        self.archive = Archive(shape)
        fill_archive(self.archive, archived, shape)
        memory = BatchHalver(size=batch_size)
        evaluator = Evaluator(
            networks.black_boxes,
            archive=self.archive,
            margin=1e-6,
            memory=memory,
            behaviours=Behaviours(_cells(shape, device).assign, FilterConfig().near_duplicate),
            examine=None if filters is None else by_filters(filters.violation),
        )
        self.diversity = Diversity(self.archive, config, space=PixelEmbedding(), seed=0, device=device)
        problem = GeneProblem(
            networks.generator,
            self.archive,
            self.diversity,
            config,
            memory=memory,
            guided=filters is not None,
        )
        self.technique = _Search(problem, config, seed=0)
        self.loop = SearchLoop(self.technique, evaluator, budget=_ENDLESS, batch_size=search_batch_size(batch_size))
        self.loop.start()
        self.every_generation = config.cluster_growth == 0
        self.clustering = Cost(0.0, 0.0)
        self.clusterings_per_trigger = 0.0
        if archived and not self.every_generation:
            warm_up(config)
            with Stopwatch(device) as watch:
                self.diversity.update()
            self.clustering = watch.cost
            self.clusterings_per_trigger = 1 / max(20.0, config.cluster_growth * archived)
            self.diversity.due = lambda: False  # type: ignore[method-assign]

    def generation(self) -> tuple[Cost, int, int]:
        """One generation; what it cost, its queries and its new triggers. Clustering is counted in, as described."""
        evaluator = self.loop.evaluator
        queries, triggers = evaluator.queries, len(self.archive)
        with Stopwatch(self._device) as watch:
            self.loop.generation()
        found = len(self.archive) - triggers
        cost = watch.cost + self.clustering * (found * self.clusterings_per_trigger)
        return cost, evaluator.queries - queries, found


def _cells(shape: tuple[int, int, int], device: torch.device) -> Cells:
    """Cells of an encoder that learnt nothing: they cost what real ones cost."""
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(0)
        encoder = DomainEncoder(shape).eval().requires_grad_(False).to(device)
        return Cells(encoder, torch.randn(CELLS, FEATURES))


def median(values: list[float]) -> float:
    """As a plain float."""
    return float(np.median(values))
