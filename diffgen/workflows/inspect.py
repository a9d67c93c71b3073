"""Entry point of ``diffgen inspect``: try each plausible pre-processing of a model on real images."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeAlias

import numpy as np

from diffgen.comparison.black_boxes import load_spec
from diffgen.comparison.label_order import announce_order, names_of_classes, order_of_labels
from diffgen.comparison.machine import resolve_batch_size, resolve_device
from diffgen.comparison.preprocessings import PREPARED, Candidate, Plan, Trials
from diffgen.comparison.real_data import load_for
from diffgen.comparison.smells import FEW_RIGHT
from diffgen.config import DEFAULT_PREPROCESSING, CompareConfig, ModelSpec, Preprocessing, applied, is_address, replace
from diffgen.config.images import ExifRule, FitRule
from diffgen.data.resize import size_text
from diffgen.errors import UserError
from diffgen.events import Listener, Progress, StopToken
from diffgen.home import expanded
from diffgen.models import BlackBox
from diffgen.models.onnx import OnnxModel
from diffgen.models.onnx_quantizer import is_quantized
from diffgen.models.shapes import shapes_taken
from diffgen.models.sidecar import (
    Sidecar,
    read_names_beside,
    read_processor_file,
    read_sidecar,
    sidecar_path,
    sidecar_text,
)
from diffgen.models.torchscript import TorchScriptModel
from diffgen.models.untrusted import is_quantized as has_quantized_code
from diffgen.numerics import own_numerics
from diffgen.runs.files import write_text
from diffgen.runs.outputs import output_file
from diffgen.types import ImageSet, UInt8Array
from diffgen.wording import percent
from diffgen.workflows.inspect_detector import feed_detector

# the names of candidates that stand in front: of those that images do not tell apart they are taken
AS_BEFORE, AS_DECLARED = "as the sidecar says", "as the file says"
_SIZED = 3  # candidates that are tried with images of other sizes
_MIN_STD = 1e-3
_Way: TypeAlias = Literal["rgb", "grey-to-rgb", "rgb-to-grey"]
_IMAGENET = ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))
_CIFAR = ((0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616))
_OWN = "the data's own mean and std"
_MNIST = ((0.1307,), (0.3081,))


@dataclass(frozen=True)
class Inspection:
    """What was found out about a model.

    Attributes:
        model: its name.
        path: its file or address, or None.
        format: what it is, in words.
        takes: (C, H, W) that it takes, by its declaration or by trying, those most like the data first.
        image_shape: (C, H, W) of the data.
        classes: how many it answers with.
        class_names: what they are called, or empty.
        fixed_batch: the only batch size it takes, or None.
        images: how many it was asked about with the best candidates.
        labelled: whether their labels are known.
        candidates: the best first.
        alike: how many of the first cannot be told apart from the best by that many images.
        chosen: the simplest of these, which is the one that was tried first.
        now: the candidate that a comparison takes when nothing else is said, or None: so the model takes no such image.
        now_at_chance: whether with that one it is hardly right more often than by guessing; never without labels.
        written: the sidecar that was written, or None.
        head: of a detector or of maps, how its answers are read, in words; empty for a classifier.
    """

    model: str
    path: str | None
    format: str
    takes: tuple[tuple[int, int, int], ...]
    image_shape: tuple[int, int, int]
    classes: int
    class_names: tuple[str, ...]
    fixed_batch: int | None
    images: int
    labelled: bool
    candidates: tuple[Candidate, ...]
    alike: int
    chosen: Candidate
    now: Candidate | None
    now_at_chance: bool
    written: str | None = None
    head: str = ""


@own_numerics()
def inspect(
    model: Any,
    *,
    data: Any,
    options: ModelSpec | None = None,
    device: str = "auto",
    batch_size: int | None = None,
    resize: int | tuple[int, int] | str | None = None,
    fit: FitRule = "crop",
    skip_broken: bool = False,
    exif: ExifRule = "ignore",
    write: bool = False,
    force: bool = False,
    events: Listener | None = None,
    stop: StopToken | None = None,
) -> Inspection:
    """Try every plausible pre-processing of a model on real images.

    Args:
        model: see :func:`diffgen.models.load`.
        data: see :func:`diffgen.data.load`.
        options: what is known of the model, which is not varied, and how it is opened. What the model's sidecar says is
            one candidate among the others.
        device, batch_size, resize, fit, skip_broken, exif: see :class:`diffgen.config.CompareConfig`.
        write: write the best into the model's sidecar.
        force: also when there is one, and when the model is right on few of the labelled images however it is fed.
        events, stop: told what happens, and what ends it; see :mod:`diffgen.events`.

    Raises:
        UserError: model or data cannot be used, the model takes the images in no way that was tried, or what is to be
            written is right on few of the labelled images, or would replace a sidecar.
    """
    progress, options = Progress(events, stop), options or ModelSpec()
    beside = writable_sidecar(model, force=force) if write else None
    place = resolve_device(device)
    size = resolve_batch_size(batch_size, place)
    box = load_spec(model, options, device=place, batch_size=size, sidecar=False)
    reading = applied(CompareConfig(fit=fit, skip_broken=skip_broken, exif=exif), {"resize": resize})
    images, _ = load_for(data, (box,), reading, progress)
    said = options.preprocessing
    before = Sidecar() if box.path is None else read_sidecar(box.path)
    # as when the model is opened for a comparison: what a person said goes before what the file says
    beside_names = () if box.path is None else read_names_beside(box.path)
    class_names = options.class_names or before.class_names or box.class_names or beside_names
    declared, any_size = box.preprocessing, box.size_open
    shapes = _shapes(box, said, images)
    if not box.classifies:
        return _of_detector(box, images, said, before, tuple(class_names), tuple(shapes), beside, progress)
    trials = Trials(box, images, class_names, progress)
    plans = list(_plans(images.image_shape, shapes, said, trials.images))
    as_declared = replace(declared, size=box.preprocessing.size)  # which may be the one that the file declares by now
    if declared != said.over(DEFAULT_PREPROCESSING):
        plans.insert(0, (AS_DECLARED, as_declared))
    beside_it = None if box.path is None else read_processor_file(box.path)
    if beside_it is not None:
        box.declare(beside_it[1])
        as_declared = box.preprocessing
        plans.insert(0, (f"as {beside_it[0]} says", as_declared))
    if before.preprocessing != Preprocessing():
        plans.insert(0, (AS_BEFORE, before.preprocessing.over(as_declared)))
    plans = [(name, said.over(each)) for name, each in plans]
    usual = said.over(before.preprocessing).over(as_declared)
    trials.add(plans)
    trials.leave_unknown_labels()
    sizes = dict.fromkeys(shape[1:] for shape in shapes[1:] if shape[0] == shapes[0][0]) if any_size else ()
    if sizes and trials.labelled:
        plans += _try_sizes(trials, plans, sizes)
    elif sizes:
        progress.say(
            f"Model {box.name} takes images of many sizes, and without labels nothing tells which it was made for; "
            "name that with --size."
        )
    equals = trials.best
    # of equal ones the simplest, which stands first
    chosen = min(equals, key=lambda each: plans.index(each.plan)).candidate
    now = next((each for each in trials.tried if each.plan[1].over(DEFAULT_PREPROCESSING) == usual), None)
    others = sorted((each for each in trials.tried if each not in equals), key=lambda each: -each.candidate.evidence)
    candidates = [each.candidate for each in (*equals, *others)]
    if chosen.accuracy is not None and chosen.accuracy < FEW_RIGHT:
        useless = (
            f"However it is fed, model {box.name} is right on only {percent(chosen.accuracy)} of these labelled "
            "images; its classes are probably in another order than those of the data (--class-names names them), or "
            "the images are not what it was made for."
        )
        if write and not force:
            raise UserError(f"{useless} Nothing is written; add --force to write it all the same.")
        progress.warn(useless)
    box.set_preprocessing(chosen.preprocessing)
    box.prepare(trials.images[:PREPARED])
    if chosen.accuracy is not None:
        order = order_of_labels(images, class_names or names_of_classes(box))
        announce_order(images, order, class_names, f"model {box.name}", progress)
    if beside is not None:
        _write(beside, chosen, class_names, f"{_said_figures(chosen)} on {images.source}")
    return Inspection(
        **_about(box, images, chosen, beside),
        takes=tuple(shapes),
        class_names=class_names,
        candidates=tuple(candidates),
        alike=len(equals),
        now=None if now is None else now.candidate,
        now_at_chance=now is not None and trials.at_chance(now),
    )


def _write(beside: Path, chosen: Candidate, class_names: tuple[str, ...], figures: str) -> None:
    """Write the sidecar."""
    remark = f"written by diffgen inspect: {figures}; options of the command line win over this file"
    write_text(beside, sidecar_text(chosen.preprocessing, class_names, remark))


def _about(box: BlackBox, images: ImageSet, chosen: Candidate, beside: Path | None) -> dict[str, Any]:
    """What an inspection says of a model of whatever task."""
    return {
        "model": box.name,
        "path": box.url if box.path is None else str(box.path),
        "format": _format(box),
        "image_shape": images.image_shape,
        "classes": box.num_classes,
        "fixed_batch": box.fixed_batch,
        "images": chosen.images,
        "labelled": chosen.accuracy is not None,
        "chosen": chosen,
        "written": None if beside is None else str(beside),
    }


def _of_detector(
    box: BlackBox,
    images: ImageSet,
    said: Preprocessing,
    before: Sidecar,
    class_names: tuple[str, ...],
    shapes: tuple[tuple[int, int, int], ...],
    beside: Path | None,
    progress: Progress,
) -> Inspection:
    """As :func:`inspect`, of a detector or a model that gives maps."""
    given: list[Plan] = []
    if box.declared != Preprocessing():
        given.append((AS_DECLARED, box.preprocessing))
    if before.preprocessing != Preprocessing():
        given.insert(0, (AS_BEFORE, before.preprocessing.over(box.preprocessing)))
    found = feed_detector(box, images, given, said, class_names, progress)
    chosen = found.chosen
    box.set_preprocessing(chosen.preprocessing)
    box.prepare(images.images[:PREPARED])
    if beside is not None:
        measure = "mean average precision" if box.detects else "mean IoU with masks"
        how = "no boxes are known" if chosen.accuracy is None else f"{measure} {chosen.accuracy:.3f}"
        _write(beside, chosen, class_names, f"{how}, {chosen.images} images of {images.source}")
    return Inspection(
        **_about(box, images, chosen, beside),
        takes=shapes,
        class_names=class_names or box.class_names,
        candidates=found.candidates,
        alike=found.alike,
        now=found.now,
        now_at_chance=False,
        head=found.words,
    )


def _format(box: BlackBox) -> str:
    """What it is, and whether it computes in 8 bits where the file says so."""
    if box.path is None:
        return box.format
    quantized = (box.format == OnnxModel.format and is_quantized(box.path)) or (
        box.format == TorchScriptModel.format and has_quantized_code(box.path)
    )
    return f"{box.format} (quantized)" if quantized else box.format


def writable_sidecar(model: Any, *, force: bool) -> Path:
    """Where the sidecar of a model's file is to be written.

    Raises:
        UserError: the model is no file, or there is a sidecar and it is not to be replaced.
    """
    if not isinstance(model, str | os.PathLike):
        raise UserError("A sidecar lies beside a model's file, but the model is a Python object; give a file.")
    if is_address(model):
        raise UserError(
            f"A sidecar lies beside a model's file, but {model} is an address; leave --write out and give the options "
            "that are found."
        )
    path = sidecar_path(expanded(model))
    if path.exists() and not force:
        raise UserError(f"The sidecar {path} exists; add --force to replace it, or remove it.")
    return output_file(path, force=force)


def _shapes(box: BlackBox, said: Preprocessing, data: ImageSet) -> list[tuple[int, int, int]]:
    """Shapes that the model takes, the data's own first; which output to name is said at once, and not that none is."""
    if said.output is None:
        try:
            box.prepare(data.images[:1])
        except UserError as error:
            if "--output-name" in str(error):
                raise
    taken = shapes_taken(box, data.image_shape)
    return [data.image_shape, *(s for s in taken if s != data.image_shape)] if data.image_shape in taken else taken


