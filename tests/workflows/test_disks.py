"""What the disk may do to a run, and kill -9: nothing that was found is lost, and the resumed run ends as any other."""

from __future__ import annotations

import errno
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from diffgen.comparison.stages import CompareResult
from diffgen.config import Budget, CompareConfig, replace
from diffgen.errors import RunError, UserError
from diffgen.runs import files
from diffgen.runs.lock import LOCK_NAME
from diffgen.workflows.compare import compare
from diffgen.workflows.resume import resume
from tests.workflows.breaking import assert_same, columns

pytestmark = pytest.mark.usefixtures("checkpoint_after_every_generation")


class Killed(BaseException):
    """Stands for the end of the process."""


class Disk:
    """Counts what makes a written file last (fsync and rename), and fails at one of these steps."""

    def __init__(self, patch: pytest.MonkeyPatch, *, fails_at: int | None, error: BaseException, lasting: bool) -> None:
        self.steps: list[str] = []
        self._fails_at = fails_at
        self._error = error
        self._lasting = lasting
        for name in ("replace", "fsync"):
            patch.setattr(files.os, name, self._wrapped(getattr(os, name)))

    def _wrapped(self, real: Callable[..., Any]) -> Callable[..., Any]:
        def step(*arguments: Any) -> Any:
            self.steps.append(f"{real.__name__} {arguments[-1]}")
            number = len(self.steps)
            if self._fails_at is not None and (number == self._fails_at or (self._lasting and number > self._fails_at)):
                raise self._error
            return real(*arguments)

        return step


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize(
    ("error", "lasting"),
    [
        (OSError(errno.ENOSPC, "No space left on device"), True),
        (OSError(errno.ENOSPC, "No space left on device"), False),
        (Killed(), True),
    ],
    ids=["full from then on", "full for a moment", "killed"],
)
def test_every_single_step_of_writing_fails(
    error: BaseException,
    lasting: bool,
    start: Callable[..., CompareResult],
    small_config: CompareConfig,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Of a whole run: the files of the folder, parts, checkpoints, verdicts, report; of the pictures the first few."""
    config = replace(small_config, budget=Budget(queries=150))
    shutil.rmtree(start(config=config).run)  # networks that lie in the cache from now on are not written again
    with monkeypatch.context() as patch:
        disk = Disk(patch, fails_at=None, error=error, lasting=lasting)
        whole = shutil.move(start(config=config).run, tmp_path / "whole")
    pictures = [number for number, step in enumerate(disk.steps, start=1) if step.endswith(".png")]
    assert len(pictures) >= 2 and len(disk.steps) - len(pictures) > 40
    for number in sorted(set(range(1, len(disk.steps) + 1)) - set(pictures[2:])):
        with monkeypatch.context() as patch:
            failing = Disk(patch, fails_at=number, error=error, lasting=lasting)
            with pytest.raises(RunError if isinstance(error, OSError) else Killed):
                start(config=config, force=True)
        assert len(failing.steps) >= number, number
        where = f"step {number} of {len(disk.steps)}: {disk.steps[number - 1]}"
        try:
            result = resume(tmp_path / "run")
        except UserError as refusal:
            # only before there is anything to go on with
            assert "--force" in str(refusal) or "not a run folder" in str(refusal), where
            assert number < 7, where
            result = start(config=config, force=True)
        assert result.queries == 150, where
        assert_same(result.run, whole)
        shutil.rmtree(result.run)


_KILLED_AT = """
import os, signal, sys
from diffgen.comparison import checkpoints, stages as workflow
from diffgen.cli import main
checkpoints.SECONDS, checkpoints.SHARE = 0.0, 1e9
stage, count = sys.argv[1], int(sys.argv[2])
seen = 0
def fatal(*arguments, **settings):
    global seen
    seen += 1
    if seen == count:
        os.kill(os.getpid(), signal.SIGKILL)
    return real(*arguments, **settings)
if stage == "rename":
    real, os.replace = os.replace, fatal
else:
    real, workflow.judge_triggers = workflow.judge_triggers, fatal
sys.exit(main(sys.argv[3:]))
"""


@pytest.mark.slow
@pytest.mark.parametrize(("stage", "count"), [("rename", 18), ("judge", 1)])
def test_kill_9(
    stage: str, count: int, model_files: dict[str, Path], tmp_path: Path, repository: Path, finished: CompareResult
) -> None:
    """A real one; resumed by the command line of another process."""
    config = Path(finished.run) / "config.toml"
    run = tmp_path / "run"
    words = ["compare", model_files["a"], model_files["b"], "--data", "digits:test", "--config", config, "-o", run]
    environment = {**os.environ, "PYTHONPATH": str(repository)}
    done = subprocess.run([sys.executable, "-c", _KILLED_AT, stage, str(count), *map(str, words)], env=environment)
    assert done.returncode == -signal.SIGKILL
    assert (run / LOCK_NAME).is_file()
    done = subprocess.run(
        [sys.executable, "-m", "diffgen", "compare", "--resume", str(run)], env=environment, capture_output=True
    )
    assert done.returncode == 0, done.stderr
    assert_same(run, finished.run)


@pytest.fixture
def small_disk(tmp_path: Path) -> Any:
    """A file system of 256 KiB, where such may be mounted."""
    disk = tmp_path / "disk"
    disk.mkdir()
    done = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", str(disk)], capture_output=True)
    if done.returncode != 0:
        pytest.skip("mounting a small file system is not permitted here")
    yield disk
    subprocess.run(["umount", str(disk)], check=True)


def test_a_disk_that_is_really_full(
    small_disk: Path,
    model_files: dict[str, Path],
    small_config: CompareConfig,
    finished: CompareResult,
    tmp_path: Path,
    told: Callable[..., None],
) -> None:
    run = small_disk / "run"
    with pytest.raises(RunError, match="No space left") as caught:
        compare(model_files["a"], model_files["b"], data="digits:test", config=small_config, output=run)
    told("Folders and disks", "a disk of 256 KiB that fills up in mid-run", caught.value)
    assert not list(run.rglob("*.tmp"))
    moved = Path(shutil.copytree(run, tmp_path / "larger-disk"))
    assert len(columns(moved)["images"]) > 0
    assert_same(resume(moved).run, finished.run)
