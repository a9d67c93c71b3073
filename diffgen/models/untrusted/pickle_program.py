"""The pickles in a TorchScript archive, followed instruction by instruction and never loaded.

torch has a reader of its own for them, in C++. It makes objects of the classes in the archive and of a few of torch's
own; a pickle that is nested very deeply crashes it, and one that asks for a place in its memo far away takes the memory
for all places before. So every instruction is read here first, with bounds, and only what torch.jit.save writes is let
through.
"""

from __future__ import annotations

import pickletools
import re
from dataclasses import dataclass, field
from io import BytesIO
from typing import IO, Any

from diffgen.models.untrusted.archives import UntrustedError, is_plain_text
from diffgen.models.untrusted.operators import FOREIGN_CLASSES, PACKED_WEIGHTS

# Bytes of a number in torch's typed storages; of others, at least one is there.
_BYTES = {
    "ComplexDoubleStorage": 16,
    **dict.fromkeys(("DoubleStorage", "LongStorage", "ComplexFloatStorage"), 8),
    **dict.fromkeys(("FloatStorage", "IntStorage", "QInt32Storage"), 4),
    **dict.fromkeys(("HalfStorage", "BFloat16Storage", "ShortStorage", "ComplexHalfStorage"), 2),
    **dict.fromkeys(("CharStorage", "ByteStorage", "BoolStorage", "QInt8Storage", "QUInt8Storage"), 1),
}
_MAKERS = frozenset(
    {
        *("torch._utils _rebuild_tensor_v2", "torch._utils _rebuild_qtensor", "torch._utils _rebuild_parameter"),
        *("torch.jit._pickle build_intlist", "torch.jit._pickle build_doublelist", "torch.jit._pickle build_boollist"),
        *("torch.jit._pickle build_tensorlist", "torch.jit._pickle restore_type_tag"),
        *("collections OrderedDict", "torch device", "builtins complex"),
    }
)
_NAMED = frozenset(
    {
        *(f"torch {kind}" for kind in _BYTES),
        *("torch per_tensor_affine", "torch per_channel_affine", "torch per_channel_affine_float_qparams"),
    }
)
_TENSOR = ("torch._utils _rebuild_tensor_v2", "torch._utils _rebuild_qtensor")
_CLASS = re.compile(r"__torch__(?:\.\w+)* \w+", re.ASCII)
_TYPE = re.compile(r"[\w.\[\](), ]*", re.ASCII)
_KEY = re.compile(r"\w+", re.ASCII)
_DEEPEST = 200
_MAX_BYTES = 64 << 20
_CONSTANTS = {"NONE": None, "NEWTRUE": True, "NEWFALSE": False}
_NUMBERS = frozenset({"BININT", "BININT1", "BININT2", "LONG1", "BINFLOAT"})
_FIXED_TUPLES = {"EMPTY_TUPLE": 0, "TUPLE1": 1, "TUPLE2": 2, "TUPLE3": 3}
_CONTAINERS = frozenset({"EMPTY_LIST", "EMPTY_DICT"})


class DamagedError(Exception):
    """The pickle cannot be followed."""


@dataclass(frozen=True)
class Storage:
    """An array of ``count`` numbers in a file of its own that a pickle refers to."""

    kind: str
    count: int

    @property
    def size(self) -> int:
        """Bytes that it must have at least."""
        return self.count * _BYTES[self.kind]


@dataclass
class _Made:
    """An object that the pickle makes: what it is, and how deeply it is nested."""

    what: str
    depth: int = 1


class _Tuple(tuple[Any, ...]):
    """A tuple that knows how deeply it is nested."""

    depth: int

    def __new__(cls, items: list[Any]) -> _Tuple:
        made = super().__new__(cls, items)
        made.depth = _checked_depth(1 + max(map(_depth, items), default=0))
        return made


@dataclass(frozen=True)
class _Named:
    """A class or function that the pickle names."""

    name: str


_MARK = object()


