"""Computes in parts of one size, so that what comes out for an image never depends on how many are asked for."""

from __future__ import annotations

from collections.abc import Callable

import torch

PART = 32  # rows; more leave a processor's cache, and of fewer a single picture would not cost less worth speaking of


def in_equal_parts(compute: Callable[[torch.Tensor], torch.Tensor], values: torch.Tensor) -> torch.Tensor:
    """What ``compute`` gives for values (N, ...), in parts of 32 rows, the last one filled up with copies of its first.

    A library of matrix products chooses its way by the shape of what it is handed, and the last digits with it: the
    same number of rows every time is the same way every time, and each row is then a function of itself bit for bit.

    Args:
        compute: (32, ...) to (32, ...), each row for itself.
        values: N at least 1.
    """
    done = []
    for part in values.split(PART):
        # a tensor of its own: grey images can have the strides of either order in memory, and each order is another way
        filled = part.new_empty((PART, *part.shape[1:]))
        filled[: len(part)] = part
        filled[len(part) :] = part[:1]
        done.append(compute(filled)[: len(part)])
    return torch.cat(done)
