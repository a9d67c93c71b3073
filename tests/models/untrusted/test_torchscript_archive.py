"""TorchScript that does more than compute: it can write files, already while torch opens it."""

from __future__ import annotations

import re
import warnings
import zipfile
from functools import partial

import numpy as np
import pytest
import torch

from diffgen.errors import UserError
from diffgen.models import load as load_model
from diffgen.models.untrusted import UntrustedError, check_graphs, checked_torchscript
from tests.models.untrusted.archives import rewritten

load = partial(load_model, isolate="off")  # the first wall alone


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
        UserError, match=r"is not opened because its code calls 'torch.save'.*--allow-pickle if you trust the file"
    ) as caught:
        load(tmp_path / "net.pt")
    assert not mark.exists()
    told("Model files", f"hostile TorchScript ({writing.__name__.replace('_', ' ')})", caught.value)
    # the attack is real: with the user's word it happens
    box = load(tmp_path / "net.pt", allow_pickle=True)
    box.prepare(images)
    assert mark.exists()
    assert box.unpickled


# -- attacks that write into a file, made from a real archive -------------------------------------------------------

_WHOLE = re.compile(r".*/container(/\w+)?\.py")  # the code of the network as a whole
_LOOK = b"    input: Tensor) -> Tensor:\n"


def payload(tripwire):
    """Code that changes four bytes of a file."""
    return f'''    _wire = torch.from_file("{tripwire}", True, 4, dtype=0, layout=None, device=None, pin_memory=None)
    _cut = torch.fill_(_wire, 7)
    input = torch.add(input, torch.sum(_cut))
'''.encode()


def with_payload(code, tripwire, *, before=b"", after=b""):
    assert _LOOK in code
    return code.replace(_LOOK, _LOOK + before + payload(tripwire) + after)


def capitals(members, wire):
    """torch's reader of zip archives takes .PY for .py; Python does not."""
    return [(in_capitals(name), code(name, content, wire)) for name, content in members]


def capitals_beside(members, wire):
    """The same beside sound code."""
    sound = [(name, content) for name, content in members if _WHOLE.fullmatch(name)]
    return capitals(members, wire) + sound


def twice(members, wire):
    """Python reads the last member of a name, torch perhaps another."""
    return plain(members, wire) + [(name, content) for name, content in members if _WHOLE.fullmatch(name)]


def coding_cookie(members, wire):
    """Python's reader obeys the cookie and takes the call for a part of a text; torch's does not."""
    quotes = b'    _one = "\\042"\n', b'    _two = "\\042"\n'

    def hidden(content):
        return b"# coding: unicode_escape\n" + with_payload(content, wire, before=quotes[0], after=quotes[1])

    return [(name, hidden(content) if _WHOLE.fullmatch(name) else content) for name, content in members]


def code(name, content, wire):
    return with_payload(content, wire) if _WHOLE.fullmatch(name) else content


def in_capitals(name):
    return name.removesuffix(".py") + ".PY" if _WHOLE.fullmatch(name) else name


def plain(members, wire):
    return [(name, code(name, content, wire)) for name, content in members]


@pytest.fixture
def attacked(tmp_path, net, save_torchscript):
    """An attack -> the archive, and the file that must not change."""

    def make(attack):
        path = save_torchscript(net)
        wire = tmp_path / "tripwire"
        wire.write_bytes(b"safe")
        with zipfile.ZipFile(path) as archive:
            members = [(name, archive.read(name)) for name in archive.namelist()]
        with warnings.catch_warnings(), zipfile.ZipFile(path, "w") as archive:
            warnings.simplefilter("ignore")  # of names that stand twice
            for name, content in attack(members, wire):
                archive.writestr(name, content)
        return path, wire

    return make


@pytest.mark.parametrize("attack", [plain, capitals, capitals_beside, twice, coding_cookie])
def test_code_that_writes_into_a_file_is_not_opened(attack, attacked, images, told):
    path, wire = attacked(attack)
    with pytest.raises(UserError, match=r"is not opened because .* export the network to ONNX, or add --allow-pickle"):
        load(path).prepare(images)
    assert wire.read_bytes() == b"safe"
    with pytest.raises(UserError) as caught:
        load(path)
    sentence = re.sub(r"/___torch_mangle_\d+", "", str(caught.value))  # torch counts the traces of one process
    told("Model files", f"TorchScript that writes into a file ({attack.__name__.replace('_', ' ')})", sentence)


