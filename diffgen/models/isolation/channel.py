"""Messages between processes: JSON with its length in front, through a socket; descriptors go along with them.

Nothing here is a pickle. :func:`parsed` makes no difference between a friend and an enemy, and what is in a message is
for its reader to check.
"""

from __future__ import annotations

import fcntl
import json
import mmap
import os
import socket
import struct
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

MAX_BYTES = 4 << 20
_LENGTH = struct.Struct("!I")
_MAX_DESCRIPTORS = 4
_PIECE = 1 << 16


class ProtocolError(Exception):
    """What came through the socket is no message."""


class Gone(Exception):
    """The other side has closed its end."""


def send(connection: socket.socket, message: dict[str, Any], descriptors: Sequence[int] = ()) -> None:
    """Send one message. Gone if nobody is there to read it."""
    content = json.dumps(message).encode()
    try:
        head = _LENGTH.pack(len(content)) + content[:_PIECE]
        sent = socket.send_fds(connection, [head], descriptors) if descriptors else connection.send(head)
        connection.sendall((_LENGTH.pack(len(content)) + content)[sent:])
    except (BrokenPipeError, ConnectionResetError) as error:
        raise Gone from error


def receive(connection: socket.socket, wait: Callable[[], None] = lambda: None) -> dict[str, Any]:
    """The next message; descriptors that come along are refused by the kernel.

    Args:
        wait: called before each read; returns when there is something to read, or raises.

    Raises:
        Gone: the other side has closed its end.
        ProtocolError: what came is no message.
    """
    return _message(connection, _part(connection, wait), wait)


def receive_with_descriptors(connection: socket.socket) -> tuple[dict[str, Any], list[int]]:
    """A trusted sender's next message, and the descriptors with it. Gone, ProtocolError as :func:`receive`."""
    try:
        head, descriptors, _, _ = socket.recv_fds(connection, _PIECE, _MAX_DESCRIPTORS)
    except ConnectionResetError as error:
        raise Gone from error
    if not head:
        raise Gone
    for each in descriptors:
        os.set_inheritable(each, False)
    return _message(connection, head, lambda: None), descriptors


def parsed(content: bytes) -> dict[str, Any]:
    """The message in some bytes. ProtocolError if there is none."""
    try:
        message = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise ProtocolError("a message is no JSON") from error
    if not isinstance(message, dict):
        raise ProtocolError("a message is no object")
    return message


def _message(connection: socket.socket, content: bytes, wait: Callable[[], None]) -> dict[str, Any]:
    """The message that begins with ``content``; who has sent one waits for its answer, so that it ends with it too."""
    while len(content) < _LENGTH.size:
        content += _part(connection, wait)
    (length,) = _LENGTH.unpack_from(content)
    if length > MAX_BYTES:
        raise ProtocolError("a message is too long")
    parts = [content[_LENGTH.size :]]
    missing = length - len(parts[0])
    while missing > 0:
        parts.append(_part(connection, wait))
        missing -= len(parts[-1])
    if missing < 0:
        raise ProtocolError("a message is longer than it says")
    return parsed(b"".join(parts))


def _part(connection: socket.socket, wait: Callable[[], None]) -> bytes:
    wait()
    try:
        part = connection.recv(_PIECE)
    except ConnectionResetError as error:
        raise Gone from error
    if not part:
        raise Gone
    return part


# -- memory that two processes share: a file without a name, mapped into both ----------------------------------------

# so that the other side cannot make it shorter, which would kill whoever reads what is gone
_SEALS = 0x0001 | 0x0002 | 0x0004  # F_SEAL_SEAL, F_SEAL_SHRINK, F_SEAL_GROW
_F_ADD_SEALS = 1033


class SharedMemory:
    """A stretch of memory, as bytes that arrays can be laid over.

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

    def floats(self, shape: tuple[int, ...]) -> NDArray[np.float32]:
        """The first bytes as float32 of a shape; the memory is shared."""
        return np.ndarray(shape, np.float32, self._bytes)

    def part(self, start: int, size: int) -> NDArray[np.uint8]:
        """So many bytes after the beginning; the memory is shared."""
        return np.ndarray((size,), np.uint8, self._bytes, start)


class Part(NamedTuple):
    """One array of an answer on its way into shared memory: whose, its type by name, its bytes in the order of C."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    content: NDArray[np.uint8]


# what a child asks its model by: a batch float32 (N, ...), the wanted output or nothing, whether all are wanted
Ask: TypeAlias = Callable[[NDArray[np.float32], str, bool], list[Part]]
