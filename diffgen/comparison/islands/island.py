"""One island: opens a run folder, searches with a whole technique of its own, and reports."""

from __future__ import annotations

import platform
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from hashlib import blake2b
from typing import Any

import numpy as np
import torch

from diffgen.comparison.islands.messages import Begin, Epoch, Job, Migrants, Ready, Report, Tick, table_of
from diffgen.comparison.machine import made_of
from diffgen.comparison.opened_run import OpenedRun
from diffgen.comparison.plan import Plan, Prepared
from diffgen.comparison.preflight import prepare_models
from diffgen.comparison.stages import given_jury, learn, with_filters
from diffgen.comparison.technique_run import make_loop, restore_loop
from diffgen.config import Budget, CompareConfig, replace
from diffgen.config.images import SEEDS
from diffgen.events import Event, Progress
from diffgen.models.loading import file_digest
from diffgen.models.panel import seated
from diffgen.models.patience import impatient
from diffgen.pool.calls import Link
from diffgen.runs.arrays import packed, unpacked
from diffgen.runs.folder import RunFolder
from diffgen.runs.triggers import TriggerTable
from diffgen.search.archive import Archive
from diffgen.search.loop import SearchLoop
from diffgen.search.proposal import Answers, Proposal
from diffgen.tasks.classification import label_numbers

_SECONDS_BETWEEN_TICKS = 0.25


class JobFolder(RunFolder):
    """A run folder that is read alone: what others would write into the manifest is remembered here."""

    def save_manifest(self, **changes: Any) -> None:
        """Remember ``changes``; the collector writes them."""
        self.manifest = {**self.manifest, **changes}


def config_of(config: CompareConfig, island: int, islands: int) -> CompareConfig:
    """The settings of a run as those of one of its islands: a seed of its own, and a share of the queries."""
    budget = config.budget
    if budget.queries is not None:
        share = budget.queries // islands + (island < budget.queries % islands)
        budget = Budget(budget.seconds, max(1, share))
    return replace(config, budget=budget, seed=_seed(config.seed, island))


def _seed(*parts: int) -> int:
    """One that is drawn from others."""
    return int(np.random.default_rng(parts).integers(SEEDS))


def ready(prepared: Prepared) -> Ready:
    """What a worker, or the collector, works with."""
    pipeline, artifact = prepared.pipeline, prepared.source.artifact
    thresholds = pipeline.calibration.thresholds.tolist() if pipeline.filters else []
    trained = {
        "cells": blake2b(prepared.cells.centroids.numpy().tobytes(), digest_size=8).hexdigest(),
        "GAN": "none" if artifact is None else file_digest(artifact)[:16],
    }
    return Ready(
        platform.node(),
        {**made_of(), **trained},
        {each.name: float(value) for each, value in zip(pipeline.filters, thresholds, strict=True)},
    )


def search_island(link: Link, job: Job, number: int) -> None:
    """The whole life of a worker: says that it is ready, then does one task after the other.

    Raises:
        UserError: something that it needs is not there, where it runs.
        RunError: a model failed.
    """
    island = Island(link, job, number)
    link.say(island.ready)
    while True:
        task: Begin | Epoch = link.told.get()
        if isinstance(task, Begin):
            island.begin(task)
        elif (report := island.epoch(task)) is not None:
            link.say(report)


