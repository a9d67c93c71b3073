"""The text and the names in the code of a TorchScript archive, as torch.jit.save writes them and no other way."""

from __future__ import annotations

import ast
import re

from diffgen.models.untrusted.archives import UntrustedError, is_plain_text
from diffgen.models.untrusted.operators import FOREIGN_CLASSES, PACKED_WEIGHTS

# As torch prints texts; octal numbers stand for what is not printable.
_TEXT = re.compile(r'"(?:[^"\\\n]|\\[\\\'"abfnrtv]|\\[0-7]{3})*"')
_PRINTABLE = re.compile(r"[\n -~]*")


def refused(what: str) -> UntrustedError:
    """The error about code that does what it should not."""
    return UntrustedError(f"its code {what}")


def decoded(name: str, content: bytes) -> str:
    """The text of a file, if every reader must take it for the same."""
    try:
        text = content.decode("ascii")
    except UnicodeDecodeError as error:
        raise UntrustedError(f"its code {name!r} holds letters that torch.jit.save does not write") from error
    bare = _TEXT.sub("", text)
    if _PRINTABLE.fullmatch(text) is None or '"""' in text or any(letter in bare for letter in "\"'\\#"):
        raise UntrustedError(f"its code {name!r} holds comments or texts as torch.jit.save does not write them")
    return text


def parsed(name: str, text: str) -> ast.Module:
    """The tree of a file."""
    try:
        return ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise UntrustedError(f"its code {name!r} cannot be read") from error


def check_text(node: ast.AST) -> None:
    """A text may hold nothing that a terminal obeys; torch prints letters beyond ASCII as their bytes in UTF-8."""
    if not isinstance(node, ast.Constant) or not isinstance(node.value, str):
        return
    if not is_plain_text(node.value.encode("latin-1", "replace").decode("utf-8", "replace")):
        raise refused(f"holds the text {node.value[:40]!r} with letters that a terminal obeys")


def local_names(function: ast.FunctionDef, arguments: list[str]) -> tuple[frozenset[str], frozenset[str]]:
    """Names that a function gives a value, and those of them that stand for functions of the archive alone.

    An attribute of a tensor may be an operator (``f = x.save``), so other names must not be called.
    """
    names, own = {*arguments}, dict[str, int]()
    for node in ast.walk(function):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.add(node.id)
            own[node.id] = own.get(node.id, 0) - 1
    for node in ast.walk(function):
        if isinstance(node, ast.Assign) and len(node.targets) == 1 and dotted(node.value).startswith("__torch__."):
            target = node.targets[0]
            if isinstance(target, ast.Name):
                own[target.id] += 1
    return frozenset(names), frozenset(name for name in names if own.get(name) == 0 and name not in arguments)


def dotted(node: ast.expr) -> str:
    """``a.b.c`` for attributes of a name; empty for anything else."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    return ".".join([node.id, *reversed(parts)]) if isinstance(node, ast.Name) else ""


def check_foreign(path: str) -> None:
    """Of classes in C++, only those that hold packed weights."""
    inside = f"{path}."
    if inside.startswith(FOREIGN_CLASSES) and not any(f"{name}.".startswith(inside) for name in PACKED_WEIGHTS):
        raise refused(f"uses {path[:80]!r}, a class outside of the file")


def described(node: ast.AST) -> str:
    """What a node is, for a sentence."""
    return f"a {type(node).__name__}"
