"""With how many threads torch computes for a while."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import torch

_changing = threading.Lock()
_blocks = 0  # that are open, in whatever thread
_without = 0  # threads that torch had before the first of them


@contextmanager
def torch_threads(count: int) -> Iterator[None]:
    """While the block runs, torch computes with so many threads in this one, and in threads that begin meanwhile.

    Args:
        count: 1 or more.
    """
    global _blocks, _without
    before = torch.get_num_threads()
    with _changing:
        if _blocks == 0:
            _without = before
        _blocks += 1
    try:
        torch.set_num_threads(count)
        yield
    finally:
        torch.set_num_threads(before)
        with _changing:
            _blocks -= 1


def all_threads() -> int:
    """With how many threads torch computes where no block says otherwise, be one open in this or another thread."""
    with _changing:
        return _without if _blocks else torch.get_num_threads()
