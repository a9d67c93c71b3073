"""Writes small TensorFlow Lite files from torch networks, in float32 and in int8, without TensorFlow.

Flat buffers are written with the schema that LiteRT ships. Int8 is quantized as TensorFlow does it: activations with
one scale and zero point found on images, weights symmetric, those of a convolution with a scale for each channel.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import nn

# of CONV_2D, FULLY_CONNECTED, LOGISTIC, MAX_POOL_2D and RESHAPE, as int8 needs them
_VERSIONS = {3: 3, 9: 4, 14: 1, 17: 2, 22: 1}


@dataclass(frozen=True)
class Ssd:
    """The end of a detector as TensorFlow's Object Detection API converts it: boxes and classes, then suppression.

    Attributes:
        boxes, scores: convolutions over what the network gives, of 4 channels, and of 1 + C for the background and the
            classes. Their values are encoded boxes, and logits.
        anchors: float32 (H * W, 4), y and x of the middle, height and width, as shares of the sides.
        outputs: names of the boxes, classes, scores and their number.
        order: in which the file lists these.
    """

    boxes: nn.Conv2d
    scores: nn.Conv2d
    anchors: np.ndarray
    options: dict[str, Any]
    outputs: tuple[str, ...] = ("", ":1", ":2", ":3")
    order: tuple[int, ...] = (0, 1, 2, 3)
    operator: str = "TFLite_Detection_PostProcess"


@dataclass
class _Graph:
    """Tensors, operators and buffers so far."""

    tensors: list[Any] = field(default_factory=list)
    operators: list[Any] = field(default_factory=list)
    codes: list[Any] = field(default_factory=list)
    buffers: list[Any] = field(default_factory=list)


def tflite_file(
    network: nn.Sequential,
    image_shape: tuple[int, int, int],
    *,
    calibration: torch.Tensor | None = None,
    open_batch: bool = False,
    reshape_to: int | None = None,
    ssd: Ssd | None = None,
) -> bytes:
    """The contents of a file.

    Args:
        network: convolutions (stride 1, no padding or one that keeps the size), ReLU behind them or behind dense
            layers, max pooling of 2, one flatten.
        image_shape: (C, H, W).
        calibration: float32 (N, C, H, W) to find ranges on; the file is int8 then, its input and output too.
        open_batch: declare the size of the batch as open instead of 1.
        reshape_to: size of the batch that the graph holds as a constant, or None: it takes any.
        ssd: what comes behind the network, in float32.
    """
    import flatbuffers
    from ai_edge_litert import schema_py_generated as schema

    ranges = [] if calibration is None else _ranges(network, calibration)
    graph = _Graph(buffers=[_made(schema.BufferT(), data=None)])
    channels, height, width = image_shape
    batch = reshape_to or 1
    shape: list[int] = [batch, height, width, channels]
    current = _tensor(graph, schema, "image", shape, scale=ranges[0] if ranges else None)
    if open_batch:
        graph.tensors[current].shapeSignature = [-1, *shape[1:]]
    flat_from: list[int] = []
    layers = list(network)
    for number, layer in enumerate(layers):
        fused = number + 1 < len(layers) and isinstance(layers[number + 1], nn.ReLU)
        scale = ranges[number + 1 + fused] if ranges else None
        if isinstance(layer, nn.Conv2d):
            current, shape = _convolved(graph, schema, layer, current, shape, scale, fused=fused)
        elif isinstance(layer, nn.Linear):
            kernel = layer.weight.detach().numpy()
            if flat_from:  # torch flattens channels first
                channels, height, width = flat_from
                kernel = kernel.reshape(-1, channels, height, width).transpose(0, 2, 3, 1).reshape(len(kernel), -1)
                flat_from = []
            shape = [batch, len(kernel)]
            options = _made(schema.FullyConnectedOptionsT(), fusedActivationFunction=int(fused))
            current = _weighed(graph, schema, (9, 8), options, current, kernel, layer.bias, shape, scale)
        elif isinstance(layer, nn.MaxPool2d):
            shape = [batch, shape[1] // 2, shape[2] // 2, shape[3]]
            pool = {"filterWidth": 2, "filterHeight": 2, "strideW": 2, "strideH": 2}
            options = _made(schema.Pool2DOptionsT(), padding=1, **pool)
            output = _like(graph, schema, current, shape)
            _operator(graph, schema, (17, 5), options, [current], output)
            current = output
        elif isinstance(layer, nn.Flatten):
            flat_from = [shape[3], shape[1], shape[2]]
            shape = [batch, shape[1] * shape[2] * shape[3]]
            target = np.array([reshape_to or -1, shape[1]], dtype=np.int32)
            output = _like(graph, schema, current, shape)
            wanted = _tensor(graph, schema, "shape", [2], data=target, kind=2)
            _operator(graph, schema, (22, 17), _made(schema.ReshapeOptionsT()), [current, wanted], output)
            current = output
    given = {"inputs": [0], "outputs": [current] if ssd is None else _suppressed(graph, schema, ssd, current, shape)}
    main = _made(schema.SubGraphT(), tensors=graph.tensors, operators=graph.operators, **given)
    model = _made(schema.ModelT(), version=3, subgraphs=[main], operatorCodes=graph.codes, buffers=graph.buffers)
    builder = flatbuffers.Builder(1024)
    builder.Finish(model.Pack(builder), b"TFL3")
    return bytes(builder.Output())


@torch.inference_mode()
def _ranges(network: nn.Sequential, pixels: torch.Tensor) -> list[tuple[float, int]]:
    """Scale and zero point of the input and of each layer's output; pooling and flattening keep theirs."""
    found = []
    for layer in (nn.Identity(), *network):
        pixels = layer(pixels)
        low, high = min(float(pixels.min()), 0.0), max(float(pixels.max()), 0.0)
        scale = (high - low) / 255
        found.append((scale, round(-128 - low / scale)))
    return found


