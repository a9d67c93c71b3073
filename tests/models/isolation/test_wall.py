"""The wall itself: what a process behind it can no longer do, tried out by one."""

from __future__ import annotations

import ctypes
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from diffgen.models.isolation import seccomp
from diffgen.models.isolation.starting import short_environment
from diffgen.models.isolation.wall import walls

# Each attempt is one line of Python; its result, or the error that it ended with, is printed as JSON.
ATTEMPTS = {
    "write a new file": 'open(f"{folder}/new", "w").write("x")',
    "write over a file": 'open(secret, "r+").write("x")',
    "append to a file": 'open(secret, "a").write("x")',
    "cut a file off": "os.truncate(secret, 0)",
    "cut a file off on opening": "os.open(secret, os.O_RDONLY | os.O_TRUNC)",
    "make a file without a name": "os.open(folder, os.O_TMPFILE | os.O_RDWR)",
    "remove a file": "os.remove(secret)",
    "rename a file": 'os.rename(secret, f"{folder}/other")',
    "link to a file": 'os.link(secret, f"{folder}/other")',
    "make a symbolic link": 'os.symlink(secret, f"{folder}/other")',
    "make a folder": 'os.mkdir(f"{folder}/sub")',
    "make a pipe": 'os.mkfifo(f"{folder}/pipe")',
    "change the mode of a file": "os.chmod(secret, 0o777)",
    "change the owner of a file": "os.chown(secret, os.getuid(), os.getgid())",
    "change the times of a file": "os.utime(secret)",
    "set an attribute of a file": 'os.setxattr(secret, "user.x", b"x")',
    "read a file that is not its own": "open(secret).read()",
    "list a folder": "os.listdir(folder)",
    "read the environment of its parent": 'open(f"/proc/{os.getppid()}/environ").read()',
    "open a TCP socket": "socket.socket(socket.AF_INET, socket.SOCK_STREAM)",
    "open a UDP socket": "socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)",
    "open a unix socket": "socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)",
    "make a pair of sockets": "socket.socketpair()",
    "run a program": 'os.execv("/bin/sh", ["sh", "-c", "true"])',
    "run a program beside it": 'subprocess.run(["/bin/true"])',
    "run a program by the shell": 'os.posix_spawn("/bin/sh", ["sh", "-c", "true"], {})',
    "fork": "os.fork()",
    "send its parent a signal": "os.kill(os.getppid(), 0)",
    "send everybody a signal": "os.kill(-1, 0)",
    "trace its parent": "libc.ptrace(16, os.getppid(), 0, 0) and fail()",
    "make a namespace": "libc.unshare(0x10000000) and fail()",
    "ask for io_uring": "libc.syscall(425, 8, ctypes.create_string_buffer(128)) < 0 and fail()",
    "raise a limit": "resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))",
    "open a terminal": 'os.open("/dev/tty", os.O_RDONLY)',
    "write to a device": 'os.open("/dev/null", os.O_WRONLY)',
    "take more memory than there is": "bytearray(1 << 46)",
}
POSSIBLE = {
    "read its own file": "open(own).read()",
    "start a thread": "thread()",
    "import from the library": "__import__('colorsys').__name__",
    "write a file in memory": 'os.write(os.memfd_create("x"), b"12")',
    "take some memory": "len(bytearray(1 << 20))",
    "ask who runs it": "__import__('getpass').getuser()",
}
PROGRAM = """
import ctypes, json, os, resource, socket, subprocess, sys, threading
from pathlib import Path
from diffgen.models.isolation.wall import raise_wall
own, secret, folder, attempts = sys.argv[1], sys.argv[2], sys.argv[3], json.loads(sys.argv[4])
libc = ctypes.CDLL(None, use_errno=True)
def fail():
    raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
def thread():
    each = threading.Thread(target=int)
    each.start()
    each.join()
    return "ran"
raise_wall([Path(own)])
results = {}
for name, line in attempts.items():
    try:
        results[name] = ["done", repr(eval(line))]
    except BaseException as error:
        results[name] = ["failed", type(error).__name__]
print(json.dumps(results))
"""


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    """What each attempt came to, in one process behind the wall."""
    folder = tmp_path_factory.mktemp("wall")
    own, secret = folder / "own", folder / ".ssh" / "id"
    secret.parent.mkdir()
    own.write_text("mine")
    secret.write_text("a secret")
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, own, secret, folder, json.dumps(ATTEMPTS | POSSIBLE)],
        capture_output=True,
        text=True,
        check=False,
        env={**short_environment(), "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert done.returncode == 0, done.stderr
    assert secret.read_text() == "a secret"
    assert sorted(each.name for each in folder.iterdir()) == [".ssh", "own"]
    return json.loads(done.stdout)


def test_whatever_is_no_computing_fails(results: dict[str, list[str]]) -> None:
    reading = {"read a file that is not its own", "list a folder", "read the environment of its parent"}
    expected = {name for name in ATTEMPTS if walls().landlock or name not in reading}
    assert {name for name in expected if results[name][0] == "done"} == set()
    memory = "take more memory than there is"
    assert results[memory] == ["failed", "MemoryError"]
    # refused, and not failed for another reason
    refusals = {name: results[name][1] for name in expected - {memory}}
    assert {
        name for name, error in refusals.items() if error not in ("PermissionError", "OSError", "ValueError")
    } == set()


def test_computing_goes_on(results: dict[str, list[str]]) -> None:
    assert {name: results[name] for name in POSSIBLE} == {
        "read its own file": ["done", "'mine'"],
        "start a thread": ["done", "'ran'"],
        "import from the library": ["done", "'colorsys'"],
        "write a file in memory": ["done", "2"],
        "take some memory": ["done", str(1 << 20)],
        "ask who runs it": ["done", "'nobody'"],
    }


def test_the_numbers_of_the_calls_are_those_of_libseccomp() -> None:
    try:
        library = ctypes.CDLL("libseccomp.so.2")
    except OSError:
        pytest.skip("libseccomp is not there to compare with")
    special = {
        name.strip("_").lower(): numbers
        for name, numbers in vars(seccomp).items()
        if isinstance(numbers, tuple) and len(numbers) == 2 and name not in ("_IOCTLS", "_FCNTLS")
    }
    listed = seccomp._ALLOWED | special
    assert {"open", "clone3", "prlimit64"} <= set(listed)
    for column, architecture in enumerate((0xC000003E, 0xC00000B7)):
        for name, numbers in listed.items():
            found = library.seccomp_syscall_resolve_name_arch(ctypes.c_uint32(architecture), name.encode())
            assert numbers[column] == (found if found >= 0 else None), name


def test_a_process_with_threads_is_not_walled_in(tmp_path: Path) -> None:
    program = (
        "import threading, time\n"
        "from diffgen.models.isolation.wall import raise_wall\n"
        "threading.Thread(target=time.sleep, args=(5,), daemon=True).start()\n"
        "raise_wall([])\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        check=False,
        env={**short_environment(), "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert done.returncode == 1
    assert "other threads run already" in done.stderr
