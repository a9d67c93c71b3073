"""Settles what was asked for: opens models and images, finds out what nobody said, and writes it into the settings."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import torch

import diffgen
from diffgen.comparison.black_boxes import load_models, match_classes, place_of, recorded, specs_for, wall_of
from diffgen.comparison.classes import with_known_labels
from diffgen.comparison.image_source import generator_digests
from diffgen.comparison.label_order import announce_order, in_order, namer, names_of_classes, order_of_labels
from diffgen.comparison.machine import device_name, resolve_batch_size, resolve_device, versions
from diffgen.comparison.plan import Objects, Plan
from diffgen.comparison.preflight import check_query_budgets, prepare_models
from diffgen.comparison.preprocessings import settle_sizes
from diffgen.comparison.real_data import announce_sizes, load_for
from diffgen.comparison.requirements import (
    check_images,
    check_models,
    check_settings,
    check_tables,
    source_of,
    unused_source,
    with_own_settings,
)
from diffgen.comparison.results import announce_numbers
from diffgen.comparison.seats import take_seats
from diffgen.comparison.settings_file import data_path
from diffgen.comparison.stages import attach_answers, before_the_search
from diffgen.config import CompareConfig, SearchConfig, replace, roles, to_dict
from diffgen.data import is_word
from diffgen.errors import UserError
from diffgen.events import Progress
from diffgen.filters import check_enough
from diffgen.labels.answers import read_answers
from diffgen.models import BlackBox
from diffgen.numerics import all_threads
from diffgen.parts import in_use, name_of
from diffgen.runs.creation import check_output
from diffgen.runs.folder import RunFolder
from diffgen.runs.lock import RunLock
from diffgen.sampling import random_rows
from diffgen.sources.gan import split_of_gan
from diffgen.sources.seeds import with_named_operators
from diffgen.techniques import technique_class
from diffgen.types import ImageSet

_GENERATIONS = 10  # that a budget is to have; of fewer, selection has nothing to select
_FEWEST = 32  # individuals
_TIMED = 8  # images


@dataclass(frozen=True)
class Request:
    """What was asked for.

    Attributes:
        models: files, addresses, Python objects, or :class:`diffgen.config.ModelSpec` with a path; none: those of
            ``config``.
        data: real images; see :func:`diffgen.data.load`.
        config: all settings as they were given.
        output: run folder, or None for a new one under ``runs/``.
        force: replace the run that is in the folder.
        about: what else the manifest shall say; JSON values.
    """

    models: tuple[Any, ...]
    data: Any
    config: CompareConfig
    output: str | Path | None
    force: bool
    command: str
    about: Mapping[str, Any] = field(default_factory=dict)


@contextmanager
def settled_plan(request: Request, progress: Progress) -> Iterator[Plan]:
    """The plan of a new run, whose folder nobody else can begin a run in while the block runs; nothing is written yet.

    This alone makes the settings of a run, but for the names of the filters, which the trained jury decides on.

    Raises:
        UserError: something that was asked for cannot be.
    """
    asked = request.config
    device = resolve_device(asked.device)
    batch_size = resolve_batch_size(asked.batch_size, device)
    given, specs = specs_for(request.models, asked)
    check_settings(asked)
    check_models(asked, len(given))
    if unused := unused_source(asked):
        progress.warn(unused)
    with before_the_search(), progress.stage("Opening the models"):
        models = load_models(given, specs, device=device, batch_size=batch_size)
    check_tables(asked, models)
    images, resize = load_for(request.data, models, asked, progress)
    check_images(asked, images)
    if (drawing := source_of(asked)) is not None:
        drawing.try_out(asked, images.image_shape, device)
    answers = answers_digest(asked, images.image_shape)
    path = check_output(_new_folder(models) if request.output is None else Path(request.output), force=request.force)
    check_query_budgets(models, images)
    with ExitStack() as held:
        if not path.exists():
            held.callback(_remove_if_empty, path)  # what was ended before there is a run
        held.enter_context(RunLock(path))
        for model in models:
            held.callback(model.answers.detach)
            model.answers.attach(None)
        with before_the_search():
            prepare_models(models, images, progress)
        models, asked = take_seats(models, images, asked, progress)
        named = namer(models, [spec.label_map is not None for spec in specs])
        as_read, order = images, order_of_labels(images, names_of_classes(named))
        announce_order(images, order, named.class_names, f"model {named.name}", progress)
        images, labels_known = with_known_labels(models, in_order(images, order), asked, progress)
        check_images(labels_known, images)
        split = asked.split
        if asked.gan_file is not None:
            split = split_of_gan(asked.gan_file, as_read if order else images, split, progress)
        match_classes(models, specs, as_read.class_names)
        settle_sizes(models, images, progress)
        announce_sizes(models, images, progress)
        announce_numbers(models, images, progress)
        config = replace(
            asked,
            resize=resize,
            budget=asked.budget.of(images.image_shape),
            data_labels=labels_known.data_labels,
            split=split,
            batch_size=batch_size,
            models=recorded(models, specs),
            search=replace(asked.search, population=affordable_population(asked, models, images, progress)),
        )
        where = _data_path(request.data)
        manifest = {
            "status": "running",
            "version": diffgen.__version__,
            "created": datetime.now(UTC).isoformat(timespec="seconds"),
            "command": request.command,
            "versions": versions(),
            "device": device_name(device),
            "threads": all_threads(),
            "files": {
                role: {"name": model.name, "path": place_of(model), "sha256": model.digest, "wall": wall_of(model)}
                for role, model in zip(roles(models), models, strict=True)
            },
            "technique": name_of(technique_class(asked.technique)),
            "extensions": in_use().names(),
            "generator": generator_digests(asked.generator),
            "learned_from": answers,
            "data": {
                "source": images.source,
                "path": where,
                "sha256": as_read.digest,
                "images": len(images),
                **({"label_order": list(order)} if order else {}),
            },
            **request.about,
        }

        def open_folder(config: CompareConfig) -> RunFolder:
            folder = RunFolder.create(path, config=to_dict(config), manifest=manifest, force=request.force)
            attach_answers(models, folder)
            return folder

        yield Plan(
            models,
            images,
            with_named_operators(with_own_settings(config), images.images),
            device,
            progress,
            open_folder,
            Objects(
                tuple(None if isinstance(each, str | os.PathLike) else each for each in given),
                request.data if where is None else None,
                specs,
                in_use(),
            ),
        )


def _new_folder(models: tuple[BlackBox, ...]) -> Path:
    stems = [Path(model.name).stem or "model" for model in models]
    return Path("runs") / f"{'-vs-'.join(stems)}-{datetime.now().strftime('%Y%m%d-%H%M%S')}"


def _remove_if_empty(path: Path) -> None:
    with suppress(OSError):  # a run is in it
        path.rmdir()


def _data_path(data: Any) -> str | None:
    """What names the data when it is to be read again, or None for images in memory."""
    if not isinstance(data, str | os.PathLike):
        return None
    return str(data) if is_word(data) else data_path(os.fspath(data), Path())


# -- the size of a generation --------------------------------------------------------------------------------------


def affordable_population(
    config: CompareConfig, models: Sequence[BlackBox], images: ImageSet, progress: Progress
) -> int:
    """The population, such that ten generations fit into the budget; said aloud where it is smaller than usual.

    Halved until it does, so that two runs on one machine come to the same. With a budget in queries, or a population
    that the user chose, nothing changes.

    Args:
        images: real images; the models are asked about a few.
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


# -- the answers of people that the filter learned learns from -----------------------------------------------------


def answers_digest(config: CompareConfig, image_shape: tuple[int, int, int]) -> str | None:
    """Tells the answers that the filter learned learns from, from all others; None where it is no filter of the run.

    Raises:
        UserError: they cannot be read, are about pictures of another shape than (C, H, W), or are too few.
    """
    path = config.filters.learned_from
    if path is None:
        return None
    found = read_answers(Path(path), image_shape)
    check_enough(found.valid)
    return found.digest


def check_same_answers(config: CompareConfig, folder: RunFolder, image_shape: tuple[int, int, int]) -> None:
    """See that the answers are those that a run was started with. UserError if not, or as :func:`answers_digest`."""
    before = folder.manifest.get("learned_from")
    if before is not None and answers_digest(config, image_shape) != before:
        raise UserError(
            f"The answers {config.filters.learned_from}, which the filter learned learns from, have changed since "
            f"the run {folder.path} was started; put the old ones back, or start a new run."
        )
