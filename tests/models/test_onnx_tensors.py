"""Of a float and a quantized graph the tensor that saturates is found; an even loss is none."""

from __future__ import annotations

from pathlib import Path

import onnx
import pytest
from onnx import numpy_helper

from diffgen.config import ModelSpec, Opening
from diffgen.data import load as load_data
from diffgen.models import load
from diffgen.models.onnx import OnnxModel
from diffgen.models.onnx_tensors import first_to_depart, tensor_errors
from diffgen.types import UInt8Array
from diffgen.workflows.demo import convolutional_classifier, save_onnx, train_classifier
from diffgen.workflows.explain import explain
from diffgen.workflows.quantize import quantize


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A network, its 8-bit version, and one with an activation whose range is an eighth of what it should be."""
    folder = tmp_path_factory.mktemp("tensors")
    made = {name: folder / f"{name}.onnx" for name in ("plain", "int8", "saturated")}
    network = train_classifier(convolutional_classifier(10), load_data("digits:train"), seed=0, passes=2)
    save_onnx(network, made["plain"])
    quantize(made["plain"], data="digits:test", output=made["int8"])
    graph = onnx.load(str(made["int8"]))
    inputs = {each.name for each in graph.graph.input}
    constants = {each.name: each for each in graph.graph.initializer}
    nodes = [
        n for n in graph.graph.node if n.op_type == "QuantizeLinear" and n.input[0] not in inputs | constants.keys()
    ]
    scale = constants[nodes[1].input[1]]
    scale.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(scale) / 8, scale.name))
    onnx.save(graph, str(made["saturated"]))
    return made


@pytest.fixture(scope="module")
def images() -> UInt8Array:
    return load_data("digits:test").images[::90]


def opened(path: Path, images: UInt8Array) -> OnnxModel:
    box = load(path, isolate="off")
    assert isinstance(box, OnnxModel)
    box.prepare(images)
    return box


def test_the_tensor_that_saturates_departs_first(files: dict[str, Path], images: UInt8Array) -> None:
    plain = opened(files["plain"], images)
    good = tensor_errors(plain, opened(files["int8"], images), images)
    assert len(good) >= 3 and first_to_depart(good) is None
    bad = tensor_errors(plain, opened(files["saturated"], images), images)
    first = first_to_depart(bad)
    assert first is not None
    before = {each.name: each.decibels for each in good}
    worse = [each.name for each in bad if each.decibels < before[each.name] - 8]
    assert worse[0] == first.name


def test_graphs_that_are_not_one_have_no_tensor_in_common(files: dict[str, Path], images: UInt8Array) -> None:
    plain = opened(files["plain"], images)
    assert tensor_errors(plain, plain, images) == ()


def test_explain_says_which(files: dict[str, Path]) -> None:
    here = (ModelSpec(opening=Opening(isolate="off")),) * 2
    # both graphs are taken apart in this process: not unasked
    assert "--isolate off" in explain(files["saturated"], files["plain"], data="digits:test").tensor
    found = explain(files["saturated"], files["plain"], data="digits:test", options=here)
    assert "of the quantized graph departs first" in found.tensor
    even = explain(files["plain"], files["int8"], data="digits:test", options=here)
    assert even.tensor.startswith("No tensor of the quantized graph stands out") or not even.explanation.tried
