"""Landlock: a process gives up, for good, every file that is not on its list (Linux 5.13 and later).

The calls and structures are those of linux/landlock.h; the C library has no functions for them.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import platform
import stat
import struct
from collections.abc import Iterable
from pathlib import Path

_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446  # the same on every architecture
_VERSION, _PATH_BENEATH = 1, 1
_READ_FILE, _READ_DIR = 1 << 2, 1 << 3
# Rights on files by version of the interface: 13 at first, then linking across folders, truncating, and ioctl on
# devices.
_RIGHTS = {1: 13, 2: 14, 3: 15, 4: 15, 5: 16}
_NETWORK = 0b11  # binding and connecting TCP, from version 4
_SCOPES = 0b11  # abstract unix sockets and signals to others, from version 6


def version() -> int:
    """The version of the kernel's Landlock interface; 0 where there is none."""
    if platform.system() != "Linux":
        return 0
    try:
        return _call(_CREATE_RULESET, None, 0, _VERSION)
    except OSError:  # not built in, or not switched on
        return 0


def restrict(readable: Iterable[Path]) -> None:
    """From now on the calling thread, and those that it starts, may read these files and folders and open no other.

    Args:
        readable: what does not exist is passed over.

    Raises:
        OSError: the kernel refuses.
    """
    found = version()
    handled = (1 << _RIGHTS.get(found, 16)) - 1
    attributes = struct.pack("=Q", handled)
    if found >= 4:
        attributes += struct.pack("=Q", _NETWORK)
    if found >= 6:
        attributes += struct.pack("=Q", _SCOPES)
    ruleset = _call(_CREATE_RULESET, ctypes.c_char_p(attributes), len(attributes), 0)
    try:
        for path in readable:
            with contextlib.suppress(FileNotFoundError, PermissionError, NotADirectoryError):
                _allow(ruleset, path)
        _call(_RESTRICT_SELF, ruleset, 0)
    finally:
        os.close(ruleset)


def _allow(ruleset: int, path: Path) -> None:
    place = os.open(path, os.O_PATH | os.O_CLOEXEC)
    try:
        folder = stat.S_ISDIR(os.fstat(place).st_mode)
        rule = struct.pack("=Qi", _READ_FILE | _READ_DIR if folder else _READ_FILE, place)
        _call(_ADD_RULE, ruleset, _PATH_BENEATH, ctypes.c_char_p(rule), 0)
    finally:
        os.close(place)


def _call(number: int, *arguments: object) -> int:
    libc = ctypes.CDLL(None, use_errno=True)
    libc.syscall.restype = ctypes.c_long
    converted = [ctypes.c_long(each) if isinstance(each, int) else each for each in arguments]
    result = int(libc.syscall(ctypes.c_long(number), *converted))
    if result < 0:
        error = ctypes.get_errno()
        raise OSError(error, os.strerror(error))
    return result
