"""The source code in a TorchScript archive, read before torch compiles it.

torch runs parts of the code already while it opens the archive: constants of classes, and ``__setstate__`` of those
that have one. So all of it is read here first. The text may hold nothing that Python's reader and torch's could take
for different things (comments, continued lines, other quotes, anything but ASCII), and its tree nothing but what
torch.jit.save writes: calls go to operators of the list, or to functions and methods that stand in the archive itself.
"""

from __future__ import annotations

import ast
import builtins
import re
from collections.abc import Iterable, Mapping
from functools import cache

import torch

from diffgen.models.untrusted.archives import UntrustedError, is_plain_text
from diffgen.models.untrusted.operators import FOREIGN_CLASSES, PACKED_WEIGHTS, is_allowed

_NAME = re.compile(r'[^"\\]+')
_CONSTANT = re.compile(r"c\d+", re.ASCII)
_VERSION = "op_version_set"
_TABLES = ("__parameters__", "__buffers__")
_HOOKS = ("__forward_hooks__", "__forward_pre_hooks__")
_ANNOTATIONS = "__annotations__"
_STATE = ("__setstate__", "__getstate__")
# Functions of the language that compute; print, fork, rpc_async and their like are not among them.
_FUNCTIONS = frozenset(
    {
        *("annotate", "unchecked_cast", "uninitialized", "isinstance", "getattr", "range"),
        *("int", "float", "bool", "str", "complex"),
    }
)
# Names that torch gives a meaning of its own; nothing may be called by them.
_TAKEN = frozenset(
    {
        *("torch", "ops", "CONSTANTS", "__torch__", "print", "fork", "awaitable", "hasattr", "super", "classes"),
        *("rpc_async", "rpc_remote", "rpc_sync", *_FUNCTIONS),
    }
) - {"range", "str", "int", "float", "bool"}
_EXCEPTIONS = frozenset(
    name for name, value in vars(builtins).items() if isinstance(value, type) and issubclass(value, Exception)
)
_NO_CALLS = (ast.Name, ast.Attribute, ast.Subscript, ast.Tuple, ast.List, ast.Constant)
# Methods of the classes that hold the weights of quantized layers.
_PACKED_METHODS = frozenset({"unpack"})
_DEEPEST = 100
_MAX_BYTES = 64 << 20


def check_code(files: Mapping[str, bytes]) -> None:
    """See that the code of an archive only computes.

    Args:
        files: name -> contents of every file with code.

    Raises:
        UntrustedError: it holds something that torch.jit.save does not write, or calls an operator that is not on the
            list of those that only compute.
    """
    if sum(map(len, files.values())) > _MAX_BYTES:
        raise UntrustedError(f"its code has more than {_MAX_BYTES >> 20} MiB")
    texts = {name: decoded(name, content) for name, content in files.items()}
    trees = {name: parsed(name, text) for name, text in texts.items()}
    functions = {node.name for tree in trees.values() for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}
    shadowing = next((name for name in sorted(functions & _operators()) if not is_allowed("aten", name)), None)
    if shadowing is not None:
        raise refused(f"has a function {shadowing!r}, as an operator that does more than compute is called")
    classes = {node.name for tree in trees.values() for node in ast.walk(tree) if isinstance(node, ast.ClassDef)}
    for name, tree in trees.items():
        _Reader(texts[name].split("\n"), functions, classes).file(tree)


@cache
def _operators() -> frozenset[str]:
    """Names of all operators of torch that can be asked for as methods of a tensor."""
    names = (schema.name for schema in torch._C._jit_get_all_schemas())
    return frozenset(name.removeprefix("aten::") for name in names if name.startswith("aten::"))


