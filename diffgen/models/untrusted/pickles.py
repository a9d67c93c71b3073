"""What a pickle would make, read from its instructions. It is never loaded: that would run what is in it."""

from __future__ import annotations

import pickletools
from io import BytesIO
from typing import IO

_MAX_BYTES = 8 << 20
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
    head = BytesIO(program.read(_MAX_BYTES))
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
