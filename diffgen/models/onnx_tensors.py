"""Which tensor of a quantized ONNX graph departs from the graph that it was made of; onnxruntime does the comparing."""

from __future__ import annotations

import math
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from diffgen.models.onnx import OnnxModel
from diffgen.models.onnx_quantizer import quiet
from diffgen.types import UInt8Array

_FEWEST = 3  # tensors that both graphs must have for them to be one graph
_BEFORE = 3  # tensors that one is held against
_USUAL = 30.0  # decibels that 8 bits leave of a tensor at the beginning, at least
_BEYOND = 8.0  # decibels below them; between neighbours of a network that is quantized well there are up to 5


@dataclass(frozen=True)
class TensorError:
    """What is left of one tensor in 8 bits.

    Attributes:
        operator: that makes it.
        decibels: signal to noise against the float graph; the less, the worse.
    """

    name: str
    operator: str
    decibels: float


def tensor_errors(plain: OnnxModel, quantized: OnnxModel, images: UInt8Array) -> tuple[TensorError, ...]:
    """Of each tensor that both graphs have, in their order; none where they are not one graph, once with QDQ nodes.

    Args:
        plain, quantized: prepared for such images.
        images: uint8 (N, C, H, W); all tensors of all of them are held in memory.

    Raises:
        Exception: whatever onnxruntime raises about graphs that it cannot take apart.
    """
    import onnx
    from onnxruntime.quantization import qdq_loss_debug as tools

    assert plain.path is not None and quantized.path is not None
    kept: list[Any] = []
    with tempfile.TemporaryDirectory() as folder, quiet():
        for model in (plain, quantized):
            augmented = Path(folder) / f"{len(kept)}.onnx"
            tools.modify_model_output_intermediate_tensors(str(model.path), str(augmented))
            kept.append(tools.collect_activations(str(augmented), _reader(tools, model, images)))
    matched = tools.create_activation_matching(kept[1], kept[0])
    alike = {name: each for name, each in matched.items() if _same_shape(each)}
    errors = tools.compute_activation_error(alike)
    graph = onnx.load(str(plain.path), load_external_data=False).graph
    made = {output: node.op_type for node in graph.node for output in node.output}
    found = [
        TensorError(name, made[name], float(errors[name]["xmodel_err"]))
        for name in made
        if name in errors and math.isfinite(errors[name]["xmodel_err"])
    ]
    return tuple(found) if len(found) >= _FEWEST else ()


def first_to_depart(errors: tuple[TensorError, ...]) -> TensorError | None:
    """The first tensor that is far worse than those before it, or None: none stands out."""
    for place, each in enumerate(errors):
        before = [one.decibels for one in errors[max(0, place - _BEFORE) : place]] or [_USUAL]
        if each.decibels < min(_USUAL, float(np.median(before))) - _BEYOND:
            return each
    return None


def _same_shape(match: dict[str, Any]) -> bool:
    return "float" in match and len(match["float"]) > 0 and match["float"][0].shape == match["post_qdq"][0].shape


def _reader(tools: Any, model: OnnxModel, images: UInt8Array) -> Any:
    size = model.fixed_batch or 1
    batches: Iterator[dict[str, Any]] = (
        model.feed(images[np.arange(start, start + size) % len(images)]) for start in range(0, len(images), size)
    )

    class Reader(tools.CalibrationDataReader):  # type: ignore[misc]
        """Hands out the images as the model is fed."""

        def get_next(self) -> dict[str, Any] | None:
            return next(batches, None)

    return Reader()
