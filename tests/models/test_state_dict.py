"""Weights with ``--arch``: what is read, what is imported, and what each mistake is told."""

from __future__ import annotations

import argparse
import os
import sys

import numpy as np
import pytest
import torch

from benchmarks import cifar_resnets
from diffgen.config import Preprocessing
from diffgen.data import load as load_data
from diffgen.errors import UserError
from diffgen.models import load
from diffgen.models.state_dict import read_torch_file

NETS = """
import torch
imported = True
def small():
    return torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(16, 3))
def wide():
    return torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(16, 4))
def deep():
    return torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(16, 8), torch.nn.ReLU(), torch.nn.Linear(8, 3))
def sized(classes):
    return small()
def number():
    return 7
def broken():
    raise RuntimeError("no weights today")
class Zoo:
    small = staticmethod(small)
constant = 3
"""


class Mark:
    """Makes a folder when it is unpickled."""

    def __init__(self, place):
        self.place = place

    def __reduce__(self):
        return (os.mkdir, (str(self.place),))


@pytest.fixture
def weights(tmp_path, monkeypatch):
    """The current folder holds the module state_dict_nets and weights of its network."""
    (tmp_path / "state_dict_nets.py").write_text(NETS)
    monkeypatch.chdir(tmp_path)
    monkeypatch.delitem(sys.modules, "state_dict_nets", raising=False)
    torch.manual_seed(0)
    network = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(16, 3))
    path = tmp_path / "w.pt"
    torch.save(network.state_dict(), path)
    yield path
    sys.modules.pop("state_dict_nets", None)


IMAGES = np.arange(64, dtype=np.uint8).reshape(4, 1, 4, 4)


def test_the_module_is_imported_only_when_it_is_named(weights):
    before = list(sys.path)
    with pytest.raises(UserError, match="--arch"):
        load(weights)
    assert "state_dict_nets" not in sys.modules
    box = load(weights, arch="state_dict_nets:Zoo.small")
    box.prepare(IMAGES)
    assert box.predict(IMAGES).shape == (4, 3)
    assert sys.path == before


@pytest.mark.parametrize(
    ("arch", "message"),
    [
        ("state_dict_nets", r"is not understood; write package\.module:factory"),
        ("state_dict_nets:small()", "is not understood"),
        ("../state_dict_nets:small", "is not understood"),
        (
            "no_such_module:small",
            r"no_such_module .* was not found; run diffgen in the folder that holds no_such_module\.py",
        ),
        ("state_dict_nets.inner:small", "was not found"),
        ("state_dict_nets:smal", "'smal' .* is not in state_dict_nets; did you mean 'small'"),
        ("state_dict_nets:Zoo.big", r"'big' .* is not in state_dict_nets\.Zoo"),
        ("state_dict_nets:constant", "'constant' .* is a int; name a function"),
        ("state_dict_nets:sized", r"cannot be called without arguments \(missing a required argument: 'classes'\)"),
        ("state_dict_nets:number", "gives a int; write one that returns the network"),
        ("state_dict_nets:broken", r"fails \(RuntimeError: no weights today\)"),
        ("state_dict_nets:wide", r"1\.weight is \(3, 16\) in the file but \(4, 16\) in the network"),
        ("state_dict_nets:deep", r"2 missing from the file \(3\.weight, 3\.bias\)"),
    ],
)
def test_every_mistake_is_told(weights, arch, message, told):
    with pytest.raises(UserError, match=message) as caught:
        load(weights, arch=arch)
    assert "\n" not in str(caught.value)
    told("`--arch`", f"`{arch}`", caught.value)


def test_a_module_that_fails_when_imported(weights):
    (weights.parent / "state_dict_bad.py").write_text("import package_that_is_nowhere")
    with pytest.raises(UserError, match="needs package_that_is_nowhere, which is not installed"):
        load(weights, arch="state_dict_bad:build")
    (weights.parent / "state_dict_worse.py").write_text("1 / 0")
    with pytest.raises(UserError, match=r"cannot be imported \(ZeroDivisionError"):
        load(weights, arch="state_dict_worse:build")


def test_keys_that_do_not_match_are_named_but_not_all(weights):
    torch.save({f"layer{i}.weight": torch.zeros(1) for i in range(5)}, weights)
    with pytest.raises(UserError) as caught:
        load(weights, arch="state_dict_nets:small")
    assert "2 missing from the file (1.weight, 1.bias)" in str(caught.value)
    assert "5 that the network does not have (layer0.weight, layer1.weight, layer2.weight, ...)" in str(caught.value)


def test_a_file_without_weights(weights):
    torch.save({"epoch": 3, "lr": 0.1}, weights)
    with pytest.raises(UserError, match=r"holds no state_dict .* but epoch, lr"):
        load(weights, arch="state_dict_nets:small")


