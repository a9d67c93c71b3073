"""A look into a torch.export archive before torch opens it.

``torch.export.load`` trusts its file: it unpickles weights and examples, evaluates expressions and guards, imports
modules by name and loads compiled libraries. What ``torch.export.save`` writes for an ordinary network needs none of
that. So the archive is read here first, and only what is known to be harmless is handed on, as a new archive in memory.
"""

from __future__ import annotations

import ast
import io
import json
import math
import operator
import re
import zipfile
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from typing import Any

import torch

from diffgen.models.untrusted.archives import UntrustedError, members_of_one_folder
from diffgen.models.untrusted.operators import is_allowed

_ALLOWED_FILES = re.compile(
    r"archive_(?:format|version)|byteorder|version|\.data/version|models/\w+\.json"
    r"|data/sample_inputs/\w+\.pt|data/weights/(?:weight_\d+|\w+_weights_config\.json)"
    r"|data/constants/(?:tensor_\d+|\w+_constants_config\.json)",
    re.ASCII,
)
# Not needed, so left out of the copy.
_LEFT_OUT = re.compile(r"extra/.*|\.data/serialization_id|\.format_version|\.storage_alignment")
_OPERATOR = re.compile(r"torch\.ops\.(\w+)\.(\w+)\.\w+", re.ASCII)
_NAMESPACES = frozenset({"aten", "prims", "quantized_decomposed"})
# Functions of numbers, as a graph with open sides computes with them.
_FUNCTIONS_OF_SIZES = frozenset(
    {
        *(f"_operator.{name}" for name in ("getitem", "add", "sub", "mul", "floordiv", "truediv", "mod", "neg", "pow")),
        *(f"_operator.{name}" for name in ("eq", "ne", "lt", "le", "gt", "ge", "and_", "or_", "not_", "abs", "pos")),
        *(f"math.{name}" for name in ("ceil", "floor", "trunc", "sqrt", "log", "log2", "exp", "pow")),
        *(f"torch.sym_{name}" for name in ("float", "int", "ite", "max", "min", "not", "sqrt", "sum")),
    }
)
_IDENTIFIER = re.compile(r"[\w.]*")
# Of parts of a network, which torch asks for with getattr where they are no words.
_PATH = re.compile(r"[\w.\-]*")
_PATH_KEYS = frozenset({"fqn", "parameter_name", "buffer_name", "tensor_constant_name"})
_SYMBOL = re.compile(r"[a-z]+\d+")
_FUNCTIONS = frozenset(
    {
        *(
            "Symbol",
            "Integer",
            "Rational",
            "Float",
            "Add",
            "Mul",
            "Pow",
            "Max",
            "Min",
            "Mod",
            "PythonMod",
            "FloorDiv",
            "CeilDiv",
            "CleanDiv",
        ),
        *("IntTrueDiv", "FloatTrueDiv", "TruncToInt", "RoundToInt", "CeilToInt", "FloorToInt", "ToFloat", "Identity"),
        *("ModularIndexing", "PowByNatural", "FloatPow", "Where", "LShift", "RShift"),
        *("Eq", "Ne", "Gt", "Ge", "Lt", "Le", "And", "Or", "Not", "Abs"),
    }
)
# Numbers grow without bound by these.
_POWERS = frozenset({"Pow", "PowByNatural", "FloatPow", "LShift"})
_MAX_POWERS = 2
_LARGEST_EXPONENT = 64
_NAMES = frozenset({"True", "False", "oo", "int_oo", "L"})
_GUARD_METHODS = frozenset({"size", "stride", "storage_offset", "dim", "numel"})
_EXPRESSION_NODES = (
    *(ast.Expression, ast.BinOp, ast.UnaryOp, ast.BoolOp, ast.Compare, ast.Call, ast.keyword, ast.Constant, ast.Name),
    *(ast.Subscript, ast.Load, ast.operator, ast.unaryop, ast.boolop, ast.cmpop),
)
_TREE_TYPES = frozenset({"builtins.tuple", "builtins.list", "builtins.dict", "collections.OrderedDict"})
_NAME_KEYS = frozenset({"name", "as_name", "forward_arg_names", "field_names", "user_input_name", *_PATH_KEYS})
_LONGEST_EXPRESSION = 2000
_LONGEST_NAME = 80


