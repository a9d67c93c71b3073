"""Blocks that say with how many threads torch computes."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import torch

from diffgen.numerics import all_threads, torch_threads


def test_threads_are_as_before_after_the_block() -> None:
    before = torch.get_num_threads()
    with torch_threads(3):
        assert (torch.get_num_threads(), all_threads()) == (3, before)
        with torch_threads(1):
            assert (torch.get_num_threads(), all_threads()) == (1, before)
        assert torch.get_num_threads() == 3
    assert (torch.get_num_threads(), all_threads()) == (before, before)


def test_another_thread_is_told_of_all_threads_while_a_block_is_open() -> None:
    before = torch.get_num_threads()
    with torch_threads(before + 1), ThreadPoolExecutor(1) as pool:
        assert pool.submit(all_threads).result() == before
