"""A machine with another number of cores, as far as torch knows."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch


@contextmanager
def own_threads(count: int) -> Iterator[None]:
    """As if whoever started the tests had told torch to compute with so many threads."""
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)
