"""How errors and shapes are worded in messages about models."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping, Sequence

from diffgen.errors import UserError
from diffgen.wording import told_by

_NAMED = 8
_TORCHSCRIPT_HEAD = "The following operation failed in the TorchScript interpreter."
_RAISED = re.compile(r"^\w*(?:Error|Exception): (.+)$", re.MULTILINE)
_ONNXRUNTIME_HEAD = re.compile(r"^\[ONNXRuntimeError\] : \d+ : \w+ : ")


class ForeignError(Exception):
    """What a model raised in another process; the text is what :func:`reason` said of it there."""


class NoClassesError(UserError):
    """A model doesn't answer as a classifier does, but perhaps as a detector, or with maps."""


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


# -- what a model gives, and does not ----------------------------------------------------------------------------------


def no_such_output(name: str, names: Sequence[str], output: str, described: str) -> str:
    """Says which outputs there are, when none or a wrong one was named."""
    listed = ", ".join(names[:_NAMED]) + (", ..." if len(names) > _NAMED else "")
    if not output:
        return f"Model {name} gives {described}; say with --output-name which one to read ({listed})."
    near = difflib.get_close_matches(output, names, n=1)
    hint = f"did you mean {near[0]!r}?" if near else f"name one of {listed}."
    return f"Model {name} has no output {output!r} (it gives {listed}); {hint}"


def no_rows(name: str, found: str) -> str:
    """Says that a model gives something else than an array; ``found`` says what."""
    return (
        f"Model {name} gives {found}; export it so that it gives one array of shape (N, K), a row of class "
        "probabilities or logits per image."
    )


def described(answer: object) -> str:
    """What a model gave where it gave no array, or several."""
    if isinstance(answer, Mapping):
        return f"a dict of outputs ({', '.join(str(key) for key in answer)})"
    if isinstance(answer, (tuple, list)):
        return f"a {type(answer).__name__} of {counted(len(answer), 'output')}"
    return "nothing" if answer is None else f"a {type(answer).__name__}"