class Island:
    """One of the searches of a run.

    Args:
        link: takes sentences and how far it is, and ends its search in good order.
        number: of the island, from 0.

    Raises:
        UserError: something that it needs is not there, where it runs.
    """

    def __init__(self, link: Link, job: Job, number: int) -> None:
        torch.set_num_threads(job.threads)
        self._link, self._job = link, job
        self._speaks = False  # what is said on the way to the search, the driver has said already
        folder = RunFolder.open(job.run)
        self._folder = JobFolder(folder.path, folder.manifest)
        self._extensions = job.objects.extensions.of_run(folder.manifest, folder.path)
        with self._extensions.in_use():
            self._prepared = self._prepare(number)
        self._found: list[TriggerTable] = []
        self._noted: dict[int, tuple[int, float]] = {}  # number in the archive -> cell and violation
        self._last_tick = 0.0
        self._ended = False
        self._anew = 0  # its queries when it began anew, with another seed, at least 1
        self._loop: SearchLoop

    def _prepare(self, number: int) -> Prepared:
        objects, progress = self._job.objects, Progress(self._heard, self._link.stop)
        run = OpenedRun(self._folder)
        models = run.models(objects.models, options=objects.options)
        images = run.data(objects.data, purpose="search", progress=progress)
        for model in models:
            model.answers.attach(None)
        prepare_models(models, images, progress)
        models = seated(models, run.config.task)
        config = config_of(run.config, number, self._job.islands)
        plan = Plan(models, images, config, run.device, progress, lambda _: self._folder)
        return with_filters(learn(plan, self._job.real, given_jury(plan)), self._folder)

    def _heard(self, event: Event) -> None:
        if self._speaks:
            self._link(event)

    @property
    def ready(self) -> Ready:
        """What it has opened."""
        return ready(self._prepared)

    def begin(self, begin: Begin) -> None:
        """Take up the search where a report ended, or from its beginning.

        One that begins anew has a seed of its own, or it would come to what it broke off at.

        Raises:
            UserError: another version of diffgen wrote the state.
        """
        with self._at_work():
            prepared = self._prepared
            archive = Archive(prepared.images.image_shape, sink=self._found.append)
            state: Mapping[str, Any] = {} if begin.state is None else unpacked(begin.state)
            if begin.state is None:
                self._anew = 0 if begin.met is None else max(1, begin.queries)
            else:
                self._anew = int(state["island_anew"])
            if self._anew:
                config = prepared.config
                prepared = replace(prepared, config=replace(config, seed=_seed(config.seed, self._anew)))
            self._loop = make_loop(prepared, archive, margin=self._job.real.summary.margin)
            self._loop.technique = _Noting(self._loop.technique, self._noted)
            self._loop.saturation_queries = None  # the collector looks at all islands
            if begin.archive is not None:
                archive.restore(table_of(begin.archive))
            if begin.state is not None:
                restore_loop(self._loop, state, self._folder)
                self._loop.empty = int(state["island_empty"])  # or each new worker would count from 0
            if begin.met is not None:
                assert self._loop.evaluator.behaviours is not None
                self._loop.evaluator.behaviours.meet(begin.met)
            self._loop.start(queries=begin.queries, seconds=begin.seconds)

    def epoch(self, epoch: Epoch) -> Report | None:
        """Search for an epoch; None where the search has ended before. RunError if a model failed."""
        if self._ended:
            return None
        with self._at_work():
            self._welcome(epoch.migrants)
            for _ in range(self._prepared.config.islands.generations):
                if not self._loop.generation(self._tick):
                    break
            return self._report(epoch.number)

    @contextmanager
    def _at_work(self) -> Iterator[None]:
        """While the block runs, in whichever thread, it knows the run's own objects and ends in good order."""
        self._speaks = True
        with self._extensions.in_use(), impatient(self._link.stop):
            yield
        self._speaks = False

    def _tick(self) -> None:
        if time.monotonic() - self._last_tick >= _SECONDS_BETWEEN_TICKS:
            self._last_tick = time.monotonic()
            evaluator = self._loop.evaluator
            self._link.say(Tick(evaluator.queries, len(evaluator.archive)))

    def _welcome(self, migrants: Migrants) -> None:
        """Put what others found into the archive, and before the technique."""
        evaluator, device = self._loop.evaluator, self._prepared.device
        assert evaluator.behaviours is not None
        if migrants.columns is not None:
            table, cells = table_of(migrants.columns), migrants.cells
            known = len(evaluator.archive)
            numbers = evaluator.archive.add(table)
            fresh, rows = np.flatnonzero(numbers >= known), torch.from_numpy(numbers)
            # what another jury said is not told: the first recognised picture of this island is its own first
            judged = evaluator.asks_filters and self._prepared.recogniser is not None
            unnamed = np.zeros(len(fresh), dtype=bool) if judged else None
            news = np.zeros((2, len(table)), dtype=np.int64)
            news[:, fresh] = evaluator.behaviours.add(
                table.images[fresh],
                table.labels[fresh],
                cells[fresh],
                numbers[fresh],
                query=evaluator.queries,
                recognised=unnamed,
            )
            self._noted.update({int(numbers[row]): (int(cells[row]), 0.0) for row in fresh.tolist()})
            classes = evaluator.black_boxes[0].num_classes
            answers = Answers(
                torch.from_numpy(table.answers(np.arange(len(table)), classes)),
                torch.from_numpy(table.divergence),
                archive_numbers=rows,
                label_pairs=label_numbers(torch.from_numpy(table.labels), classes),
                cells=torch.from_numpy(cells),
                violation=torch.zeros(len(table)),
                news=torch.from_numpy(news[0]),
                named_news=torch.from_numpy(news[1]),
            )
            genes = None if table.genes is None else torch.from_numpy(table.genes)
            images = torch.from_numpy(table.images).to(device)
            self._loop.technique.welcome(Proposal(images, int(table.generation.max()), genes), answers)
        if migrants.met is not None:
            evaluator.behaviours.meet(migrants.met)

    def _report(self, epoch: int) -> Report:
        loop, evaluator = self._loop, self._loop.evaluator
        whole = loop.technique.between_generations
        self._ended = loop.technique.finished or loop.room() < 1 or not whole
        # who searches until nothing new is found is not asked again when it is so
        counted = self._ended or self._prepared.config.until == "saturated"
        evaluator.archive.flush(everything=True)
        table = TriggerTable.joined(self._found) if self._found else None
        first = len(evaluator.archive) - (0 if table is None else len(table))
        noted = [self._noted[number] for number in range(first, len(evaluator.archive))]
        self._found.clear()
        self._noted.clear()
        return Report(
            epoch,
            evaluator.queries,
            None if table is None else table.columns(),
            np.array([cell for cell, _ in noted], dtype=np.int64),
            np.array([violation for _, violation in noted], dtype=np.float32),
            None if self._ended else packed(self._state()),
            self._ended,
            dict(loop.technique.outcomes()) if counted else {},
            "" if loop.exhausted_model is None else loop.exhausted_model.name,
        )

    def _state(self) -> dict[str, Any]:
        """What the search goes on from, between two generations."""
        evaluator = self._loop.evaluator
        assert evaluator.behaviours is not None
        known = {**evaluator.behaviours.checkpoint(), "queries": evaluator.queries}
        own = {"island_anew": self._anew, "island_empty": self._loop.empty}
        return {**self._loop.technique.checkpoint(), **known, **own}


class _Noting:
    """A technique whose answers are looked at on their way: cell and violation of every trigger are noted."""

    def __init__(self, technique: Any, noted: dict[int, tuple[int, float]]) -> None:
        self._technique = technique
        self._noted = noted

    def __getattr__(self, name: str) -> Any:
        return getattr(self._technique, name)

    def learn(self, proposal: Proposal, answers: Answers) -> None:
        """See :class:`diffgen.techniques.Technique`."""
        rows = np.flatnonzero(answers.archive_numbers.numpy() >= 0)
        columns = (answers.archive_numbers, answers.cells, answers.violation)
        numbers, cells, violation = (each.numpy()[rows].tolist() for each in columns)
        for number, cell, by in zip(numbers, cells, violation, strict=True):
            self._noted.setdefault(number, (cell, by))
        self._technique.learn(proposal, answers)