@dataclass
class _Machine:
    """What a reader of the pickle has at hand.

    Attributes:
        storages: name of the file -> the array in it.
    """

    storages: dict[str, Storage] = field(default_factory=dict)
    stack: list[Any] = field(default_factory=list)
    memo: list[Any] = field(default_factory=list)

    def run(self, content: bytes) -> None:
        ended = False
        for code, argument, _ in pickletools.genops(content):
            if ended:
                raise DamagedError
            ended = code.name == "STOP"
            self._step(code.name, argument)
        if not ended or len(self.stack) != 1:
            raise DamagedError

    def _step(self, code: str, argument: Any) -> None:
        if code in _CONSTANTS:
            self.stack.append(_CONSTANTS[code])
        elif code in _NUMBERS:
            self.stack.append(argument)
        elif code == "BINUNICODE":
            if not is_plain_text(argument):
                raise UntrustedError(f"its objects hold the text {argument[:40]!r} with letters that a terminal obeys")
            self.stack.append(argument)
        elif code == "MARK":
            self.stack.append(_MARK)
        elif code in _FIXED_TUPLES:
            self.stack.append(_Tuple(self._popped(_FIXED_TUPLES[code])))
        elif code == "TUPLE":
            self.stack.append(_Tuple(self._since_mark()))
        elif code in _CONTAINERS:
            self.stack.append(_Made(code))
        elif code == "APPENDS":
            self._filled("EMPTY_LIST", self._since_mark())
        elif code == "APPEND":
            self._filled("EMPTY_LIST", self._popped(1))
        elif code == "SETITEMS":
            self._filled("EMPTY_DICT", self._since_mark())
        elif code == "SETITEM":
            self._filled("EMPTY_DICT", self._popped(2))
        elif code in ("BINPUT", "LONG_BINPUT"):
            self._remember(argument)
        elif code in ("BINGET", "LONG_BINGET"):
            if not 0 <= argument < len(self.memo):
                raise DamagedError
            self.stack.append(self.memo[argument])
        elif code == "GLOBAL":
            self.stack.append(_named(str(argument)))
        elif code == "NEWOBJ":
            kind, _ = self._popped(2)
            self.stack.append(_Made(_own_class(kind)))
        elif code == "BUILD":
            (state,) = self._popped(1)
            self._filled(None, [state])
        elif code == "REDUCE":
            maker, arguments = self._popped(2)
            self._made(maker, arguments)
        elif code == "BINPERSID":
            self._storage(*self._popped(1))
        elif code not in ("PROTO", "STOP"):
            raise UntrustedError(f"its objects are written with {code}, which torch.jit.save does not use")

    def _popped(self, count: int) -> list[Any]:
        if len(self.stack) < count or any(item is _MARK for item in self.stack[len(self.stack) - count :]):
            raise DamagedError
        items = self.stack[len(self.stack) - count :]
        del self.stack[len(self.stack) - count :]
        return items

    def _since_mark(self) -> list[Any]:
        place = len(self.stack)
        while place > 0 and self.stack[place - 1] is not _MARK:
            place -= 1
        if place == 0:
            raise DamagedError
        items = self.stack[place:]
        del self.stack[place - 1 :]
        return items

    def _filled(self, what: str | None, items: list[Any]) -> None:
        """Put items into the object on top, which must be new: one from the memo may be a part of another already."""
        if not self.stack or not isinstance(self.stack[-1], _Made):
            raise DamagedError
        made = self.stack[-1]
        if what is not None and made.what != what:
            raise DamagedError
        made.depth = _checked_depth(max(made.depth, 1 + max(map(_depth, items), default=0)))

    def _remember(self, place: int) -> None:
        """torch.jit.save counts the places one by one."""
        if not self.stack or self.stack[-1] is _MARK:
            raise DamagedError
        if place > len(self.memo):
            raise UntrustedError(f"its objects ask for place {place:,} of a memo that holds {len(self.memo):,}")
        self.memo[place : place + 1] = [self.stack[-1]]

    def _made(self, maker: Any, arguments: Any) -> None:
        if not isinstance(maker, _Named) or not isinstance(arguments, tuple):
            raise DamagedError
        if maker.name in _TENSOR:
            _check_tensor(arguments)
        elif maker.name == "torch.jit._pickle restore_type_tag":
            _check_tag(arguments)
        elif maker.name not in _MAKERS and _CLASS.fullmatch(maker.name) is None:
            raise UntrustedError(f"its objects are made by {maker.name.replace(' ', '.')!r}")
        what = "EMPTY_DICT" if maker.name == "collections OrderedDict" else maker.name
        self.stack.append(_Made(what, _checked_depth(1 + _depth(arguments))))

    def _storage(self, reference: Any) -> None:
        """("storage", type, key, device, count)"""
        if not isinstance(reference, tuple) or len(reference) != 5:
            raise DamagedError
        tag, kind, key, device, count = reference
        if tag != "storage" or not isinstance(kind, _Named) or not isinstance(key, str) or not isinstance(device, str):
            raise DamagedError
        if type(count) is not int or count < 0 or _KEY.fullmatch(key) is None:
            raise DamagedError
        name = kind.name.removeprefix("torch ")
        if name not in _BYTES:
            raise UntrustedError(f"its weights are of the type {name!r}")
        found = Storage(name, count)
        if self.storages.setdefault(key, found) != found:
            raise DamagedError
        self.stack.append(found)


