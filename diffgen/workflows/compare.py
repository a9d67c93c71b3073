"""Entry point of ``diffgen compare``: validate the inputs, create the run folder, run the pipeline."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Unpack

import diffgen
from diffgen.comparison.black_boxes import load_models, match_classes, place_of, recorded, specs_for, wall_of
from diffgen.comparison.classes import with_known_labels
from diffgen.comparison.device import resolve_batch_size, resolve_device
from diffgen.comparison.image_source import generator_digests, try_out_source
from diffgen.comparison.label_order import announce_order, in_order, namer, names_of_classes, order_of_labels
from diffgen.comparison.learned_from import answers_digest
from diffgen.comparison.line import CompareResult, attach_answers, before_the_search, search_and_report
from diffgen.comparison.machine import device_name, versions
from diffgen.comparison.named_settings import settled
from diffgen.comparison.own_settings import with_named_operators, with_own_settings
from diffgen.comparison.pace import with_affordable_population
from diffgen.comparison.preflight import check_query_budgets, prepare_models
from diffgen.comparison.prepared import ComparisonHooks, Given, Reopening
from diffgen.comparison.real_data import announce_sizes, load_for
from diffgen.comparison.requirements import check_images, check_models, check_settings, check_tables, unused_source
from diffgen.comparison.results import announce_numbers
from diffgen.comparison.sizes import settle_sizes
from diffgen.config import CompareConfig, replace, roles, to_dict
from diffgen.config.named import NamedSettings
from diffgen.data import is_word
from diffgen.events import Listener, Progress, StopToken
from diffgen.extensions import in_use, name_of
from diffgen.islands.begin import check_islands
from diffgen.islands.choice import search_of
from diffgen.models import BlackBox
from diffgen.numerics import own_numerics
from diffgen.runs.creation import check_output
from diffgen.runs.folder import RunFolder
from diffgen.runs.lock import RunLock
from diffgen.sources.gan_family import split_of_gan
from diffgen.techniques import technique_class
from diffgen.threads import all_threads


@own_numerics()
def compare(
    *models: Any,
    data: Any,
    technique: Any = None,
    technique_settings: Any = None,
    generator: Any = None,
    filters: str | Sequence[Any] | None = None,
    config: CompareConfig | None = None,
    output: str | Path | None = None,
    force: bool = False,
    events: Listener | None = None,
    stop: StopToken | None = None,
    command: str = "diffgen.compare(...)",
    **settings: Unpack[NamedSettings],
) -> CompareResult:
    """Search for realistic pictures on which models disagree, and write a run folder.

    Args:
        models: two or more: files, addresses of remote models, callables from arrays to probabilities (see
            :func:`diffgen.models.load`), or a :class:`diffgen.config.ModelSpec` with a path; none: those of ``config``.
        data: real images; see :func:`diffgen.data.load`.
        technique: how to search, by name (see :mod:`diffgen.techniques`); or a technique of one's own, a class derived
            from :class:`diffgen.Technique` or a ``functools.partial`` of one.
        technique_settings: an object of the technique's own ``Settings``, or None: its defaults.
        generator: file of a generator of the user's own, in place of the GAN; see
            :class:`diffgen.config.GeneratorConfig`. Or an object, a :class:`diffgen.Source`, or a class or function
            that makes one for the shape (C, H, W) of the images.
        filters: validity filters, in the order in which they are asked: names, and objects of one's own (see
            :class:`diffgen.Filter`); or the name of a preset. None: those of ``config``.
        config: every other setting, and the defaults of what is named.
        output: run folder, or None for a new one under ``runs/``.
        force: replace the run that is in the folder.
        events, stop: told what happens, and what ends it; see :mod:`diffgen.events`.
        command: what the user typed, for the report.
        settings: what the command line's options set, under their names: ``budget="60s"``, ``seed=7``,
            ``gan_schedule="quick"``; see :class:`diffgen.config.named.NamedSettings`.

    Raises:
        UserError: something given cannot be used; nothing was written.
        RunError: the run broke off; what was found is in the run folder.
    """
    given = {"technique": technique, "generator": generator, "filters": filters}
    with settled(
        CompareConfig() if config is None else config, settings, technique_settings=technique_settings, **given
    ) as config:
        return run_comparison(
            models,
            data=data,
            config=config,
            output=output,
            force=force,
            progress=Progress(events, stop),
            command=command,
        )


def run_comparison(
    models: Sequence[Any],
    *,
    data: Any,
    config: CompareConfig,
    output: str | Path | None,
    force: bool,
    progress: Progress,
    command: str,
    hooks: ComparisonHooks | None = None,
) -> CompareResult:
    """:func:`compare` with settled settings; ``hooks`` is told what is ready on the way.

    Raises:
        UserError, RunError: see :func:`compare`.
    """
    hooks = hooks or ComparisonHooks()
    place = resolve_device(config.device)
    size = resolve_batch_size(config.batch_size, place)
    given, specs = specs_for(models, config)
    check_settings(config)
    check_models(config, len(given))
    check_islands(config)
    if unused := unused_source(config):
        progress.warn(unused)
    with before_the_search(), progress.stage("Opening the models"):
        black_boxes = load_models(given, specs, device=place, batch_size=size)
    check_tables(config, black_boxes)
    images, config = load_for(data, black_boxes, config, progress)
    check_images(config, images)
    try_out_source(config, images.image_shape, place)
    answers = answers_digest(config, images.image_shape)
    path = Path(output) if output is not None else _new_folder(black_boxes)
    path = check_output(path, force=force)
    check_query_budgets(black_boxes, images)
    with ExitStack() as held:
        if not path.exists():
            held.callback(_remove_if_empty, path)  # what was ended before there is a run
        held.enter_context(RunLock(path))  # so that nobody begins a second one there meanwhile
        for model in black_boxes:
            held.callback(model.answers.detach)
            model.answers.attach(None)
        with before_the_search():
            prepare_models(black_boxes, images, progress)
        named = namer(black_boxes, [spec.label_map is not None for spec in specs])
        as_read, order = images, order_of_labels(images, names_of_classes(named))
        announce_order(images, order, named.class_names, f"model {named.name}", progress)
        images = in_order(images, order)
        images, config = with_known_labels(black_boxes, images, config, progress)
        check_images(config, images)
        if config.gan_file is not None:
            config = replace(
                config, split=split_of_gan(config.gan_file, as_read if order else images, config.split, progress)
            )
        match_classes(black_boxes, specs, as_read.class_names)
        settle_sizes(black_boxes, images, progress)
        announce_sizes(black_boxes, images, progress)
        announce_numbers(black_boxes, images, progress)
        config = with_affordable_population(config, black_boxes, images, progress)
        hooks.models_ready(black_boxes, images, config)
        # what was detected becomes part of the settings: a replay must not guess again
        config = with_named_operators(with_own_settings(config), images.images)
        config = replace(config, batch_size=size)
        config = recorded(config, black_boxes, specs)
        manifest = {
            "status": "running",
            "version": diffgen.__version__,
            "created": datetime.now(UTC).isoformat(timespec="seconds"),
            "command": command,
            "versions": versions(),
            "device": device_name(place),
            "threads": all_threads(),
            "files": {role: _file_entry(model) for role, model in zip(roles(black_boxes), black_boxes, strict=True)},
            "technique": name_of(technique_class(config.technique)),
            "extensions": in_use().names(),
            "generator": generator_digests(config.generator),
            "learned_from": answers,
            "data": {
                "source": images.source,
                "path": _data_path(data),
                "sha256": as_read.digest,
                "images": len(images),
                **({"label_order": list(order)} if order else {}),
            },
            **hooks.about(),
        }

        def open_folder(found: CompareConfig) -> RunFolder:
            folder = RunFolder.create(path, config=to_dict(found), manifest=manifest, force=force)
            attach_answers(black_boxes, folder)
            return folder

        objects = tuple(None if isinstance(each, str | os.PathLike) else each for each in given)
        in_memory = data if _data_path(data) is None else None
        search = search_of(config, Reopening(objects, in_memory, specs, in_use()))
        return search_and_report(Given(black_boxes, images, config, place, progress, hooks, search=search), open_folder)


def _new_folder(models: Sequence[BlackBox]) -> Path:
    stems = [Path(model.name).stem or "model" for model in models]
    stamp = datetime.now().strftime("%Y%m%d-%H%M%S")
    return Path("runs") / f"{'-vs-'.join(stems)}-{stamp}"


def _remove_if_empty(path: Path) -> None:
    with suppress(OSError):  # a run is in it
        path.rmdir()


def _file_entry(model: BlackBox) -> dict[str, Any]:
    return {
        "name": model.name,
        "path": place_of(model),
        "sha256": model.digest,
        "wall": wall_of(model),
    }


def _data_path(data: Any) -> str | None:
    """What names the data when it is to be read again, or None for images in memory."""
    if not isinstance(data, str | os.PathLike):
        return None
    text = os.fspath(data)
    if is_word(data):
        return text
    if Path(text).exists():
        return str(Path(text).absolute())
    folder, colon, split = text.rpartition(":")  # FOLDER:test, one half of a folder
    return f"{Path(folder).absolute()}:{split}" if colon and Path(folder).exists() else text
