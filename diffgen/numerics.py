"""How numpy and torch compute while diffgen does, whatever the program that calls it has set."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch

_changing = threading.Lock()
_blocks = 0  # that are open, in whatever thread: torch has one default for all of them
_without = torch.float32  # the default before the first of them


@contextmanager
def own_numerics() -> Iterator[None]:
    """While the block runs, torch makes float32 where no dtype is said, and numpy raises no error for rounding.

    A function that it decorates runs in such a block. torch's default is that of the process, so that other threads
    have it too; it is as before when the last block ends. numpy's handling of errors is that of this thread.
    """
    global _blocks, _without
    with _changing:
        if _blocks == 0:
            _without = torch.get_default_dtype()
            torch.set_default_dtype(torch.float32)
        _blocks += 1
    try:
        with np.errstate(divide="warn", over="warn", under="ignore", invalid="warn"):
            yield
    finally:
        with _changing:
            _blocks -= 1
            if _blocks == 0:
                torch.set_default_dtype(_without)
