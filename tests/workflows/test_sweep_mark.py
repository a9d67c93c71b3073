"""The mark of a sweep's folder: what was begun with something else is not taken for what the sweep says now."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from diffgen.errors import UserError
from diffgen.workflows.sweep_mark import begun_with, mark
from diffgen.workflows.sweep_plan import read_plan

_PLAN = """output = "out"
[[pairs]]
name = "one"
models = ["a", "b"]
data = "digits"
"""


def marked(folder: Path, text: str) -> dict[str, str]:
    """The marks after a sweep with a file of this text has begun."""
    file = folder / "sweep.toml"
    file.write_text(text)
    plan = read_plan(file)
    mark(plan.output, plan.cells)
    return begun_with(plan.output).digests


@pytest.mark.parametrize(
    "other",
    [
        _PLAN.replace('"b"', '"c"'),
        _PLAN.replace("digits", "digits:test"),
        f"{_PLAN}[settings.search]\npopulation = 40\n",
    ],
)
def test_a_comparison_stays_what_it_was_begun_with(tmp_path: Path, told: Callable[..., None], other: str) -> None:
    run = tmp_path / "out" / "runs" / "one-diffgan-60s-0"
    (tmp_path / "out").mkdir()
    before = marked(tmp_path, other)
    # it was not begun yet
    known = marked(tmp_path, _PLAN)
    assert list(known) == [run.name]
    assert known != before
    run.mkdir(parents=True)
    assert marked(tmp_path, _PLAN) == known
    with pytest.raises(UserError) as caught:
        marked(tmp_path, other)
    told("Sweeps", "a comparison that was begun with other settings", caught.value)
    assert begun_with(tmp_path / "out").digests == known
    run.rmdir()
    assert marked(tmp_path, other) == before


def test_no_comparison_is_made_behind_a_link(tmp_path: Path) -> None:
    """The folder of a sweep may come from a stranger."""
    (theirs := tmp_path / "theirs").mkdir()
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "runs").symlink_to(theirs)
    with pytest.raises(UserError, match="symbolic link"):
        marked(tmp_path, _PLAN)
    (tmp_path / "out" / "runs").unlink()
    (tmp_path / "out" / "runs").mkdir()
    (tmp_path / "out" / "runs" / "one-diffgan-60s-0").symlink_to(theirs)
    with pytest.raises(UserError, match="symbolic link"):
        marked(tmp_path, _PLAN)


def test_what_the_sweep_leaves_out_is_remembered(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    first = marked(tmp_path, f"seeds = [1, 2]\n{_PLAN}")
    assert marked(tmp_path, f"seeds = [2, 3]\n{_PLAN}").items() > first.items()


def test_a_run_that_no_sweep_began_is_not_gone_on_with(tmp_path: Path) -> None:
    (tmp_path / "out" / "runs" / "one-diffgan-60s-0").mkdir(parents=True)
    with pytest.raises(UserError, match="one-diffgan-60s-0 was begun with other"):
        marked(tmp_path, _PLAN)


@pytest.mark.parametrize("changed", ["a", "a.toml", "data/0/new.png", "data/0/one.png"])
def test_a_file_that_was_replaced_is_told(tmp_path: Path, changed: str) -> None:
    """Also where every comparison is done: their figures are of the file that lay there before."""
    text = _PLAN.replace("digits", "data")
    (tmp_path / "data" / "0").mkdir(parents=True)
    for name in ("a", "b", "data/0/one.png"):
        (tmp_path / name).write_text(name)
    (tmp_path / "out").mkdir()
    marked(tmp_path, text)
    run = tmp_path / "out" / "runs" / "one-diffgan-60s-0"
    run.mkdir(parents=True)
    marked(tmp_path, text)
    (tmp_path / changed).write_text("something else")
    with pytest.raises(UserError, match=r"one-diffgan-60s-0 was begun with another .*(a|data) than the sweep has now"):
        marked(tmp_path, text)
    run.rmdir()
    marked(tmp_path, text)


@pytest.mark.parametrize("old", [False, True], ids=["own files", "files of the whole sweep"])
def test_a_later_comparison_of_a_new_file_makes_no_old_one_its_own(tmp_path: Path, old: bool) -> None:
    """The first seed is done when the model is replaced; then a plan with the second seed alone is begun."""
    for name in ("a", "b"):
        (tmp_path / name).write_text(name)
    (tmp_path / "out").mkdir()
    marked(tmp_path, f"seeds = [1]\n{_PLAN}")
    if old:
        begun = begun_with(tmp_path / "out")
        (files,) = begun.files.values()
        (tmp_path / "out" / "sweep.json").write_text(json.dumps({"diffgen_sweep": begun.digests, "files": files}))
    runs = tmp_path / "out" / "runs"
    (runs / "one-diffgan-60s-1").mkdir(parents=True)
    (tmp_path / "a").write_text("something else")
    marked(tmp_path, f"seeds = [2]\n{_PLAN}")
    (runs / "one-diffgan-60s-2").mkdir()
    marked(tmp_path, f"seeds = [2]\n{_PLAN}")
    with pytest.raises(UserError, match="one-diffgan-60s-1 was begun with another"):
        marked(tmp_path, f"seeds = [1, 2]\n{_PLAN}")


def test_a_mark_of_a_version_that_knew_no_files(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    for name in ("a", "b"):
        (tmp_path / name).write_text(name)
    known = marked(tmp_path, _PLAN)
    (tmp_path / "out" / "sweep.json").write_text(json.dumps({"diffgen_sweep": known}))
    (tmp_path / "out" / "runs" / "one-diffgan-60s-0").mkdir(parents=True)
    assert marked(tmp_path, _PLAN) == known