def storages_of(content: bytes) -> dict[str, Storage]:
    """The arrays of numbers that a pickle refers to, if it holds no more than torch.jit.save writes.

    Args:
        content: of ``data.pkl`` or ``constants.pkl``.

    Returns:
        Name of the file -> the array in it.

    Raises:
        UntrustedError: it names something else, is nested very deeply, or asks for places in the memo far away.
        DamagedError: it cannot be followed.
    """
    if len(content) > _MAX_BYTES:
        raise UntrustedError(f"its objects take more than {_MAX_BYTES >> 20} MiB")
    machine = _Machine()
    try:
        machine.run(content)
    except (UntrustedError, DamagedError):
        raise
    except Exception as error:  # pickletools raises half a dozen types on damaged ones
        raise DamagedError from error
    return machine.storages


def _depth(item: Any) -> int:
    """How deeply nested an item is; of one that is being filled, as far as it is filled."""
    return item.depth if isinstance(item, (_Made, _Tuple)) else 0


def _checked_depth(depth: int) -> int:
    if depth > _DEEPEST:
        raise UntrustedError(f"its objects are nested more than {_DEEPEST} deep")
    return depth


def _named(argument: str) -> _Named:
    module, _, name = argument.partition(" ")
    if argument in _MAKERS or argument in _NAMED:
        return _Named(argument)
    if _CLASS.fullmatch(argument) is None:
        raise UntrustedError(f"its objects name {f'{module}.{name}'[:80]!r}")
    _check_foreign(f"{module}.{name}")
    return _Named(argument)


def _check_foreign(name: str) -> None:
    if name.startswith(FOREIGN_CLASSES) and name not in PACKED_WEIGHTS:
        raise UntrustedError(f"its objects are of {name[:80]!r}, a class outside of the file")


def _own_class(kind: Any) -> str:
    if not isinstance(kind, _Named) or _CLASS.fullmatch(kind.name) is None:
        raise DamagedError
    return kind.name


def _check_tag(arguments: tuple[Any, ...]) -> None:
    """(object, name of its type)"""
    if len(arguments) != 2 or not isinstance(arguments[1], str) or _TYPE.fullmatch(arguments[1]) is None:
        raise DamagedError
    for name in re.findall(r"[\w.]+", arguments[1]):
        _check_foreign(name)


def _check_tensor(arguments: tuple[Any, ...]) -> None:
    """(storage, offset, sides, strides, ...): no number of the tensor lies outside of its array."""
    if len(arguments) < 4 or not isinstance(arguments[0], Storage):
        raise DamagedError
    storage, offset, sides, strides = arguments[:4]
    if not isinstance(sides, tuple) or not isinstance(strides, tuple) or len(sides) != len(strides):
        raise DamagedError
    if any(type(number) is not int or number < 0 for number in (offset, *sides, *strides)):
        raise DamagedError
    if 0 not in sides:
        last = offset + sum((side - 1) * stride for side, stride in zip(sides, strides, strict=True))
        if last >= storage.count:
            raise DamagedError


# -- what any pickle would make, read from its instructions ----------------------------------------------------------

_LOOKED_AT = 8 << 20
# What the weights of a network, and of its optimizer, are made of.
_TENSOR_MODULES = frozenset({"torch", "torch._utils", "torch.storage", "torch.nn.parameter", "torch.serialization"})
_TENSOR_NAMES = frozenset(
    {
        "collections OrderedDict",
        "collections defaultdict",
        "_codecs encode",
        *(f"{module} {name}" for module in ("builtins", "__builtin__") for name in ("set", "dict", "list", "slice")),
        *(f"numpy {name}" for name in ("dtype", "ndarray")),
        *(f"numpy.{core}.multiarray {name}" for core in ("core", "_core") for name in ("scalar", "_reconstruct")),
    }
)


def holds_only_tensors(program: IO[bytes], *, pickles: int = 1) -> bool:
    """Whether pickles name nothing but tensors and plain containers.

    Used to word a message, no safety depends on it: only the first 8 MiB are looked at, and names that are put
    together in unusual ways are not followed.

    Args:
        program: a file that stands at the first pickle.
        pickles: how many of them follow each other.
    """
    head = BytesIO(program.read(_LOOKED_AT))
    return all(_only_tensors(head) for _ in range(pickles))


def _only_tensors(program: BytesIO) -> bool:
    strings: list[str] = []
    try:
        for code, argument, _ in pickletools.genops(program):
            if code.name == "GLOBAL":
                named = str(argument)
            elif code.name == "STACK_GLOBAL":
                named = " ".join(strings[-2:])
            else:
                if isinstance(argument, str):
                    strings.append(argument)
                continue
            if named not in _TENSOR_NAMES and named.split(" ")[0] not in _TENSOR_MODULES:
                return False
    except Exception:  # pickletools raises many kinds on damaged ones; what was read until then has named nothing else
        return True
    return True
