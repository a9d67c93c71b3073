"""A verdict stands for the files that it is about, and for no later check."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from diffgen.config import CheckConfig, replace
from diffgen.data import load
from diffgen.errors import UserError
from diffgen.gate.result import CheckResult
from diffgen.gate.rules import Status
from diffgen.runs.folder import RunFolder
from diffgen.runs.lock import RunLock
from diffgen.types import ImageSet
from diffgen.workflows.check import check, resume_check
from diffgen.workflows.listing import draw_report
from diffgen.workflows.verdict import verdict
from tests.recording import Recording

VERDICT = ("results.json", "junit.xml", "summary.md", "report.html")


@pytest.fixture
def folder(tmp_path: Path, model_files: dict[str, Path]) -> Path:
    """With a candidate that is the base, and data."""
    shutil.copy(model_files["a_onnx"], tmp_path / "candidate.onnx")
    save(load("digits:test"), tmp_path / "data.npz")
    return tmp_path


def save(data: ImageSet, file: Path) -> None:
    assert data.labels is not None
    np.savez(file, images=data.images, labels=data.labels)


@pytest.fixture
def done(folder: Path, model_files: dict[str, Path], quick_check: CheckConfig) -> CheckResult:
    """A check that came to its end."""
    return check(
        model_files["a"],
        folder / "candidate.onnx",
        data=folder / "data.npz",
        config=replace(quick_check, variations=0),
        output=folder / "run",
    )


def test_a_verdict_is_not_told_again_of_other_files(
    done: CheckResult, folder: Path, model_files: dict[str, Path]
) -> None:
    assert done.status is Status.PASS
    assert resume_check(done.run) == done
    moved = folder / "moved.onnx"
    (folder / "candidate.onnx").rename(moved)
    with pytest.raises(UserError, match="does not exist"):
        resume_check(done.run)
    assert resume_check(done.run, candidate=moved) == done
    shutil.copy(model_files["b"], folder / "candidate.onnx")
    with pytest.raises(UserError, match=r"candidate\.onnx is not what the check .* was made with"):
        resume_check(done.run)
    shutil.copy(moved, folder / "candidate.onnx")
    digits = load("digits:test")
    save(replace(digits, images=digits.images[::-1]), folder / "data.npz")
    with pytest.raises(UserError, match=r"data\.npz is not what the run"):
        resume_check(done.run)


def test_a_store_that_the_verdict_knows_nothing_of_is_warned_of(done: CheckResult, folder: Path) -> None:
    events = Recording()
    assert resume_check(done.run, store=folder / "store", events=events) == done
    assert any("was held against no store; start another check to hold" in each for each in events.warnings)


def test_what_a_stranger_wrote_of_a_check_is_no_bug(
    done: CheckResult, folder: Path, told: Callable[[str, str, object], None]
) -> None:
    file = folder / "run" / "manifest.json"
    manifest = json.loads(file.read_text(encoding="utf-8"))

    def refused(**changes: object) -> str:
        file.write_text(json.dumps({**manifest, **changes}), encoding="utf-8")
        with pytest.raises(UserError) as caught:
            resume_check(done.run)
        return str(caught.value)

    third = {**manifest["files"], "C": manifest["files"]["A"]}
    three = refused(files=third)
    assert "a check has two models, and its manifest names 3" in three
    told("Run folders", "a check of three models", three)
    number = refused(status="interrupted", check={**manifest["check"], "store": 5})
    assert "store: 5 is not a text" in number
    told("Run folders", "a check with a number for its store", number)


@pytest.mark.parametrize("triggers", [[], [1, 2]])
def test_a_verdict_of_other_pictures_than_there_are_is_damaged(done: CheckResult, triggers: list[int]) -> None:
    folder = RunFolder.open(done.run)
    results = folder.results()
    about = {"said": [1, 2], "names": ["1", "2"], "cell": 0, "pictures": 2, "known_pictures": 0, "new": True}
    results["check"]["behaviours"] = [{**about, "shift": 0.5, "found_by": "search", "triggers": triggers}]
    folder.file("results.json").write_text(json.dumps(results), encoding="utf-8")
    pictures = {"images": np.zeros((1, 1, 28, 28), np.uint8), "probabilities": np.full((1, 2, 10), 0.1, np.float32)}
    folder.write_arrays("check", pictures)
    for verb in (verdict, draw_report):
        with pytest.raises(UserError, match="values that do not fit together"):
            verb(done.run)


def test_reports_that_a_kill_left_out_are_drawn_with_the_verdict(done: CheckResult, folder: Path) -> None:
    run = folder / "run"
    (run / "report.html").unlink()
    (run / "junit.xml").unlink()
    # as of the check that had broken off before it was gone on with
    (run / "summary.md").write_text("ERROR", encoding="utf-8")
    os.utime(run / "summary.md", (0, 0))
    assert resume_check(done.run) == done
    assert "PASS" in (run / "summary.md").read_text(encoding="utf-8")
    assert all((run / name).is_file() for name in VERDICT)
    # what is there stays as it is
    drawn = [(run / name).stat().st_mtime_ns for name in VERDICT]
    assert resume_check(done.run) == done
    assert [(run / name).stat().st_mtime_ns for name in VERDICT] == drawn


def test_the_verdict_of_a_replaced_check_does_not_stand_for_one_that_broke_off(
    done: CheckResult, folder: Path, quick_check: CheckConfig
) -> None:
    def again(candidate: Path, *, force: bool) -> CheckResult:
        return check(
            folder / "candidate.onnx",
            candidate,
            data=folder / "data.npz",
            config=replace(quick_check, variations=0),
            output=done.run,
            force=force,
        )

    broken = folder / "broken.onnx"
    broken.write_text("no model", encoding="utf-8")
    with pytest.raises(UserError, match="is not empty"):
        again(folder / "candidate.onnx", force=False)
    with pytest.raises(UserError, match="plain text"):
        again(broken, force=False)
    with RunLock(Path(done.run)), pytest.raises(UserError, match="is in use"):
        again(broken, force=True)
    assert all((folder / "run" / name).is_file() for name in VERDICT)
    with pytest.raises(UserError, match="plain text"):
        again(broken, force=True)
    assert not any((folder / "run" / name).exists() for name in VERDICT)
    # what was searched for is still there
    assert resume_check(done.run).values == done.values
    assert all((folder / "run" / name).is_file() for name in VERDICT)


def test_force_removes_nothing_that_is_no_run(folder: Path, model_files: dict[str, Path]) -> None:
    (folder / "page").mkdir()
    (folder / "page" / "report.html").write_text("of somebody else", encoding="utf-8")
    with pytest.raises(UserError, match="holds no run"):
        check(model_files["a"], folder / "gone.onnx", data="digits:test", output=folder / "page", force=True)
    assert (folder / "page" / "report.html").is_file()
