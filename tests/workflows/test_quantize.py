"""The 8-bit version of an ONNX file: it is one, it gets the same pixels, and the figures are those of the files."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
import torch

from diffgen.cli import main
from diffgen.config import Preprocessing, QuantizeConfig
from diffgen.errors import UserError
from diffgen.models import load
from diffgen.models.sidecar import read_sidecar
from diffgen.workflows.quantize import _advice, quantize

WAYS = {
    "static, QDQ": (QuantizeConfig(), "DequantizeLinear"),
    "static, QOperator": (QuantizeConfig(format="qoperator", images=64), "QLinearConv"),
    "static, per channel, percentile": (QuantizeConfig(per_channel=True, calibration="percentile"), "QuantizeLinear"),
    "dynamic": (QuantizeConfig(method="dynamic"), "ConvInteger"),
}


def operators(path):
    return {node.op_type for node in onnx.load(path).graph.node}


def asked_directly(path, pixels):
    """Labels as onnxruntime gives them without diffgen, one image at a time as that is what is counted in the end."""
    import onnxruntime

    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    name = session.get_inputs()[0].name
    return np.concatenate([session.run(None, {name: each[None]})[0] for each in pixels]).argmax(axis=1)


@pytest.mark.parametrize("way", WAYS)
def test_the_file_computes_in_8_bits_and_the_figures_are_its_own(way, model_files, digits, tmp_path):
    config, operator = WAYS[way]
    target = tmp_path / "int8.onnx"
    result = quantize(model_files["a_onnx"], data=digits, output=target, config=config)
    assert operator in operators(target) and operator not in operators(model_files["a_onnx"])
    assert result.bytes[1] < 0.6 * result.bytes[0]
    assert result.calibrated == (0 if config.method == "dynamic" else min(config.images, len(digits)))

    pixels = digits.images.astype(np.float32) / 255
    before, after = (asked_directly(file, pixels) for file in (model_files["a_onnx"], target))
    box = load(target)
    box.prepare(digits.images[:64])
    assert box.preprocessing.outputs == "logits"
    if config.method == "static":  # a dynamic one answers otherwise when it is asked about several images at once
        np.testing.assert_array_equal(box.predict(digits.images).argmax(axis=1), after)
        assert result.accuracy == pytest.approx([(each == digits.labels).mean() for each in (before, after)])
        assert result.differing == (before != after).sum()
    assert result.accuracy[1] > result.accuracy[0] - 0.02 > 0.8
    assert 0 < result.largest_shift < 0.5


def test_it_is_calibrated_on_what_the_model_is_fed_with(net_file, tmp_path, digits):
    """Of a model that takes grey levels less 128, batches of four, and channels last, with names in its sidecar."""
    path = net_file
    named = [f"digit {number}" for number in range(10)]
    path.with_name("net.onnx.toml").write_text(f'scale = "0..255"\nmean = [128]\nclass_names = {named}\n')
    result = quantize(path, data=digits, calibration_data=(digits.images[::3], None), config=QuantizeConfig(images=50))
    assert result.output == str(tmp_path / "net-int8.onnx")
    beside = read_sidecar(Path(result.output))
    assert beside.class_names == tuple(named)
    assert beside.preprocessing == Preprocessing(scale="0..255", mean=(128.0,), layout="nhwc", outputs="logits")
    assert load(result.output).fixed_batch == 4
    # the range that was found of what comes first: (0 - 128) / 128 to (255 - 128) / 128, in 256 steps
    model = onnx.load(result.output)
    first = next(node for node in model.graph.node if node.op_type == "QuantizeLinear")
    values = {each.name: onnx.numpy_helper.to_array(each) for each in model.graph.initializer}
    assert (float(values[first.input[1]]), int(values[first.input[2]])) == (1 / 128, 128)


def test_a_value_for_the_background_is_left_out_of_both(tmp_path, digits):
    """It is in no name, and the labels show it; the sidecar says it afterwards."""
    weights = np.zeros((784, 11), dtype=np.float32)
    means = np.stack([digits.images[digits.labels == digit].mean(axis=0).ravel() / 255 for digit in range(10)], axis=1)
    weights[:, 1:] = 2 * means
    bias = np.concatenate([[-40], -np.square(means).sum(axis=0)]).astype(np.float32)
    nodes = [
        onnx.helper.make_node("Flatten", ["x"], ["flat"]),
        onnx.helper.make_node("Gemm", ["flat", "weights", "bias"], ["y"]),
    ]
    graph = onnx.helper.make_graph(
        nodes,
        "means",
        [onnx.helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, ["n", 1, 28, 28])],
        [onnx.helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, ["n", 11])],
        [onnx.numpy_helper.from_array(weights, "weights"), onnx.numpy_helper.from_array(bias, "bias")],
    )
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=9)
    onnx.save(model, tmp_path / "means.onnx")
    result = quantize(tmp_path / "means.onnx", data=digits)
    before, after = result.accuracy
    # by the processor: sums of 8-bit products overflow where it has no VNNI, and that is said
    overflows = any("--reduce-range" in each for each in result.warnings)
    assert (before - after > 0.02) == overflows
    assert min(result.accuracy) > 0.8 or overflows
    config = QuantizeConfig(reduce_range=True)
    result = quantize(tmp_path / "means.onnx", data=digits, config=config, force=True)
    assert min(result.accuracy) > 0.9
    assert not any("--reduce-range" in each for each in result.warnings)
    assert read_sidecar(Path(result.output)).preprocessing.background == "first"


@pytest.mark.parametrize("labelled", [True, False])
def test_what_to_try_when_8_bits_cost_much(labelled):
    (sentence,) = _advice((0.99, 0.95) if labelled else None, 0.95, QuantizeConfig())
    assert "right on 95.0%" in sentence and "--reduce-range" in sentence
    assert ("and the model on 99.0%" in sentence) == labelled
    assert [*_advice((0.99, 0.95) if labelled else None, 0.95, QuantizeConfig(reduce_range=True))] == []
    assert [*_advice((0.96, 0.95) if labelled else None, 0.99, QuantizeConfig())] == []


@pytest.fixture
def net_file(tmp_path, model_files, digits):
    """A network that takes (4, 28, 28, 1) alone."""

    class Other(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = torch.nn.Sequential(torch.nn.Conv2d(1, 4, 5, stride=3), torch.nn.Flatten())
            self.dense = torch.nn.Linear(256, 10)

        def forward(self, pixels):
            return self.dense(self.layers(pixels.permute(0, 3, 1, 2) / 128))

    torch.manual_seed(0)
    path = tmp_path / "net.onnx"
    names = {"input_names": ["pixels"], "output_names": ["logits"]}
    with pytest.warns(DeprecationWarning):
        torch.onnx.export(Other().eval(), (torch.zeros(4, 28, 28, 1),), str(path), dynamo=False, **names)
    return path


def test_what_cannot_be_quantized_is_refused_and_nothing_is_written(model_files, tmp_path, told, capsys):
    int8 = tmp_path / "int8.onnx"
    quantize(model_files["b"], data="digits:test", output=int8)
    relu = onnx.helper.make_graph(
        [onnx.helper.make_node("Flatten", ["x"], ["y"])],
        "nothing",
        [onnx.helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, ["n", 1, 28, 28])],
        [onnx.helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, ["n", 784])],
    )
    opset = [onnx.helper.make_opsetid("", 17)]
    onnx.save(onnx.helper.make_model(relu, opset_imports=opset, ir_version=9), tmp_path / "flat.onnx")
    (tmp_path / "folder").mkdir()
    before = sorted(tmp_path.iterdir())
    for case, words, named in [
        ("no ONNX file", [model_files["a"]], "is a TorchScript file"),
        ("quantized already", [int8, "-o", tmp_path / "twice.onnx"], "quantized already"),
        ("nothing to quantize", [tmp_path / "flat.onnx"], "no layer that onnxruntime quantizes"),
        ("the file exists", [model_files["b"], "-o", int8], "add --force"),
        ("onto the model itself", [model_files["b"], "-o", model_files["b"]], "is the model itself"),
        ("a folder that is not there", [model_files["b"], "-o", tmp_path / "no" / "x.onnx"], "does not exist"),
        ("a folder for a file", [model_files["b"], "-o", tmp_path / "folder"], "is a folder"),
        ("no images to calibrate on", [model_files["b"], "-o", tmp_path / "x.onnx", "--images", "0"], "1 or more"),
        ("static and dynamic", [model_files["b"], "--static", "--dynamic"], "not allowed with"),
    ]:
        assert main(["quantize", *map(str, words), "--data", "digits:test"]) == 2
        out, err = capsys.readouterr()
        assert out == "" and named in err and err.count("\n") == 1, err
        told("`diffgen quantize`", case, err.removeprefix("diffgen: "))
        assert sorted(tmp_path.iterdir()) == before
    with pytest.raises(UserError, match="calibrate on images of the same shape"):
        other = np.zeros((60, 1, 32, 32), dtype=np.uint8)
        quantize(model_files["b"], data="digits:test", calibration_data=other, output=tmp_path / "x.onnx")


def test_the_command_prints_figures_and_json(model_files, tmp_path, capsys):
    import json

    target = tmp_path / "b.onnx"
    assert main(["quantize", str(model_files["b"]), "--data", "digits:test", "-o", str(target), "--json", "-q"]) == 0
    out, err = capsys.readouterr()
    figures = json.loads(out.splitlines()[-1])
    assert figures["output"] == str(target) and figures["images"] == 898
    assert f"accuracy {figures['accuracy'][1]:.4f}" in out and err == ""
    assert read_sidecar(target).preprocessing.outputs == "logits"
    assert main(["inspect", str(target), "--data", "digits:test", "-q"]) == 0
    assert f"{target} is an ONNX file (quantized)." in capsys.readouterr().out


def test_a_model_that_is_fed_wrongly_is_blamed_by_its_name_and_its_8_bit_version_is_not(model_files, digits, tmp_path):
    config = QuantizeConfig(preprocessing=Preprocessing(mean=(2.0,), std=(0.5,)))
    result = quantize(model_files["b"], data=digits, output=tmp_path / "small.onnx", config=config)
    assert max(result.accuracy) < 0.5
    blames = [sentence for sentence in result.warnings if "pre-processing" in sentence]
    assert blames and all(sentence.startswith(f"Model {model_files['b'].name} ") for sentence in blames)
    assert not any("Model A" in sentence or "Model B" in sentence for sentence in result.warnings)


def test_a_dynamic_version_goes_by_its_name_too(model_files, digits, tmp_path):
    config = QuantizeConfig(method="dynamic")
    result = quantize(model_files["b"], data=digits, output=tmp_path / "small.onnx", config=config)
    assert result.warnings[0].startswith("Model small.onnx answers otherwise when other images are in the batch")


def test_names_of_classes_from_a_file(model_files, tmp_path):
    names = [f"digit {number}" for number in range(10)]
    (tmp_path / "names.txt").write_text("\n".join(names))
    target = tmp_path / "small.onnx"
    given = ["--data", "digits:test", "--class-names", str(tmp_path / "names.txt"), "-o", str(target), "-q"]
    assert main(["quantize", str(model_files["b"]), *given]) == 0
    assert read_sidecar(target).class_names == tuple(names)
