"""Turns the outputs of a model into class probabilities."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Literal

import torch

from diffgen.config.task import TaskName
from diffgen.errors import UserError
from diffgen.models.wording import counted, described, no_rows, no_such_output
from diffgen.tasks.segmentation import NO_ANSWER

OutputKind = Literal["probabilities", "logits", "scores", "boxes", "maps"]

# Rounding leaves probabilities a little below zero at times.
_BELOW_ZERO = 1e-4
# An int8 softmax has steps of 1/256, so that the sum of a row is off by up to about 2/100.
_SUM_TOLERANCE = 0.05
# Of the logarithm of a sum of probabilities, of which 8 bits leave less; of logits it is far from 0.
_LOG_SUM_TOLERANCE = 0.25
_NEAR_ONE, _SEVERAL = 0.9, 0.05  # a value; the share of images that have two, where more than one is meant to be
# Outputs that were found to be probabilities may leave [0, 1] by this much before we say that they are none.
_LATER_TOLERANCE = 0.01
NO_BOX = (0.0, 0.0, 0.0, 0.0, 0.0, -1.0)  # corners, score and class where a detector found nothing more
_NOTHING: dict[str, tuple[float, ...]] = {"boxes": NO_BOX, "maps": (float(NO_ANSWER),)}
_KINDS = 3  # two whole numbers are probabilities of the second class, too
# worded to follow "Model x"
_ONLY_LABELS = (
    "gives one whole number for each image, as labels are, and diffgen compares probabilities; export it so that it "
    "gives shape (N, K), the probabilities or logits of all classes."
)


#: What else than classes of whole pictures models answer with, and what they do then.
TASKS: dict[str, TaskName] = {"boxes": "detection", "maps": "segmentation"}


def picked(answer: object, output: str, name: str) -> object:
    """The one of several outputs that is to be read.

    Args:
        answer: what the model gave: a mapping from names, a tuple or a list, or anything else, which is given back.
        output: a name; a number for the outputs of a plain tuple or list; empty for the only one.
        name: of the model, for messages.

    Raises:
        UserError: there are several outputs and none is named, or there is none of that name.
    """
    named = _named(answer)
    if named is None:
        return answer
    if not output and len(named) == 1:
        return next(iter(named.values()))
    if output in named:
        return named[output]
    raise UserError(no_such_output(name, list(named), output, described(answer)))


def _named(answer: object) -> dict[str, object] | None:
    """The outputs by name, or None for a single one."""
    if isinstance(answer, Mapping):
        return {str(key): value for key, value in answer.items()}
    if isinstance(answer, (tuple, list)) and answer:
        names = getattr(answer, "_fields", None) or map(str, range(len(answer)))
        return dict(zip(names, answer, strict=True))
    return None


def checked_rows(answer: object, count: int, name: str) -> torch.Tensor:
    """The answer of a model, if it is one row of values per image.

    Args:
        answer: what the model gave for ``count`` images.
        count: rows that are wanted.
        name: of the model, for messages.

    Returns:
        The answer itself: floating (count, K) with K >= 1.

    Raises:
        UserError: anything else came out; the message says what, and what the model should give.
    """
    if not isinstance(answer, torch.Tensor):
        raise UserError(no_rows(name, described(answer)))
    shape = tuple(answer.shape)
    if len(shape) == 2 and shape[0] == count and shape[1] >= 1:
        if answer.is_floating_point():
            return answer
        raise UserError(
            f"Model {name} gives {str(answer.dtype).removeprefix('torch.')} values; export it so that it gives "
            "floating point probabilities or logits, not labels or quantized numbers."
        )
    if shape == (count,) and (not answer.is_floating_point() or _are_labels(answer)):
        raise UserError(f"Model {name} {_ONLY_LABELS}")
    if shape == (count,):
        raise UserError(
            f"Model {name} gives an array of shape {shape} for {counted(count, 'image')}; export it so that it gives "
            f"shape (N, 1), here ({count}, 1), for the probability of the second of two classes, or one value for each "
            "class."
        )
    raise UserError(
        f"Model {name} gives an array of shape {shape} for {counted(count, 'image')}; export it so that it gives "
        f"shape (N, K), here ({count}, number of classes)."
    )


def _are_labels(values: torch.Tensor) -> bool:
    """Whether single values for some dozens of images can be nothing but labels: whole numbers, three or more kinds."""
    kinds = values.unique()
    return len(kinds) >= _KINDS and bool((kinds >= 0).all() and (kinds == kinds.round()).all())


def decide_outputs(raw: torch.Tensor) -> OutputKind:
    """What the outputs of a model are, judged by those for real images.

    Args:
        raw: floating (N, K), N >= 1, finite.

    Returns:
        "probabilities" if no value is negative and all rows sum to 1 (within what 8 bits leave of it), "scores" if
        all values lie in [0, 1] otherwise, else "logits". With one column, which is for the second of two classes,
        "probabilities" if all values lie in [0, 1], else "logits".
    """
    low, high = (float(bound) for bound in raw.aminmax())
    if low < -_BELOW_ZERO:
        return "logits"
    if raw.shape[1] == 1:
        return "probabilities" if high <= 1.0 + _BELOW_ZERO else "logits"
    if float((raw.sum(dim=1) - 1.0).abs().amax()) <= _SUM_TOLERANCE:
        return "probabilities"
    return "scores" if high <= 1.0 + _BELOW_ZERO else "logits"


def outputs_in_words(raw: torch.Tensor) -> str:
    """What the outputs of a model are by their values alone, worded to follow "answers with"; of real images.

    Args:
        raw: floating (N, K), N >= 1, finite.
    """
    kind = decide_outputs(raw)
    if raw.shape[1] == 1:
        return f"{kind} of the second of two classes alone"
    if kind == "logits" and float(raw.logsumexp(dim=1).abs().amax()) <= _LOG_SUM_TOLERANCE:
        return "logarithms of probabilities"
    return {"probabilities": "probabilities that sum to 1", "scores": "values from 0 to 1 that do not sum to 1"}.get(
        kind, kind
    )


def names_several_labels(raw: torch.Tensor) -> bool:
    """Whether two values or more are near 1 for some images, as where a picture may have several labels."""
    several = (raw >= _NEAR_ONE).sum(dim=1) > 1
    return decide_outputs(raw) == "scores" and float(several.float().mean()) >= _SEVERAL


def find_fault(raw: torch.Tensor, kind: OutputKind) -> str | None:
    """What is wrong with the values of raw outputs, worded to follow "Model x"; None if nothing is.

    Args:
        raw: float32 (N, K), N >= 1.
        kind: what the outputs were found or said to be.
    """
    low, high = (float(bound) for bound in raw.aminmax())
    if not (math.isfinite(low) and math.isfinite(high)):
        bad = int((~torch.isfinite(raw)).any(dim=1).sum())
        return (
            f"gave NaN or infinite values for {bad} of {counted(len(raw), 'image')}; look at its weights, and at its "
            "pre-processing with 'diffgen inspect'."
        )
    if kind in ("probabilities", "scores") and not (low >= -_LATER_TOLERANCE and high <= 1.0 + _LATER_TOLERANCE):
        return (
            f"gave values from {low:.4g} to {high:.4g}, although its outputs are taken for {kind}; set outputs to "
            "logits in its pre-processing."
        )
    return None


def find_first_fault(raw: torch.Tensor, given: OutputKind | None) -> str | None:
    """As :func:`find_fault`, of a model's first answers; ``given`` None: what they are is not decided yet."""
    # only a finite answer can be judged; taken for logits, nothing but NaN and infinity is a fault
    fault = find_fault(raw, given or "logits")
    if fault is None and given is None and raw.shape[1] == 1 and _are_labels(raw):
        return _ONLY_LABELS
    return fault


