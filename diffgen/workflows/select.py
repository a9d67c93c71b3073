"""Trains the selector of a run, and measures what it is worth."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from diffgen.comparison.filter_chain import prepare_encoder
from diffgen.comparison.label_order import announce_order, in_order, order_of_labels, shifted
from diffgen.comparison.opened_run import OpenedRun
from diffgen.comparison.plan import Prepared
from diffgen.comparison.real_data import load_stored
from diffgen.comparison.stages import Judged
from diffgen.config import CompareConfig, ModelSpec, SelectorConfig, roles, to_dict
from diffgen.data.split import DataSplit, split_rows
from diffgen.errors import UserError
from diffgen.events import Listener, Progress, StopToken
from diffgen.features.pretrained import Vgg16
from diffgen.labels.store import SOURCES, UNLABELLED
from diffgen.models import BlackBox
from diffgen.models.wording import shape_text
from diffgen.numerics import own_numerics
from diffgen.report.from_run import write_report
from diffgen.runs.files import write_whole
from diffgen.runs.folder import RunFolder
from diffgen.runs.lock import RunLock
from diffgen.runs.triggers import TriggerTable, image_hashes
from diffgen.selector.evaluation import Cost, Evaluation, OnRealImages, evaluate, judge_on_real, measure_cost
from diffgen.selector.examples import Examples, divisions, made_from, make_examples, trusted_behaviours
from diffgen.selector.forest import cross_validated, fit_forest
from diffgen.selector.onnx_file import (
    PixelNetwork,
    Selector,
    Vgg16Network,
    downloaded_vgg16,
    extract,
    load_selector,
    save_selector,
)
from diffgen.selector.rules import Stacking
from diffgen.types import Float32Array, ImageSet, Int64Array
from diffgen.workflows.label import put_labels, read_store, read_valid_triggers
from diffgen.workflows.label_oracle import oracle_labels

SELECTOR_FILE = "selector.onnx"
_JURY = "jury"


@dataclass(frozen=True)
class SelectResult:
    """A selector that was trained.

    Attributes:
        run: the run folder.
        selector: its file.
        features: what the forest sees.
        examples: labelled triggers that it learnt from.
        sources: who labelled these -> how many.
        both_wrong: labelled triggers on which no model is right.
        on_triggers: a random division, one by behaviour, and, of finds made from real images, one by these; each where
            there are enough of them.
        real: real images, as far as there are labelled ones.
        cost: milliseconds an image.
    """

    run: str
    selector: str
    features: str
    examples: int
    sources: dict[str, int]
    both_wrong: int
    on_triggers: tuple[Evaluation, ...]
    real: tuple[OnRealImages, ...]
    cost: Cost

    def as_dict(self) -> dict[str, Any]:
        """JSON values."""
        return {
            **vars(self),
            "on_triggers": [each.as_dict() for each in self.on_triggers],
            "real": [each.as_dict() for each in self.real],
            "cost": self.cost.as_dict(),
        }


@own_numerics()
def select(
    run: str | Path,
    *,
    config: SelectorConfig | None = None,
    data: Any = None,
    models: Sequence[Any] = (),
    options: Sequence[ModelSpec] = (),
    device: str | None = None,
    force: bool = False,
    events: Listener | None = None,
    stop: StopToken | None = None,
) -> SelectResult:
    """Train the selector of a run on its labelled triggers and write selector.onnx, selection.npz and the report.

    Args:
        run: the run folder.
        config: features, forest, labels.
        data: more labelled real images to judge it on, that no part of the run has seen; or None: only those of the
            run's data that were held out when its GAN was trained.
        models: the run's models where it was given objects, or none.
        options: allows again what runs code; see :func:`diffgen.replay`.
        device: or None for the run's own.
        force: replace the selector that the run has.
        events, stop: told what happens, and what ends it; see :mod:`diffgen.events`.

    Raises:
        UserError: no finished run, no labels, labels of one kind only, features that cannot be made, or the run has a
            selector; ``data`` have no labels, another shape, or no image that is not the run's own. Nothing is
            written then.
    """
    config, progress = config or SelectorConfig(), Progress(events, stop)
    folder = RunFolder.open(run)
    if folder.file(SELECTOR_FILE).exists() and not force:
        raise UserError(f"The run {folder.path} has a selector; add --force to train it anew.")
    with folder.reading():
        triggers = folder.read_judged()
    finds = read_valid_triggers(folder, triggers)
    labels, examples, sources = _labelled(folder, finds, config)
    opened = OpenedRun(folder, device)
    # before the models: to open those takes seconds, and what is wrong with the images is found without them
    own = own_data(opened, progress)
    more = None if data is None else load_stored(data, opened.config, progress)
    if more is not None:
        if doubt := shifted(more, finds.class_names, "the run"):
            raise UserError(f"{doubt}; call the folders of its classes as the run calls these.")
        order = order_of_labels(more, finds.class_names)
        announce_order(more, order, finds.class_names, "the run", progress)
        more = in_order(more, order)
        more = _fresh(more, own, tuple(finds.images.shape[1:]), progress)
    boxes = opened.models(models, options=options)
    for model in boxes:
        model.prepare(finds.images)
    given = _Given(opened, config, finds, labels, examples, sources, tuple(boxes), own, more, progress)
    result, content = _train(given)
    with RunLock(folder.path):
        _keep(given, result, content)
        write_report(folder, triggers)
    return result


def select_after(judged: Judged, oracle: BlackBox | None) -> None:
    """Train the selector of a comparison; where nothing can be learnt, say why and leave it out.

    It learns from what the oracle says, else from the labels that people gave the run, else from the jury's. The lock
    of the run is the caller's.
    """
    run = judged.run
    try:
        finds = read_valid_triggers(run.folder, judged.triggers)
        if oracle is not None:
            kept = run.config.source.family == "seeds"  # its operators keep labels
            said, about = oracle_labels([oracle], finds, keeps_known=kept, progress=run.progress)
            put_labels(run.folder, finds, "oracle", said, about, force=True)
        source: Any = None if len(read_store(run.folder, finds)) else _JURY
        config = SelectorConfig(source=source, seed=run.config.seed)
        learnt = _labelled(run.folder, finds, config)
        given = _Given(run, config, finds, *learnt, run.models, run.images, None, run.progress)
        _keep(given, *_train(given))
    except UserError as error:
        run.progress.warn(f"No selector was trained: {error}")
        run.folder.save_manifest(no_selector=str(error))


@dataclass(frozen=True)
class _Given:
    """What a selector is made of and judged on.

    Attributes:
        finds: the valid triggers of the run, N.
        labels: int64 (N,), what they show; negative where that is not known or none of the classes.
        examples: those of them that it learns from.
        sources: where their labels come from -> how many.
        models: all of the run, prepared.
        own: the real images of the run, or None where they are gone.
        more: labelled real images that no part of the run has seen, or None.
        progress: where to say how far it is.
    """

    run: OpenedRun | Prepared
    config: SelectorConfig
    finds: TriggerTable
    labels: Int64Array
    examples: Examples
    sources: dict[str, int]
    models: tuple[BlackBox, ...]
    own: ImageSet | None
    more: ImageSet | None
    progress: Progress

    @property
    def near_duplicate(self) -> float:
        """From which correlation on two pictures of the run are near-duplicates."""
        return self.run.config.filters.near_duplicate


def _labelled(
    folder: RunFolder, finds: TriggerTable, config: SelectorConfig
) -> tuple[Int64Array, Examples, dict[str, int]]:
    """The labels of all triggers, those that the selector learns from, and how many labels of these come from where."""
    if config.source == _JURY:
        if finds.known.named is None:
            raise UserError(
                f"The run {folder.path} has no jury; label its finds with 'diffgen label', or compare with more "
                "labelled images."
            )
        labels = np.where(finds.recognised, finds.known.named, UNLABELLED)
        origin = np.full(len(finds), _JURY)
    else:
        sources = SOURCES if config.source is None else (config.source,)
        labels, origin = read_store(folder, finds).of(finds.hashes, sources)
    examples = make_examples(labels, finds.labels, finds.behaviours, limit=config.limit, seed=config.seed)
    return labels, examples, {name: int((origin[examples.rows] == name).sum()) for name in (*SOURCES, _JURY)}


def _train(given: _Given) -> tuple[SelectResult, bytes]:
    """The figures of a selector, and the content of its file."""
    folder, config, examples = given.run.folder, given.config, given.examples
    settings, device = given.run.config, given.run.device
    kind, network = make_features(config, given.own, settings, device=device, progress=given.progress)
    features = extract(network, given.finds.images_of(examples.rows), device=device)
    evaluations = _evaluations(features, given)
    with tempfile.TemporaryDirectory(prefix="diffgen-") as place_of_draft:
        draft = Path(place_of_draft) / SELECTOR_FILE

        def learned(given: _Given, features: Float32Array) -> Selector:
            # judged as the file that it will be, before the run's own is replaced
            forest, shape = fit_forest(features, given.examples.targets, config), tuple(given.finds.images.shape[1:])
            save_selector(draft, network, forest, shape, _metadata(given, kind, evaluations))
            return load_selector(draft, device=device)

        selector = learned(given, features)
        content = draft.read_bytes()
        real, more = _on_held_out(given, features, selector, learned), given.more
        if more is not None and more.labels is not None:
            judged = judge_on_real(given.models, selector, more.images, more.labels, more.source, _stacking(given))
            real = (*real, judged)
        cost = measure_cost(given.models, selector, given.finds.images, given.own)
    result = SelectResult(
        run=str(folder.path),
        selector=str(folder.file(SELECTOR_FILE)),
        features=kind,
        examples=len(examples),
        sources=given.sources,
        both_wrong=examples.both_wrong,
        on_triggers=evaluations,
        real=real,
        cost=cost,
    )
    return result, content


def _keep(given: _Given, result: SelectResult, content: bytes) -> None:
    """Write the selector and its figures into the run, whose lock the caller holds."""
    folder, finds = given.run.folder, given.finds
    behaviours, shown = trusted_behaviours(finds, given.labels)
    about = {**result.as_dict(), "behaviours": behaviours}
    write_whole(Path(result.selector), lambda temporary: temporary.write_bytes(content))
    folder.write_arrays("selection", {"shown": shown, "rows": finds.numbers[given.examples.rows], "about": about})


def _metadata(given: _Given, kind: str, evaluations: Sequence[Evaluation]) -> dict[str, Any]:
    """What the selector's file says of itself; JSON values."""
    files = given.run.folder.manifest["files"]
    return {
        "models": {
            role: {
                "name": model.name,
                "sha256": files[role]["sha256"],
                "preprocessing": to_dict(model.preprocessing),
                "class_order": list(model.class_order),
            }
            for role, model in zip(roles(given.models), given.models, strict=True)
        },
        "class_names": list(given.finds.class_names),
        "features": kind,
        "settings": to_dict(given.config),
        "examples": len(given.examples),
        "sources": given.sources,
        "on_triggers": [each.as_dict() for each in evaluations],
    }