def _convolved(
    graph: _Graph,
    schema: Any,
    layer: nn.Conv2d,
    source: int,
    shape: list[int],
    scale: tuple[float, int] | None,
    *,
    fused: bool = False,
) -> tuple[int, list[int]]:
    """A convolution; returns its output and the shape of that."""
    kernel = layer.weight.detach().permute(0, 2, 3, 1).numpy()
    same = layer.padding != (0, 0)
    sides = [side - (0 if same else size - 1) for side, size in zip(shape[1:3], kernel.shape[1:3], strict=True)]
    shape = [shape[0], *sides, len(kernel)]
    how = {"padding": 0 if same else 1, "strideW": 1, "strideH": 1, "fusedActivationFunction": int(fused)}
    options = _made(schema.Conv2DOptionsT(), **how)
    return _weighed(graph, schema, (3, 1), options, source, kernel, layer.bias, shape, scale), shape


def _suppressed(graph: _Graph, schema: Any, ssd: Ssd, source: int, shape: list[int]) -> list[int]:
    """Boxes, classes, scores and their number from what a network gives; returns the outputs."""
    from flatbuffers import flexbuffers

    flat = []
    for layer in (ssd.boxes, ssd.scores):
        values, (_, height, width, channels) = _convolved(graph, schema, layer, source, shape, None)
        rows = _tensor(graph, schema, "rows", [1, height * width, channels])
        wanted = _tensor(graph, schema, "shape", [3], data=np.array([1, -1, channels], dtype=np.int32), kind=2)
        _operator(graph, schema, (22, 17), _made(schema.ReshapeOptionsT()), [values, wanted], rows)
        flat.append(rows)
    scores = _like(graph, schema, flat[1], graph.tensors[flat[1]].shape)
    _operator(graph, schema, (14, 0), None, [flat[1]], scores)
    anchors = _tensor(graph, schema, "anchors", list(ssd.anchors.shape), data=ssd.anchors)
    most = ssd.options["max_detections"]
    outputs = [_tensor(graph, schema, "", each) for each in ([1, most, 4], [1, most], [1, most], [1])]
    for output, name in zip(outputs, ssd.outputs, strict=True):
        graph.tensors[output].name = f"{ssd.operator}{name}".encode()
    graph.codes.append(
        _made(
            schema.OperatorCodeT(),
            builtinCode=32,
            deprecatedBuiltinCode=32,
            customCode=ssd.operator.encode(),
            version=1,
        )
    )
    graph.operators.append(
        _made(
            schema.OperatorT(),
            opcodeIndex=len(graph.codes) - 1,
            inputs=[flat[0], scores, anchors],
            outputs=outputs,
            customOptions=list(flexbuffers.Dumps(ssd.options)),
        )
    )
    return [outputs[number] for number in ssd.order]


