"""From what a model answers to class probabilities."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Literal

import torch

from diffgen.errors import UserError
from diffgen.models.wording import counted

OutputKind = Literal["probabilities", "logits", "scores"]

# Rounding leaves probabilities a little below zero at times.
_BELOW_ZERO = 1e-4
# An int8 softmax has steps of 1/256, so that the sum of a row is off by up to about 2/100.
_SUM_TOLERANCE = 0.05
# Outputs that were found to be probabilities may leave [0, 1] by this much before we say that they are none.
_LATER_TOLERANCE = 0.01


def checked_rows(answer: object, count: int, name: str) -> torch.Tensor:
    """The answer of a model, if it is one row of values per image.

    Args:
        answer: what the model gave for ``count`` images.
        count: rows that are wanted.
        name: of the model, for messages.

    Returns:
        The answer itself: floating (count, K) with K >= 2.

    Raises:
        UserError: anything else came out; the message says what, and what the model should give.
    """
    if not isinstance(answer, torch.Tensor):
        raise UserError(
            f"Model {name} gives {_described(answer)}, which is not supported yet; export it so that it gives one "
            "array of shape (N, K), a row of class probabilities or logits per image."
        )
    shape = tuple(answer.shape)
    if len(shape) == 2 and shape[0] == count and shape[1] >= 2:
        if answer.is_floating_point():
            return answer
        raise UserError(
            f"Model {name} gives {str(answer.dtype).removeprefix('torch.')} values; export it so that it gives "
            "floating point probabilities or logits, not labels or quantized numbers."
        )
    if shape in ((count,), (count, 1)):
        raise UserError(
            f"Model {name} gives one value per image (an array of shape {shape} for {counted(count, 'image')}), which "
            "is not supported yet; export it so that it gives one value per class, for two classes [1 - p, p]."
        )
    raise UserError(
        f"Model {name} gives an array of shape {shape} for {counted(count, 'image')}; export it so that it gives "
        f"shape (N, K), here ({count}, number of classes)."
    )


def _described(answer: object) -> str:
    if isinstance(answer, Mapping):
        return f"a dict of outputs ({', '.join(str(key) for key in answer)})"
    if isinstance(answer, (tuple, list)):
        return f"a {type(answer).__name__} of {counted(len(answer), 'output')}"
    return "nothing" if answer is None else f"a {type(answer).__name__}"


def decide_outputs(raw: torch.Tensor) -> OutputKind:
    """What the outputs of a model are, judged by those for real images.

    Args:
        raw: floating (N, K), N >= 1, finite.

    Returns:
        "probabilities" if no value is negative and all rows sum to 1 (within what 8 bits leave of it), "scores" if
        all values lie in [0, 1] otherwise, else "logits".
    """
    low, high = (float(bound) for bound in raw.aminmax())
    if low < -_BELOW_ZERO:
        return "logits"
    if float((raw.sum(dim=1) - 1.0).abs().amax()) <= _SUM_TOLERANCE:
        return "probabilities"
    return "scores" if high <= 1.0 + _BELOW_ZERO else "logits"


def find_fault(raw: torch.Tensor, kind: OutputKind) -> str | None:
    """What is wrong with the values of raw outputs, worded to follow "Model x"; None if nothing is.

    Args:
        raw: float32 (N, K), N >= 1.
        kind: what the outputs were found or said to be.
    """
    low, high = (float(bound) for bound in raw.aminmax())
    if not (math.isfinite(low) and math.isfinite(high)):
        bad = int((~torch.isfinite(raw)).any(dim=1).sum())
        return f"gave NaN or infinite values for {bad} of {counted(len(raw), 'image')}."
    if kind != "logits" and not (low >= -_LATER_TOLERANCE and high <= 1.0 + _LATER_TOLERANCE):
        return (
            f"gave values from {low:.4g} to {high:.4g}, although its outputs are taken for {kind}; set outputs to "
            "logits in its pre-processing."
        )
    return None


def to_probabilities(raw: torch.Tensor, kind: OutputKind) -> torch.Tensor:
    """Class probabilities; each row depends on the same row of ``raw`` only.

    Probabilities are divided by their sum as scores are: that changes what sums to 1 by no more than rounding, and it
    leaves nothing to decide that a replay could decide differently. A row of zeros, as an int8 softmax over very many
    classes may give, says nothing about the class and becomes uniform.

    Args:
        raw: float32 (N, K), without fault. May be overwritten.
        kind: what the outputs are.

    Returns:
        float32 (N, K) in [0, 1], rows sum to 1.
    """
    if kind == "logits":
        return torch.softmax(raw, dim=1)
    positive = raw.clamp_(min=0.0)
    return positive.div_(positive.sum(dim=1, keepdim=True)).nan_to_num_(nan=1.0 / raw.shape[1])