def make_features(
    config: SelectorConfig,
    data: ImageSet | None,
    settings: CompareConfig,
    *,
    device: torch.device,
    progress: Progress,
) -> tuple[str, nn.Module]:
    """What the forest is to see: its name, and the network from grey levels 0..255 to features.

    The encoder is trained on the part of the run's images that also trained the GAN, so that the held-out ones stay
    untouched.

    Raises:
        UserError: the weights of VGG16, or the run's images, are wanted and missing.
    """
    kind = config.features
    if kind == "auto":
        kind = "vgg16" if config.features_weights is not None or downloaded_vgg16() is not None else "domain"
    if kind == "vgg16":
        return kind, Vgg16Network(Vgg16(config.features_weights))
    if config.features_weights is not None:
        raise UserError(f"The features {kind!r} take no weights; leave --features-weights out, or take vgg16.")
    if kind == "pixels":
        return kind, PixelNetwork()
    if data is None:
        raise UserError(
            "The encoder is trained on the run's real images, which cannot be read any more; put them back, or take "
            "--features pixels."
        )
    return kind, prepare_encoder(DataSplit(data, settings.split), device=device, progress=progress).cpu()


def _evaluations(features: Float32Array, given: _Given) -> tuple[Evaluation, ...]:
    """Cross-validated on the triggers, divided in several ways; see :func:`diffgen.selector.examples.divisions`."""
    examples, found = given.examples, []
    ways = divisions(given.finds, examples, threshold=given.near_duplicate)
    with given.progress.stage("Training and judging the selector", total=len(ways)) as task:
        for name, groups in ways.items():
            said = cross_validated(features, examples.targets, groups, given.config)
            if said is None:
                given.progress.warn(
                    f"The labelled triggers are too few, or too much alike, to judge the selector on a division {name}."
                )
            else:
                found.append(evaluate(name, said, examples.right, groups))
            task.advance()
    return tuple(found)


