"""The whole line: data -> preflight -> GAN -> search -> filters -> report."""

from __future__ import annotations

import os
import platform
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, fields
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch

import diffgen
from diffgen.config import Budget, CompareConfig, from_dict, replace, to_dict
from diffgen.data import is_word
from diffgen.data import load as load_data
from diffgen.errors import UserError
from diffgen.features import cells as cell_store
from diffgen.features.cells import Cells
from diffgen.models import BlackBox
from diffgen.models.loading import file_digest
from diffgen.runs.folder import RunFolder, check_output
from diffgen.runs.lock import RunLock, check_free
from diffgen.techniques import preset as technique_preset
from diffgen.types import ImageSet, Progress
from diffgen.workflows.device import resolve_batch_size, resolve_device
from diffgen.workflows.filters import make_pipeline
from diffgen.workflows.gan import DomainModels, settings_of
from diffgen.workflows.generator import check_unchanged, generator_digests, prepare_generator, settled_generator
from diffgen.workflows.limits import check_limits
from diffgen.workflows.models import load_models, match_classes, recorded, resume_command, stored_model
from diffgen.workflows.preflight import RealAnswers, check_query_budgets, inspect_real_images, prepare_models
from diffgen.workflows.requirements import asks_filters_in_search, check_images, check_seeds, check_settings
from diffgen.workflows.results import write_results
from diffgen.workflows.search import real_images, run_search
from diffgen.workflows.stages import Prepared, Stages
from diffgen.workflows.validity import judge_triggers

_RECORDED_PACKAGES = ("torch", "torchvision", "numpy", "pymoo", "hdbscan", "umap-learn", "scikit-learn", "onnxruntime")


@dataclass(frozen=True)
class CompareResult:
    """The figures of a comparison; everything else is in the run folder.

    Attributes:
        run: the run folder.
        queries: images both models were asked about during the search.
        triggers: distinct generated images on which the models disagree.
        valid_triggers: those that passed every filter.
        distinct_valid_triggers: those without near-duplicates; what the headline counts.
        behaviours: label pair x cell, among the valid triggers.
        behaviours_estimated: how many there are, found or not, by Chao's estimate; see ``diffgen.metrics.richness``.
        label_pairs: different ordered label pairs among the valid triggers.
        seconds: length of the search.
        saturated: it ended because nothing new was found any more.
        most_frequent: what A says, what B says (by name) and the number of valid triggers, of the most frequent pairs.
        interrupted: the user ended the search before its budget was used up.
    """

    run: str
    queries: int
    triggers: int
    valid_triggers: int
    distinct_valid_triggers: int
    behaviours: int
    behaviours_estimated: int
    label_pairs: int
    seconds: float
    saturated: bool = False
    most_frequent: tuple[tuple[str, str, int], ...] = ()
    interrupted: bool = False

    def as_dict(self) -> dict[str, Any]:
        """The figures as JSON values, without ``most_frequent`` and ``interrupted``."""
        values = asdict(self)
        del values["most_frequent"], values["interrupted"]
        return values


def compare(
    model_a: Any,
    model_b: Any,
    *,
    data: Any,
    budget: str | Budget | None = None,
    technique: str | None = None,
    preset: str | None = None,
    seed: int | None = None,
    device: str | None = None,
    batch_size: int | None = None,
    resize: int | None = None,
    generator: str | Path | None = None,
    latent_dim: int | None = None,
    prior: Literal["normal", "uniform"] | None = None,
    config: CompareConfig | None = None,
    output: str | Path | None = None,
    force: bool = False,
    progress: Progress | None = None,
    command: str = "diffgen.compare(...)",
) -> CompareResult:
    """Search for realistic pictures on which two models disagree, and write a run folder.

    Args:
        model_a, model_b: model files, addresses of remote models, or callables from arrays to probabilities; see
            :func:`diffgen.models.load`.
        data: real images; see :func:`diffgen.data.load`.
        budget: ``60s``, ``5m``, ``20000q`` or both, of the search alone.
        technique, preset: how to search; see :mod:`diffgen.techniques`.
        seed: seed of the search.
        device: ``auto``, ``cpu``, ``cuda`` or ``mps``.
        batch_size: images handed to a network at once, or None to suit the device.
        resize: side of the square (28, 32 or 64) that real images are brought to, or None: they keep their size.
        generator, latent_dim, prior: file of a generator of the user's own, in place of the GAN; see
            :class:`diffgen.config.GeneratorConfig`.
        config: every other setting, and the defaults of the ones above.
        output: run folder, or None for a new one under ``runs/``.
        force: replace the run that is in the folder.
        progress: where to say how far it is.
        command: what the user typed, for the report.

    Raises:
        UserError: something given cannot be used; nothing was written.
        RunError: the run broke off; what was found is in the run folder.
    """
    config = settled(config or CompareConfig(), budget, technique, preset, seed, device, batch_size)
    config = settled_generator(config, file=generator, latent_dim=latent_dim, prior=prior)
    config = config if resize is None else replace(config, resize=resize)
    return run_comparison(
        model_a, model_b, data=data, config=config, output=output, force=force, progress=progress, command=command
    )


