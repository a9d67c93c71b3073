"""The 8-bit version of a model."""

from __future__ import annotations

from typing import Literal

from diffgen.config.models import Preprocessing
from diffgen.config.schema import FileName, Maybe, setting, settings
from diffgen.config.sizes import ExifRule, FitRule, Sides


@settings()
class QuantizeConfig:
    """How an ONNX file is made into one that computes in 8 bits (onnxruntime's quantizer).

    A static one has the ranges of its activations measured on real images beforehand; a dynamic one finds them anew for
    every batch.
    """

    method: Literal["static", "dynamic"] = setting(
        "static", "Measure the ranges of activations beforehand, or find them anew for every batch."
    )
    format: Literal["qdq", "qoperator"] = setting(
        "qdq",
        "Form of a static version: QuantizeLinear and DequantizeLinear around operators (qdq), or integer operators.",
        option="--format",
        common=True,
    )
    activations: Literal["uint8", "int8"] = setting(
        "uint8",
        "Type of the activations of a static version; onnxruntime advises uint8 on x86, int8 on ARM.",
        option="--activations",
        common=True,
    )
    per_channel: bool = setting(
        False, "One scale for each channel of the weights instead of one for all.", option="--per-channel", common=True
    )
    reduce_range: bool = setting(
        False,
        "Weights of 7 bits, for x86 processors without VNNI, where sums of 8-bit products may overflow.",
        option="--reduce-range",
        common=True,
    )
    calibration: Literal["minmax", "entropy", "percentile"] = setting(
        "minmax",
        "How ranges are computed from the activations: their extremes, the range that keeps most of their entropy, "
        "or their 99.999th percentile.",
        option="--calibration",
        common=True,
    )
    images: int = setting(
        512,
        "Most real images that the ranges are measured on, spread over the data.",
        option="--images",
        common=True,
        metavar="N",
        ge=1,
    )
    batch_size: Maybe[int] = setting(
        None,
        "Images handed to the models at once (default: chosen for the device).",
        option="--batch-size",
        metavar="auto|N",
        ge=1,
    )
    resize: Sides = setting(
        None,
        "Size that real images are brought to on reading (default: pictures that differ in size, or are larger, to the "
        "input that the model declares).",
        option="--resize",
        metavar="N|HxW",
        common=True,
        brief="Bring images of any size to this one.",
    )
    data_labels: Literal["auto", "use", "ignore"] = setting(
        "auto",
        "Whether the labels of the data are the model's classes: use them, ignore them (no accuracy is measured), or "
        "find out.",
        option="--data-labels",
    )
    fit: FitRule = setting("crop", "How images of other proportions are brought to that size.", option="--fit")
    skip_broken: bool = setting(
        False, "Leave out image files that cannot be used, and name them.", option="--skip-broken"
    )
    exif: ExifRule = setting(
        "ignore",
        "Whether image files are turned as their EXIF orientation says: apply it, or ignore it, as torchvision's "
        "ImageFolder does.",
        option="--exif",
    )
    preprocessing: Preprocessing = setting(factory=Preprocessing)
    class_names_file: FileName = setting(
        None,
        "File with the names of the classes, one a line (or a JSON list) in the order of the model's answers.",
        option="--class-names",
        common=True,
        metavar="FILE",
    )
