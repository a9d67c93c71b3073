"""A seccomp filter for a process that computes: it may call what is on a list, and nothing else.

The filter is a program of classic BPF that the kernel runs at each system call (Linux, Documentation/userspace-api/
seccomp_filter.rst; struct seccomp_data in linux/seccomp.h). What is not on the list fails with EPERM, so that a library
that only tries its luck goes on without.
"""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import struct
from pathlib import Path

# name: (number on x86_64, number on aarch64); None where there is no such call
_ALLOWED: dict[str, tuple[int | None, int | None]] = {
    # waiting and threads first: the filter is gone through from the top
    "futex": (202, 98),
    "sched_yield": (24, 124),
    "read": (0, 63),
    "write": (1, 64),
    "sendmsg": (46, 211),
    "sendto": (44, 206),
    "recvmsg": (47, 212),
    "recvfrom": (45, 207),
    "poll": (7, None),
    "ppoll": (271, 73),
    "mmap": (9, 222),
    "munmap": (11, 215),
    "mprotect": (10, 226),
    "mremap": (25, 216),
    "madvise": (28, 233),
    "brk": (12, 214),
    "mincore": (27, 232),
    "msync": (26, 227),
    "readv": (19, 65),
    "writev": (20, 66),
    "pread64": (17, 67),
    "pwrite64": (18, 68),
    "close": (3, 57),
    "lseek": (8, 62),
    "fstat": (5, 80),
    "newfstatat": (262, 79),
    "stat": (4, None),
    "lstat": (6, None),
    "statx": (332, 291),
    "statfs": (137, 43),
    "fstatfs": (138, 44),
    "access": (21, None),
    "faccessat": (269, 48),
    "faccessat2": (439, 439),
    "readlink": (89, None),
    "readlinkat": (267, 78),
    "getdents64": (217, 61),
    "getcwd": (79, 17),
    "fadvise64": (221, 223),
    "dup": (32, 23),
    "dup2": (33, None),
    "dup3": (292, 24),
    "pipe": (22, None),
    "pipe2": (293, 59),
    "eventfd2": (290, 19),
    "epoll_create1": (291, 20),
    "epoll_ctl": (233, 21),
    "epoll_wait": (232, None),
    "epoll_pwait": (281, 22),
    "select": (23, None),
    "pselect6": (270, 72),
    "sched_getaffinity": (204, 123),
    "sched_getparam": (143, 121),
    "sched_getscheduler": (145, 120),
    "sched_get_priority_max": (146, 125),
    "sched_get_priority_min": (147, 126),
    "set_robust_list": (273, 99),
    "rseq": (334, 293),
    "set_tid_address": (218, 96),
    "membarrier": (324, 283),
    "getcpu": (309, 168),
    "get_mempolicy": (239, 236),
    "gettid": (186, 178),
    "getpid": (39, 172),
    "getppid": (110, 173),
    "getuid": (102, 174),
    "geteuid": (107, 175),
    "getgid": (104, 176),
    "getegid": (108, 177),
    "exit": (60, 93),
    "exit_group": (231, 94),
    "rt_sigaction": (13, 134),
    "rt_sigprocmask": (14, 135),
    "rt_sigreturn": (15, 139),
    "sigaltstack": (131, 132),
    "restart_syscall": (219, 128),
    "nanosleep": (35, 101),
    "clock_nanosleep": (230, 115),
    "clock_gettime": (228, 113),
    "clock_getres": (229, 114),
    "gettimeofday": (96, 169),
    "time": (201, None),
    "times": (100, 153),
    "getrlimit": (97, 163),
    "getrusage": (98, 165),
    "sysinfo": (99, 179),
    "uname": (63, 160),
    "getrandom": (318, 278),
    "memfd_create": (319, 279),  # memory, not a file: TorchScript is opened from a copy there
}
_OPEN = (2, None)
_OPENAT = (257, 56)
_CLONE = (56, 220)
_CLONE3 = (435, 435)
_OPENAT2 = (437, 437)
_KILL = (62, 129)
_TGKILL = (234, 131)
_PRLIMIT64 = (302, 261)
_PRCTL = (157, 167)
_IOCTL = (16, 29)
_FCNTL = (72, 25)

# AUDIT_ARCH_X86_64, AUDIT_ARCH_AARCH64 in linux/audit.h
_ARCHITECTURES = {"x86_64": (0xC000003E, 0), "aarch64": (0xC00000B7, 1)}
_X32 = 0x40000000  # calls of the x32 ABI carry this bit; there are none in what we allow

_LOAD, _EQUAL, _AND_SET, _RETURN = 0x20, 0x15, 0x45, 0x06  # BPF_LD|W|ABS, JMP|JEQ|K, JMP|JSET|K, RET|K
_ALLOW, _ERRNO, _KILL_PROCESS = 0x7FFF0000, 0x00050000, 0x80000000
_NUMBER, _ARCHITECTURE, _ARGUMENTS = 0, 4, 16  # offsets in struct seccomp_data

_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC
_CLONE_THREAD = 0x10000
_CLONE_NEW = 0x7E020000 | 0x80  # every flag that makes a namespace
_PR_SET_NAME, _PR_GET_NAME, _PR_SET_VMA = 15, 16, 0x53564D41
_PR_SET_SECCOMP, _PR_SET_NO_NEW_PRIVS, _MODE_FILTER = 22, 38, 2
# on descriptors that the process has: whether it is a terminal, how much can be read, close-on-exec, non-blocking
_IOCTLS = (0x5401, 0x541B, 0x5450, 0x5451, 0x5421)
_FCNTLS = (0, 1, 2, 3, 4, 1030)  # F_DUPFD, F_GETFD, F_SETFD, F_GETFL, F_SETFL, F_DUPFD_CLOEXEC