def run_comparison(
    model_a: Any,
    model_b: Any,
    *,
    data: Any,
    config: CompareConfig,
    output: str | Path | None,
    force: bool,
    progress: Progress | None,
    command: str,
    stages: Stages | None = None,
) -> CompareResult:
    """:func:`compare` with settled settings; ``stages`` is told what is ready on the way.

    Raises:
        UserError, RunError: see :func:`compare`.
    """
    progress = progress or Progress()
    stages = stages or Stages()
    check_limits(config)
    place = resolve_device(config.device)
    size = resolve_batch_size(config.batch_size, place)
    check_settings(config)
    images = load_data(data, resize=config.resize, progress=progress)
    check_images(config, images)
    black_boxes = load_models(model_a, model_b, config, device=place, batch_size=size)
    path = Path(output) if output is not None else _new_folder(black_boxes)
    check_output(path, force=force)
    check_free(path)
    if config.gan_file is not None:
        config = replace(config, gan=settings_of(config.gan_file, images, config.gan, progress))
    check_query_budgets(black_boxes, images)
    with ExitStack() as held:
        for model in black_boxes:
            held.callback(model.forget_answers)
            model.keep_answers(None)
        prepare_models(black_boxes, images)
        match_classes(black_boxes, config.label_map, images.class_names)
        stages.models_ready(black_boxes, images)
        # what was detected becomes part of the settings: a replay must not guess again
        config = recorded(replace(config, batch_size=size), black_boxes)
        manifest = {
            "status": "running",
            "version": diffgen.__version__,
            "created": datetime.now(UTC).isoformat(timespec="seconds"),
            "command": command,
            "versions": _versions(),
            "device": _device_name(place),
            "threads": torch.get_num_threads(),
            "files": {role: _file_entry(model) for role, model in zip("AB", black_boxes, strict=True)},
            "generator": generator_digests(config.generator),
            "data": {
                "source": images.source,
                "path": _data_path(data),
                "sha256": images.digest,
                "images": len(images),
            },
            **stages.about(),
        }

        def open_folder() -> RunFolder:
            held.enter_context(RunLock(path))
            folder = RunFolder.create(path, config=to_dict(config), manifest=manifest, force=force)
            _keep_answers(black_boxes, folder)
            return folder

        return _run(black_boxes, images, config, open_folder, device=place, progress=progress, stages=stages)


def _keep_answers(models: Sequence[BlackBox], folder: RunFolder) -> None:
    """Let a run that is resumed pay for no image twice."""
    for role, model in zip("AB", models, strict=True):
        model.keep_answers(folder.answers_file(role))


def settled(
    config: CompareConfig,
    budget: str | Budget | None,
    technique: str | None,
    preset: str | None,
    seed: int | None,
    device: str | None,
    batch_size: int | None,
) -> CompareConfig:
    """The settings with those applied that were given by name; a technique or a preset brings its own search."""
    if technique is not None or preset is not None:
        technique, preset = technique or config.technique, preset or "default"
        search = technique_preset(technique, preset)
        config = replace(config, technique=technique, preset=preset, search=search)
    return replace(
        config,
        budget=config.budget if budget is None else Budget.parse(budget),
        seed=config.seed if seed is None else seed,
        device=config.device if device is None else device,
        batch_size=config.batch_size if batch_size is None else batch_size,
    )


