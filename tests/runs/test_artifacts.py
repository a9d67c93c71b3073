"""What is made once and kept: damaged files are made anew, and two processes make one between them."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
from filelock import FileLock

from diffgen.errors import Stopped, UserError
from diffgen.events import Event, Progress, StopToken
from diffgen.runs.artifacts import Artifact, read_tensors, unreadable, write_tensors
from tests.recording import Recording

SILENT = Progress()


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DIFFGEN_CACHE", str(tmp_path / "cache"))


class Worker:
    """Keeps texts, and counts how often it made and loaded one."""

    def __init__(self) -> None:
        self.made = self.loaded = 0

    def load(self, path: Path) -> str:
        self.loaded += 1
        text = path.read_text()
        if text != "whole":
            raise unreadable("The text", path, "it is not whole")
        return text

    def make(self, path: Path) -> str:
        self.made += 1
        path.write_text("whole")
        return "made"


def test_it_is_made_once_and_loaded_from_then_on() -> None:
    artifact, worker = Artifact("cells", {"data": "x", "n": 1}), Worker()
    assert [artifact.obtain(worker.load, worker.make, SILENT) for _ in range(3)] == ["made", "whole", "whole"]
    assert (worker.made, worker.loaded) == (1, 2)
    other = Artifact("cells", {"data": "x", "n": 2})
    assert other.path != artifact.path == Artifact("cells", {"n": 1, "data": "x"}).path
    assert artifact.obtain(worker.load, worker.make, SILENT, anew=True) == "made"


def test_a_damaged_one_is_said_and_made_anew() -> None:
    artifact, worker, told = Artifact("cells", {"data": "x"}), Worker(), Recording()
    artifact.path.write_text("half")
    assert artifact.obtain(worker.load, worker.make, told.progress) == "made"
    assert any("cannot be read (it is not whole); delete the file" in line for line in told.warnings)
    assert artifact.obtain(worker.load, worker.make, SILENT) == "whole"


def test_one_that_cannot_be_made_leaves_no_lock_behind() -> None:
    artifact, worker = Artifact("cells", {"data": "x"}), Worker()

    def fail(path: Path) -> str:
        raise RuntimeError("no")

    with pytest.raises(RuntimeError):
        artifact.obtain(worker.load, fail, SILENT)
    assert artifact.obtain(worker.load, worker.make, SILENT) == "made"


def test_waiting_for_another_ends_when_the_work_is_stopped() -> None:
    artifact, worker, stop = Artifact("gan", {"data": "x"}), Worker(), StopToken()

    def stopped_by(event: Event) -> None:
        assert "Another process is making" in str(event)
        stop.stop()

    held = FileLock(artifact.path.with_suffix(".lock"))
    with held, pytest.raises(Stopped, match="before its end"):
        artifact.obtain(worker.load, worker.make, Progress(stopped_by, stop))
    assert worker.made == 0


SCRIPT = """
import sys, time
from pathlib import Path
from diffgen.data import load
from diffgen.events import Message, Progress
from diffgen.features import cells
from diffgen.features import encoder

assert hasattr(encoder, "_STEPS_GREY")
encoder._STEPS_GREY = 30
trained = encoder.train

def noted(*arguments, **settings):
    print("trained", flush=True)
    while not Path(sys.argv[3]).exists():  # the other one waits by then
        time.sleep(0.005)
    return trained(*arguments, **settings)

def listen(event):
    print(event, flush=True)
    if "Another process is making" in str(event):
        Path(sys.argv[3]).touch()

cells.train = noted
Path(sys.argv[1]).touch()
while not Path(sys.argv[2]).exists():
    time.sleep(0.005)
digits = load("digits:test")
found = cells.prepare(digits, progress=Progress(listen))
print("centroids", float(found.centroids.sum()), flush=True)
"""


def test_two_processes_on_one_data_set_train_once(repository: Path, tmp_path: Path) -> None:
    ready = [tmp_path / "first", tmp_path / "second"]
    environment = {**os.environ, "PYTHONPATH": str(repository)}
    both = []
    for mine, others in (ready, ready[::-1]):
        command = [sys.executable, "-c", SCRIPT, str(mine), str(others), str(tmp_path / "waits")]
        both.append(subprocess.Popen(command, text=True, env=environment, cwd=repository, stdout=subprocess.PIPE))
    outputs = [process.communicate(timeout=1200)[0] for process in both]
    assert [process.returncode for process in both] == [0, 0]
    said = [output.splitlines() for output in outputs]
    assert sum("trained" in lines for lines in said) == 1
    # who waited says so, and has what the other one made
    assert sum("Another process is making" in output for output in outputs) == 1
    assert said[0][-1] == said[1][-1]


def test_a_killed_maker_leaves_its_place_to_the_next(repository: Path, tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": str(repository)}
    code = (
        "import sys, time; from pathlib import Path; from diffgen.events import Progress\n"
        "from diffgen.runs.artifacts import Artifact\n"
        "def make(path):\n    print('making', flush=True); time.sleep(60)\n"
        "Artifact('cells', {'data': 'x'}).obtain(None, make, Progress())\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", code], text=True, env=environment, cwd=repository, stdout=subprocess.PIPE
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "making\n"
    process.kill()
    process.communicate()
    worker, started = Worker(), time.monotonic()
    assert Artifact("cells", {"data": "x"}).obtain(worker.load, worker.make, SILENT) == "made"
    assert time.monotonic() - started < 5


def test_tensors_and_their_header(tmp_path: Path) -> None:
    path = tmp_path / "a.safetensors"
    tensors = {"a": torch.arange(6.0).reshape(2, 3).T, "b": torch.ones(2, requires_grad=True)}
    write_tensors(path, tensors, {"name": "x", "numbers": [1, 2]})
    header, found = read_tensors(path)
    assert header == {"name": "x", "numbers": [1, 2]}
    assert {name: value.tolist() for name, value in found.items()} == {
        name: value.tolist() for name, value in tensors.items()
    }
    assert read_tensors(path, weights=False) == (header, {})
    write_tensors(path, tensors)
    assert read_tensors(path)[0] == {}


@pytest.mark.parametrize("content", [b"", b"no", b"\xff" * 40])
def test_what_holds_no_tensors(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "a.safetensors"
    path.write_bytes(content)
    with pytest.raises(ValueError):
        read_tensors(path)
    with pytest.raises(OSError):
        read_tensors(tmp_path / "missing")


def test_the_sentence_has_one_line() -> None:
    error = unreadable("The encoder", Path("a b"), "first\nsecond")
    assert isinstance(error, UserError)
    assert str(error) == "The encoder a b cannot be read (first); delete the file and it is made anew."
