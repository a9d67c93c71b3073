"""diffgen.runs.outputs: nothing that diffgen did not make is replaced or removed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from diffgen.errors import UserError
from diffgen.runs import outputs
from diffgen.runs.outputs import MARKER, filled, output_file, output_folder, resolved_output, write_new


def snapshot(path: Path) -> dict[str, bytes | None]:
    return {str(each.relative_to(path)): each.read_bytes() if each.is_file() else None for each in path.rglob("*")}


def make(path: Path, content: str = "new", *, force: bool = False) -> None:
    with filled(output_folder(path, kind="export", force=force)) as folder:
        (folder / "deep").mkdir()
        (folder / "deep" / "file").write_text(content)


# -- folders ---------------------------------------------------------------------------------------------------------


def test_a_folder_is_made_and_replaced(tmp_path: Path) -> None:
    make(tmp_path / "out", "old")
    with pytest.raises(UserError, match="not empty"):
        make(tmp_path / "out")
    make(tmp_path / "out", force=True)
    assert (tmp_path / "out" / "deep" / "file").read_text() == "new"
    assert [each.name for each in tmp_path.iterdir()] == ["out"]
    assert set(snapshot(tmp_path / "out")) == {"deep", "deep/file", MARKER}


def test_a_new_file_replaces_nothing_and_follows_no_link(tmp_path: Path) -> None:
    write_new(tmp_path / "file", b"first")
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere")
    for name in ("file", "link"):
        with pytest.raises(FileExistsError):
            write_new(tmp_path / name, b"second")
    assert (tmp_path / "file").read_bytes() == b"first"
    assert sorted(each.name for each in tmp_path.iterdir()) == ["file", "link"]


@pytest.mark.parametrize("force", [False, True])
@pytest.mark.parametrize("place", ["new/..", "new/deep/../..", "full", "mine/../full", "link/.."])
def test_what_is_there_stays(tmp_path: Path, place: str, force: bool) -> None:
    """``new/..`` does not exist when it is looked for, and is the folder above once ``new`` is made."""
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "mine").write_text("mine")
    (tmp_path / "mine").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "full")
    before = snapshot(tmp_path)
    with pytest.raises(UserError):
        make(tmp_path / place, force=force)
    assert snapshot(tmp_path) == before


def test_two_points_behind_a_new_folder_are_resolved_first(tmp_path: Path) -> None:
    make(tmp_path / "new" / ".." / "out")
    assert sorted(each.name for each in tmp_path.iterdir()) == ["out"]
    assert resolved_output(tmp_path / "new" / "..") == tmp_path


def test_an_empty_folder_will_do(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    make(tmp_path / "out")
    assert (tmp_path / "out" / "deep" / "file").read_text() == "new"


@pytest.mark.parametrize("where", ["", "deep"])
@pytest.mark.parametrize("kind", ["file", "folder", "link"])
def test_a_folder_with_something_else_in_it_is_not_replaced(tmp_path: Path, where: str, kind: str) -> None:
    make(tmp_path / "out", "old")
    mine = tmp_path / "out" / where / "mine"
    if kind == "file":
        mine.write_text("mine")
    elif kind == "folder":
        mine.mkdir()
    else:
        mine.symlink_to(tmp_path)
    before = snapshot(tmp_path)
    with pytest.raises(UserError, match=r"also holds .*mine"):
        make(tmp_path / "out", force=True)
    assert snapshot(tmp_path) == before


@pytest.mark.parametrize(
    "mark", [None, "", "{", "[]", "[" * 100_000, '{"kind": "label sheet", "identity": "a", "files": ["deep/file"]}']
)
def test_a_folder_without_the_mark_of_its_kind_is_not_replaced(tmp_path: Path, mark: str | None) -> None:
    make(tmp_path / "out", "old")
    (tmp_path / "out" / MARKER).unlink()
    if mark is not None:
        (tmp_path / "out" / MARKER).write_text(mark)
    before = snapshot(tmp_path)
    with pytest.raises(UserError, match="mark"):
        make(tmp_path / "out", force=True)
    assert snapshot(tmp_path) == before


def test_a_mark_removes_nothing_outside_of_its_folder(tmp_path: Path) -> None:
    """It may come from a stranger, in an archive."""
    (tmp_path / "mine").write_text("mine")
    make(tmp_path / "out", "old")
    about = json.loads((tmp_path / "out" / MARKER).read_text())
    about["files"] += ["../mine", "/etc/passwd", str(tmp_path / "mine"), 5]
    (tmp_path / "out" / MARKER).write_text(json.dumps(about))
    make(tmp_path / "out", force=True)
    assert (tmp_path / "mine").read_text() == "mine"


@pytest.mark.parametrize("force", [False, True])
@pytest.mark.parametrize("what", ["folder", "file", "link", "pipe", "export"])
def test_what_appears_meanwhile_stays(tmp_path: Path, what: str, force: bool) -> None:
    out = tmp_path / "out"

    def appear() -> None:
        if what == "folder":
            out.mkdir()
            (out / "mine").write_text("mine")
        elif what == "file":
            out.write_text("mine")
        elif what == "link":
            out.symlink_to(tmp_path / "elsewhere")
        elif what == "pipe":
            os.mkfifo(out)
        else:
            make(out, "another's")

    after: dict[str, bytes | None] = {}

    def run() -> None:
        with filled(output_folder(out, kind="export", force=force)) as folder:
            (folder / "file").write_text("new")
            appear()
            after.update({name: each for name, each in snapshot(tmp_path).items() if ".unfinished" not in name})

    with pytest.raises(UserError, match="meanwhile"):
        run()
    assert snapshot(tmp_path) == after


@pytest.mark.parametrize("then", ["replaced", "added to", "removed"])
def test_what_is_replaced_must_still_be_what_was_looked_at(tmp_path: Path, then: str) -> None:
    """Of two that replace one export at the same time, the second does not remove what the first has made."""
    out = tmp_path / "out"
    make(out, "old")
    with pytest.raises(UserError, match="meanwhile"), filled(output_folder(out, kind="export", force=True)) as folder:
        (folder / "file").write_text("second")
        if then == "replaced":
            make(out, "first", force=True)
        elif then == "added to":
            (out / "mine").write_text("mine")
        else:
            os.rename(out, tmp_path / "away")
    if then == "replaced":
        assert (out / "deep" / "file").read_text() == "first"
    elif then == "added to":
        assert (out / "mine").read_text() == "mine"
        assert (out / "deep" / "file").read_text() == "old"
    assert len(list(tmp_path.iterdir())) == 1


def test_one_that_breaks_off_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt), filled(output_folder(tmp_path / "a" / "out", kind="export")) as folder:
        (folder / "file").write_text("half")
        raise KeyboardInterrupt
    assert snapshot(tmp_path) == {"a": None}


_FILLS = """
import sys, time
from pathlib import Path
from diffgen.runs.outputs import filled, output_folder
with filled(output_folder(Path(sys.argv[1]), kind="export")) as folder:
    (folder / "deep").mkdir()
    (folder / "deep" / "file").write_text("half")
    print("half", flush=True)
    time.sleep(300)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="a folder cannot be locked there")