def _weighed(
    graph: _Graph,
    schema: Any,
    code: tuple[int, int],
    options: Any,
    source: int,
    kernel: np.ndarray,
    bias: torch.Tensor | None,
    shape: list[int],
    scale: tuple[float, int] | None,
) -> int:
    """A convolution or a dense layer; returns its output."""
    assert bias is not None
    added = bias.detach().numpy()
    if scale is None:
        weights = _tensor(graph, schema, "weights", list(kernel.shape), data=kernel)
        biases = _tensor(graph, schema, "bias", [len(added)], data=added)
    else:
        scales = np.abs(kernel).reshape(len(kernel), -1).max(axis=1) / 127
        if kernel.ndim == 2:
            scales = np.full(1, scales.max())
        steps = np.rint(kernel / scales.reshape(-1, *[1] * (kernel.ndim - 1))).astype(np.int8)
        weights = _tensor(graph, schema, "weights", list(kernel.shape), data=steps, kind=9, scale=(scales, 0))
        together = scales * graph.tensors[source].quantization.scale[0]
        sums = np.rint(added / together).astype(np.int32)
        biases = _tensor(graph, schema, "bias", [len(added)], data=sums, kind=2, scale=(together, 0))
    output = _tensor(graph, schema, "values", shape, scale=scale)
    _operator(graph, schema, code, options, [source, weights, biases], output)
    return output


def _tensor(
    graph: _Graph,
    schema: Any,
    name: str,
    shape: list[int],
    *,
    data: np.ndarray | None = None,
    kind: int | None = None,
    scale: tuple[Any, int] | None = None,
) -> int:
    """A tensor with its buffer; returns its number."""
    quantization = None
    if scale is not None:
        scales = [float(each) for each in np.atleast_1d(scale[0])]
        quantization = _made(schema.QuantizationParametersT(), scale=scales, zeroPoint=[scale[1]] * len(scales))
    kind = kind if kind is not None else (9 if scale is not None else 0)
    number = len(graph.buffers) if data is not None else 0
    if data is not None:
        plain = np.ascontiguousarray(data, dtype={0: np.float32, 2: np.int32, 9: np.int8}[kind])
        graph.buffers.append(_made(schema.BufferT(), data=np.frombuffer(plain.tobytes(), dtype=np.uint8)))
    graph.tensors.append(
        _made(
            schema.TensorT(),
            name=f"{name}{len(graph.tensors)}".encode(),
            shape=shape,
            type=kind,
            buffer=number,
            quantization=quantization,
        )
    )
    return len(graph.tensors) - 1


def _like(graph: _Graph, schema: Any, source: int, shape: list[int]) -> int:
    quantization = graph.tensors[source].quantization
    scale = None if quantization is None else (quantization.scale, quantization.zeroPoint[0])
    return _tensor(graph, schema, "values", shape, scale=scale)


def _operator(graph: _Graph, schema: Any, code: tuple[int, int], options: Any, inputs: list[int], output: int) -> None:
    """An operator; ``code`` is its number among the operators, and that of its options."""
    builtin, kind = code
    graph.codes.append(
        _made(schema.OperatorCodeT(), builtinCode=builtin, deprecatedBuiltinCode=builtin, version=_VERSIONS[builtin])
    )
    graph.operators.append(
        _made(
            schema.OperatorT(),
            opcodeIndex=len(graph.codes) - 1,
            inputs=inputs,
            outputs=[output],
            builtinOptionsType=kind,
            builtinOptions=options,
        )
    )


def _made(thing: Any, **fields: Any) -> Any:
    for name, value in fields.items():
        assert hasattr(thing, name), name
        setattr(thing, name, value)
    return thing