# Which of two members of one name torch takes is up to its reader of zip archives, so that one is not always real.
@pytest.mark.parametrize("attack", [plain, capitals, coding_cookie])
def test_these_attacks_are_real(attack, attacked, images):
    """With the user's word, torch opens the file, and asking the network changes the other one."""
    path, wire = attacked(attack)
    load(path, allow_pickle=True).prepare(images)
    assert wire.read_bytes() == bytes([7, 7, 7, 7])


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ('  a = torch\n  a.save(x, "here")\n', "'torch' as a value"),
        ('  getattr(torch, "sa" "ve")(x, "here")\n', "getattr"),
        ('  getattr(torch, "\\163ave")(x, "here")\n', "getattr"),
        ('  y = getattr(x, "\\163ave")\n', "getattr"),
        ('  y = x.save\n  y("here")\n', "calls 'y'"),
        ('  x.save("here")\n', "calls 'save'"),
        ('  y = [torch.save][0](x, "here")\n', "calls"),
        ("  y = torch.relu\n", "'torch.relu' as a value"),
        ('  y = ops.image.write_file("here", x)\n', "'ops.image.write_file'"),
        ('  y = ops.aten.save(x, "here")\n', "'ops.aten.save'"),
        ('  y = torch.from_file("here", True)\n', "'torch.from_file'"),
        ("  y = torch._reshape_alias(x, [9999], [1])\n", "'torch._reshape_alias'"),
        ('  y = rpc_sync("there", f, (x, ))\n', "'rpc_sync'"),
        ('  y = fork(torch.save, x, "here")\n', "'fork'"),
        ('  y = lambda z: torch.save(z, "here")\n', "Lambda"),
        ('  print("over the lines of others")\n', "'print'"),
        ("  relu = torch.relu(x)  # a comment\n", "comments"),
        ("  y = 'here'\n", "comments or texts"),
        ('  y = """here"""\n', "comments or texts"),
        ('  y = "a" \\\n    "b"\n', "comments or texts"),
        ("  y = x\r  z = x\n", "comments or texts"),
        ('  y = "\u00e4"\n', "letters"),
        ('  torch.warn("\\033]0;title\\007")\n', "a terminal obeys"),
        ('  torch.warn("\\302\\233")\n', "a terminal obeys"),
        ("  torch = x\n", "gives 'torch' another meaning"),
        ("  def def\n", "cannot be read"),
        (f"  y = {'-' * 500}x\n", "nested too deeply"),
    ],
)
def test_every_way_to_call_such_an_operator(net, save_torchscript, line, why):
    path = save_torchscript(net)
    checked_torchscript(path).close()
    rewritten(path, lambda code: code + b"def f(x: Tensor) -> Tensor:\n" + line.encode() + b"  return x\n")
    with pytest.raises(UntrustedError, match=why):
        checked_torchscript(path)


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        (b"  training : bool\n", b'  training : Final[bool] = torch.eq(torch.len("a"), 1)\n', "already when"),
        (b"  training : bool\n", b"  training : bool\n  x : __torch__.torch.classes.dist_rpc.Rpc\n", "class outside"),
        (b"  training : bool\n", b'  training : bool\n  __forward_hooks__ = ["a"]\n', "hooks"),
        (b"  training : bool\n", b'  training : bool\n  x : Final[str] = "\\033"\n', "a terminal obeys"),
        (b"(Module)", b"(Interface)", "unknown kind"),
        (b"  def forward(", b"  def save(self, x: Tensor) -> Tensor:\n    return x\n  def forward(", "function 'save'"),
        (b"  def forward(", b"  def __setstate__(self, x: int) -> None:\n    pass\n  def forward(", "__setstate__"),
    ],
)
def test_what_stands_in_a_class_is_not_computed(net, save_torchscript, old, new, why):
    path = rewritten(save_torchscript(net), lambda code: code.replace(old, new))
    with pytest.raises(UntrustedError, match=why):
        checked_torchscript(path)


@pytest.mark.parametrize(
    "name", ["code/__torch__/../x.py", "code/x.py", "model.json", "data/../x", "attributes.pkl", "code/__torch__.pyc"]
)
def test_members_that_torch_does_not_write(net, save_torchscript, name, told):
    path = save_torchscript(net)
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr(f"{archive.namelist()[0].split('/')[0]}/{name}", "{}")
    with pytest.raises(UserError, match=f"it holds '{name}'") as caught:
        load(path)
    told("Model files", f"TorchScript with {name} in it", caught.value)


def test_a_second_folder(net, save_torchscript):
    path = save_torchscript(net)
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("other/code/__torch__.py", "")
    with pytest.raises(UserError, match="not in one folder"):
        load(path)


# -- what torch made of it ------------------------------------------------------------------------------------------


class InBranch(torch.nn.Module):
    def forward(self, pixels):
        if len(pixels) > 1000:
            torch.save(pixels, "here")
        return pixels.flatten(1)


def written(pixels: torch.Tensor) -> torch.Tensor:
    for _ in range(3):
        torch.save(pixels, "here")
    return pixels


class InFunction(torch.nn.Module):
    def forward(self, pixels):
        return written(pixels)


class InOtherMethod(torch.nn.Module):
    @torch.jit.export
    def other(self, pixels: torch.Tensor):
        torch.save(pixels, "here")

    def forward(self, pixels):
        return pixels


class InThread(torch.nn.Module):
    def forward(self, pixels):
        return torch.jit.wait(torch.jit.fork(torch.relu, pixels))


class Helper:
    def __init__(self, pixels: torch.Tensor):
        self.pixels = pixels

    def write(self):
        torch.save(self.pixels, "here")


class InObject(torch.nn.Module):
    def forward(self, pixels):
        Helper(pixels).write()
        return pixels


@pytest.mark.parametrize("network", [InBranch, InFunction, InOtherMethod, InThread, InObject])
def test_the_graphs_are_looked_through_to_the_bottom(network):
    """Whatever the code looked like."""
    with pytest.raises(UntrustedError, match=r"calls '(aten::save|prim::fork)'"):
        check_graphs(torch.jit.script(torch.nn.Sequential(torch.nn.Identity(), network())))


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


def test_texts_of_other_languages(tmp_path, images):
    class Speaking(torch.nn.Module):
        def forward(self, pixels):
            if len(pixels) > 9999:
                raise RuntimeError("zu groß: 画像\n\tweniger")
            return pixels.flatten(1)[:, :3]

    torch.jit.script(Speaking()).save(str(tmp_path / "net.pt"))
    load(tmp_path / "net.pt").prepare(images)
