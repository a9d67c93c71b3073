"""The list of weights in a TorchScript archive: read without being run, and held against the weights."""

from __future__ import annotations

import warnings
import zipfile
from functools import partial

import pytest
import torch

from diffgen.errors import UserError
from diffgen.models import load as load_model
from diffgen.models.untrusted import checked_torchscript
from tests.models.untrusted.archives import rewritten

load = partial(load_model, isolate="off")  # the first wall alone


@pytest.fixture(autouse=True)
def _without_deprecations():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


@pytest.mark.parametrize("cut", [lambda content: b"", lambda content: content[:-4]])
def test_weights_that_are_cut_off(tmp_path, net, save_torchscript, cut, told):
    """torch would read what lies behind them in memory, or crash."""
    path = rewritten(save_torchscript(net), cut, ending="/data/0")
    with pytest.raises(
        UserError, match=r"cannot read \(BadZipFile: its weights '0' are cut off, \d+ bytes of 400\); save"
    ) as caught:
        load(path)
    told("Model files", "TorchScript whose weights are shorter than it says", caught.value)


@pytest.mark.parametrize("program", [b"garbage", b"\x80\x02cos\nsystem\nX\x04\x00\x00\x00true\x85R."])
def test_the_list_of_weights_is_read_without_running_it(tmp_path, net, save_torchscript, monkeypatch, program):
    ran = []
    monkeypatch.setattr("os.system", ran.append)
    path = rewritten(save_torchscript(net), lambda content: program, ending="/data.pkl")
    with pytest.raises(UserError):
        load(path)
    assert ran == []


@pytest.mark.parametrize(
    ("program", "why"),
    [
        (b"\x80\x02" + b"]" * 200_000 + b"a" * 199_999 + b".", "nested more than 200 deep"),
        (b"\x80\x02" + b")" + b"\x85" * 200_000 + b".", "nested more than 200 deep"),
        (b"\x80\x02}r\x00\x00\x00\x10.", "place 268,435,456 of a memo that holds 0"),
        (b"\x80\x02cos\nsystem\nX\x04\x00\x00\x00true\x85R.", "name 'os.system'"),
        (b"\x80\x02c__torch__.torch.classes.dist_rpc\nRpc\n)\x81.", "class outside of the file"),
        (b"\x80\x02X\x04\x00\x00\x00\x1b]0;.", "a terminal obeys"),
        (b"\x80\x02X\x02\x00\x00\x00osX\x06\x00\x00\x00system\x93.", "STACK_GLOBAL"),
    ],
)
def test_objects_that_take_the_memory_or_crash_torch(net, save_torchscript, program, why, told):
    path = rewritten(save_torchscript(net), lambda content: program, ending="/data.pkl")
    with pytest.raises(UserError, match=why) as caught:
        load(path)
    told("Model files", f"TorchScript whose objects are hostile ({why})", caught.value)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b"K\x00(K\x04K\x01K\x05K\x05t", b"K\x01(K\x04K\x01K\x05K\x05t"),  # begins one number later
        (b"(K\x04K\x01K\x05K\x05t", b"(K\x7fK\x01K\x05K\x05t"),  # has more rows
    ],
)
def test_tensors_lie_inside_of_their_weights(net, save_torchscript, old, new):
    path = save_torchscript(net)
    with zipfile.ZipFile(path) as archive:
        program = archive.read("net/data.pkl")
    assert program.count(old) == 1
    rewritten(path, lambda content: content.replace(old, new), ending="/data.pkl")
    with pytest.raises(UserError, match="list of its weights is damaged"):
        load(path)


def test_weights_of_every_type(tmp_path):
    kinds = (torch.float64, torch.float16, torch.bfloat16, torch.int64, torch.int16, torch.uint8, torch.bool)

    class Many(torch.nn.Module):
        def __init__(self):
            super().__init__()
            for kind in (*kinds, torch.complex64):
                self.register_buffer(f"own_{str(kind)[6:]}", torch.zeros(5, dtype=kind))

        def forward(self, pixels):
            return pixels.flatten(1)[:, :3] + torch.ones(3, dtype=torch.float64)

    torch.jit.save(torch.jit.trace(Many(), torch.zeros(1, 1, 4, 4)), str(tmp_path / "net.pt"))
    checked_torchscript(tmp_path / "net.pt").close()
    rewritten(tmp_path / "net.pt", lambda content: content[:-1], ending="/data/0")
    with pytest.raises(zipfile.BadZipFile, match="39 bytes of 40"):
        checked_torchscript(tmp_path / "net.pt")
