"""Quantizes an ONNX file to 8 bits with onnxruntime's own quantizer."""

from __future__ import annotations

import contextlib
import io
import logging
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from diffgen.config import QuantizeConfig
from diffgen.errors import UserError
from diffgen.events import Progress
from diffgen.models.onnx import OnnxModel
from diffgen.models.wording import reason
from diffgen.types import UInt8Array

_QUANTIZED = frozenset({"QuantizeLinear", "DequantizeLinear", "DynamicQuantizeLinear", "ConvInteger", "MatMulInteger"})
_QUANTIZED_STARTS = ("QLinear", "QGemm", "QAttention", "MatMulNBits", "MatMulIntegerTo", "DynamicQuantize")


def is_quantized(path: Path) -> bool:
    """Whether a graph computes with integers, or stores its weights as such. UserError if onnx cannot read the file."""
    import onnx

    try:
        model = onnx.load(str(path), load_external_data=False)
    except Exception as error:  # protobuf's and onnx's exceptions have no common class
        raise UserError(f"{path} is an ONNX file that onnx cannot read ({reason(error)}); export it again.") from error
    nodes = [*model.graph.node, *(node for function in model.functions for node in function.node)]
    return any(node.op_type in _QUANTIZED or node.op_type.startswith(_QUANTIZED_STARTS) for node in nodes)


def quantize_file(
    model: OnnxModel, target: Path, images: UInt8Array, *, config: QuantizeConfig, progress: Progress
) -> None:
    """Write the 8-bit version of a prepared model.

    Args:
        model: opened from a file, prepared.
        images: uint8 (N, C, H, W), N >= 1: real images that a static one is calibrated on.
        config: how.
        progress: where to say how far the calibration is.

    Raises:
        UserError: onnxruntime cannot quantize it, or finds nothing in it to quantize.
    """
    assert model.path is not None
    batch = model.fixed_batch or min(model.batch_size, len(images))
    calls = 0 if config.method == "dynamic" else -(-len(images) // batch)
    bar = progress.stage("Calibrating and quantizing" if calls else "Quantizing", total=calls + 1)
    try:
        with tempfile.TemporaryDirectory() as name, bar as task, quiet():
            prepared = Path(name) / "prepared.onnx"
            # folds batch norm into the convolutions before it, and finds out the shapes that the quantizer asks for
            _tools().quant_pre_process(str(model.path), str(prepared), skip_symbolic_shape=True)
            if config.method == "dynamic":
                _dynamic(prepared, target, config)
            else:
                _static(prepared, target, _batches(model, images, batch, task), calls, config)
            task.advance()
    except UserError:
        raise
    except Exception as error:  # whatever the quantizer and the graph do not agree on
        raise UserError(
            f"onnxruntime cannot quantize {model.path} ({reason(error)}); export it again with opset_version 17, or "
            f"try {'static' if config.method == 'dynamic' else 'dynamic'} quantization."
        ) from error
    if not is_quantized(target):
        raise UserError(f"{model.path} has no layer that onnxruntime quantizes; an 8-bit version would be the same.")


def _batches(model: OnnxModel, images: UInt8Array, batch: int, task: Any) -> Iterator[dict[str, np.ndarray]]:
    """What the graph is fed with, in whole batches; the last one is filled up from the beginning."""
    for start in range(0, len(images), batch):
        task.advance()
        yield model.feed(images[np.arange(start, start + batch) % len(images)])


def _static(
    source: Path, target: Path, batches: Iterator[dict[str, np.ndarray]], calls: int, config: QuantizeConfig
) -> None:
    tools = _tools()

    class Reader(tools.CalibrationDataReader):  # type: ignore[misc, name-defined]
        """Hands out the batches, a stride of one at a time."""

        def __init__(self) -> None:
            self._left = calls

        def __len__(self) -> int:
            return calls

        def set_range(self, start_index: int, end_index: int) -> None:
            self._left = end_index - start_index

        def get_next(self) -> dict[str, np.ndarray] | None:
            self._left -= 1
            return next(batches, None) if self._left >= 0 else None

    tools.quantize_static(
        str(source),
        str(target),
        Reader(),
        quant_format=tools.QuantFormat.QDQ if config.format == "qdq" else tools.QuantFormat.QOperator,
        per_channel=config.per_channel,
        reduce_range=config.reduce_range,
        activation_type=tools.QuantType.QUInt8 if config.activations == "uint8" else tools.QuantType.QInt8,
        weight_type=tools.QuantType.QInt8,
        calibrate_method={
            "minmax": tools.CalibrationMethod.MinMax,
            "entropy": tools.CalibrationMethod.Entropy,
            "percentile": tools.CalibrationMethod.Percentile,
        }[config.calibration],
        # The activations of one batch are dealt with before those of the next: all together may not fit into memory.
        extra_options={"CalibStridedMinMax": 1},
    )


def _dynamic(source: Path, target: Path, config: QuantizeConfig) -> None:
    import onnx

    tools = _tools()
    # ConvInteger of signed weights is not implemented on the CPU
    has_convolution = any(node.op_type == "Conv" for node in onnx.load(str(source)).graph.node)
    tools.quantize_dynamic(
        str(source),
        str(target),
        per_channel=config.per_channel,
        reduce_range=config.reduce_range,
        weight_type=tools.QuantType.QUInt8 if has_convolution else tools.QuantType.QInt8,
    )


def _tools() -> Any:
    import onnxruntime.quantization

    return onnxruntime.quantization


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Without what the quantizer prints, and without the handler that its warnings would give the root logger."""
    silent = logging.NullHandler()
    root, before = logging.getLogger(), logging.root.manager.disable
    root.addHandler(silent)
    logging.disable(logging.CRITICAL)
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            yield
    finally:
        logging.disable(before)
        root.removeHandler(silent)