def test_what_a_killed_process_left_is_removed_by_the_next_and_what_another_fills_is_not(
    tmp_path: Path, repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outputs, "_SECONDS_TO_HOLD", -1.0)
    out = tmp_path / "out"
    with subprocess.Popen(
        [sys.executable, "-c", _FILLS, str(out)],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(repository)},
    ) as other:
        assert other.stdout is not None and other.stdout.readline() == "half\n"
        (theirs,) = tmp_path.iterdir()
        with pytest.raises(KeyboardInterrupt), filled(output_folder(out, kind="export")):
            raise KeyboardInterrupt
        assert (theirs / "deep" / "file").read_text() == "half"
        other.kill()
    make(out, "whole")
    assert list(tmp_path.iterdir()) == [out]


# -- files -----------------------------------------------------------------------------------------------------------


def pipe(path: Path) -> None:
    os.mkfifo(path)


def to_a_device(path: Path) -> None:
    path.symlink_to("/dev/null")


def to_nothing(path: Path) -> None:
    path.symlink_to(path.parent / "gone")


@pytest.mark.parametrize("force", [False, True])
@pytest.mark.parametrize("place", [Path.mkdir, pipe, to_a_device, to_nothing])
def test_what_is_no_file_is_never_replaced(tmp_path: Path, place: Callable[[Path], None], force: bool) -> None:
    place(tmp_path / "out")
    with pytest.raises(UserError, match="name"):
        output_file(tmp_path / "out", force=force)


@pytest.mark.parametrize("path", ["/dev/null", "/", "", "a\0b", "missing/file"])
def test_places_for_no_file(path: str) -> None:
    with pytest.raises(UserError):
        output_file(Path(path), force=True)


def test_a_file_is_replaced_with_force_only_and_where_its_link_leads(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    (tmp_path / "link").symlink_to(tmp_path / "file")
    assert output_file(tmp_path / "new", force=False) == tmp_path / "new"
    for name in ("file", "link", "new/../file"):
        with pytest.raises(UserError, match="--force"):
            output_file(tmp_path / name, force=False)
        assert output_file(tmp_path / name, force=True) == tmp_path / "file"
