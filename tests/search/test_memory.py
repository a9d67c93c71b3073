"""Batches are halved when memory runs out, and for nothing else."""

from __future__ import annotations

import pytest
import torch

from diffgen.errors import RunError
from diffgen.search.memory import BatchHalver, is_out_of_memory


class Small:
    """Takes so many rows and no more."""

    def __init__(self, most: int, error: Exception) -> None:
        self.most = most
        self.error = error
        self.sizes: list[int] = []

    def __call__(self, batch: torch.Tensor) -> torch.Tensor:
        self.sizes.append(len(batch))
        if len(batch) > self.most:
            raise self.error
        return batch * 2


@pytest.mark.parametrize(
    "error",
    [
        MemoryError(),
        torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB"),
        RuntimeError("[enforce fail at alloc_cpu.cpp] DefaultCPUAllocator: can't allocate memory: you tried 5 bytes"),
        RuntimeError("onnxruntime: Failed to allocate memory for requested buffer of size 5"),
    ],
)
@pytest.mark.parametrize("most", [1, 3, 20, 99])
def test_what_comes_out_is_the_same(error: Exception, most: int) -> None:
    told: list[int] = []
    halver, small = BatchHalver(told.append), Small(most, error)
    batch = torch.arange(100)
    assert torch.equal(halver.call(small, batch), batch * 2)
    assert told == sorted(told, reverse=True)
    assert told[-1] <= most
    # the size is remembered
    small.sizes.clear()
    assert torch.equal(halver.call(small, batch), batch * 2)
    assert max(small.sizes) <= most


def test_enough_memory_means_one_call() -> None:
    halver, small = BatchHalver(), Small(1000, MemoryError())
    batch = torch.arange(100)
    assert torch.equal(halver.call(small, batch), batch * 2)
    assert len(halver.call(small, batch[:0])) == 0
    assert small.sizes == [100, 0]


def test_never_more_than_was_said() -> None:
    halver, small = BatchHalver(size=30), Small(20, MemoryError())
    batch = torch.arange(100)
    assert torch.equal(halver.call(small, batch), batch * 2)
    assert small.sizes == [30, *[15] * 6, 10]


def test_what_a_model_wraps_is_recognised() -> None:
    wrapped = RunError("Model a.pt failed on 50 images: out of luck")
    assert not is_out_of_memory(wrapped)
    wrapped.__cause__ = MemoryError()
    assert is_out_of_memory(wrapped)
    assert not is_out_of_memory(ValueError("out of memory"))


def test_other_errors_pass() -> None:
    with pytest.raises(ValueError, match="shape"):
        BatchHalver().call(Small(0, ValueError("shape")), torch.arange(4))


def test_not_enough_for_one() -> None:
    with pytest.raises(RunError, match="single image"):
        BatchHalver().call(Small(0, MemoryError()), torch.arange(4))


def test_a_thread_that_comes_late_with_a_larger_size_changes_nothing() -> None:
    told: list[int] = []
    halver = BatchHalver(told.append)

    def short(batch: torch.Tensor) -> torch.Tensor:
        if len(batch) > 10:
            # another thread has gone further meanwhile
            halver.pieces(Small(10, MemoryError()), torch.arange(100))
            raise MemoryError
        return batch * 2

    assert torch.equal(halver.pieces(short, torch.arange(100)), torch.arange(100) * 2)
    assert halver.size == 6
    assert told == []
    halver.tell()
    halver.tell()
    assert told == [6]
