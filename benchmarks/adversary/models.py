"""Model files that run code, lie, loop, or take all the memory."""

from __future__ import annotations

import io
import os
import pickle
import zipfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.adversary.harness import FAILED, WORKS, Case

_INSPECT = "diffgen inspect m --data data.npz --device cpu"
_SAVE = 'torch.save(x, "{victim}/thesis.txt")'
_FILE = 'torch.from_file("{victim}/thesis.txt", shared=True, size=4, dtype=0)'


def _rewritten(source: str, change: Callable[[str, bytes], list[tuple[str, bytes]]]) -> Callable[[Path, Path], None]:
    """Writes m: the archive ``source`` with each of its members changed into none, one or several."""

    def prepare(folder: Path, victim: Path) -> None:
        with zipfile.ZipFile(folder / source) as old, zipfile.ZipFile(folder / "m", "w") as new:
            for name in old.namelist():
                for found, content in change(name, old.read(name)):
                    info = zipfile.ZipInfo(found)
                    new.writestr(info, content.replace(b"{victim}", str(victim).encode()))

    return prepare


def _code(
    line: str, *, name: Callable[[str], str] = lambda name: name, keep: bool = False, head: str = ""
) -> Callable[[Path, Path], object]:
    """A TorchScript archive whose forward begins with a line of code, in members under other names."""

    def change(member: str, content: bytes) -> list[tuple[str, bytes]]:
        if not member.endswith(".py") or b"def forward" not in content:
            return [(member, content)]
        text = content.decode()
        at = text.index("\n", text.index("def forward")) + 1
        while text[at:].startswith(("    x", "  ->")) or not text[:at].rstrip().endswith(":"):
            at = text.index("\n", at) + 1
        evil = (head + text[:at] + f"    {line}\n" + text[at:]).encode()
        return [(name(member), evil), *([(member, content)] if keep else [])]

    return _rewritten("a.pt", change)


def _extra(name: str, content: bytes) -> Callable[[Path, Path], None]:
    done: list[str] = []

    def change(member: str, old: bytes) -> list[tuple[str, bytes]]:
        first = not done
        done.append(member)
        root = member.split("/")[0]
        return [*([(name.replace("ROOT", root), content)] if first else []), (member, old)]

    return _rewritten("a.pt", change)


def _pickled(content: bytes, member: str = "data.pkl") -> Callable[[Path, Path], None]:
    return _rewritten("a.pt", lambda name, old: [(name, content if name.endswith("/" + member) else old)])


class _Evil:
    def __reduce__(self) -> tuple[object, tuple[str]]:
        return os.system, ("touch ~/PWNED",)


def _bytes(content: bytes) -> Callable[[Path, Path], object]:
    return lambda folder, victim: (folder / "m").write_bytes(content)


def _cut(source: str, share: float) -> Callable[[Path, Path], None]:
    def prepare(folder: Path, victim: Path) -> None:
        content = (folder / source).read_bytes()
        (folder / "m").write_bytes(content[: int(len(content) * share)])

    return prepare


def _onnx(change: Callable[[Any, Path], None]) -> Callable[[Path, Path], None]:
    def prepare(folder: Path, victim: Path) -> None:
        import onnx

        model = onnx.load(folder / "b.onnx")
        change(model, victim)
        (folder / "m").write_bytes(model.SerializeToString())

    return prepare


def _calling(operator: str, name: str, old: bytes) -> list[tuple[str, bytes]]:
    """A member of a pt2 archive whose graph calls another operator."""
    return [(name, old.replace(b"torch.ops.aten.relu.default", operator.encode()) if name.endswith(".json") else old)]


def _external(location: str) -> Callable[[Path, Path], None]:
    def change(model: Any, victim: Path) -> None:
        from onnx import TensorProto

        tensor = model.graph.initializer[0]
        tensor.ClearField("raw_data")
        tensor.ClearField("float_data")
        tensor.data_location = TensorProto.EXTERNAL
        entry = tensor.external_data.add()
        entry.key, entry.value = "location", location

    return _onnx(change)


def _external_fifo(folder: Path, victim: Path) -> None:
    os.mkfifo(folder / "pipe")
    _external("pipe")(folder, victim)


