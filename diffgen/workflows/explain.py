"""Entry point of ``diffgen explain``: why two models that should be the same differ."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np

from diffgen.causes import Explanation, explain_models
from diffgen.causes.finding import QUERIES, SAMPLE
from diffgen.causes.wording import options_of, verdict
from diffgen.comparison.black_boxes import load_models, match_classes, specs_for
from diffgen.comparison.machine import resolve_batch_size, resolve_device
from diffgen.comparison.opened_run import OpenedRun
from diffgen.comparison.preflight import prepare_models
from diffgen.comparison.preprocessings import settle_sizes
from diffgen.comparison.probable_cause import keep_explanation
from diffgen.comparison.real_data import announce_sizes, load_for
from diffgen.comparison.seats import only_classifiers
from diffgen.config import CompareConfig, ModelSpec, applied, replace
from diffgen.config.images import ExifRule, FitRule
from diffgen.errors import UserError
from diffgen.events import Listener, Progress, StopToken
from diffgen.models import BlackBox
from diffgen.models.loading import load as load_model
from diffgen.models.onnx import OnnxModel
from diffgen.models.onnx_quantizer import is_quantized
from diffgen.models.onnx_tensors import first_to_depart, tensor_errors
from diffgen.models.sidecar import sidecar_text
from diffgen.numerics import own_numerics
from diffgen.report.from_run import write_report
from diffgen.runs.files import write_text
from diffgen.runs.folder import RunFolder
from diffgen.runs.lock import RunLock
from diffgen.runs.results import read_finished
from diffgen.sampling import random_rows
from diffgen.types import ImageSet, Int64Array, UInt8Array
from diffgen.workflows.inspect import writable_sidecar

_PREPARED = 32  # images that each model looks at first
_TENSORS = 16  # images whose tensors are compared


@dataclass(frozen=True)
class ExplainResult:
    """Why two models differ.

    Attributes:
        models: what A and B are called.
        data: where the pictures came from.
        verdict: what was found, in a sentence or two.
        explanation: the figures behind it.
        tensor: of a float and a quantized ONNX file of one graph, where no fault of how they are fed was found, the
            first tensor that is far worse than those before it, in a sentence; or empty.
        options: what feeds the faulty model rightly, as options of the command line, or empty.
        written: the sidecar that was written, or None.
        report: the report of the run, which has it too, or None: no run was explained.
    """

    models: tuple[str, str]
    data: str
    verdict: str
    explanation: Explanation
    tensor: str = ""
    options: str = ""
    written: str | None = None
    report: str | None = None

    def as_dict(self) -> dict[str, Any]:
        """JSON values, without pictures."""
        figures = {each.name: getattr(self.explanation, each.name) for each in fields(self.explanation)}
        del figures["shown"], figures["furthest"]
        figures["found"] = [{**asdict(each), "labels": list(each.labels)} for each in self.explanation.found]
        mend = self.explanation.mend
        figures["mend"] = {} if mend is None else {k: v for k, v in asdict(mend).items() if v is not None}
        own = {each.name: getattr(self, each.name) for each in fields(self) if each.name != "explanation"}
        return {**own, "models": list(self.models), **figures}


@own_numerics()
def explain(
    a: Any,
    b: Any = None,
    *,
    data: Any = None,
    options: Sequence[ModelSpec] = (),
    queries: int = QUERIES,
    device: str | None = None,
    batch_size: int | None = None,
    resize: int | tuple[int, int] | str | None = None,
    fit: FitRule = "crop",
    skip_broken: bool = False,
    exif: ExifRule = "ignore",
    write: bool = False,
    force: bool = False,
    events: Listener | None = None,
    stop: StopToken | None = None,
) -> ExplainResult:
    """Say why two models that should be the same differ: a fault in a pipeline, or the weights.

    Each fault that is known (:mod:`diffgen.causes`) is imitated in one model; the right one makes it answer as the
    other one does. Labels are not needed. The models are asked about real images alone: on finds, which are where the
    models differ, nearly any change brings them together. The report of a run gets a part that says what was found.

    Args:
        a, b: two models, see :func:`diffgen.models.load`; or in place of ``a`` a run folder, and no ``b``.
        data: real images, see :func:`diffgen.data.load`; of a run, where they are now, or None: where they were.
        options: how each model is opened and fed; of a run, what may run code again; or none.
        queries: images that both models together may be asked about, at most, and no more than a query budget leaves.
        device, batch_size, resize, fit, skip_broken, exif: see :class:`diffgen.config.CompareConfig`; of a run they are
            the run's, but for the device.
        write: write the right pre-processing into the sidecar of the faulty model; where that of B may not be written,
            nothing is asked.
        force: also when there is one.
        events, stop: told what happens, and what ends it; see :mod:`diffgen.events`.

    Raises:
        UserError: models or data cannot be used, the run has other than two models, or the sidecar cannot be written.
    """
    progress = Progress(events, stop)
    if b is None:
        with RunLock(RunFolder.open(a).path):
            folder = RunFolder.open(a)
            pair = _of_run(folder, data, options, device, progress)
            if write:
                _sidecar(pair.models[1], force=force)  # refused before the models are asked
            result = _explained(pair, queries, progress)
            keep_explanation(folder, result.explanation)
            result = replace(result, report=str(write_report(folder)))
        return _written(pair, result, progress, force=force) if write else result
    if data is None:
        raise UserError("The real images are missing; name them with --data (a folder, a zip, or 'digits').")
    reading = applied(
        CompareConfig(fit=fit, skip_broken=skip_broken, exif=exif, device=device or "auto"), {"resize": resize}
    )
    reading = replace(reading, batch_size=batch_size)
    pair = _of_models((a, b), data, options, reading, progress)
    if write:
        _sidecar(pair.models[1], force=force)
    result = _explained(pair, queries, progress)
    return _written(pair, result, progress, force=force) if write else result


@dataclass(frozen=True)
class _Pair:
    """Two models that are prepared.

    Attributes:
        images: that they are asked about, uint8 (N, C, H, W), in random order.
        opened_here: the user has said that the files may be opened in this process.
    """

    models: tuple[BlackBox, BlackBox]
    images: UInt8Array
    source: str
    opened_here: bool


def _of_models(
    given: Sequence[Any], data: Any, options: Sequence[ModelSpec], reading: CompareConfig, progress: Progress
) -> _Pair:
    device = resolve_device(reading.device)
    models, specs = specs_for(given, replace(reading, models=tuple(options)))
    boxes = load_models(models, specs, device=device, batch_size=resolve_batch_size(reading.batch_size, device))
    images, _ = load_for(data, boxes, reading, progress)
    return _ready(boxes, specs, images, progress)


def _of_run(
    folder: RunFolder, data: Any, options: Sequence[ModelSpec], device: str | None, progress: Progress
) -> _Pair:
    run = OpenedRun(folder, device)
    read_finished(folder)
    boxes = run.models(options=options)
    if len(boxes) != 2:
        raise UserError(
            f"The run {folder.path} has {len(boxes)} models, and two are explained; name two of them and the data: "
            "'diffgen explain A B --data D'."
        )
    images = run.data(data, purpose="explain it", progress=progress)
    specs = tuple(given.over(said) for given, said in zip(options or run.config.models, run.config.models, strict=True))
    return _ready(boxes, specs, images, progress)


def _ready(boxes: Sequence[BlackBox], specs: Sequence[ModelSpec], images: ImageSet, progress: Progress) -> _Pair:
    """Both prepared on a few of the images."""
    if table := next((each for each in boxes if each.is_table), None):
        raise UserError(
            f"Model {table.name} is a table of answers, which cannot be asked about pictures that are fed otherwise; "
            "name the model that gave them."
        )
    rows = np.sort(random_rows(len(images), _PREPARED))
    few = replace(images.at(rows), labels=None, names=None)
    prepare_models(boxes, few, progress)
    only_classifiers(boxes, "diffgen explain")
    match_classes(boxes, specs, images.class_names)
    if any(each.input_size not in (None, images.image_shape[1:]) for each in boxes):
        settle_sizes(boxes, few, progress)
    announce_sizes(boxes, few, progress)
    a, b = boxes
    rows = random_rows(len(images), SAMPLE)
    return _Pair((a, b), images.images[rows], images.source, all(spec.opening.isolate == "off" for spec in specs))


def _explained(pair: _Pair, queries: int, progress: Progress) -> ExplainResult:
    a, b = pair.models
    explanation = explain_models(a, b, pair.images, progress, queries=queries)
    options = "" if explanation.mend is None else options_of(explanation.found[-1].role, explanation.mend)
    in_the_graph = all(each.cause in ("temperature", "saturation") for each in explanation.found)
    furthest = explanation.furthest
    tensor = _tensor(pair, furthest[:_TENSORS]) if furthest is not None and explanation.tried and in_the_graph else ""
    return ExplainResult((a.name, b.name), pair.source, verdict(explanation), explanation, tensor, options)


def _sidecar(box: BlackBox, *, force: bool) -> Path:
    return writable_sidecar(box.path or box.url or box, force=force)


def _written(pair: _Pair, result: ExplainResult, progress: Progress, *, force: bool) -> ExplainResult:
    """Write the right pre-processing into the sidecar of the faulty model, where one was found."""
    mend = result.explanation.mend
    if mend is None:
        progress.warn("Nothing is written: no pre-processing was found that feeds a model rightly.")
        return result
    box = pair.models["AB".index(result.explanation.found[-1].role)]
    path, remark = _sidecar(box, force=force), f"written by diffgen explain: {result.verdict}"
    write_text(path, sidecar_text(mend.over(box.preprocessing), box.own_class_names, remark))
    return replace(result, written=str(path))


def _tensor(pair: _Pair, rows: Int64Array) -> str:
    """Which tensor of a quantized graph departs first on some of the images, where both files may be opened here."""
    paths = [each.path for each in pair.models if each.path is not None and each.format == OnnxModel.format]
    if len(paths) < 2:
        return ""
    if not pair.opened_here:
        return "Of files that you trust, --isolate off tells which tensor of a quantized graph departs first."
    if is_quantized(paths[0]) == is_quantized(paths[1]):
        return ""
    boxes = []
    for path, model in zip(paths, pair.models, strict=True):
        box = load_model(path, preprocessing=model.preprocessing, isolate="off")
        assert isinstance(box, OnnxModel)
        box.prepare(pair.images[rows])
        boxes.append(box)
    plain, quantized = reversed(boxes) if is_quantized(paths[0]) else boxes
    try:  # a graph that cannot be taken apart says nothing
        errors = tensor_errors(plain, quantized, pair.images[rows])
    except Exception as error:
        return f"Its tensors could not be compared ({type(error).__name__})."
    if not errors:
        return ""
    first = first_to_depart(errors)
    if first is None:
        low, high = min(each.decibels for each in errors), max(each.decibels for each in errors)
        return f"No tensor of the quantized graph stands out: all {len(errors)} keep {low:.0f} to {high:.0f} dB."
    place = errors.index(first)
    before = f", and {errors[place - 1].decibels:.0f} dB the one before it" if place else ", and it is the first one"
    return (
        f"The tensor {first.name} ({first.operator}) of the quantized graph departs first: {first.decibels:.0f} dB of "
        f"signal to noise{before}."
    )
