"""Memory that two processes share: a file without a name, mapped into both."""

from __future__ import annotations

import fcntl
import mmap
import os

import torch

# so that the other side cannot make it shorter, which would kill whoever reads what is gone
_SEALS = 0x0001 | 0x0002 | 0x0004  # F_SEAL_SEAL, F_SEAL_SHRINK, F_SEAL_GROW
_F_ADD_SEALS = 1033


class SharedMemory:
    """A stretch of memory, as bytes that tensors can be laid over.

    Args:
        descriptor: of the file; it is closed, the mapping stays.
        size: bytes.
    """

    def __init__(self, descriptor: int, size: int) -> None:
        self.size = size
        try:
            self._bytes = mmap.mmap(descriptor, size)
        finally:
            os.close(descriptor)

    @staticmethod
    def make(size: int) -> tuple[SharedMemory, int]:
        """New memory, and a descriptor of it for the other process, which the caller closes."""
        descriptor = os.memfd_create("diffgen", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        try:
            os.ftruncate(descriptor, size)
            fcntl.fcntl(descriptor, _F_ADD_SEALS, _SEALS)
            return SharedMemory(os.dup(descriptor), size), descriptor
        except BaseException:
            os.close(descriptor)
            raise

    def tensor(self, shape: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
        """A tensor of a shape at the beginning; it shares the memory."""
        count = 1
        for side in shape:
            count *= side
        if count == 0:
            return torch.empty(shape, dtype=dtype)
        return torch.frombuffer(self._bytes, dtype=dtype, count=count).view(shape)


def bytes_of(shape: tuple[int, ...], dtype: torch.dtype) -> int:
    """How many bytes a tensor takes."""
    count = dtype.itemsize
    for side in shape:
        count *= side
    return count