def missing() -> str | None:
    """Why there can be no such filter on this machine; None if there can."""
    if platform.system() != "Linux":
        return f"{platform.system()} has no seccomp"
    if platform.machine() not in _ARCHITECTURES:
        return f"the calls of {platform.machine()} are not listed"
    actions = Path("/proc/sys/kernel/seccomp/actions_avail")
    try:
        if "errno" not in actions.read_text(encoding="ascii").split():
            return "the kernel's seccomp cannot refuse single calls"
    except OSError:
        return "the kernel has no seccomp filters"
    return None


def install() -> None:
    """Let the calling thread, and those that it starts, make no other calls than those listed. Cannot be undone.

    Raises:
        OSError: the kernel refuses.
    """
    program = _program(platform.machine(), os.getpid())
    code = ctypes.create_string_buffer(b"".join(program), 8 * len(program))

    class Fprog(ctypes.Structure):
        _fields_ = (("length", ctypes.c_ushort), ("filter", ctypes.c_void_p))

    fprog = Fprog(len(program), ctypes.addressof(code))
    libc = ctypes.CDLL(None, use_errno=True)
    for arguments in ((_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), (_PR_SET_SECCOMP, _MODE_FILTER, ctypes.byref(fprog), 0, 0)):
        if libc.prctl(*(each if not isinstance(each, int) else ctypes.c_ulong(each) for each in arguments)) != 0:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number))


def _program(machine: str, pid: int) -> list[bytes]:
    """The filter for one process."""
    architecture, column = _ARCHITECTURES[machine]
    refuse = _ERRNO | errno.EPERM
    program = [
        _instruction(_LOAD, _ARCHITECTURE),
        _instruction(_EQUAL, architecture, then=1),
        _instruction(_RETURN, _KILL_PROCESS),
        _instruction(_LOAD, _NUMBER),
        _instruction(_AND_SET, _X32, otherwise=1),
        _instruction(_RETURN, _KILL_PROCESS),
    ]
    for numbers in _ALLOWED.values():
        number = numbers[column]
        if number is not None:
            program += [_instruction(_EQUAL, number, otherwise=1), _instruction(_RETURN, _ALLOW)]

    def judged(numbers: tuple[int | None, int | None], *judgement: bytes) -> list[bytes]:
        """For one call: what is decided by its arguments."""
        number = numbers[column]
        if number is None:
            return []
        return [_instruction(_EQUAL, number, otherwise=len(judgement)), *judgement]

    def only(argument: int, values: tuple[int, ...], otherwise: int = refuse) -> list[bytes]:
        """Allow when an argument is one of some values."""
        judgement = [_argument(argument)]
        for value in values:
            judgement += [_instruction(_EQUAL, value, otherwise=1), _instruction(_RETURN, _ALLOW)]
        return [*judgement, _instruction(_RETURN, otherwise)]

    def unless(argument: int, bits: int, code: int) -> list[bytes]:
        """Allow when no bit of an argument is set."""
        return [
            _argument(argument),
            _instruction(_AND_SET, bits, otherwise=1),
            _instruction(_RETURN, _ERRNO | code),
            _instruction(_RETURN, _ALLOW),
        ]

    return [
        *program,
        # files are opened for reading alone; where, is for Landlock to say
        *judged(_OPENAT, *unless(2, _WRITING, errno.EACCES)),
        *judged(_OPEN, *unless(1, _WRITING, errno.EACCES)),
        # its arguments are behind a pointer; the C library does without it
        *judged(_OPENAT2, _instruction(_RETURN, _ERRNO | errno.ENOSYS)),
        *judged(_CLONE3, _instruction(_RETURN, _ERRNO | errno.ENOSYS)),
        # threads, no processes
        *judged(
            _CLONE,
            _argument(0),
            _instruction(_AND_SET, _CLONE_NEW, otherwise=1),
            _instruction(_RETURN, refuse),
            _instruction(_AND_SET, _CLONE_THREAD, otherwise=1),
            _instruction(_RETURN, _ALLOW),
            _instruction(_RETURN, refuse),
        ),
        # signals to itself, as abort() sends one
        *judged(_TGKILL, *only(0, (pid,))),
        *judged(_KILL, *only(0, (pid,))),
        # of itself (0) alone; limits are read, not set
        *judged(
            _PRLIMIT64,
            *(_argument(0), _instruction(_EQUAL, 0, then=1), _instruction(_RETURN, refuse)),
            *(_argument(2), _instruction(_EQUAL, 0, then=1), _instruction(_RETURN, refuse)),
            *(_argument(2, high=True), _instruction(_EQUAL, 0, then=1), _instruction(_RETURN, refuse)),
            _instruction(_RETURN, _ALLOW),
        ),
        *judged(_PRCTL, *only(0, (_PR_SET_NAME, _PR_GET_NAME, _PR_SET_VMA))),
        *judged(_IOCTL, *only(1, _IOCTLS)),
        *judged(_FCNTL, *only(1, _FCNTLS)),
        _instruction(_RETURN, refuse),
    ]


def _instruction(code: int, value: int, *, then: int = 0, otherwise: int = 0) -> bytes:
    """struct sock_filter: after a comparison, so many instructions are passed over."""
    return struct.pack("=HBBI", code, then, otherwise, value)


def _argument(number: int, *, high: bool = False) -> bytes:
    """Load one half of an argument; both architectures are little-endian."""
    return _instruction(_LOAD, _ARGUMENTS + 8 * number + (4 if high else 0))