def resume(
    run: str | Path,
    model_a: Any = None,
    model_b: Any = None,
    *,
    data: Any = None,
    options: CompareConfig | None = None,
    progress: Progress | None = None,
) -> CompareResult:
    """Go on with a run that was broken off; with a budget in queries it ends as it would have without the break.

    A run whose search is finished is only filtered and reported; of one that is done, the figures are read.

    Args:
        run: the run folder.
        model_a, model_b, data: needed only where the run was given objects instead of files, or files have moved.
        options: allows again what runs code (``model_a``, ``model_b``), or None: nothing of the kind.

    Raises:
        UserError: there is nothing to go on with, models or data are not those of the run, or another process works
            in the folder.
        RunError: the run broke off again.
    """
    progress = progress or Progress()
    with RunLock(RunFolder.open(run).path):
        folder = RunFolder.open(run)
        if "check" in folder.manifest:
            raise UserError(f"The run {folder.path} is a check; go on with 'diffgen check --resume {folder.path}'.")
        folder.tidy()
        done = _figures_of_done(folder)
        if done is not None:
            progress.say(f"The run {folder.path} is done; nothing is left to go on with. Here are its figures again.")
            return done
        return resume_comparison(
            folder, model_a, model_b, data=data, options=options, progress=progress, stages=Stages()
        )


def _figures_of_done(folder: RunFolder) -> CompareResult | None:
    """What a run that came to its end said at the end; None for any other."""
    if folder.manifest.get("status") != "done":
        return None
    try:
        results = folder.results()
        figures = {f.name: results[f.name] for f in fields(CompareResult) if f.name not in ("run", "most_frequent")}
        # runs of version 0.1.0 may have none
        pairs = tuple((str(a), str(b), int(count)) for a, b, count in results.get("most_frequent", ()))
        return CompareResult(run=str(folder.path), most_frequent=pairs, **figures)
    except (UserError, KeyError, TypeError, ValueError):
        return None  # damaged; filters and report are made again


def resume_comparison(
    folder: RunFolder,
    model_a: Any,
    model_b: Any,
    *,
    data: Any,
    options: CompareConfig | None,
    progress: Progress,
    stages: Stages,
) -> CompareResult:
    """:func:`resume` of a run that is not done, whose lock the caller holds; ``stages`` is told what is ready.

    Raises:
        UserError, RunError: see :func:`resume`.
    """
    config: CompareConfig = from_dict(CompareConfig, folder.config())
    device = resolve_device(config.device)
    models = [
        stored_model(folder, role, given, config, device=device, options=options)
        for role, given in (("A", model_a), ("B", model_b))
    ]
    source = data if data is not None else folder.manifest["data"]["path"]
    if source is None:
        raise UserError(f"The run {folder.path} was given its images in memory; give them again to resume it.")
    images = load_data(source, resize=config.resize, progress=progress)
    if images.digest != folder.manifest["data"]["sha256"]:
        raise UserError(
            f"The data {images.source} is no longer what the run {folder.path} was started with; start a new run."
        )
    check_unchanged(config.generator, folder)
    with ExitStack() as held:
        for model in models:
            held.callback(model.forget_answers)
        _keep_answers(models, folder)
        prepare_models(models, images)
        _warn_of_changes(folder, device, progress)
        pair = models[0], models[1]
        stages.models_ready(pair, images)
        return _run(pair, images, config, lambda: folder, device=device, progress=progress, stages=stages)


def _warn_of_changes(folder: RunFolder, device: torch.device, progress: Progress) -> None:
    """Say what is no longer as it was when the run was started."""
    before = {
        **folder.manifest.get("versions", {}),
        "device": folder.manifest.get("device"),
        "threads": folder.manifest.get("threads"),
    }
    now = {**_versions(), "device": _device_name(device), "threads": torch.get_num_threads()}
    changed = [
        f"{name} {before[name]} then, {now[name]} now" for name in now if before.get(name, now[name]) != now[name]
    ]
    if changed:
        progress.warn(
            f"The run was started elsewhere ({'; '.join(changed)}); it goes on, but may end with other triggers than "
            "without the break."
        )


def _run(
    models: tuple[BlackBox, BlackBox],
    images: ImageSet,
    config: CompareConfig,
    open_folder: Callable[[], RunFolder],
    *,
    device: torch.device,
    progress: Progress,
    stages: Stages,
) -> CompareResult:
    try:
        real, domain, cells = _look_at_data(models, images, config, device=device, progress=progress)
        folder = open_folder()
    except KeyboardInterrupt as error:
        error.add_note("the search had not begun; start it again with the same command (a trained GAN is kept)")
        raise
    try:
        return _search_and_judge(
            models, images, config, folder, real, domain, cells, device=device, progress=progress, stages=stages
        )
    except (KeyboardInterrupt, Exception) as error:
        again = resume_command(stages.verb, folder, config, models)
        error.add_note(f"what was found is kept; go on with '{again}'")
        raise


