"""Hostile changes to the code in a TorchScript archive: dangerous calls in many spellings, in many places."""

from __future__ import annotations

import random
import re

from benchmarks.fuzz_archives import Members, Target


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


def in_code(members: Members, target: Target, rng: random.Random) -> Members:
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
