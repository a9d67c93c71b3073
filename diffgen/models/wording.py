"""How errors and shapes are worded in messages about models."""

from __future__ import annotations

import re
from collections.abc import Sequence

from diffgen.wording import told_by

_TORCHSCRIPT_HEAD = "The following operation failed in the TorchScript interpreter."
_RAISED = re.compile(r"^\w*(?:Error|Exception): (.+)$", re.MULTILINE)
_ONNXRUNTIME_HEAD = re.compile(r"^\[ONNXRuntimeError\] : \d+ : \w+ : ")


class ForeignError(Exception):
    """What a model raised in another process; the text is what :func:`reason` said of it there."""


def cleaned(text: object, longest: int = 2000) -> str:
    """Text from somebody who may mean harm, for one line on the screen: printable, and not too long."""
    if not isinstance(text, str):
        return ""
    line = " ".join("".join(letter if letter.isprintable() else " " for letter in text[: 4 * longest]).split())
    return line if len(line) <= longest else f"{line[:longest]}..."


def reason(error: BaseException) -> str:
    """The one line of an exception that tells most, with the exception's class in front.

    TorchScript writes a long traceback into the message and the cause into its last line; everything else says the
    cause in the first line.
    """
    if isinstance(error, ForeignError):
        return str(error)
    kind, text = type(error).__name__, str(error).strip()
    if text.startswith(_TORCHSCRIPT_HEAD):
        causes = _RAISED.findall(text)
        if causes:
            return f"{kind}: {causes[-1].strip()}"
    first = _ONNXRUNTIME_HEAD.sub("", told_by(error))
    return f"{kind}: {first}" if text else kind


def shape_text(shape: Sequence[int | None]) -> str:
    """(C, H, W) as ``3x32x32``; sides that a model leaves open (None) are left out where that reads well."""
    channels, *size = shape
    if channels is not None and all(side is None for side in size):
        return f"{channels}-channel"
    if channels is None and all(side is not None for side in size):
        return "x".join(str(side) for side in size)
    return "x".join("?" if side is None else str(side) for side in shape)


def counted(number: int, noun: str) -> str:
    """``1 image``, ``7 images``."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def spoken_list(items: Sequence[str]) -> str:
    """``a``, ``a or b``, ``a, b or c``."""
    return items[0] if len(items) == 1 else f"{', '.join(items[:-1])} or {items[-1]}"
