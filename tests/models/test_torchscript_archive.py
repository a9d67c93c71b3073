"""TorchScript that does more than compute: it can write files, already while torch opens it."""

from __future__ import annotations

import warnings
import zipfile

import numpy as np
import pytest
import torch

from diffgen.errors import UserError
from diffgen.models import load
from diffgen.models.archives import UntrustedError
from diffgen.models.torchscript_archive import check_archive


@pytest.fixture(autouse=True)
def _without_deprecations():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def writing_when_asked(place):
    class Writing(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.place: str = str(place)

        def forward(self, pixels):
            torch.save(pixels, self.place)
            return pixels.flatten(1)[:, :3]

    return torch.jit.script(Writing())


def writing_when_opened(place):
    class Writing(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.training = False
            self.place: str = str(place)

        @torch.jit.export
        def __getstate__(self):
            return self.place

        @torch.jit.export
        def __setstate__(self, place: str):
            torch.save(torch.zeros(1), place)
            self.place = place
            self.training = False

        def forward(self, pixels):
            return pixels.flatten(1)[:, :3]

    return torch.jit.script(Writing())


@pytest.mark.parametrize("writing", [writing_when_asked, writing_when_opened])
def test_a_network_that_writes_files_is_not_opened(tmp_path, writing, images, told):
    mark = tmp_path / "mark"
    writing(mark).save(str(tmp_path / "net.pt"))
    assert not mark.exists()
    with pytest.raises(
        UserError, match=r"is not opened because its code names 'save'.*--allow-pickle if you trust it"
    ) as caught:
        load(tmp_path / "net.pt")
    assert not mark.exists()
    told("Model files", f"hostile TorchScript ({writing.__name__.replace('_', ' ')})", caught.value)
    # the attack is real: with the user's word it happens
    box = load(tmp_path / "net.pt", allow_pickle=True)
    box.prepare(images)
    assert mark.exists()
    assert box.unpickled


def rewritten(path, change, ending=".py"):
    """The archive with its code, or other members, changed."""
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, change(content) if name.endswith(ending) else content)
    return path


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("  a = torch\n  a.save(x, 'here')\n", "'save'"),
        ('  getattr(torch, "sa" "ve")(x, "here")\n', "'save'"),
        ('  getattr(torch, "\\x73ave")(x, "here")\n', "'save'"),
        ("  y = ops.image.write_file('here', x)\n", "'write_file'"),
        ("  y = torch.from_file('here', True)\n", "'from_file'"),
        ("  y = rpc_sync('there', f, (x, ))\n", "'rpc_sync'"),
        ("  def def\n", "cannot be read"),
    ],
)
def test_every_way_to_name_such_an_operator(tmp_path, net, save_torchscript, line, why):
    path = save_torchscript(net)
    check_archive(path)
    rewritten(path, lambda code: code + b"def f(x: Tensor) -> Tensor:\n" + line.encode() + b"  return x\n")
    with pytest.raises(UntrustedError, match=why):
        check_archive(path)


def test_the_way_of_very_old_files_is_closed(tmp_path, net, save_torchscript):
    path = save_torchscript(net)
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr(f"{archive.namelist()[0].split('/')[0]}/model.json", "{}")
    with pytest.raises(UserError, match=r"model\.json"):
        load(path)


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
    check_archive(tmp_path / "net.pt")
    rewritten(tmp_path / "net.pt", lambda content: content[:-1], ending="/data/0")
    with pytest.raises(zipfile.BadZipFile, match="39 bytes of 40"):
        check_archive(tmp_path / "net.pt")


def test_what_only_computes_is_opened(tmp_path, images):
    class Searching(torch.nn.Module):
        """Loops, a container, an error of its own that mentions saving."""

        def forward(self, pixels):
            found = {"rows": torch.zeros(len(pixels), 3)}
            for step in range(4):
                found["rows"] = found["rows"] + pixels.flatten(1)[:, step : step + 3]
            if len(pixels) > 9999:
                raise RuntimeError("please save memory")
            return found["rows"]

    network = torch.nn.Sequential(torch.nn.Sequential(torch.nn.Identity()), Searching())
    torch.jit.script(network).save(str(tmp_path / "net.pt"))
    box = load(tmp_path / "net.pt")
    box.prepare(images)
    assert not box.unpickled
    assert np.isfinite(box.predict(images)).all()
