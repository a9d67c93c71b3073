"""What a process gives up before it opens a stranger's model: files, sockets, programs, memory without bound."""

from __future__ import annotations

import contextlib
import ctypes
import os
import platform
import socket
import stat
import struct
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from diffgen.models.isolation import seccomp

# -- Landlock: a process gives up every file that is not on its list (Linux 5.13 and later) ----------------------------
#
# The calls and structures are those of linux/landlock.h; the C library has no functions for them.

_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446  # the same on every architecture
_VERSION, _PATH_BENEATH = 1, 1
_READ_FILE, _READ_DIR = 1 << 2, 1 << 3
# Rights on files by version of the interface: 13 at first, then linking across folders, truncating, and ioctl on
# devices.
_RIGHTS = {1: 13, 2: 14, 3: 15, 4: 15, 5: 16}
_NETWORK = 0b11  # binding and connecting TCP, from version 4
_SCOPES = 0b11  # abstract unix sockets and signals to others, from version 6


def _landlock_version() -> int:
    """The version of the kernel's Landlock interface; 0 where there is none."""
    if platform.system() != "Linux":
        return 0
    try:
        return _call(_CREATE_RULESET, None, 0, _VERSION)
    except OSError:  # not built in, or not switched on
        return 0


def _restrict_files(readable: Iterable[Path]) -> None:
    """From now on the calling thread, and those that it starts, may read these files and folders and open no other.

    Args:
        readable: what does not exist is passed over.

    Raises:
        OSError: the kernel refuses.
    """
    found = _landlock_version()
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


_PR_SET_PDEATHSIG, _SIGKILL, _PR_SET_NO_NEW_PRIVS = 1, 9, 38
_CAPABILITY_VERSION_3 = 0x20080522
_MAX_FILES = 256
# How much more address space than now a model may take, of the memory that there is.
_SHARE_OF_MEMORY = 0.75
# What Python, torch and the C library read when they are used: their own files, and what the machine is like.
_SYSTEM = (
    *("/lib", "/lib64", "/usr/lib", "/usr/lib64", "/usr/local/lib", "/etc/ld.so.cache", "/etc/localtime"),
    *("/proc/cpuinfo", "/proc/meminfo", "/proc/stat", "/sys/devices/system", "/sys/fs/cgroup"),
    *("/dev/null", "/dev/zero", "/dev/urandom", "/usr/share/zoneinfo"),
)


@dataclass(frozen=True)
class Walls:
    """What this machine offers.

    Attributes:
        landlock: version of the interface, 0 for none.
        missing: why no model can be isolated here, or None.
    """

    landlock: int
    missing: str | None

    @property
    def sentence(self) -> str:
        """What an isolated model can and cannot do here."""
        if self.missing is not None:
            return f"models run in diffgen's own process: {self.missing}"
        reading = (
            f"reads its own file and the libraries alone (Landlock {self.landlock})"
            if self.landlock
            else "can read every file that you can (the kernel has no Landlock)"
        )
        return f"a model's own process writes no file, opens no socket, runs no program (seccomp); it {reading}"


def walls() -> Walls:
    """What this machine offers; changes nothing."""
    if platform.system() != "Linux":
        return Walls(0, f"{platform.system()} has neither seccomp nor Landlock")
    if not sys.executable:
        return Walls(0, "Python does not know its own program")
    return Walls(_landlock_version(), seccomp.missing())


def die_with_parent() -> None:
    """Have the kernel kill this process when the one that made it ends."""
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, ctypes.c_ulong(_SIGKILL), 0, 0, 0)


def raise_wall(readable: Iterable[Path]) -> None:
    """Give up everything but computing and reading some files. Cannot be undone.

    Args:
        readable: files of the model. The libraries and a few files about the machine are added.

    Raises:
        OSError: the kernel refuses.
        RuntimeError: something that must fail from now on does not; or other threads run, which would stay outside.
    """
    if len(os.listdir("/proc/self/task")) != 1:
        raise RuntimeError("other threads run already")
    _limit()
    _drop_capabilities()
    _no_new_privileges()
    if _landlock_version():
        own = Path(f"/proc/{os.getpid()}")
        _restrict_files([*readable, *_libraries(), *map(Path, _SYSTEM), own])
    seccomp.install()
    _try_out()


def _libraries() -> list[Path]:
    """Python's own folders and those of installed packages, and of what is imported already.

    Not simply ``sys.path``: the folder of somebody's script or checkout is on it too.
    """
    places = {Path(prefix, "lib") for prefix in (sys.base_prefix, sys.base_exec_prefix, sys.prefix)}
    places |= {Path(each) for each in sys.path if Path(each).name in ("site-packages", "dist-packages")}
    for name, module in list(sys.modules.items()):
        file = getattr(module, "__file__", None)
        if "." not in name and isinstance(file, str):
            place = Path(file)
            places.add(place.parent if place.name.startswith("__init__.") else place)
    return sorted(places)


def _limit() -> None:
    """Limits of the kernel. Not on the number of processes: that counts all of the user's, and seccomp forbids them."""
    import resource

    def limit(what: int, most: int) -> None:
        hard = resource.getrlimit(what)[1]
        most = most if hard == resource.RLIM_INFINITY else min(most, hard)
        resource.setrlimit(what, (most, most))

    limit(resource.RLIMIT_CORE, 0)
    more = int(memory() * _SHARE_OF_MEMORY)
    limit(resource.RLIMIT_FSIZE, more)  # of files in memory; others cannot be written
    limit(resource.RLIMIT_NOFILE, _MAX_FILES)
    limit(resource.RLIMIT_MEMLOCK, 0)
    limit(resource.RLIMIT_AS, _address_space() + more)
    # where memory runs out all the same, the model goes and not diffgen
    with open("/proc/self/oom_score_adj", "w", encoding="ascii") as file:
        file.write("800")


def memory() -> int:
    """Bytes of memory of this machine, or of its container (cgroup version 2)."""
    machine = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    try:
        text = Path("/sys/fs/cgroup/memory.max").read_text(encoding="ascii").strip()
    except OSError:
        return machine
    return min(machine, int(text)) if text.isdigit() else machine


def _address_space() -> int:
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
    return pages * os.sysconf("SC_PAGE_SIZE")


def _drop_capabilities() -> None:
    """root without its privileges; for everybody else nothing changes."""
    header = (ctypes.c_uint32 * 2)(_CAPABILITY_VERSION_3, 0)
    nothing = (ctypes.c_uint32 * 6)()
    if ctypes.CDLL(None, use_errno=True).capset(ctypes.byref(header), ctypes.byref(nothing)) != 0:
        raise OSError(ctypes.get_errno(), "the capabilities cannot be given up")


def _no_new_privileges() -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_NO_NEW_PRIVS, ctypes.c_ulong(1), ctypes.c_ulong(0), ctypes.c_ulong(0), ctypes.c_ulong(0)):
        raise OSError(ctypes.get_errno(), "no_new_privs cannot be set")


def _try_out() -> None:
    """The wall itself is put to the test: what must fail does."""

    def write() -> None:
        os.close(os.open("/dev/null", os.O_WRONLY))

    def connect() -> None:
        socket.socket(socket.AF_INET, socket.SOCK_STREAM).close()

    def run() -> None:
        os.execv("/bin/true", ["true"])

    for attempt in (write, connect, run):
        try:
            attempt()
        except PermissionError:
            continue
        raise RuntimeError(f"the wall does not hold: a process behind it can {attempt.__name__}")