def own_data(run: OpenedRun, progress: Progress) -> ImageSet | None:
    """The real images of the run, or None where they are gone."""
    if run.folder.manifest["data"]["path"] is None:
        return None
    try:
        return run.data(None, purpose="judge a selector on them", progress=progress)
    except UserError as error:
        progress.warn(f"The run's real images cannot be used: {error}")
        return None


def _fresh(more: ImageSet, own: ImageSet | None, shape: tuple[int, ...], progress: Progress) -> ImageSet:
    """Those of the images that no part of the run has seen.

    Raises:
        UserError: they have no labels or another shape than the run's, or all are the run's own.
    """
    if more.labels is None:
        raise UserError(
            f"The images {more.source} have no labels, so nothing can be judged on them; give labelled ones."
        )
    if more.image_shape != shape:
        raise UserError(
            f"The images {more.source} are {shape_text(more.image_shape)}, but the run's are {shape_text(shape)}; give "
            "images of the same shape."
        )
    if own is None:
        return more
    seen = set(image_hashes(own.images))
    fresh = np.array([digest not in seen for digest in image_hashes(more.images)])
    if not fresh.any():
        raise UserError(f"All images of {more.source} are also the run's own; give others.")
    if not fresh.all():
        progress.say(f"{int((~fresh).sum()):,} images of {more.source} are also the run's own, and are left out.")
    return replace(more, images=more.images[fresh], labels=more.labels[fresh])


