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
from diffgen.models import load
from diffgen.models.sniffing import FileKind, sniff

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