def _plans(
    data_shape: tuple[int, int, int],
    shapes: Sequence[tuple[int, int, int]],
    said: Preprocessing,
    images: UInt8Array,
) -> Iterator[Plan]:
    """Names and pre-processings, the simple ones first."""
    channels = data_shape[0]
    wanted = shapes[0] if shapes else data_shape
    ways: dict[tuple[int, int], _Way] = {(1, 3): "grey-to-rgb", (3, 1): "rgb-to-grey"}
    way = ways.get((channels, wanted[0]), "rgb")
    given = said.channels or way
    depth = {"grey-to-rgb": 3, "rgb-to-grey": 1}.get(given, channels)
    size = () if wanted[1:] == data_shape[1:] else wanted[1:]
    base = Preprocessing(channels=way, size=size)
    for name, scaling in _scalings(depth, images, said):
        plain = scaling.over(base)
        yield name, plain
        if channels == 1 and said.invert is None:
            own = name == _OWN  # white is black now, in the figures of the data too
            mean = tuple(round(1 - value, 4) for value in plain.mean or ()) if own else plain.mean
            yield f"{name}, inverted", replace(plain, invert=True, mean=mean)
        elif channels == depth == 3 and said.channels is None:
            mean, std = (None if each is None else each[::-1] for each in (plain.mean, plain.std))
            yield f"{name}, BGR", replace(plain, channels="bgr", mean=mean, std=std)