def test_only_weights_are_read_unless_the_file_is_trusted(weights):
    """A checkpoint with more than tensors in it: told with --arch, read with --allow-pickle too."""
    state = torch.load(weights)
    mark = weights.parent / "mark"
    torch.save({"state_dict": state, "arguments": Mark(mark)}, weights)
    with pytest.raises(UserError, match=r"cannot be read as weights alone .* add --allow-pickle"):
        load(weights, arch="state_dict_nets:small")
    assert not mark.exists()
    torch.save({"state_dict": state, "arguments": argparse.Namespace(lr=1)}, weights)
    box = load(weights, arch="state_dict_nets:small", allow_pickle=True)
    assert (box.arch, box.unpickled) == ("state_dict_nets:small", True)


@pytest.mark.parametrize("old", [False, True])
def test_weights_that_only_look_harmless_are_read_as_weights_alone(weights, old):
    """Whatever is allowed for other files: one that is told to be weights is never unpickled."""
    mark = weights.parent / "mark"
    torch.save({"1.weight": Mark(mark)}, weights, _use_new_zipfile_serialization=not old)
    for options in ({}, {"arch": "state_dict_nets:small"}):
        with pytest.raises(UserError):
            load(weights, **options)
    assert not mark.exists()


@pytest.mark.parametrize(
    ("name", "accuracy"), [("resnet20", 0.8103), pytest.param("resnet32", 0.8256, marks=pytest.mark.slow)]
)
def test_published_cifar_networks_reach_their_accuracy(shared_folder, name, accuracy):
    path = shared_folder / "models" / "cifar10-resnet-he" / f"{name}.state_dict.th"
    archive = shared_folder / "data" / "cifar10" / "test.zip"
    for needed in (path, archive):
        if not needed.is_file():
            pytest.skip(f"There is no {needed}.")
    data = load_data(archive)
    rows = np.linspace(0, len(data) - 1, 1500).astype(int)
    preprocessing = Preprocessing(mean=cifar_resnets.MEAN, std=cifar_resnets.STD)
    box = load(path, arch=f"benchmarks.cifar_resnets:{name}", preprocessing=preprocessing)
    box.prepare(data.images[rows[:64]])
    found = (box.predict(data.images[rows]).argmax(axis=1) == data.labels[rows]).mean()
    assert found == pytest.approx(accuracy, abs=0.025)  # two standard errors of 1,500 images


@pytest.mark.parametrize("prefix", ["model.", "net.module.", "_orig_mod.module.", "encoder."])
def test_any_prefix_that_all_names_share_is_taken_off(weights, prefix):
    """Lightning writes the name of the attribute that holds the network; pickled objects lie beside the weights."""
    state = torch.load(weights)
    torch.save({"epoch": 3, "state_dict": {f"{prefix}{name}": tensor for name, tensor in state.items()}}, weights)
    box = load(weights, arch="state_dict_nets:small")
    box.prepare(IMAGES)
    logits = torch.from_numpy(IMAGES / np.float32(255)).flatten(1) @ state["1.weight"].T + state["1.bias"]
    assert np.allclose(box.raw_outputs(IMAGES), logits, atol=1e-6)


def test_a_prefix_that_only_some_names_have_stays(weights):
    state = torch.load(weights)
    torch.save({**{f"model.{name}": tensor for name, tensor in state.items()}, "loss.weight": torch.ones(3)}, weights)
    with pytest.raises(UserError, match=r"2 missing .* 3 that the network does not have \(model\.1\.weight"):
        load(weights, arch="state_dict_nets:small")


@pytest.mark.parametrize(("plain", "averaged"), [("state_dict", "state_dict_ema"), ("model", "model_ema")])
def test_averaged_weights_beside_others_are_taken_where_that_is_said(weights, plain, averaged):
    state = torch.load(weights)
    ema = {"n_averaged": torch.tensor(7), **{f"module.{name}": 2 * tensor for name, tensor in state.items()}}
    torch.save({plain: state, averaged: ema, "epoch": 3}, weights)

    def answers(**options):
        box = load(weights, arch="state_dict_nets:small", **options)
        box.prepare(IMAGES)
        return box.raw_outputs(IMAGES), box.remarks

    own, remarks = answers()
    assert remarks == (
        f"Of the weights in the file of model w.pt those under {plain} are taken, not the averaged ones under "
        f"{averaged}; --weights ema takes these.",
    )
    others, remarks = answers(weights="ema")
    assert np.allclose(others, 2 * own) and remarks == ()
    torch.save({averaged: ema}, weights)
    assert np.allclose(answers()[0], others)
    torch.save({plain: state}, weights)
    with pytest.raises(UserError, match=r"holds no averaged weights .* leave --weights ema out"):
        answers(weights="ema")


def test_what_torch_says_of_a_checkpoint_is_one_plain_sentence(weights, told):
    torch.save({"state_dict": torch.load(weights), "arguments": argparse.Namespace(lr=1)}, weights)
    with pytest.raises(UserError) as caught:
        load(weights, arch="state_dict_nets:small")
    assert "read as weights alone (UnpicklingError: it holds argparse.Namespace); if it holds" in str(caught.value)
    told("`--arch`", "a checkpoint with more than weights", caught.value)
    weights.write_bytes(weights.read_bytes()[: len(weights.read_bytes()) // 2])
    with pytest.raises(UserError) as caught:
        read_torch_file(weights, allow_pickle=False)
    assert str(caught.value).isprintable() and "miniz" not in str(caught.value)
