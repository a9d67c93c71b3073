"""diffgen.runs.lock"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from diffgen.errors import UserError
from diffgen.runs import lock
from diffgen.runs.lock import LOCK_NAME, RunLock, check_free

_HOLDER = """
import sys, time
from pathlib import Path
from diffgen.runs.lock import RunLock
held = RunLock(Path(sys.argv[1]))
held.acquire()
print("held", flush=True)
time.sleep(300)
"""


def hold(folder: Path, repository: Path) -> subprocess.Popen[str]:
    process = subprocess.Popen(
        [sys.executable, "-c", _HOLDER, str(folder)],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(repository)},
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "held\n"
    return process


def test_one_at_a_time(tmp_path: Path, repository: Path) -> None:
    other = hold(tmp_path / "run", repository)
    try:
        for attempt in (RunLock(tmp_path / "run").acquire, lambda: check_free(tmp_path / "run")):
            with pytest.raises(UserError, match=f"in use by process {other.pid}") as caught:
                attempt()
            assert str(tmp_path / "run" / LOCK_NAME) in str(caught.value)
    finally:
        other.send_signal(signal.SIGKILL)
        other.communicate()
    # the file of the killed process is in nobody's way
    assert (tmp_path / "run" / LOCK_NAME).is_file()
    with RunLock(tmp_path / "run"):
        assert json.loads((tmp_path / "run" / LOCK_NAME).read_text())["pid"] == os.getpid()
    assert list((tmp_path / "run").iterdir()) == []


def test_checking_makes_nothing(tmp_path: Path) -> None:
    check_free(tmp_path / "missing")
    check_free(tmp_path)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("content", ["", "{", "[]", '{"pid": "x"}', '{"pid": 1}', "\x00\xff"])
def test_a_file_that_says_nothing(tmp_path: Path, content: str) -> None:
    (tmp_path / LOCK_NAME).write_text(content)
    with RunLock(tmp_path), pytest.raises(UserError, match="in use by process"):
        RunLock(tmp_path).acquire()
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    with pytest.raises(UserError, match="name another"):
        RunLock(tmp_path / "file" / "run").acquire()


@pytest.mark.skipif(sys.platform == "win32", reason="there is no limit on the size of files")
def test_a_disk_that_takes_nothing_more(tmp_path: Path) -> None:
    """A buffer that is written once more when the file is closed would hide the sentence behind a traceback."""
    import resource

    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, before[1]))
    try:
        with pytest.raises(UserError, match=r"cannot be written .*; name another"):
            RunLock(tmp_path).acquire()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert list(tmp_path.iterdir()) == []
    with RunLock(tmp_path):
        pass


def test_where_the_system_has_no_locks_the_number_of_the_process_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lock.sys, "platform", "win32")
    host = lock.socket.gethostname()
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    for pid, where, free in (
        (gone.pid, host, True),
        (os.getppid(), host, False),
        (os.getpid(), host, True),
        (gone.pid, "elsewhere", False),
    ):
        (tmp_path / LOCK_NAME).write_text(json.dumps({"pid": pid, "host": where}))
        if free:
            with RunLock(tmp_path):
                pass
        else:
            with pytest.raises(UserError, match=f"process {pid} on {where}"):
                RunLock(tmp_path).acquire()