def leave_unanswered(raw: torch.Tensor, kind: OutputKind) -> int:
    """Make each row of float32 (N, K) that is not finite one of which all classes are alike; returns how many were."""
    broken = ~torch.isfinite(raw).all(dim=1)
    if kind in _NOTHING:
        nothing = raw.new_tensor(_NOTHING[kind])
        raw[broken] = nothing.repeat(raw.shape[1] // len(nothing))
        return int(broken.sum())
    raw[broken] = 0.5 if raw.shape[1] == 1 and kind != "logits" else 0.0
    return int(broken.sum())


def to_probabilities(raw: torch.Tensor, kind: OutputKind) -> torch.Tensor:
    """Class probabilities; each row depends on the same row of ``raw`` only.

    Probabilities are divided by their sum as scores are: that changes what sums to 1 by no more than rounding, and it
    leaves nothing to decide that a replay could decide differently. A row of zeros, as an int8 softmax over very many
    classes may give, says nothing about the class and becomes uniform.

    Args:
        raw: float32 (N, K), without fault. May be overwritten. One column is for the second of two classes.

    Returns:
        float32 (N, K), or (N, 2) for one column, in [0, 1], rows sum to 1.
    """
    if raw.shape[1] == 1:
        second = torch.sigmoid(raw) if kind == "logits" else raw.clamp_(min=0.0, max=1.0)
        return torch.cat([1.0 - second, second], dim=1)
    if kind == "logits":
        return torch.softmax(raw, dim=1)
    positive = raw.clamp_(min=0.0)
    return positive.div_(positive.sum(dim=1, keepdim=True)).nan_to_num_(nan=1.0 / raw.shape[1])
