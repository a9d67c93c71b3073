"""Makes the 8-bit version of an ONNX model, and says what that cost on real images."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from diffgen.comparison.classes import with_known_labels
from diffgen.comparison.label_order import announce_order, in_order, names_of_classes, order_of_labels
from diffgen.comparison.machine import resolve_batch_size
from diffgen.comparison.preflight import RealAnswers, inspect_real_images, prepare_models
from diffgen.comparison.real_data import load_for, load_stored
from diffgen.comparison.seats import only_classifiers
from diffgen.config import CompareConfig, QuantizeConfig, is_address, replace, roles
from diffgen.errors import UserError
from diffgen.events import Listener, Progress, StopToken
from diffgen.home import expanded
from diffgen.models import BlackBox, read_class_names
from diffgen.models import load as load_model
from diffgen.models.loading import identify
from diffgen.models.onnx import OnnxModel
from diffgen.models.onnx_quantizer import is_quantized, quantize_file
from diffgen.models.sidecar import sidecar_path, sidecar_text
from diffgen.models.sniffing import FileKind
from diffgen.numerics import own_numerics
from diffgen.runs.files import write_text, write_whole
from diffgen.runs.outputs import output_file
from diffgen.types import ImageSet, Result
from diffgen.wording import percent

_MUCH = 0.02  # of the images, more wrong than before
_EXPORT = "export the model to ONNX first (torch.onnx.export)"


@dataclass(frozen=True)
class QuantizeResult(Result):
    """What was made, and what it costs on real images.

    Attributes:
        source, output, sidecar: the file that was quantized, the new one, and the sidecar beside it.
        bytes: size of both files.
        method: "static" or "dynamic".
        calibrated: real images that the ranges were measured on; 0 for a dynamic one.
        images: real images that both were asked about.
        accuracy: share of right answers of both, or None without labels.
        differing: images that both give different labels to.
        largest_shift: largest change of a probability.
        warnings: sentences about figures that wrong pre-processing, or overflowing sums, would explain.
    """

    source: str
    output: str
    sidecar: str
    bytes: tuple[int, int]
    method: str
    calibrated: int
    images: int
    accuracy: tuple[float, ...] | None
    differing: int
    largest_shift: float
    warnings: tuple[str, ...]

    @property
    def disagreement(self) -> float:
        """Share of the real images that both give different labels to."""
        return self.differing / self.images

    def as_dict(self) -> dict[str, Any]:
        """JSON values."""
        return {**super().as_dict(), "disagreement": self.disagreement}


@own_numerics()
def quantize(
    model: str | os.PathLike[str],
    *,
    data: Any,
    output: str | os.PathLike[str] | None = None,
    calibration_data: Any = None,
    config: QuantizeConfig | None = None,
    force: bool = False,
    events: Listener | None = None,
    stop: StopToken | None = None,
) -> QuantizeResult:
    """Make the 8-bit version of an ONNX file with onnxruntime's quantizer, and a sidecar that says how to feed it.

    Args:
        model: an ONNX file that computes in floating point.
        data: real images that both are asked about afterwards; see :func:`diffgen.data.load`.
        output: the file to write, or None: ``net-int8.onnx`` beside ``net.onnx``.
        calibration_data: real images that the ranges of a static one are measured on, or None: those of ``data``.
        config: how; what its pre-processing does not say is taken from the sidecar of ``model``.
        force: replace files that are there.
        events, stop: told what happens, and what ends it; see :mod:`diffgen.events`.

    Raises:
        UserError: model or data cannot be used, it is quantized already, or the file exists or cannot be written.
    """
    progress, config = Progress(events, stop), config or QuantizeConfig()
    if is_address(model):
        raise UserError(f"The model at {model} cannot be quantized from here; give its ONNX file.")
    source = expanded(model)
    kind, _ = identify(source)
    if kind is not FileKind.ONNX:
        raise UserError(f"{source} is {kind.value}, and only ONNX files can be quantized here; {_EXPORT}.")
    target = source.with_name(f"{source.stem}-int8.onnx") if output is None else expanded(output)
    if target.resolve() == source.resolve():
        raise UserError(f"{target} is the model itself; name another file with -o.")
    target = output_file(target, force=force)
    beside = output_file(sidecar_path(target), force=force)
    before = _open(source, config)
    if is_quantized(source):
        raise UserError(f"{source} is quantized already; give the floating-point model that it was made from.")
    images, resize = load_for(data, (before,), config, progress)
    calibration = (
        images if calibration_data is None else load_stored(calibration_data, replace(config, resize=resize), progress)
    )
    if calibration.image_shape != images.image_shape:
        raise UserError(
            f"The images of {calibration.source} have the shape {_shape(calibration)} but those of {images.source} "
            f"{_shape(images)}; calibrate on images of the same shape."
        )
    prepare_models((before,), images, progress)
    only_classifiers((before,), "diffgen quantize")
    rows = np.linspace(0, len(calibration) - 1, min(len(calibration), config.images)).astype(np.int64)
    with tempfile.TemporaryDirectory() as folder:
        # under its own name, so that messages about it speak of the file that was asked for
        made = Path(folder) / target.name
        quantize_file(before, made, calibration.images[rows], config=config, progress=progress)
        after = load_model(
            made,
            batch_size=before.batch_size,
            preprocessing=before.preprocessing,
            class_names=before.class_names,
            isolate="off",
        )
        before.set_preprocessing(before.preprocessing)  # what was found is not to be found otherwise beside the other
        prepare_models((before, after), images, progress)
        order = order_of_labels(images, names_of_classes(before))
        announce_order(images, order, before.class_names, f"model {before.name}", progress)
        images = in_order(images, order)
        images, _ = with_known_labels((before, after), images, CompareConfig(data_labels=config.data_labels), progress)
        answers = inspect_real_images((before, after), images, progress=progress)
        write_whole(target, lambda temporary: shutil.copyfile(made, temporary))
    remark = f"written by diffgen quantize: the pre-processing of {source.name}"
    write_text(beside, sidecar_text(before.preprocessing, before.class_names, remark))
    labels, kept = answers.answers.labels, answers.answers.probabilities
    same = labels[:, 0] == labels[:, 1]
    return QuantizeResult(
        source=str(source),
        output=str(target),
        sidecar=str(beside),
        bytes=(source.stat().st_size, target.stat().st_size),
        method=config.method,
        calibrated=len(rows) if config.method == "static" else 0,
        images=len(images),
        accuracy=answers.summary.accuracy,
        differing=int((~same).sum()),
        largest_shift=float(np.abs(kept[:, 0] - kept[:, 1]).max()),
        warnings=(*_seen((before, after), answers), *_advice(answers.summary.accuracy, float(same.mean()), config)),
    )


def _seen(models: tuple[BlackBox, BlackBox], answers: RealAnswers) -> Iterator[str]:
    """The warnings about the answers to the real images, in which the files go by their names.

    What blames the pre-processing of the 8-bit version is left out: it is the model's own, of which the same is said.
    """
    of_both = set(answers.doubts) - {each.sentence for each in answers.smells[0] if each.sentence}
    for sentence in answers.summary.warnings:
        if sentence in of_both:
            continue
        for role, model in zip(roles(models), models, strict=True):
            sentence = sentence.replace(f"Model {role} ({model.name})", f"Model {model.name}")
        yield sentence


def _advice(accuracy: tuple[float, ...] | None, same: float, config: QuantizeConfig) -> Iterator[str]:
    """What to try when the 8-bit version costs much, as where sums of 8-bit products overflow.

    Args:
        accuracy: share of right answers of the model and of its 8-bit version, or None without labels.
        same: share of the images that both give the same label to.
    """
    before, after = accuracy or (1.0, same)
    if before - after > _MUCH and not config.reduce_range:
        than = f"and the model on {percent(before)}" if accuracy else "by what the model says"
        yield (
            f"The 8-bit version is right on {percent(after)} of the images {than}; on x86 processors without VNNI sums "
            "of 8-bit products may overflow, which --reduce-range prevents."
        )


def _open(path: Path, config: QuantizeConfig) -> OnnxModel:
    # the quantizer calibrates on the CPU, where 8-bit models run too
    box: BlackBox = load_model(
        path,
        batch_size=resolve_batch_size(config.batch_size, torch.device("cpu")),
        preprocessing=config.preprocessing,
        class_names=() if config.class_names_file is None else read_class_names(config.class_names_file),
        isolate="off",  # the quantizer itself works on the graph in this process
    )
    assert isinstance(box, OnnxModel)
    return box


def _shape(images: ImageSet) -> str:
    return "x".join(map(str, images.image_shape))