def _on_held_out(
    given: _Given, features: Float32Array, selector: Selector, learned: Callable[[_Given, Float32Array], Selector]
) -> tuple[OnRealImages, ...]:
    """The selector on the labelled real images of the run on which nothing was trained.

    A search may make finds from these images too. Where some of the examples are such finds, the selector that is
    judged is one that learns from what neither is such a find nor looks like one.
    """
    own = given.own
    if own is None or own.labels is None:
        return ()
    rows = split_rows(len(own), given.run.config.split)[1].numpy()
    of_these = made_from(given.finds, given.examples, rows, threshold=given.near_duplicate)
    if of_these.any():
        given = replace(given, examples=given.examples.only(~of_these))
        if len(np.unique(given.examples.targets)) < 2:
            given.progress.warn(
                "What is labelled was mostly made from the images that were held out, or looks like what was, so that "
                "the selector is not judged on these; give other labelled ones with --data."
            )
            return ()
        selector = learned(given, features[~of_these])
    source = f"held out of {given.run.folder.manifest['data']['source']}"  # as the user said it, and no whole path
    found = judge_on_real(given.models, selector, own.images[rows], own.labels[rows], source, _stacking(given))
    return (replace(found, left_out=int(of_these.sum())),)


def _stacking(given: _Given) -> Stacking | None:
    """What asks all of three models or more and weighs their answers, learnt from the same labelled triggers."""
    if len(given.models) == 2:
        return None
    rows = given.examples.rows
    return Stacking.fit(given.finds.answers(rows, len(given.finds.class_names)), given.labels[rows])
