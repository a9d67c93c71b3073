"""Jobs are processes of their own: told apart, stopped, and known to a page that did not start them."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import threading
import time
from collections.abc import Sequence
from contextlib import ExitStack
from html import unescape
from pathlib import Path
from typing import BinaryIO

import numpy as np
import pytest

from diffgen.errors import UserError
from diffgen.ui import form
from diffgen.ui.jobs import Job, Jobs
from diffgen.ui.place import HIDDEN, Place, lines
from diffgen.ui.tab_check import Pages, _shown, check_words
from diffgen.ui.tab_live import drawn
from diffgen.ui.tab_run import Choices, wish
from diffgen.ui.tab_runs import _delete, _table
from tests.conftest import ASSETS
from tests.ui.conftest import Take, shared_of


@pytest.fixture
def here(tmp_path: Path) -> Place:
    return Place(tmp_path, (tmp_path,))


def remembered(here: Place, number: int, run: str, **about: object) -> Path:
    """The folder of a job that is over, as a page keeps it."""
    folder = here.runs / HIDDEN / "jobs" / f"{number:020d}"
    folder.mkdir(parents=True)
    said = {"verb": "compare", "run": run, "words": [], "pid": 1, **about}
    (folder / "job.json").write_text(json.dumps(said), encoding="utf-8")
    return folder


def test_one_job_a_run_and_a_stopped_one_ends(here: Place) -> None:
    jobs = Jobs(here)
    words = [str(ASSETS / "a.onnx"), str(ASSETS / "b.onnx"), "--data", "digits:test", "-o", str(here.runs / "run")]
    first = jobs.start("compare", "run", words)
    with pytest.raises(UserError, match="'diffgen compare' works on the run run"):
        jobs.start("replay", "run", [])
    until = time.monotonic() + 1200
    while not first.state():
        assert time.monotonic() < until
        time.sleep(0.05)
    first.stop()
    while first.alive:
        assert time.monotonic() < until
        time.sleep(0.05)
    assert "interrupted" in first.problem
    assert not (here.runs / "run").exists()
    assert jobs.of("other") is None
    assert jobs.of("run", "check") is None
    assert not shared_of(here, jobs).failed(), "it was stopped"


@pytest.mark.parametrize("waits", [0, 0.1, 0.3])
def test_a_stop_is_heard_however_early_it_comes(here: Place, waits: float) -> None:
    """While Python starts, an interrupt would end it without a word, or be lost: then the search went on."""
    words = [str(ASSETS / "a.onnx"), str(ASSETS / "b.onnx"), "--data", "digits:test", "-o", str(here.runs / "run")]
    job = Jobs(here).start("compare", "run", words)
    time.sleep(waits)
    assert (job.was_stopped, job.stopping) == (False, False)
    job.stop()
    assert job.stopping
    until = time.monotonic() + 1200
    while job.alive:
        assert time.monotonic() < until
        time.sleep(0.05)
    assert job.problem.startswith("interrupted")
    assert (job.was_stopped, job.stopping) == (True, False)
    assert not (here.runs / "run").exists()


def test_a_name_that_is_made_is_not_that_of_a_run_that_is_being_started(here: Place) -> None:
    """It has no folder until its jury is trained; of one that is over the name is free again."""

    place = Place(here.runs, (ASSETS,))
    shared = shared_of(place)

    def names() -> tuple[str, str]:
        choices = Choices("a.onnx\nb.onnx", "digits:test", "", "", "60s", 0, "", "")
        values = tuple(each.start for each in form.fields())
        limits = tuple(each.start for each in (*form.limits(), *form.check_fields()))
        checked = check_words(shared, ("a.onnx", "b.onnx", "digits:test", "60s", 0, "", ""), limits, "")
        return wish(shared, choices, values).name, checked[0]

    first = names()
    with ExitStack() as held:
        for number, run in enumerate(first):
            folder = remembered(here, number, run)
            fcntl.flock(held.enter_context((folder / "alive").open("wb")), fcntl.LOCK_EX)
        assert names() == tuple(f"{each}-2" for each in first)
    assert names() == first


def test_old_jobs_are_forgotten(here: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("diffgen.ui.jobs._KEPT", 0)
    remembered(here, 1, "old")
    held = remembered(here, 2, "held")
    with (held / "alive").open("wb") as alive:
        fcntl.flock(alive, fcntl.LOCK_EX)
        job = Jobs(here).start("report", "run", [str(here.runs / "none")])
        assert [each.run for each in Jobs(here).every()] == ["run", "held"]
    while job.alive:
        time.sleep(0.05)


def test_what_is_over_about_a_deleted_run_is_forgotten(here: Place) -> None:
    _, held, _ = (remembered(here, number, run) for number, run in enumerate(("gone", "gone", "kept")))
    with (held / "alive").open("wb") as alive:
        fcntl.flock(alive, fcntl.LOCK_EX)
        Jobs(here).forget("gone")
        assert [each.run for each in Jobs(here).every()] == ["kept", "gone"]
    Jobs(here).forget("gone")
    assert [each.run for each in Jobs(here).every()] == ["kept"]


def test_what_a_stranger_put_among_the_jobs_is_no_job(here: Place, tmp_path: Path) -> None:
    """Neither files behind a link are removed, nor is a pipe waited for, nor a process stopped that is none of ours."""
    (theirs := tmp_path / "theirs").mkdir()
    about = {"verb": "compare", "run": "run", "words": [], "pid": 1}
    (theirs / "job.json").write_text(json.dumps(about), encoding="utf-8")
    (theirs / "picture.png").write_bytes(b"theirs")
    jobs = here.runs / HIDDEN / "jobs"
    for number, said in enumerate((about, {**about, "pid": -1}, {**about, "words": [1]}, {**about, "verb": {}}, [])):
        (jobs / str(number)).mkdir(parents=True)
        (jobs / str(number) / "job.json").write_text(json.dumps(said), encoding="utf-8")
    os.mkfifo(jobs / "0" / "alive")
    (jobs / "0" / "folder").mkdir()
    (jobs / "0" / "state.json").write_text('{"messages": [1], "stage": {}}', encoding="utf-8")
    (jobs / "0" / "err").symlink_to(theirs / "picture.png")
    (jobs / "9").symlink_to(theirs)
    (found,) = Jobs(here).every()
    assert (found.folder.name, found.alive, found.state(), found.tail("err")) == ("0", False, {}, "")
    Jobs(here).forget("run")
    assert Jobs(here).every() == []
    assert (theirs / "picture.png").read_bytes() == b"theirs"
    shutil.rmtree(jobs)
    jobs.symlink_to(theirs)
    with pytest.raises(UserError, match="symbolic link"):
        Jobs(here).start("compare", "run", [])
    assert sorted(each.name for each in theirs.iterdir()) == ["job.json", "picture.png"]


def test_two_who_start_at_once_start_one(here: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    begun: list[Job] = []
    together = threading.Barrier(2)

    def slowly(self: Jobs, verb: str, run: str, words: Sequence[str]) -> Job:
        time.sleep(0.2)  # the other one has come by now, and waits
        folder = remembered(here, len(begun), run, verb=verb)
        held.append((folder / "alive").open("wb"))
        fcntl.flock(held[-1], fcntl.LOCK_EX)
        begun.append(Job(folder, verb, run, (), 1))
        return begun[-1]

    def click() -> None:
        together.wait()
        try:
            jobs.start("compare", "run", [])
        except UserError as error:
            refused.append(str(error))

    held: list[BinaryIO] = []
    refused: list[str] = []
    jobs = Jobs(here)
    monkeypatch.setattr(Jobs, "_started", slowly)
    threads = [threading.Thread(target=click) for _ in range(2)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert (len(begun), len(refused)) == (1, 1)
    for each in held:
        each.close()


def test_a_job_that_fails_says_why_and_its_run_stays_chosen(here: Place) -> None:
    job = Jobs(here).start("compare", "new", [str(here.runs / "none.onnx"), "b.onnx", "--data", "digits:test"])
    jobs = Jobs(here)  # as a page that was started anew sees it
    assert jobs.of("new") == job
    while job.alive:
        assert job.problem == ""
        time.sleep(0.05)
    assert "none.onnx" in job.problem
    assert job.command == f"diffgen compare {here.runs / 'none.onnx'} b.onnx --data digits:test"
    assert job.state()["ended"] is True

    shared = shared_of(here, jobs)
    assert (shared.names("new"), shared.names("other"), shared.names()) == (["new"], [], [])
    assert "none.onnx" in drawn(shared, "new", 0, 1)[0]


def test_a_start_that_failed_is_listed_with_its_reason_until_it_is_deleted(here: Place, take: Take) -> None:
    """Also while another run is chosen; one of the same name that was begun takes its place."""

    jobs = Jobs(here)
    shared = shared_of(here, jobs)
    for name in ("one", "two"):
        job = jobs.start("compare", name, [f"{name}.onnx", "b.onnx", "--data", "digits:test"])
        while job.alive:
            time.sleep(0.05)
    listed = _table(shared, lines(here), None)
    assert 'data-pick="one"' in listed
    assert job.problem in unescape(listed)
    assert "two.onnx" in job.problem
    assert job.problem in unescape(_shown(shared, "two", None, Pages()))
    take("done", here.runs / "one")
    assert list(shared.failed()) == ["two"]
    _delete(shared, "two", "two")
    assert "two" not in _table(shared, lines(here), None)


def test_a_damaged_part_of_a_run_is_told_of_in_live(here: Place, take: Take) -> None:

    run = take("done", here.runs / "run")
    (run / "verdicts.npz").write_bytes(b"PK damaged")
    shared = shared_of(here)
    assert "verdicts.npz" in drawn(shared, "run", 0, 1)[0]


@pytest.mark.slow
def test_a_warning_is_seen_without_a_click(here: Place) -> None:
    """Of wrong labels the figures of a run say nothing."""
    from sklearn.datasets import load_digits

    digits = load_digits()
    images = (digits.images[:400, None] * 15).astype(np.uint8)
    np.savez(here.runs / "rolled.npz", images=images, labels=(digits.target[:400] + 1) % 10)
    words = [str(ASSETS / "a.onnx"), str(ASSETS / "b.onnx"), "--data", str(here.runs / "rolled.npz")]
    words += ["-o", str(here.runs / "run"), "--technique", "real_data", "--budget", "200q"]
    words += ["--set", "filters.names=[]"]
    jobs = Jobs(here)
    job = jobs.start("compare", "run", words)
    while job.alive:
        time.sleep(0.05)
    assert "warning" in {each["level"] for each in job.state()["messages"]}, job.tail("err")
    shown, _, folded = drawn(shared_of(here, jobs), "run", 0, 1)[0].partition("<details")
    assert "is right on only" in shown
    assert "Real images: A and B agree on" in shown  # an answer, too
    assert "Outputs are taken for" in folded
    jobs.forget("run")  # as of a run that was started in a terminal
    shown = drawn(shared_of(here, jobs), "run", 0, 1)[0]
    assert "is right on only" in shown
    assert "<details" not in shown
