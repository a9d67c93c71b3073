"""The 8-bit version of a model."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from diffgen.config.models import Preprocessing
from diffgen.errors import UserError


@dataclass(frozen=True)
class QuantizeConfig:
    """How an ONNX file is made into one that computes in 8 bits (onnxruntime's quantizer).

    Attributes:
        method: "static": ranges of the activations are measured on real images beforehand; "dynamic": the model finds
            them anew for every batch.
        format: of a static one. "qdq" puts QuantizeLinear and DequantizeLinear around each operator, "qoperator" uses
            operators on integers (QLinearConv, ...).
        activations: type of the activations of a static one; onnxruntime advises uint8 on x86, int8 on ARM.
        per_channel: one scale for each channel of the weights instead of one for all.
        reduce_range: weights of 7 bits, for x86 processors without VNNI, where sums of 8-bit products may overflow.
        calibration: how ranges follow from the activations of a static one: their extremes, the range that keeps most
            of their entropy, or their 99.999th percentile.
        images: most real images that the ranges are measured on, spread over the data.
        batch_size: images handed to the models at once, or None: chosen for the device.
        resize: side of the square that real images are brought to on reading, or None: they keep their size.
        preprocessing: what the model wants done to the images; the 8-bit one gets the same.
    """

    method: Literal["static", "dynamic"] = "static"
    format: Literal["qdq", "qoperator"] = "qdq"
    activations: Literal["uint8", "int8"] = "uint8"
    per_channel: bool = False
    reduce_range: bool = False
    calibration: Literal["minmax", "entropy", "percentile"] = "minmax"
    images: int = 512
    batch_size: int | None = None
    resize: int | None = None
    preprocessing: Preprocessing = field(default_factory=Preprocessing)

    def __post_init__(self) -> None:
        for name, allowed in QUANTIZE_CHOICES.items():
            if getattr(self, name) not in allowed:
                raise UserError(f"The quantization has {name} {getattr(self, name)!r}; give {', '.join(allowed)}.")
        if self.images < 1:
            raise UserError(f"The number of images to calibrate on is {self.images}; give 1 or more.")


QUANTIZE_CHOICES: dict[str, tuple[str, ...]] = {
    "method": ("static", "dynamic"),
    "format": ("qdq", "qoperator"),
    "activations": ("uint8", "int8"),
    "calibration": ("minmax", "entropy", "percentile"),
}
