"""The table of formats: the same real classifier in each, with the same answers on real digits."""

from __future__ import annotations

import pickle
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest
import torch

from diffgen.data import load as load_data
from diffgen.errors import UserError
from diffgen.models import load
from diffgen.models.model_settings import ModelSettings
from diffgen.models.sniffing import FileKind, sniff
from diffgen.models.torchscript import TorchScriptModel
from diffgen.models.untrusted import is_quantized

FACTORY = """
import torch

def build():
    return torch.nn.Sequential(
        torch.nn.Conv2d(1, 8, 5, stride=2), torch.nn.ReLU(), torch.nn.BatchNorm2d(8), torch.nn.Flatten(),
        torch.nn.Dropout(0.3), torch.nn.Linear(8 * 12 * 12, 10)
    )

class Classifier(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = build()

    def forward(self, pixels):
        return self.layers(pixels)
"""
FORMATS = {
    "TorchScript": (FileKind.TORCHSCRIPT, {}),
    "TorchScript, fixed batch": (FileKind.TORCHSCRIPT, {}),
    "ONNX": (FileKind.ONNX, {}),
    "ONNX, fixed batch": (FileKind.ONNX, {}),
    "torch.export": (FileKind.TORCH_EXPORT, {}),
    "torch.export, at most 40": (FileKind.TORCH_EXPORT, {}),
    "torch.export, fixed batch": (FileKind.TORCH_EXPORT, {}),
    "state_dict": (FileKind.TORCH_WEIGHTS, {"arch": "format_table_nets:build"}),
    "state_dict, old file": (FileKind.TORCH_WEIGHTS, {"arch": "format_table_nets:build"}),
    "state_dict of DataParallel": (FileKind.TORCH_WEIGHTS, {"arch": "format_table_nets:build"}),
    "checkpoint": (FileKind.TORCH_WEIGHTS, {"arch": "format_table_nets:build"}),
    "safetensors": (FileKind.SAFETENSORS, {"arch": "format_table_nets:build"}),
    "pickled module": (FileKind.TORCH_MODULE, {"allow_pickle": True}),
    "pickled module, old file": (FileKind.TORCH_MODULE, {"allow_pickle": True}),
    "pickle.dump of a module": (FileKind.PICKLE, {"allow_pickle": True}),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """The folder that the user stands in, with a module of theirs."""
    place = tmp_path_factory.mktemp("formats")
    (place / "format_table_nets.py").write_text(FACTORY)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(place)
        yield place
        sys.modules.pop("format_table_nets", None)


@pytest.fixture(scope="module")
def digits():
    return load_data("digits:test")


@pytest.fixture(scope="module")
def network(folder, digits):
    """A classifier trained on real digits for a moment, in evaluation mode."""
    sys.path.insert(0, str(folder))
    import format_table_nets

    sys.path.remove(str(folder))
    torch.manual_seed(0)
    module = format_table_nets.Classifier()
    training = load_data("digits:train")
    pixels = torch.from_numpy(training.images.astype(np.float32) / 255)
    labels = torch.from_numpy(training.labels)
    optimizer = torch.optim.Adam(module.parameters(), lr=3e-3)
    for _ in range(3):
        for rows in torch.randperm(len(pixels)).split(64):
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(module(pixels[rows]), labels[rows]).backward()
            optimizer.step()
    return module.eval()


@pytest.fixture(scope="module")
def saved(folder, network):
    """Name -> the network in a file of that format."""
    from safetensors.torch import save_file

    state = network.layers.state_dict()
    example = torch.zeros(4, 1, 28, 28)
    files = {name: folder / f"{index:02}.model" for index, name in enumerate(FORMATS)}

    class Rigid(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = network

        def forward(self, pixels):
            return self.layers(pixels.reshape(4, 1, 28, 28)).reshape(4, 10)

    def onnx(name, axes):
        torch.onnx.export(
            network,
            (example,),
            str(files[name]),
            dynamo=False,
            input_names=["x"],
            output_names=["y"],
            dynamic_axes=axes,
        )

    def exported(name, shapes):
        torch.export.save(torch.export.export(network, (example,), dynamic_shapes=shapes), files[name])

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.jit.save(torch.jit.trace(network, example), str(files["TorchScript"]))
        torch.jit.save(torch.jit.trace(Rigid().eval(), example), str(files["TorchScript, fixed batch"]))
        onnx("ONNX", {"x": {0: "n"}, "y": {0: "n"}})
        onnx("ONNX, fixed batch", None)
        exported("torch.export", ({0: torch.export.Dim("n")},))
        exported("torch.export, at most 40", ({0: torch.export.Dim("n", min=1, max=40)},))
        exported("torch.export, fixed batch", None)
    torch.save(state, files["state_dict"])
    torch.save(state, files["state_dict, old file"], _use_new_zipfile_serialization=False)
    torch.save({f"module.{key}": value for key, value in state.items()}, files["state_dict of DataParallel"])
    torch.save({"epoch": 3, "model": state, "best": 0.9}, files["checkpoint"])
    save_file(state, files["safetensors"])
    torch.save(network, files["pickled module"])
    torch.save(network, files["pickled module, old file"], _use_new_zipfile_serialization=False)
    files["pickle.dump of a module"].write_bytes(pickle.dumps(network))
    return files


@pytest.fixture(scope="module")
def eager(network, digits):
    with torch.no_grad():
        return torch.softmax(network(torch.from_numpy(digits.images.astype(np.float32) / 255)), dim=1).numpy()


@pytest.mark.parametrize("name", FORMATS)
def test_every_format_works_and_agrees_with_the_eager_network(name, saved, eager, digits):
    kind, options = FORMATS[name]
    path: Path = saved[name]
    assert sniff(path) is kind
    box = load(path, **options)
    box.prepare(digits.images[:256])
    assert (box.fixed_batch == 4) == ("fixed" in name)
    answers = box.predict(digits.images)
    np.testing.assert_allclose(answers, eager, atol=1e-5)
    assert (answers.argmax(axis=1) != eager.argmax(axis=1)).sum() == 0
    assert (answers.argmax(axis=1) == digits.labels).mean() == (eager.argmax(axis=1) == digits.labels).mean() > 0.8
    np.testing.assert_allclose(box.predict(digits.images[:1]), eager[:1], atol=1e-5)
    assert (box.arch is not None, box.unpickled) == ("arch" in options, "allow_pickle" in options)


@pytest.fixture(scope="module")
def quantized(network, digits):
    """The network with quantized operators, as torch.ao.quantization makes it."""
    from torch.ao.quantization import get_default_qconfig_mapping
    from torch.ao.quantization.quantize_fx import convert_fx, prepare_fx

    pixels = torch.from_numpy(digits.images.astype(np.float32) / 255)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        prepared = prepare_fx(network.layers, get_default_qconfig_mapping(), (pixels[:4],))
        prepared(pixels[:256])
        return convert_fx(prepared)


@pytest.mark.parametrize("way", ["traced", "scripted", "dynamic"])
def test_quantized_torchscript(way, quantized, network, digits, eager, tmp_path):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if way == "dynamic":
            quantized = torch.ao.quantization.quantize_dynamic(network, {torch.nn.Linear}, dtype=torch.qint8)
        script = (
            torch.jit.trace(quantized, torch.zeros(4, 1, 28, 28)) if way == "traced" else torch.jit.script(quantized)
        )
        torch.jit.save(script, str(tmp_path / "q.pt"))
    assert is_quantized(tmp_path / "q.pt")
    box = load(tmp_path / "q.pt")
    box.prepare(digits.images[:256])
    answers = box.predict(digits.images)
    with torch.no_grad():
        pixels = torch.from_numpy(digits.images.astype(np.float32) / 255)
        direct = torch.cat([quantized(part) for part in pixels.split(256)]).softmax(dim=1).numpy()
    np.testing.assert_allclose(answers, direct, atol=1e-6)
    assert 0 < np.abs(answers - eager).max() < 0.2
    # on another device (a GPU; any will do here) it is asked on the CPU all the same, and says so
    elsewhere = TorchScriptModel(tmp_path / "q.pt", ModelSettings(name="q.pt", device=torch.device("meta")))
    elsewhere.prepare(digits.images[:256])
    np.testing.assert_array_equal(elsewhere.predict(digits.images), answers)
    assert elsewhere.remarks == ("Model q.pt runs on the CPU, which alone has torch's quantized operators.",)
    assert box.remarks == ()


def test_the_other_torchscript_files_are_not_taken_for_quantized(saved):
    assert not is_quantized(saved["TorchScript"])


def test_a_quantized_torch_export_program(network, digits, eager, tmp_path):
    """With the operators that PT2E writes; its own tools live in torchao by now, so they are put in by hand."""
    import torch.ao.quantization.fx._decomposed

    operators = torch.ops.quantized_decomposed

    class Quantized(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = network.layers

        def forward(self, pixels):
            low = (0.0039, -128, -128, 127, torch.int8)
            steps = operators.quantize_per_tensor(pixels, *low)
            return self.layers(operators.dequantize_per_tensor(steps, *low))

    path = tmp_path / "q.pt2"
    batch = ({0: torch.export.Dim("n")},)
    torch.export.save(torch.export.export(Quantized(), (torch.zeros(4, 1, 28, 28),), dynamic_shapes=batch), path)
    box = load(path, isolate="on")  # in a process that has not registered the operators
    box.prepare(digits.images[:256])
    answers = box.predict(digits.images)
    assert 0 < np.abs(answers - eager).max() < 0.2
    with torch.no_grad():
        direct = Quantized()(torch.from_numpy(digits.images.astype(np.float32) / 255)).softmax(dim=1).numpy()
    np.testing.assert_allclose(answers, direct, atol=1e-5)


@pytest.mark.parametrize("kind", [torch.float16, torch.bfloat16, torch.float64])
@pytest.mark.parametrize("frozen", [False, True])
@pytest.mark.parametrize("isolate", ["on", "off"])
def test_torchscript_in_another_type_is_asked_in_that(tmp_path, digits, kind, frozen, isolate):
    """What the network itself says, of images of the same type; a frozen one has no weights to look at."""
    torch.manual_seed(0)
    network = torch.nn.Sequential(torch.nn.Conv2d(1, 2, 3), torch.nn.Flatten(), torch.nn.Linear(2 * 26 * 26, 3)).eval()
    traced = torch.jit.trace(network.to(kind), torch.zeros(1, 1, 28, 28, dtype=kind))
    torch.jit.save(torch.jit.freeze(traced) if frozen else traced, tmp_path / "net.pt")
    box = load(tmp_path / "net.pt", isolate=isolate)
    box.prepare(digits.images[:100])
    with torch.inference_mode():
        expected = network((torch.from_numpy(digits.images[:7]) / 255).to(kind)).float()
    assert np.array_equal(box.raw_outputs(digits.images[:7]), expected.numpy())
    with pytest.raises(UserError, match="takes 1x28x28 images but the data has 1x20x28"):
        load(tmp_path / "net.pt", isolate=isolate).prepare(digits.images[:100, :, :20])
