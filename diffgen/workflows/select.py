"""Trains the selector of a run, and measures what it is worth."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from diffgen.comparison.domain_encoder import prepare_encoder
from diffgen.comparison.opened_run import OpenedRun
from diffgen.config import CompareConfig, ModelSpec, SelectorConfig, to_dict
from diffgen.data import load as load_data
from diffgen.data.split import DataSplit, split_rows
from diffgen.errors import UserError
from diffgen.events import Listener, Progress, StopToken
from diffgen.features.vgg16 import Vgg16
from diffgen.labels.store import SOURCES
from diffgen.models import BlackBox
from diffgen.models.wording import shape_text
from diffgen.report.from_run import write_report
from diffgen.runs.files import write_whole
from diffgen.runs.folder import RunFolder, check_pair
from diffgen.runs.lock import RunLock
from diffgen.runs.triggers import TriggerTable, image_hashes
from diffgen.sampling import random_rows
from diffgen.selector.evaluation import Cost, Evaluation, evaluate
from diffgen.selector.examples import Examples, make_examples
from diffgen.selector.forest import cross_validated, fit_forest
from diffgen.selector.networks import PixelNetwork, Vgg16Network, downloaded_vgg16
from diffgen.selector.onnx_file import Selector, load_selector, save_selector
from diffgen.selector.rules import most_confident, soft_vote, who_is_right
from diffgen.types import Float32Array, ImageSet, Int64Array, UInt8Array
from diffgen.workflows.label import read_store
from diffgen.workflows.valid_triggers import read_valid_triggers

SELECTOR_FILE = "selector.onnx"
_BATCH = 512
_TIMED_IMAGES = 256
_SHARE_IMAGES = 2000  # of the real ones, on which it is counted how often the selector chooses A
_TIMED_REPEATS = 5
# of the behaviours that the report shows
_TRUSTED_SHOWN = 8
_PICTURES_SHOWN = 6
_FEWEST_OF_A_BEHAVIOUR = 3


@dataclass(frozen=True)
class OnRealImages:
    """What each rule is worth on labelled real images that had no part in making the selector.

    Attributes:
        source: which images.
        images: how many.
        disagreements: those on which A and B differ.
        on_all, on_disagreements: rule -> share of right answers; "A" and "B" are the models alone.
        selector: the choices on the disagreements, or None when there are none.
    """

    source: str
    images: int
    disagreements: int
    on_all: dict[str, float]
    on_disagreements: dict[str, float]
    selector: Evaluation | None

    def as_dict(self) -> dict[str, Any]:
        """JSON values."""
        return {**asdict(self), "selector": None if self.selector is None else self.selector.as_dict()}


@dataclass(frozen=True)
class SelectResult:
    """A selector that was trained.

    Attributes:
        run: the run folder.
        selector: its file.
        features: what the forest sees.
        examples: labelled triggers that it learnt from.
        both_wrong: labelled triggers on which neither model is right.
        on_triggers: a random division, and one by behaviour where there are enough of them.
        real: real images, as far as there are labelled ones.
        cost: milliseconds an image.
    """

    run: str
    selector: str
    features: str
    examples: int
    both_wrong: int
    on_triggers: tuple[Evaluation, ...]
    real: tuple[OnRealImages, ...]
    cost: Cost

    def as_dict(self) -> dict[str, Any]:
        """JSON values."""
        return {
            **{name: getattr(self, name) for name in ("run", "selector", "features", "examples", "both_wrong")},
            "on_triggers": [each.as_dict() for each in self.on_triggers],
            "real": [each.as_dict() for each in self.real],
            "cost": self.cost.as_dict(),
        }


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
    check_pair(folder, "A selector knows")
    if folder.file(SELECTOR_FILE).exists() and not force:
        raise UserError(f"The run {folder.path} has a selector; add --force to train it anew.")
    with folder.reading():
        triggers = folder.read_judged()
    finds = read_valid_triggers(folder, triggers)
    sources = SOURCES if config.source is None else (config.source,)
    labels, origin = read_store(folder, finds).of(finds.hashes, sources)
    examples = make_examples(
        labels, finds.labels, finds.behaviours, both_wrong=config.both_wrong, limit=config.limit, seed=config.seed
    )
    opened = OpenedRun(folder, device)
    settings, place = opened.config, opened.device
    models = opened.models(models, options=options)
    for model in models:
        model.prepare(finds.images)
    own = _own_data(folder, settings, progress)
    more = None if data is None else load_data(data, resize=settings.resize, progress=progress)
    if more is not None:
        more = _fresh(more, own, tuple(finds.images.shape[1:]), progress)

    kind, network = make_features(config, own, settings, device=place, progress=progress)
    features = extract(network, finds.images_of(examples.rows), device=place)
    evaluations = _evaluations(features, examples, config, progress)
    forest = fit_forest(features, examples.targets, config)
    counts = {name: int((origin[examples.rows] == name).sum()) for name in SOURCES}
    metadata = {
        "models": {role: _entry(folder, role, model) for role, model in zip("AB", models, strict=True)},
        "class_names": list(finds.class_names),
        "features": kind,
        "settings": to_dict(config),
        "examples": len(examples),
        "sources": counts,
        "on_triggers": [each.as_dict() for each in evaluations],
    }
    path = folder.file(SELECTOR_FILE)
    with tempfile.TemporaryDirectory(prefix="diffgen-") as place_of_draft:
        # judged as the file that it will be, before the run's own is replaced
        draft = Path(place_of_draft) / SELECTOR_FILE
        save_selector(draft, network, forest, tuple(finds.images.shape[1:]), metadata)
        content = draft.read_bytes()
        selector = load_selector(draft, device=place)
        real = _on_real_images(models, selector, own, more, settings)
        cost = measure_cost(models, selector, finds.images, own)
    result = SelectResult(
        run=str(folder.path),
        selector=str(path),
        features=kind,
        examples=len(examples),
        both_wrong=examples.both_wrong,
        on_triggers=evaluations,
        real=real,
        cost=cost,
    )
    behaviours, shown = _trusted(finds, examples)
    about = {**result.as_dict(), "sources": counts, "behaviours": behaviours}
    with RunLock(folder.path):
        write_whole(path, lambda temporary: temporary.write_bytes(content))
        folder.write_arrays("selection", {"shown": shown, "rows": finds.numbers[examples.rows], "about": about})
        write_report(folder, triggers)
    return result


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


def extract(network: nn.Module, images: UInt8Array, *, device: torch.device) -> Float32Array:
    """Features float32 (N, D) of uint8 (N, C, H, W)."""
    network.to(device)
    with torch.inference_mode():
        parts = [network(batch.to(device).float()).cpu() for batch in torch.from_numpy(images).split(_BATCH)]
    network.cpu()
    return torch.cat(parts).numpy()


def _evaluations(
    features: Float32Array, examples: Examples, config: SelectorConfig, progress: Progress
) -> tuple[Evaluation, ...]:
    """Cross-validated on the triggers: divided at random as published, and by behaviour."""
    found = []
    with progress.stage("Training and judging the selector", total=2) as task:
        for name, groups in (("random", None), ("by behaviour", examples.groups)):
            said = cross_validated(features, examples.targets, groups, config)
            if said is None:
                progress.warn(f"Too few labelled triggers to judge the selector on a division {name}.")
            else:
                found.append(evaluate(name, said, examples.right))
            task.advance()
    return tuple(found)


def _own_data(folder: RunFolder, settings: CompareConfig, progress: Progress) -> ImageSet | None:
    """The real images of the run, or None where they are gone."""
    path = folder.manifest["data"]["path"]
    if path is None:
        return None
    try:
        data = load_data(path, resize=settings.resize, progress=progress)
    except UserError as error:
        progress.warn(f"The run's real images cannot be used: {error}")
        return None
    if data.digest != folder.manifest["data"]["sha256"]:
        progress.warn(f"The images {data.source} are no longer those of the run; they are not used.")
        return None
    return data


def _entry(folder: RunFolder, role: str, model: BlackBox) -> dict[str, Any]:
    return {
        "name": model.name,
        "sha256": folder.manifest["files"][role]["sha256"],
        "preprocessing": to_dict(model.preprocessing),
        "class_order": list(model.class_order),
    }


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


def _on_real_images(
    models: Sequence[BlackBox],
    selector: Selector,
    own: ImageSet | None,
    more: ImageSet | None,
    settings: CompareConfig,
) -> tuple[OnRealImages, ...]:
    found = []
    if own is not None and own.labels is not None:
        rows = split_rows(len(own), settings.split)[1].numpy()
        found.append(judge_on_real(models, selector, own.images[rows], own.labels[rows], f"held out of {own.source}"))
    if more is not None and more.labels is not None:
        found.append(judge_on_real(models, selector, more.images, more.labels, more.source))
    return tuple(found)


def judge_on_real(
    models: Sequence[BlackBox], selector: Selector, images: UInt8Array, labels: Int64Array, source: str
) -> OnRealImages:
    """Compare all rules on labelled real images, uint8 (N, C, H, W) and int64 (N,). The models must be prepared."""
    a, b = (model.predict(images) for model in models)
    said = np.stack([a.argmax(axis=1), b.argmax(axis=1)], axis=1)
    chosen = {
        "selector": selector.choose(images),
        "confidence": most_confident(a, b),
        "oracle": who_is_right(said[:, 0], said[:, 1], labels),
    }
    rows = np.arange(len(images))
    answers = {"A": said[:, 0], "B": said[:, 1], "soft-vote": soft_vote(a, b)}
    answers |= {rule: said[rows, choice] for rule, choice in chosen.items()}
    right = {rule: answer == labels for rule, answer in answers.items()}
    differ = said[:, 0] != said[:, 1]
    return OnRealImages(
        source=source,
        images=len(images),
        disagreements=int(differ.sum()),
        on_all={rule: float(each.mean()) for rule, each in right.items()},
        on_disagreements={rule: float(each[differ].mean()) for rule, each in right.items()} if differ.any() else {},
        selector=(
            evaluate("real images where A and B differ", chosen["selector"][differ], (said == labels[:, None])[differ])
            if differ.any()
            else None
        ),
    )


def measure_cost(models: Sequence[BlackBox], selector: Selector, triggers: UInt8Array, own: ImageSet | None) -> Cost:
    """Time each alone on the same images: the median of several passes, after one that does not count.

    The images are drawn at random: the first of a data set may all be of one class, for which one model is chosen.
    """
    everything = triggers if own is None else own.images
    some = everything[random_rows(len(everything), _SHARE_IMAGES)]
    images = some[:_TIMED_IMAGES]

    def milliseconds(ask: Any) -> float:
        ask(images)
        passes = []
        for _ in range(_TIMED_REPEATS):
            started = time.perf_counter()
            ask(images)
            passes.append(time.perf_counter() - started)
        return float(np.median(passes)) * 1000 / len(images)

    return Cost(
        model_a=milliseconds(models[0].predict),
        model_b=milliseconds(models[1].predict),
        selector=milliseconds(selector.probabilities),
        share_a=float((selector.choose(some) == 0).mean()),
    )


def _trusted(finds: TriggerTable, examples: Examples) -> tuple[list[dict[str, Any]], Int64Array]:
    """The behaviours in which one model is right most often: JSON values, and the triggers that show them.

    Returns:
        one entry a behaviour, those of A first, and int64 trigger numbers, ``shown`` of them for each entry.
    """
    entries: list[tuple[dict[str, Any], Int64Array]] = []
    for group in range(int(examples.groups.max()) + 1):
        members = np.flatnonzero(examples.groups == group)
        counts = examples.right[members].sum(axis=0)
        a, b = int(counts[0]), int(counts[1])
        if max(a, b) < _FEWEST_OF_A_BEHAVIOUR or a == b:
            continue
        winner = 0 if a > b else 1
        picks = members[examples.right[members, winner]][:_PICTURES_SHOWN]
        label_a, label_b, cell = finds.behaviours[examples.rows[members[0]]].tolist()
        about = {
            "trust": "AB"[winner],
            "label_a": label_a,
            "label_b": label_b,
            "cell": cell,
            "a_right": a,
            "b_right": b,
        }
        entries.append(({**about, "shown": len(picks)}, finds.numbers[examples.rows[picks]]))

    def strength(entry: tuple[dict[str, Any], Int64Array]) -> int:
        return abs(entry[0]["a_right"] - entry[0]["b_right"])

    chosen = []
    for role in "AB":
        of_role = sorted((each for each in entries if each[0]["trust"] == role), key=strength, reverse=True)
        chosen += of_role[:_TRUSTED_SHOWN]
    shown = np.concatenate([numbers for _, numbers in chosen]) if chosen else np.empty(0, dtype=np.int64)
    return [about for about, _ in chosen], shown