def checked_copy(archive: zipfile.ZipFile) -> io.BytesIO:
    """The archive anew in memory, as torch.export.load can be given it.

    Args:
        archive: opened for reading.

    Raises:
        UntrustedError: it holds more than the graph, weights and example of an ordinary network.
        OSError, ValueError, KeyError, zipfile.BadZipFile, zlib.error: it is damaged.
    """
    members = members_of_one_folder(archive)
    copy = io.BytesIO()
    with zipfile.ZipFile(copy, "w", zipfile.ZIP_STORED) as new:
        for inner, member in members.items():
            if _LEFT_OUT.fullmatch(inner) is not None:
                continue
            if _ALLOWED_FILES.fullmatch(inner) is None:
                raise UntrustedError(f"it holds {inner[:_LONGEST_NAME]!r}")
            content = archive.read(member)
            _check_file(inner, content)
            if inner.endswith("_config.json"):
                _check_empty(members, inner.rpartition("/")[0], json.loads(content)["config"].values())
            new.writestr(f"model/{inner}", content)
    copy.seek(0)
    return copy


def check_program(program: Any) -> None:
    """See that a program as torch has opened it calls operators of the list alone; nothing of it is run.

    Args:
        program: as torch.export.load gives it.

    Raises:
        UntrustedError: it calls something else.
    """
    for module in program.graph_module.modules():
        graph = getattr(module, "graph", None)
        for node in () if graph is None else graph.nodes:
            if node.op == "call_function":
                _check_called(node.target)
            elif node.op not in ("placeholder", "get_attr", "output"):
                raise UntrustedError(f"it holds a step of the kind {node.op!r}")


def _check_called(target: Any) -> None:
    if isinstance(target, torch._ops.OpOverload):
        namespace, _, name = target._schema.name.partition("::")
        if namespace not in _NAMESPACES or not is_allowed(namespace, name):
            raise UntrustedError(_calls(str(target)))
        return
    if not any(target is function for function in _functions_of_sizes()):
        raise UntrustedError(_calls(str(target)))


@cache
def _functions_of_sizes() -> tuple[Any, ...]:
    modules = {"_operator": operator, "math": math, "torch": torch}
    parts = (name.split(".") for name in sorted(_FUNCTIONS_OF_SIZES))
    return tuple(getattr(modules[module], name) for module, name in parts)


def _may_call(target: str) -> bool:
    """Whether a name in the file is one of an operator of the list."""
    named = _OPERATOR.fullmatch(target)
    if named is None:
        return target in _FUNCTIONS_OF_SIZES
    namespace, name = named.groups()
    return namespace in _NAMESPACES and is_allowed(namespace, name)


def _calls(target: str) -> str:
    return f"it calls {target[:_LONGEST_NAME]!r}, which is not on the list of operators that only compute"


def _check_file(name: str, content: bytes) -> None:
    if name.startswith("models/"):
        _check_description(json.loads(content))
    elif name.endswith("_config.json"):
        for entry in json.loads(content)["config"].values():
            if entry["use_pickle"] is not False:
                raise UntrustedError("some of its weights are pickled")
            if re.fullmatch(r"(?:weight|tensor)_\d+", entry["path_name"]) is None:
                raise UntrustedError(f"it refers to {entry['path_name']!r}")
    elif name.startswith("data/sample_inputs/") and content:
        try:
            # torch.export.load does the same first; if that fails it unpickles everything.
            torch.load(io.BytesIO(content), weights_only=True)
        except Exception as error:
            raise UntrustedError("its example is a pickle of more than tensors") from error


def _check_empty(members: Mapping[str, zipfile.ZipInfo], folder: str, entries: Iterable[Any]) -> None:
    """See that weights without a byte have no numbers: torch makes as many zeros as the file says."""
    for entry in entries:
        sides = [side.get("as_int") for side in entry["tensor_meta"]["sizes"]]
        if members[f"{folder}/{entry['path_name']}"].file_size == 0 and 0 not in sides:
            raise zipfile.BadZipFile(f"its weights {entry['path_name']!r} are cut off")


def _check_description(program: Any) -> None:
    for key, value in _pairs(program):
        if key == "expr_str":
            _check_expression(value)
        elif key == "guards_code":
            for guard in value:
                _check_expression(guard)
        elif key in ("in_spec", "out_spec"):
            _check_tree(value)
        elif key in _NAME_KEYS and value is not None:
            for name in value if isinstance(value, list) else [value]:
                _check_identifier(name, _PATH if key in _PATH_KEYS else _IDENTIFIER)
        elif key in ("as_custom_obj", "as_operator", "custom_obj", "class_fqn") and value is not None:
            raise UntrustedError("it holds objects of other programs")
        elif key == "nodes":
            for node in value:
                if not _may_call(str(node["target"])):
                    raise UntrustedError(_calls(str(node["target"])))
        elif key in ("tensor_values", "sym_int_values", "sym_bool_values", "sym_float_values", "range_constraints"):
            for name in value:
                _check_identifier(name)


