"""Entry point of ``diffgen compare``: validate the inputs, create the run folder, run the pipeline."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

import torch

import diffgen
from diffgen.comparison.black_boxes import load_models, match_classes, place_of, recorded, specs_for, wall_of
from diffgen.comparison.device import resolve_batch_size, resolve_device
from diffgen.comparison.image_source import generator_digests, settled_generator
from diffgen.comparison.joining import with_time_of_gan
from diffgen.comparison.line import CompareResult, attach_answers, search_and_report
from diffgen.comparison.machine import device_name, versions
from diffgen.comparison.own_settings import with_own_settings
from diffgen.comparison.preflight import check_query_budgets, prepare_models
from diffgen.comparison.prepared import ComparisonHooks, Given
from diffgen.comparison.requirements import check_images, check_models, check_settings, filter_names
from diffgen.config import Budget, CompareConfig, SearchConfig, replace, roles, to_dict
from diffgen.data import is_word
from diffgen.data import load as load_data
from diffgen.errors import UserError
from diffgen.events import Listener, Progress, StopToken
from diffgen.extensions import Extensions, in_use, name_of
from diffgen.models import BlackBox
from diffgen.runs.creation import check_output
from diffgen.runs.folder import RunFolder
from diffgen.runs.lock import RunLock, check_free
from diffgen.sources.gan_family import split_of_gan
from diffgen.techniques import preset as technique_preset
from diffgen.techniques import preset_gan, technique_class


def compare(
    *models: Any,
    data: Any,
    budget: str | Budget | None = None,
    technique: Any = None,
    preset: str | None = None,
    technique_settings: Any = None,
    seed: int | None = None,
    device: str | None = None,
    batch_size: int | None = None,
    resize: int | None = None,
    generator: Any = None,
    latent_dim: int | None = None,
    prior: Literal["normal", "uniform"] | None = None,
    filters: Sequence[Any] | None = None,
    config: CompareConfig | None = None,
    output: str | Path | None = None,
    force: bool = False,
    events: Listener | None = None,
    stop: StopToken | None = None,
    command: str = "diffgen.compare(...)",
) -> CompareResult:
    """Search for realistic pictures on which models disagree, and write a run folder.

    Args:
        models: two or more: files, addresses of remote models, callables from arrays to probabilities (see
            :func:`diffgen.models.load`), or a :class:`diffgen.config.ModelSpec` with a path; none: those of ``config``.
        data: real images; see :func:`diffgen.data.load`.
        budget: ``60s``, ``5m``, ``20000q`` or both, of the search alone.
        technique, preset: how to search, by name (see :mod:`diffgen.techniques`); or a technique of one's own, a class
            derived from :class:`diffgen.Technique` or a ``functools.partial`` of one.
        technique_settings: an object of the technique's own ``Settings``, or None: its defaults.
        seed: seed of the search.
        device: ``auto``, ``cpu``, ``cuda`` or ``mps``.
        batch_size: images handed to a network at once, or None to suit the device.
        resize: side of the square (28, 32 or 64) that real images are brought to, or None: they keep their size.
        generator, latent_dim, prior: file of a generator of the user's own, in place of the GAN; see
            :class:`diffgen.config.GeneratorConfig`. Or an object, a :class:`diffgen.Source`, or a class or function
            that makes one for the shape (C, H, W) of the images.
        filters: validity filters, in the order in which they are asked: names, and objects of one's own; see
            :class:`diffgen.Filter`. None: those of ``config``.
        config: every other setting, and the defaults of the ones above.
        output: run folder, or None for a new one under ``runs/``.
        force: replace the run that is in the folder.
        events, stop: told what happens, and what ends it; see :mod:`diffgen.events`.
        command: what the user typed, for the report.

    Raises:
        UserError: something given cannot be used; nothing was written.
        RunError: the run broke off; what was found is in the run folder.
    """
    config = config or CompareConfig()
    own = Extensions.among(technique, config.generator.file if generator is None else generator, filters)
    if own.generator is not None:
        config, generator = replace(config, generator=replace(config.generator, file=None)), None
    with own.in_use():
        named = None if technique is None else name_of(technique)
        config = settled(config, budget, named, preset, seed, device, batch_size)
        if technique_settings is not None:
            config = replace(config, search=_with_settings(config, technique_settings))
        if filters is not None:
            config = replace(config, filters=replace(config.filters, names=tuple(map(name_of, filters))))
        config = settled_generator(config, file=generator, latent_dim=latent_dim, prior=prior)
        config = config if resize is None else replace(config, resize=resize)
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
    images = load_data(data, resize=config.resize, progress=progress)
    check_images(config, images)
    black_boxes = load_models(given, specs, device=place, batch_size=size)
    path = Path(output) if output is not None else _new_folder(black_boxes)
    path = check_output(path, force=force)
    check_free(path)
    config = with_time_of_gan(config, images, device=place, progress=progress)
    if config.gan_file is not None:
        config = replace(config, split=split_of_gan(config.gan_file, images, config.split, progress))
    check_query_budgets(black_boxes, images)
    with ExitStack() as held:
        for model in black_boxes:
            held.callback(model.answers.detach)
            model.answers.attach(None)
        prepare_models(black_boxes, images)
        match_classes(black_boxes, specs, images.class_names)
        hooks.models_ready(black_boxes, images)
        # what was detected becomes part of the settings: a replay must not guess again
        filters = replace(config.filters, names=filter_names(config))
        config = replace(with_own_settings(config), batch_size=size, filters=filters)
        config = recorded(config, black_boxes, specs)
        manifest = {
            "status": "running",
            "version": diffgen.__version__,
            "created": datetime.now(UTC).isoformat(timespec="seconds"),
            "command": command,
            "versions": versions(),
            "device": device_name(place),
            "threads": torch.get_num_threads(),
            "files": {role: _file_entry(model) for role, model in zip(roles(black_boxes), black_boxes, strict=True)},
            "technique": name_of(technique_class(config.technique)),
            "extensions": in_use().names(),
            "generator": generator_digests(config.generator),
            "data": {
                "source": images.source,
                "path": _data_path(data),
                "sha256": images.digest,
                "images": len(images),
            },
            **hooks.about(),
        }

        def open_folder() -> RunFolder:
            held.enter_context(RunLock(path))
            folder = RunFolder.create(path, config=to_dict(config), manifest=manifest, force=force)
            attach_answers(black_boxes, folder)
            return folder

        return search_and_report(Given(black_boxes, images, config, place, progress, hooks), open_folder)


def settled(
    config: CompareConfig,
    budget: str | Budget | None,
    technique: str | None,
    preset: str | None,
    seed: int | None,
    device: str | None,
    batch_size: int | None,
) -> CompareConfig:
    """The settings with those applied that were given by name; technique and preset bring their own search and GAN."""
    if technique is not None or preset is not None:
        technique, preset = technique or config.technique, preset or "default"
        search, gan = technique_preset(technique, preset), preset_gan(technique, preset, config.gan)
        config = replace(config, technique=technique, preset=preset, search=search, gan=gan)
    return replace(
        config,
        budget=config.budget if budget is None else Budget.parse(budget),
        seed=config.seed if seed is None else seed,
        device=config.device if device is None else device,
        batch_size=config.batch_size if batch_size is None else batch_size,
    )


def _with_settings(config: CompareConfig, settings: Any) -> SearchConfig:
    """The search with the settings of its technique.

    Raises:
        UserError: they are not of that technique's class.
    """
    own = technique_class(config.technique).Settings
    if own is None or not isinstance(settings, own):
        has = "has no settings of its own; leave it out" if own is None else f"takes an object of {name_of(own)}"
        raise UserError(
            f"technique_settings= is of {name_of(type(settings))}, but the technique {config.technique} {has}."
        )
    return config.search.with_technique(settings)


def _new_folder(models: Sequence[BlackBox]) -> Path:
    stems = [Path(model.name).stem or "model" for model in models]
    stamp = datetime.now().strftime("%Y%m%d-%H%M%S")
    return Path("runs") / f"{'-vs-'.join(stems)}-{stamp}"


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
