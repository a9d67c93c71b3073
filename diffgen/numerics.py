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


# -- with how many threads torch computes for a while ----------------------------------------------------------------

_changing_threads = threading.Lock()
_thread_blocks = 0  # that are open, in whatever thread
_threads_without = 0  # threads that torch had before the first of them


@contextmanager
def torch_threads(count: int) -> Iterator[None]:
    """While the block runs, torch computes with so many threads in this one, and in threads that begin meanwhile.

    Args:
        count: 1 or more.
    """
    global _thread_blocks, _threads_without
    before = torch.get_num_threads()
    with _changing_threads:
        if _thread_blocks == 0:
            _threads_without = before
        _thread_blocks += 1
    try:
        torch.set_num_threads(count)
        yield
    finally:
        torch.set_num_threads(before)
        with _changing_threads:
            _thread_blocks -= 1


def all_threads() -> int:
    """With how many threads torch computes where no block says otherwise, be one open in this or another thread."""
    with _changing_threads:
        return _threads_without if _thread_blocks else torch.get_num_threads()


# -- initial weights from a seed -------------------------------------------------------------------------------------

_ONE_AT_A_TIME = threading.RLock()  # torch's own random numbers are those of all threads


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """While the block runs, torch's own random numbers on the CPU come from a seed; afterwards they go on as before.

    Of several threads one at a time is in such a block.
    """
    with _ONE_AT_A_TIME, torch.random.fork_rng(devices=[]):
        # not torch.manual_seed, which also seeds the generators of every GPU
        torch.default_generator.manual_seed(seed)
        yield