class _Reader:
    """Goes through one file."""

    def __init__(self, lines: list[str], functions: Iterable[str], classes: Iterable[str]) -> None:
        self._lines = lines
        self._functions = frozenset(functions)
        self._classes = frozenset(classes)
        self._locals: frozenset[str] = frozenset()
        self._own: frozenset[str] = frozenset()

    def file(self, tree: ast.Module) -> None:
        for node in tree.body:
            if isinstance(node, ast.ClassDef):
                self._class(node)
            elif isinstance(node, ast.FunctionDef):
                self._function(node)
            elif not (
                isinstance(node, ast.Assign)
                and isinstance(node.targets[0], ast.Name)
                and node.targets[0].id == _VERSION
                and isinstance(node.value, ast.Constant)
            ):
                raise refused(f"has {described(node)} outside of functions and classes")

    def _class(self, node: ast.ClassDef) -> None:
        bases = [base.id if isinstance(base, ast.Name) else "" for base in node.bases]
        if node.decorator_list or node.keywords or bases not in ([], ["Module"], ["NamedTuple"], ["Enum"]):
            raise refused(f"has a class {node.name!r} of an unknown kind")
        packed = False
        for part in node.body:
            if isinstance(part, ast.FunctionDef):
                self._function(part)
            elif isinstance(part, ast.AnnAssign):
                self._plain_target(part.target)
                self._type(part.annotation)
                packed = packed or dotted(part.annotation) in PACKED_WEIGHTS
                if part.value is not None:
                    self._literal(part.value)
            elif isinstance(part, ast.Assign) and len(part.targets) == 1:
                self._table(part.targets[0], part.value, enum=bases == ["Enum"])
            elif not isinstance(part, ast.Pass):
                raise refused(f"has {described(part)} in the class {node.name!r}")
        # torch runs these while it opens the archive. Quantized layers need them, to pack their weights.
        methods = [part for part in node.body if isinstance(part, ast.FunctionDef)]
        state = next((method.name for method in methods if method.name in _STATE), None)
        loops = any(isinstance(each, (ast.For, ast.While)) for method in methods for each in ast.walk(method))
        if state is not None and (not packed or loops):
            raise refused(f"has a method {state}, which is run already when the file is opened")

    def _table(self, target: ast.expr, value: ast.expr, *, enum: bool) -> None:
        """What torch notes of a class, such as the names of its parameters."""
        if isinstance(target, ast.Subscript) and dotted(target.value) == _ANNOTATIONS:
            self._literal(target.slice)
            self._type(value)
        elif isinstance(target, ast.Name) and (target.id in (*_TABLES, _ANNOTATIONS) or enum):
            self._literal(value)
        elif isinstance(target, ast.Name) and target.id in _HOOKS:
            if not (isinstance(value, ast.List) and not value.elts):
                raise refused("has hooks, which run beside the network itself")
        else:
            raise refused(f"sets {ast.unparse(target)[:40]!r} in a class")

    def _function(self, node: ast.FunctionDef) -> None:
        given = node.args
        if node.decorator_list or given.vararg or given.kwarg or given.posonlyargs:
            raise refused(f"has a function {node.name!r} of an unknown kind")
        arguments = [*given.args, *given.kwonlyargs]
        for argument in arguments:
            if argument.annotation is not None:
                self._type(argument.annotation)
        for default in (*given.defaults, *given.kw_defaults):
            if default is not None:
                self._literal(default)
        if node.returns is not None:
            self._type(node.returns)
        self._locals, self._own = local_names(node, [argument.arg for argument in arguments])
        taken = self._locals & _TAKEN
        if taken:
            raise refused(f"gives {min(taken)!r} another meaning")
        self._statements(node.body, 0)

    def _statements(self, body: list[ast.stmt], depth: int) -> None:
        for node in body:
            self._statement(node, depth + 1)

    def _statement(self, node: ast.stmt, depth: int) -> None:
        if depth > _DEEPEST:
            raise refused("is nested too deeply")
        if isinstance(node, (ast.Pass, ast.Break, ast.Continue)):
            return
        if isinstance(node, (ast.If, ast.While)):
            self._value(node.test, depth)
            self._statements([*node.body, *node.orelse], depth)
        elif isinstance(node, ast.For):
            self._values([node.target, node.iter], depth)
            self._statements([*node.body, *node.orelse], depth)
        elif isinstance(node, ast.With):
            for item in node.items:
                self._values([item.context_expr, *([item.optional_vars] if item.optional_vars else [])], depth)
            self._statements(node.body, depth)
        elif isinstance(node, ast.Assign):
            self._values([*node.targets, node.value], depth)
        elif isinstance(node, ast.AugAssign):
            self._values([node.target, node.value], depth)
        elif isinstance(node, ast.AnnAssign):
            self._type(node.annotation)
            self._values([node.target, *([node.value] if node.value else [])], depth)
        elif isinstance(node, (ast.Expr, ast.Return)):
            self._values([node.value] if node.value else [], depth)
        elif isinstance(node, ast.Assert):
            self._values([node.test, *([node.msg] if node.msg else [])], depth)
        elif isinstance(node, ast.Raise) and node.cause is None:
            self._raised(node.exc, depth)
        else:
            raise refused(f"has {described(node)}")

    def _raised(self, node: ast.expr | None, depth: int) -> None:
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in _EXCEPTIONS:
            self._values(node.args, depth)
        elif node is not None:
            self._value(node, depth)

    def _values(self, nodes: Iterable[ast.expr], depth: int) -> None:
        for node in nodes:
            self._value(node, depth)

    def _value(self, node: ast.expr, depth: int) -> None:
        depth += 1
        if depth > _DEEPEST:
            raise refused("is nested too deeply")
        if isinstance(node, ast.Call):
            self._call(node, depth)
        elif isinstance(node, ast.Name):
            if node.id in _TAKEN and node.id not in self._locals:
                raise refused(f"uses {node.id!r} as a value")
        elif isinstance(node, ast.Constant):
            if not isinstance(node.value, (str, int, float, complex, type(None), type(...))):
                raise refused(f"holds {ast.unparse(node)[:40]!r}")
            check_text(node)
        elif isinstance(node, ast.Attribute):
            self._attribute(node, depth)
        elif isinstance(node, ast.Dict):
            self._values([key for key in node.keys if key is not None], depth)
            self._values(node.values, depth)
        elif isinstance(
            node,
            (
                *(ast.BoolOp, ast.BinOp, ast.UnaryOp, ast.Compare, ast.IfExp, ast.Subscript, ast.Slice),
                *(ast.List, ast.Tuple, ast.Starred),
            ),
        ):
            self._values((each for each in ast.iter_child_nodes(node) if isinstance(each, ast.expr)), depth)
        else:
            raise refused(f"has {described(node)}")

    def _attribute(self, node: ast.Attribute, depth: int) -> None:
        """An attribute that is looked up; operators may only be called on the spot."""
        path = dotted(node)
        first = path.partition(".")[0]
        if first == "__torch__":
            check_foreign(path)
        elif first == "CONSTANTS":
            if _CONSTANT.fullmatch(path.removeprefix("CONSTANTS.")) is None:
                raise refused(f"uses {path[:60]!r}")
        elif first in _TAKEN and first not in self._locals:
            raise refused(f"uses {path[:60]!r} as a value")
        else:
            self._value(node.value, depth)

    def _call(self, node: ast.Call, depth: int) -> None:
        self._callee(node, depth)
        types = 0
        if isinstance(node.func, ast.Name) and node.func.id not in self._locals:
            types = {"annotate": 1, "unchecked_cast": 1, "uninitialized": 1}.get(node.func.id, 0)
        for given in node.args[:types]:
            self._type(given)
        if isinstance(node.func, ast.Name) and node.func.id == "isinstance" and len(node.args) == 2:
            self._value(node.args[0], depth)
            self._type(node.args[1])
            return
        self._values(node.args[types:], depth)
        self._values((keyword.value for keyword in node.keywords), depth)

    def _callee(self, node: ast.Call, depth: int) -> None:
        function = node.func
        if isinstance(function, ast.Name):
            if function.id == "getattr":
                self._getattr(node)
            elif function.id not in self._own and (function.id in self._locals or function.id not in _FUNCTIONS):
                raise refused(f"calls {function.id!r}, which is not known to do no more than compute")
            return
        if not isinstance(function, ast.Attribute):
            raise refused(f"calls {ast.unparse(function)[:40]!r}")
        path = dotted(function)
        first, *rest = path.split(".")
        if first == "torch":
            self._operator(["aten", *rest], path)
        elif first == "ops":
            self._operator(rest, path)
        elif function.attr not in {*self._functions, *self._classes, *_PACKED_METHODS, "__new__"}:
            raise refused(f"calls {function.attr!r}, which is no function of its own")
        else:
            self._attribute(function, depth)

    def _operator(self, path: list[str], name: str) -> None:
        if len(path) != 2 or not is_allowed(*path):
            raise refused(f"calls {name[:60]!r}, which is not on the list of operators that only compute")

    def _getattr(self, node: ast.Call) -> None:
        """``getattr(x, "3")``, for attributes whose names are no words: the name must stand there as it is."""
        name = node.args[1] if len(node.args) == 2 and not node.keywords else None
        if not (isinstance(name, ast.Constant) and isinstance(name.value, str) and _NAME.fullmatch(name.value)):
            raise refused("calls getattr with something else than a name")
        if self._lines[name.lineno - 1][name.col_offset : name.end_col_offset] != f'"{name.value}"':
            raise refused("calls getattr with a name in another spelling")

    def _literal(self, node: ast.expr) -> None:
        """Numbers, texts and lists of these: what needs no computation."""
        for each in ast.walk(node):
            if isinstance(each, ast.Call):
                allowed = isinstance(each.func, ast.Name) and each.func.id == "annotate" and len(each.args) == 2
                allowed = allowed or dotted(each.func) == "torch.device"
            elif isinstance(each, ast.Attribute):
                allowed = dotted(each) == "torch.device" or dotted(each).startswith("CONSTANTS.c")
                path = dotted(each)
                if path.startswith("__torch__."):
                    check_foreign(path)
                    allowed = True
            else:
                allowed = isinstance(each, (*_NO_CALLS, ast.Dict, ast.UnaryOp, ast.unaryop, ast.expr_context))
                check_text(each)
            if not allowed:
                raise refused(f"computes {ast.unparse(node)[:40]!r} already when the file is opened")

    def _type(self, node: ast.expr) -> None:
        for each in ast.walk(node):
            if isinstance(each, ast.Attribute):
                path = dotted(each)
                if path.partition(".")[0] != "__torch__":
                    raise refused(f"has {ast.unparse(each)[:40]!r} as a type")
                check_foreign(path)
            elif not isinstance(each, (*_NO_CALLS, ast.expr_context)):
                raise refused(f"has {ast.unparse(node)[:40]!r} as a type")

    def _plain_target(self, node: ast.expr) -> None:
        if not isinstance(node, ast.Name):
            raise refused(f"sets {ast.unparse(node)[:40]!r} in a class")


# -- texts and names, as torch.jit.save writes them and no other way -------------------------------------------------

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
