"""Initial weights from a seed, with no other stream of random numbers disturbed."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import torch

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
