"""What is special about ONNX files: what they declare, and weights in files of their own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from diffgen.config import Preprocessing
from diffgen.errors import UserError
from diffgen.models import load
from diffgen.models.loading import file_sha256

REPOSITORY = Path(__file__).resolve().parents[2]
CLASSES = 4


def weights(count):
    return np.random.default_rng(0).normal(0, 1, (count, CLASSES)).astype(np.float32)


def save_flat(path, shape, *, dtype=TensorProto.FLOAT, outputs=("logits",), inputs=("pixels",), scale=1.0):
    """A graph that flattens its input, casts it to float32, scales it and multiplies it with a matrix."""
    sides = [side if isinstance(side, int) else 28 for side in shape[1:]]
    nodes = [
        helper.make_node("Flatten", [inputs[0]], ["flat"]),
        helper.make_node("Cast", ["flat"], ["cast"], to=TensorProto.FLOAT),
        helper.make_node("Mul", ["cast", "scale"], ["scaled"]),
        *(helper.make_node("MatMul", ["scaled", "matrix"], [name]) for name in outputs),
    ]
    graph = helper.make_graph(
        nodes,
        "flat",
        [helper.make_tensor_value_info(name, dtype, list(shape)) for name in inputs],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, [shape[0], CLASSES]) for name in outputs],
        [
            numpy_helper.from_array(weights(int(np.prod(sides))), "matrix"),
            numpy_helper.from_array(np.float32(scale), "scale"),
        ],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    onnx.checker.check_model(model)
    onnx.save(model, path)
    return path


def flat_probabilities(pixels, scale=1 / 255):
    logits = (pixels.reshape(len(pixels), -1).astype(np.float64) * scale) @ weights(pixels[0].size).astype(np.float64)
    powers = np.exp(logits - logits.max(axis=1, keepdims=True))
    return powers / powers.sum(axis=1, keepdims=True)


@pytest.fixture
def colour():
    return np.random.default_rng(2).integers(0, 256, (6, 3, 8, 8), dtype=np.uint8)


@pytest.mark.parametrize("shape", [("n", 8, 8, 3), (2, 8, 8, 3), (None, 8, 8, 3)])
def test_a_declared_nhwc_is_recognised(tmp_path, colour, shape):
    box = load(save_flat(tmp_path / "m.onnx", shape))
    box.prepare(colour)
    assert box.preprocessing.layout == "nhwc"
    assert box.fixed_batch == (2 if shape[0] == 2 else None)
    np.testing.assert_allclose(box.predict(colour), flat_probabilities(colour.transpose(0, 2, 3, 1)), atol=1e-5)
    with pytest.raises(UserError, match="takes 3x8x8 images but the data has 1x28x28"):
        load(tmp_path / "m.onnx").prepare(np.zeros((2, 1, 28, 28), dtype=np.uint8))


def test_a_layout_that_the_file_cannot_take_is_refused(tmp_path, colour):
    path = save_flat(tmp_path / "m.onnx", ("n", 8, 8, 3))
    with pytest.raises(UserError, match="takes 3x8x8 images in the layout nhwc but its pre-processing says nchw"):
        load(path, preprocessing=Preprocessing(layout="nchw")).prepare(colour)


@pytest.mark.parametrize("dtype", [TensorProto.DOUBLE, TensorProto.FLOAT16])
def test_other_floating_inputs_are_cast(tmp_path, colour, dtype):
    box = load(save_flat(tmp_path / "m.onnx", ("n", 3, 8, 8), dtype=dtype))
    box.prepare(colour)
    tolerance = 1e-5 if dtype == TensorProto.DOUBLE else 2e-2
    np.testing.assert_allclose(box.predict(colour), flat_probabilities(colour), atol=tolerance)


def test_a_graph_that_takes_bytes_gets_the_grey_levels(tmp_path, colour):
    path = save_flat(tmp_path / "m.onnx", ("n", 3, 8, 8), dtype=TensorProto.UINT8, scale=1 / 255)
    box = load(path)
    box.prepare(colour)
    assert box.preprocessing.scale == "0..255"
    np.testing.assert_allclose(box.predict(colour), flat_probabilities(colour), atol=1e-5)
    with pytest.raises(UserError, match="takes uint8 images, which a mean or std"):
        load(path, preprocessing=Preprocessing(mean=(0.5,) * 3))


def test_other_graphs_are_refused(tmp_path):
    for settings, message in [
        (
            {"shape": ("n", 3, 8, 8), "outputs": ("logits", "features")},
            r"gives 2 outputs; say with --output-name .*\(logits, f",
        ),
        ({"shape": ("n", 3, 8, 8), "inputs": ("pixels", "mask")}, r"takes 2 inputs \(pixels, mask\)"),
        ({"shape": ("n", 28, 28)}, r"takes 1 input of shape \(\?, 28, 28\), not images"),
        ({"shape": ("n", 3, 8, 8), "dtype": TensorProto.INT8}, r"takes tensor\(int8\)"),
    ]:
        with pytest.raises(UserError, match=message):
            load(save_flat(tmp_path / "m.onnx", **settings))


def test_the_providers_are_named(net, save_onnx):
    assert load(save_onnx(net), isolate="off").provider == "CPUExecutionProvider"


def test_the_digest_covers_weights_in_files_of_their_own(tmp_path, net_of, save_onnx):
    boxes = []
    for seed in (0, 1):
        whole = save_onnx(net_of(seed=seed), name=f"whole{seed}.onnx")
        folder = tmp_path / str(seed)
        folder.mkdir()
        onnx.save(onnx.load(whole), folder / "m.onnx", save_as_external_data=True, location="m.data", size_threshold=0)
        boxes.append(load(folder / "m.onnx"))
        assert load(whole).digest == file_sha256(whole)
    assert (tmp_path / "0/m.onnx").read_bytes() == (tmp_path / "1/m.onnx").read_bytes()
    assert boxes[0].digest != boxes[1].digest
    (tmp_path / "0/m.data").unlink()
    with pytest.raises(UserError, match=r"keeps its weights in a file m\.data that is not beside it"):
        load(tmp_path / "0/m.onnx")


def test_a_graph_that_onnxruntime_cannot_run_is_refused_without_noise_on_the_screen(tmp_path, capfd):
    path = save_flat(tmp_path / "m.onnx", ("n", 3, 8, 8))
    path.write_bytes(path.read_bytes().replace(b"Flatten", b"Fl\xe4tten"))
    with pytest.raises(UserError, match=r"is an ONNX file that onnxruntime .* cannot read \(.*\); export it again"):
        load(path)
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("name", [b"pixels", b"height", b"classes"])
def test_names_that_are_no_text(tmp_path, name):
    """Of the input, of an open side, of a key in the metadata."""
    path = save_flat(tmp_path / "m.onnx", ("n", 3, "height", 8))
    graph = onnx.load(path)
    graph.metadata_props.add(key="classes", value="a, b, c, d")
    onnx.save(graph, path)
    path.write_bytes(path.read_bytes().replace(name, b"\xff" * len(name)))
    with pytest.raises(UserError, match=r"is an ONNX file with names that are no text .*; export it again"):
        load(path)


def test_a_declared_shape_without_channels_or_sizes_is_worded(tmp_path):
    for shape, takes in [(("n", 3, "h", "w"), "3-channel"), (("n", "c", 8, 8), "8x8"), (("n", 3, "h", 8), r"3x\?x8")]:
        with pytest.raises(UserError, match=f"takes {takes} images but the data has 1x28x28"):
            load(save_flat(tmp_path / "m.onnx", shape)).prepare(np.zeros((2, 1, 28, 28), dtype=np.uint8))


def test_onnxruntime_is_imported_when_it_is_needed():
    code = "import sys, diffgen.models; sys.exit('onnxruntime' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], cwd=REPOSITORY, check=False).returncode == 0