def _pairs(value: Any) -> Iterator[tuple[str, Any]]:
    """Every key with its value, at any depth; what torch only shows in messages is left out."""
    pending = [value]
    while pending:
        current = pending.pop()
        if isinstance(current, dict):
            for key, inner in current.items():
                if key == "metadata":
                    _check_metadata(inner)
                    continue
                yield key, inner
                pending.append(inner)
        elif isinstance(current, list):
            pending.extend(current)


def _check_metadata(metadata: Any) -> None:
    if not isinstance(metadata, dict) or not all(isinstance(value, str) for value in metadata.values()):
        raise UntrustedError("its metadata are not plain text")


def _check_identifier(name: Any, allowed: re.Pattern[str] = _IDENTIFIER) -> None:
    if not isinstance(name, str) or allowed.fullmatch(name) is None:
        raise UntrustedError(f"it names something {str(name)[:40]!r}")


def _check_expression(text: Any) -> None:
    """Arithmetic and comparisons of sizes, nothing else."""
    if not isinstance(text, str) or len(text) > _LONGEST_EXPRESSION:
        raise UntrustedError("it holds an expression that is too long")
    try:
        tree = ast.parse(text.strip(), mode="eval")
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise UntrustedError(f"it holds the expression {text[:40]!r}") from error
    for node in ast.walk(tree):
        if not _is_harmless(node):
            raise UntrustedError(f"it holds the expression {text[:40]!r}")
    exponents = [_exponent(node) for node in ast.walk(tree) if _is_power(node)]
    if len(exponents) > _MAX_POWERS or any(number > _LARGEST_EXPONENT for number in exponents):
        raise UntrustedError(f"it holds the expression {text[:40]!r}")


def _is_power(node: ast.AST) -> bool:
    if isinstance(node, ast.BinOp):
        return isinstance(node.op, (ast.Pow, ast.LShift))
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in _POWERS


def _exponent(node: ast.AST) -> float:
    """The number that something is raised to; infinity for anything but a plain one."""
    given = node.right if isinstance(node, ast.BinOp) else node.args[-1] if isinstance(node, ast.Call) else None
    if isinstance(given, ast.Call) and len(given.args) == 1:  # Integer(2)
        given = given.args[0]
    if isinstance(given, ast.UnaryOp):
        given = given.operand
    return given.value if isinstance(given, ast.Constant) and isinstance(given.value, (int, float)) else math.inf


def _is_harmless(node: ast.AST) -> bool:
    if isinstance(node, ast.Name):
        return node.id in _NAMES or node.id in _FUNCTIONS or _SYMBOL.fullmatch(node.id) is not None
    if isinstance(node, ast.Constant):
        # Names of symbols and of inputs; sympy evaluates text, but as a name it must be one.
        return not isinstance(node.value, str) or _IDENTIFIER.fullmatch(node.value.replace(".", "_")) is not None
    if isinstance(node, ast.Attribute):
        return node.attr in _GUARD_METHODS and isinstance(node.value, ast.Subscript)
    if isinstance(node, ast.Call):
        return isinstance(node.func, ast.Attribute) or (isinstance(node.func, ast.Name) and node.func.id in _FUNCTIONS)
    return isinstance(node, _EXPRESSION_NODES)


def _check_tree(text: Any) -> None:
    """How inputs and outputs are nested: plain containers with plain keys."""
    if not isinstance(text, str):
        raise UntrustedError("its inputs or outputs are not described by text")
    pending = [json.loads(text)]
    while pending:
        current = pending.pop()
        if isinstance(current, list):
            pending.extend(current)
        elif isinstance(current, dict):
            kind, context = current.get("type"), current.get("context")
            plain = context is None or (isinstance(context, str) and "__enum__" not in context)
            if set(current) - {"type", "context", "children_spec"} or kind not in {None, *_TREE_TYPES} or not plain:
                raise UntrustedError(f"its inputs or outputs are a {str(kind)[:60]}")
            pending.extend(current.get("children_spec", []))