def _look_at_data(
    models: tuple[BlackBox, BlackBox],
    images: ImageSet,
    config: CompareConfig,
    *,
    device: torch.device,
    progress: Progress,
) -> tuple[RealAnswers, DomainModels, Cells]:
    """Everything before the search: the models on the real images, the GAN, the cells."""
    real = inspect_real_images(models, images, progress=progress)
    summary = real.summary
    progress.say(
        f"Real images: A and B agree on {summary.agreement:.2%} of {summary.images:,}"
        + ("" if summary.accuracy is None else f"; accuracy A {summary.accuracy[0]:.2%}, B {summary.accuracy[1]:.2%}")
        + f"; outputs taken for {summary.outputs[0]} (A) and {summary.outputs[1]} (B)."
    )
    for warning in summary.warnings:
        progress.warn(warning)
    check_seeds(config, real_images(images, real), images.source)
    cells = cell_store.prepare(images, device=device, progress=progress)
    domain = prepare_generator(images, config, cells.encoder, device=device, progress=progress)
    return real, domain, cells


def _search_and_judge(
    models: tuple[BlackBox, BlackBox],
    images: ImageSet,
    config: CompareConfig,
    folder: RunFolder,
    real: RealAnswers,
    domain: DomainModels,
    cells: Cells,
    *,
    device: torch.device,
    progress: Progress,
    stages: Stages,
) -> CompareResult:
    batch_size = resolve_batch_size(config.batch_size, device)
    gan = None if domain.path is None else file_digest(domain.path)
    if folder.manifest.get("gan", gan) != gan:
        progress.warn(
            "The GAN that the run was started with is no longer in the cache, and the one that was trained now "
            "differs; the run goes on, but ends with other triggers than without the break."
        )
    folder.save_manifest(status="running", gan=gan)
    pipeline = make_pipeline(images, domain, config, batch_size=batch_size, device=device, progress=progress)
    stages.search_ready(Prepared(models, images, config, folder, real, domain, pipeline, cells, batch_size))
    outcome = run_search(
        models,
        domain,
        real_images(images, real),
        folder,
        config,
        cells=cells,
        margin=real.summary.margin,
        batch_size=batch_size,
        device=device,
        progress=progress,
        validity=pipeline.violation if asks_filters_in_search(config) else None,
    )
    triggers = folder.read_parts()
    shape = (0, *images.image_shape)
    validity = judge_triggers(
        models,
        triggers.get("images", np.empty(shape, dtype=np.uint8)),
        triggers.get("probabilities", np.empty((0, 2, models[0].num_classes), dtype=np.float32)),
        pipeline,
        cells,
        verify_limit=config.verify_limit,
        progress=progress,
    )
    for model in models:
        if model.account:
            progress.say(model.account)
    headline, warnings = write_results(
        folder, models, images, real, domain, pipeline, outcome, validity, encoder=cells.encoder, config=config
    )
    for warning in warnings:
        progress.warn(warning)
    folder.save_manifest(status="interrupted" if outcome.interrupted else "done")
    return CompareResult(run=str(folder.path), interrupted=outcome.interrupted, **headline)


def _new_folder(models: tuple[BlackBox, BlackBox]) -> Path:
    stems = [Path(model.name).stem or "model" for model in models]
    stamp = datetime.now().strftime("%Y%m%d-%H%M%S")
    return Path("runs") / f"{stems[0]}-vs-{stems[1]}-{stamp}"


def _file_entry(model: BlackBox) -> dict[str, Any]:
    return {
        "name": model.name,
        "path": model.url if model.path is None else str(Path(model.path).absolute()),
        "sha256": model.digest,
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


def _versions() -> dict[str, str]:
    found = {"python": platform.python_version(), "system": f"{platform.system()} {platform.machine()}"}
    for package in _RECORDED_PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            found[package] = "missing"
    return found


def _device_name(device: torch.device) -> str:
    return f"{device} ({torch.cuda.get_device_name(device)})" if device.type == "cuda" else str(device)