def _try_sizes(trials: Trials, plans: Sequence[Plan], sizes: Iterable[tuple[int, int]]) -> list[Plan]:
    """Try the best candidates with images of other sizes, and everything with the size that is then the best.

    Returns:
        What was tried, the simple ones first.
    """
    likely = [each.plan for each in trials.best[:_SIZED]]
    trials.add([_of_size(size, plan) for size in sizes for plan in likely])
    best = [each.plan for each in trials.best]
    if not any(plan in plans for plan in best):
        trials.add([_of_size(best[0][1].size or (), plan) for plan in plans])
    return [_of_size(size, plan) for size in sizes for plan in plans]


def _of_size(size: tuple[int, ...], plan: Plan) -> Plan:
    """The same for images of another size."""
    return f"{plan[0]}, {size_text(size)}", replace(plan[1], size=size)


def _scalings(depth: int, images: UInt8Array, said: Preprocessing) -> Iterator[tuple[str, Preprocessing]]:
    """Scales with mean and std, for a model that takes ``depth`` channels."""
    if any(each is not None for each in (said.scale, said.mean, said.std)):
        yield "as the options say", Preprocessing()
        return
    yield "0..1", Preprocessing(scale="0..1", mean=(), std=())
    yield "0..255", Preprocessing(scale="0..255", mean=(), std=())
    yield "-1..1", Preprocessing(scale="0..1", mean=(0.5,) * depth, std=(0.5,) * depth)
    if depth == 3:
        yield "ImageNet mean and std", Preprocessing(scale="0..1", mean=_IMAGENET[0], std=_IMAGENET[1])
        yield "CIFAR-10 mean and std", Preprocessing(scale="0..1", mean=_CIFAR[0], std=_CIFAR[1])
        caffe = tuple(round(255 * value, 3) for value in _IMAGENET[0])
        yield "0..255, ImageNet mean", Preprocessing(scale="0..255", mean=caffe, std=())
    else:
        yield "MNIST mean and std", Preprocessing(scale="0..1", mean=_MNIST[0], std=_MNIST[1])
    mean, std = _own_statistics(depth, images, inverted=bool(said.invert))
    yield _OWN, Preprocessing(scale="0..1", mean=mean, std=std)


def _own_statistics(depth: int, images: UInt8Array, *, inverted: bool) -> tuple[tuple[float, ...], tuple[float, ...]]:
    # image by image: all of them in float64 would take eight times the memory of the data
    each = np.stack([image.mean(axis=(1, 2), dtype=np.float64) for image in images]) / 255
    squares = np.stack([np.square(image / 255).mean(axis=(1, 2)) for image in images])
    mean = each.mean(axis=0)
    std = np.sqrt(np.maximum(squares.mean(axis=0) - mean**2, _MIN_STD**2))
    if len(mean) != depth:  # one grey for three, or three for one grey: near enough for a guess
        mean, std = np.repeat(mean.mean(), depth), np.repeat(std.mean(), depth)
    mean = 1 - mean if inverted else mean
    return tuple(round(float(v), 4) for v in mean), tuple(round(float(v), 4) for v in std)


def _said_figures(candidate: Candidate) -> str:
    if candidate.accuracy is None:
        return f"mean confidence {candidate.confidence:.3f} and label balance {candidate.balance:.3f} (no labels)"
    return f"accuracy {candidate.accuracy:.4f} of {candidate.images} images"
