"""Jobs are processes of their own: told apart, stopped, and known to a page that did not start them."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from diffgen.errors import UserError
from diffgen.ui.jobs import Jobs
from diffgen.ui.place import Place
from tests.ui.conftest import ASSETS, take


@pytest.fixture
def here(tmp_path: Path) -> Place:
    return Place(tmp_path, (tmp_path,))


def test_a_job_that_fails_says_why(here: Place) -> None:
    job = Jobs(here).start("replay", "gone", [str(here.runs / "gone")])
    again = Jobs(here).of("gone")  # as a page that was started anew sees it
    assert again == job
    while again.alive:
        assert again.problem == ""
        time.sleep(0.05)
    assert "is not a run folder" in again.problem
    assert again.command == f"diffgen replay {here.runs / 'gone'}"
    assert again.state()["ended"] is True


def test_one_job_a_run_and_a_stopped_one_ends(here: Place) -> None:
    jobs = Jobs(here)
    words = [str(ASSETS / "a.onnx"), str(ASSETS / "b.onnx"), "--data", "digits:test", "-o", str(here.runs / "run")]
    first = jobs.start("compare", "run", words)
    with pytest.raises(UserError, match="'diffgen compare' works on the run run"):
        jobs.start("replay", "run", [])
    until = time.monotonic() + 120
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


def test_old_jobs_are_forgotten(here: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("diffgen.ui.jobs._KEPT", 0)
    jobs = Jobs(here)
    for number in range(2):
        job = jobs.start("report", f"run{number}", [str(here.runs / "none")])
        while job.alive:
            time.sleep(0.05)
    assert [each.run for each in jobs.every()] == ["run1"]


def test_a_run_that_never_began_stays_chosen_with_its_reason(here: Place) -> None:
    pytest.importorskip("gradio", reason="pip install 'diffgen[ui]' brings it")
    from diffgen.ui.labelling import Sheets
    from diffgen.ui.seen import Seen
    from diffgen.ui.shared import Shared
    from diffgen.ui.tab_live import drawn

    shared = Shared(here, Jobs(here), Seen(here), Sheets(here))
    words = [
        str(here.runs / "none.onnx"),
        str(ASSETS / "b.onnx"),
        "--data",
        "digits:test",
        "-o",
        str(here.runs / "new"),
    ]
    job = shared.jobs.start("compare", "new", words)
    assert shared.names() == ["new"]
    while job.alive:
        time.sleep(0.05)
    assert (shared.names("new"), shared.names("other"), shared.names()) == (["new"], [], [])
    assert "none.onnx" in drawn(shared, "new", 0, 1)[0]


def test_a_damaged_part_of_a_run_is_told_of_in_live(here: Place) -> None:
    pytest.importorskip("gradio", reason="pip install 'diffgen[ui]' brings it")
    from diffgen.ui.labelling import Sheets
    from diffgen.ui.seen import Seen
    from diffgen.ui.shared import Shared
    from diffgen.ui.tab_live import drawn

    run = take("run-0.1.0-near-duplicates", here.runs / "run")
    (run / "verdicts.npz").write_bytes(b"PK damaged")
    shared = Shared(here, Jobs(here), Seen(here), Sheets(here))
    assert "verdicts.npz" in drawn(shared, "run", 0, 1)[0]