def _endless_onnx(model: Any, victim: Path) -> None:
    from onnx import TensorProto, helper

    graph = model.graph
    body = helper.make_graph(
        [helper.make_node("Identity", ["go"], ["still"]), helper.make_node("Identity", ["seen"], ["kept"])],
        "body",
        [
            helper.make_tensor_value_info("i", TensorProto.INT64, []),
            helper.make_tensor_value_info("go", TensorProto.BOOL, []),
            helper.make_tensor_value_info("seen", TensorProto.FLOAT, None),
        ],
        [
            helper.make_tensor_value_info("still", TensorProto.BOOL, []),
            helper.make_tensor_value_info("kept", TensorProto.FLOAT, None),
        ],
    )
    graph.initializer.append(helper.make_tensor("always", TensorProto.BOOL, [], [True]))
    out = graph.output[0].name
    for node in graph.node:
        for index, name in enumerate(node.output):
            if name == out:
                node.output[index] = "before"
    graph.node.append(helper.make_node("Loop", ["", "always", "before"], [out], body=body))


def _endless_script(folder: Path, victim: Path) -> None:
    import warnings

    import torch

    class Endless(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            while bool((x == x).all()):
                x = x * 1
            return x.flatten(1)[:, :10]

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.jit.script(Endless()).save(str(folder / "m"))


def _stripes(folder: Path, victim: Path) -> None:
    from tests.comparison.stripes import save_all, striped_images

    save_all(folder)
    data = striped_images()
    np.savez(folder / "d.npz", images=data.images, labels=np.asarray(data.labels))


def _other_labels(folder: Path, victim: Path) -> None:
    with np.load(folder / "data.npz") as data:
        np.savez(folder / "d.npz", images=data["images"], labels=(data["labels"] + 1) % 10)


def _sidecar(text: str) -> Callable[[Path, Path], object]:
    return lambda folder, victim: (folder / "a.pt.toml").write_text(text)


def _zip(members: dict[str, bytes], **settings: Any) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", **settings) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return buffer.getvalue()


def cases() -> Iterator[Case]:
    """About sixty files."""
    for how, line in {
        "torch.save": _SAVE,
        "torch.from_file": _FILE,
        "torch.load": 'torch.load("{victim}/thesis.txt")',
        "an operator by its full name": 'ops.aten.from_file("{victim}/thesis.txt", True, 4)',
        "an operator of nobody's": "ops.mylib.run(x)",
        "an attribute of torch by getattr": 'getattr(torch, "save")(x, "{victim}/thesis.txt")',
        "a print": "print(x)",
        "an import": "import os",
        "eval": 'eval("1")',
    }.items():
        yield Case("models", f"TorchScript whose forward calls {how}", _INSPECT, _code(line))
    renamed: tuple[tuple[str, Callable[[str], str], bool], ...] = (
        ("in a member called .PY", lambda name: name[:-3] + ".PY", False),
        ("in a member called .PY beside a sound .py", lambda name: name[:-3] + ".PY", True),
        ("in a member of a name that stands twice", lambda name: name, True),
        ("in a member whose folder is in capitals", lambda name: name.replace("/code/", "/CODE/"), True),
    )
    for how, rename, keep in renamed:
        yield Case("models", f"TorchScript that writes a file, {how}", _INSPECT, _code(_FILE, name=rename, keep=keep))
    for cookie in ("unicode_escape", "utf-7", "latin-1", "rot13"):
        yield Case(
            "models",
            f"TorchScript code with the coding cookie {cookie}",
            _INSPECT,
            _code("x = x", head=f"# coding: {cookie}\n"),
        )
    for name in ("ROOT/../../evil.py", "/etc/evil.py", "ROOT/code/evil.so", "ROOT/code/a\0b.py", "ROOT/hook.py"):
        yield Case("models", f"TorchScript with a member called {name!r}", _INSPECT, _extra(name, b"x = 1\n"))
    yield Case("models", "TorchScript with os.system in data.pkl", _INSPECT, _pickled(pickle.dumps(_Evil(), 2)))
    yield Case(
        "models",
        "TorchScript with os.system in constants.pkl",
        _INSPECT,
        _pickled(pickle.dumps(_Evil(), 2), "constants.pkl"),
    )
    deep = b"\x80\x02" + b"]" * 200_000 + b"a" * 199_999 + b"."
    yield Case("models", "TorchScript whose data.pkl nests 200,000 lists", _INSPECT, _pickled(deep))
    yield Case("models", "TorchScript with a memo index of 2**28", _INSPECT, _pickled(b"\x80\x02]r\0\0\0\x10."))
    yield Case("models", "TorchScript with an empty data.pkl", _INSPECT, _pickled(b""))
    yield Case(
        "models", "TorchScript that never answers", f"{_INSPECT} --model-timeout 3", _endless_script,
        codes=(2, 3), says="m", seconds=90,
    )  # fmt: skip
    yield Case(
        "models",
        "ONNX that never answers",
        f"{_INSPECT} --model-timeout 3",
        _onnx(_endless_onnx),
        codes=(2, 3),
        seconds=90,
    )
    for where in ("/dev/zero", "../../../../../etc/passwd", "/proc/kmsg", "../victim/thesis.txt", "a\x1b]0;pwned\x07b"):
        yield Case("models", f"ONNX with external data in {where!r}", _INSPECT, _external(where))
    yield Case(
        "models", "ONNX with external data in a FIFO", _INSPECT,
        _external_fifo,
    )  # fmt: skip
    for share in (0.1, 0.5, 0.9, 0.999):
        for source in ("a.pt", "b.onnx", "c.pt2"):
            yield Case("models", f"{source} cut off after {share:.1%}", _INSPECT, _cut(source, share))
    yield Case(
        "models", "pt2 with os.system in its weights", _INSPECT,
        _rewritten(
            "c.pt2",
            lambda name, old: [(name, pickle.dumps(_Evil(), 2) if name.endswith((".pt", ".pkl")) else old)],
        ),
    )  # fmt: skip
    for operator in ("torch.ops.aten.from_file.default", "torch.ops.mylib.run.default", "os.system", "builtins.eval"):
        yield Case(
            "models", f"pt2 whose graph calls {operator}", _INSPECT,
            _rewritten("c.pt2", partial(_calling, operator)),
        )  # fmt: skip
    yield Case(
        "models", "pt2 with every member twice", _INSPECT, _rewritten("c.pt2", lambda name, old: [(name, old)] * 2)
    )
    yield Case("models", "a pickle that runs a command", _INSPECT, _bytes(pickle.dumps(_Evil(), 2)))
    yield Case(
        "models",
        "a zip of a pickle that runs a command",
        _INSPECT,
        _bytes(_zip({"m/data.pkl": pickle.dumps(_Evil(), 2)})),
    )
    yield Case(
        "models", "a zip that unpacks to 4 GiB", _INSPECT,
        _bytes(_zip({"m/data.pkl": bytes(2**28)}, compression=zipfile.ZIP_DEFLATED)),
    )  # fmt: skip
    yield Case(
        "models",
        "a .keras archive with a way out",
        _INSPECT,
        _bytes(_zip({"config.json": b"{}", "../x": b"", "metadata.json": b"{}"})),
    )
    for name, content in {
        "an empty file": b"",
        "one byte": b"\x08",
        "a web page": b"<!DOCTYPE html><html>",
        "a Git LFS pointer": b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n",
        "64 KiB of noise": np.random.default_rng(0).bytes(65_536),
        "text with escape sequences": b"\x1b]0;pwned\x07 hello",
        "an HDF5 signature and nothing else": b"\x89HDF\r\n\x1a\n",
        "a TFLite magic and nothing else": b"\x18\0\0\0TFL3" + bytes(64),
    }.items():
        yield Case("models", f"a model that is {name}", _INSPECT, _bytes(content))
    yield Case("models", "a model that is a folder", _INSPECT, lambda folder, victim: (folder / "m").mkdir())
    yield Case("models", "a model that is a FIFO", _INSPECT, lambda folder, victim: os.mkfifo(folder / "m"), seconds=20)
    yield Case("models", "a model that is a device", "diffgen inspect /dev/zero --data data.npz", seconds=20)
    yield Case("models", "a model that the system makes up", "diffgen inspect /proc/self/maps --data data.npz")
    yield Case(
        "models", "a model that is a link to itself", _INSPECT, lambda folder, victim: (folder / "m").symlink_to("m")
    )
    yield Case(
        "models",
        "a model of a tebibyte of nothing",
        _INSPECT,
        lambda folder, victim: os.truncate(_made(folder / "m"), 2**40),
        seconds=60,
    )
    yield Case("models", "no model", _INSPECT)
    for name, text in {
        "arch": "arch = 'os:getcwd'",
        "allow_pickle": "allow_pickle = true",
        "4,096 pixels a side": "size = 4096",
        "5,000 brackets": "mean = " + "[" * 5000 + "]" * 5000,
        "a size below zero": "size = -1",
        "not a number": "mean = nan",
        "a name with escape sequences": 'class_names = ["\\u001b[2J"]',
    }.items():
        codes = (0, 2) if "4,096" in name else (2,)
        yield Case(
            "models",
            f"a sidecar with {name}",
            "diffgen compare a.pt b.onnx --data data.npz --technique real_data --filters none --budget 50q -o out",
            _sidecar(text),
            codes=codes,
        )
    search = "--data data.npz --technique as_is --filters none --budget 200q --device cpu -q -o out"
    for kind in ("float16", "bfloat16"):
        yield Case("models", f"TorchScript in {kind}", f"diffgen check a.pt m {search}", _in_type(kind), codes=(WORKS,))
    silent = _onnx(_answers_nothing)
    named = r"NaN or infinity for [\d,]+ of 200 real images: number \d+, \d+"
    yield Case("models", "NaN on some images", f"diffgen check b.onnx m {search}", silent, codes=(FAILED,), says=named)
    yield Case(
        "models", "NaN on some, compared", f"diffgen compare b.onnx m {search}", silent, codes=(WORKS,), says=named
    )
    yield Case(
        "models",
        "probabilities in place of logits",
        f"diffgen check b.onnx m {search} --max-shift 0.01",
        _onnx(_with_softmax),
        codes=(FAILED,),
        says="The base answers with logits, the candidate with probabilities that sum to 1",
    )
    for name, command in {
        "compared with itself of a fixed size": "compare fixed.onnx open.onnx --data d.npz -q --technique as_is -o out",
        "that is inspected": "inspect open.onnx --data d.npz",
    }.items():
        told = "images of 64x64, as model A declares" if "compare" in command else "--size 64"
        yield Case("models", f"a model of any size {name}", f"diffgen {command}", _stripes, codes=(0,), says=told)
    yield Case(
        "models",
        "a pre-processing that is kept although it is of no use",
        "diffgen inspect a.pt --data d.npz --write",
        _other_labels,
        says="Nothing is written; add --force",
        check=lambda folder: "a sidecar was written" if (folder / "a.pt.toml").exists() else "",
    )
    yield Case(
        "models",
        "a sidecar that is a FIFO",
        "diffgen inspect a.pt --data data.npz",
        lambda folder, victim: os.mkfifo(folder / "a.pt.toml"),
        codes=(0, 2),
        seconds=30,
    )


def _answers_nothing(model: Any, victim: Path) -> None:
    """ONNX: NaN is added to the answers to bright images, by the root of a number below 0."""
    from onnx import helper, numpy_helper

    graph = model.graph
    graph.initializer.append(numpy_helper.from_array(np.asarray(0.35, dtype=np.float32), "bound"))
    nodes = [
        helper.make_node("GlobalAveragePool", ["x"], ["mean"]),
        helper.make_node("Sub", ["bound", "mean"], ["left"]),
        helper.make_node("Sqrt", ["left"], ["root"]),
        helper.make_node("Flatten", ["root"], ["column"]),
        helper.make_node("Sub", ["column", "column"], ["nothing"]),
        helper.make_node("Add", ["was_y", "nothing"], ["y"]),
    ]
    for node in graph.node:
        node.output[:] = ["was_y" if name == "y" else name for name in node.output]
    graph.node.extend(nodes)


def _with_softmax(model: Any, victim: Path) -> None:
    from onnx import helper

    for node in model.graph.node:
        node.output[:] = ["was_y" if name == "y" else name for name in node.output]
    model.graph.node.append(helper.make_node("Softmax", ["was_y"], ["y"], axis=1))


def _in_type(kind: str) -> Callable[[Path, Path], None]:
    """TorchScript that computes in another type."""

    def prepare(folder: Path, victim: Path) -> None:
        import torch

        torch.jit.load(str(folder / "a.pt")).to(getattr(torch, kind)).save(str(folder / "m"))

    return prepare


def _made(path: Path) -> Path:
    path.write_bytes(b"PK\x03\x04")
    return path
