"""A run folder from a stranger: nothing outside of it is read, written or removed, whatever lies in it."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from diffgen.errors import UserError
from diffgen.runs.creation import check_output
from diffgen.runs.folder import RunFolder
from diffgen.runs.lock import RunLock, check_free
from diffgen.workflows.browse import browse
from diffgen.workflows.export import export
from diffgen.workflows.listing import draw_report
from diffgen.workflows.replay import replay
from diffgen.workflows.resume import resume
from diffgen.workflows.shrink import shrink
from tests.conftest import ASSETS

MODELS = ASSETS / "a.onnx", ASSETS / "b.onnx"

pytestmark = pytest.mark.skipif(os.name != "posix", reason="Windows has neither such links nor pipes")

VERBS: dict[str, Callable[[Path], object]] = {
    "report": draw_report,
    "replay": lambda run: replay(run, *MODELS),
    "replay --images": lambda run: replay(run, *MODELS, images_only=True),
    "export": lambda run: export(run, run.parent / "exported"),
    "shrink": shrink,
    "resume": resume,
    "tidy and rewind": lambda run: (RunFolder.open(run).tidy(), RunFolder.open(run).rewind(0)),
}


@pytest.fixture
def stranger(tmp_path: Path, done_run: Path) -> Path:
    """A run beside a folder of the user's own."""
    (tmp_path / "mine" / "folder").mkdir(parents=True)
    (tmp_path / "mine" / "file").write_text("mine")
    (tmp_path / "mine" / "folder" / ".part-00000.npz.1.0123456789abcdef.tmp").write_text("mine")
    (tmp_path / "mine" / "folder" / "part-00009.npz").write_text("mine")
    (tmp_path / "mine" / "folder" / "trigger-000001-A1-B2.png").write_text("mine")
    return Path(shutil.copytree(done_run, tmp_path / "run"))


def snapshot(path: Path) -> dict[str, tuple[int, bytes | None]]:
    return {
        str(each.relative_to(path)): (each.stat().st_mtime_ns, each.read_bytes() if each.is_file() else None)
        for each in path.rglob("*")
    }


def tried(verb: Callable[[Path], object], run: Path) -> str:
    """What a verb says; an exception that is no error of the user is one of diffgen."""
    try:
        verb(run)
    except UserError as error:
        return str(error)
    return ""


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize(
    ("name", "target"),
    [
        *((name, "file") for name in ("lock", "summary.md", "report.html", "manifest.json", "config.toml")),
        *((name, "file") for name in ("results.json", "verdicts.npz", "report.npz", "checkpoint.npz")),
        *((name, "folder") for name in ("images", "triggers")),
        *((name, "gone") for name in ("lock", "summary.md", "shrunk.npz", "images")),
        ("triggers/part-00000.npz", "file"),
    ],
)
def test_a_link_leads_nowhere(stranger: Path, verb: str, name: str, target: str) -> None:
    mine = stranger.parent / "mine"
    place = stranger / name
    if place.is_dir():
        shutil.rmtree(place)
    place.unlink(missing_ok=True)
    place.symlink_to(mine / target)
    before = snapshot(mine)
    tried(VERBS[verb], stranger)
    assert snapshot(mine) == before


@pytest.mark.parametrize("name", ["manifest.json", "config.toml", "results.json", "verdicts.npz", "report.npz"])
def test_a_link_is_not_read_through(stranger: Path, name: str, told: Callable[..., None]) -> None:
    """It would show the report what it must not see."""
    (stranger / name).rename(stranger.parent / "mine" / name)
    (stranger / name).symlink_to(stranger.parent / "mine" / name)
    with pytest.raises(UserError, match=r"symbolic link.*remove it") as caught:
        draw_report(stranger)
    told("Run folders", f"{name} is a symbolic link", caught.value)


@pytest.mark.parametrize("kind", ["link", "link to nothing", "hard link", "pipe", "folder"])
def test_a_lock_that_is_none(stranger: Path, kind: str, told: Callable[..., None]) -> None:
    mine, lock = stranger.parent / "mine", stranger / "lock"
    if kind == "hard link":
        os.link(mine / "file", lock)
    elif kind == "pipe":
        os.mkfifo(lock)
    elif kind == "folder":
        lock.mkdir()
    else:
        lock.symlink_to(mine / ("file" if kind == "link" else "gone"))
    before = snapshot(mine)
    attempts: list[Callable[[], Any]] = [RunLock(stranger).acquire, lambda: resume(stranger), lambda: shrink(stranger)]
    for attempt in attempts if kind == "hard link" else [*attempts, lambda: check_free(stranger)]:
        with pytest.raises(UserError, match="lock") as caught:
            attempt()
    told("Run folders", f"a lock that is a {kind}", caught.value)
    assert snapshot(mine) == before


@pytest.mark.parametrize("ending", ["", "-wal", "-shm", "-journal"])
def test_answers_are_not_kept_through_a_link(stranger: Path, ending: str) -> None:
    (stranger / f"answers-B.sqlite{ending}").symlink_to(stranger.parent / "mine" / "gone")
    with pytest.raises(UserError, match="link"):
        RunFolder.open(stranger).answers_file("B")


@pytest.mark.parametrize("name", ["../../mine/file", "/etc/passwd", "part-00000.npz/../../../mine/file", ".", "", 5])
def test_a_part_has_a_name_of_ours(stranger: Path, name: Any) -> None:
    folder = RunFolder.open(stranger)
    folder.manifest["parts"][0]["file"] = name
    with pytest.raises(UserError, match="damaged"):
        folder.read_triggers()


def test_force_and_going_back_leave_what_others_put_into_the_folders(stranger: Path) -> None:
    foreign = [stranger / "images" / "holiday.png", stranger / "triggers" / "notes.txt", stranger / "mine" / "x"]
    for file in foreign:
        file.parent.mkdir(exist_ok=True)
        file.write_text("mine")
    (stranger / "images" / "trigger-000001-A1-B2.png").write_text("old")
    folder = RunFolder.open(stranger)
    folder.rewind(1)
    RunFolder.create(stranger, config=folder.config(), manifest={}, force=True)
    assert [file.read_text() for file in foreign] == ["mine"] * 3
    assert not (stranger / "images" / "trigger-000001-A1-B2.png").exists()
    assert not list((stranger / "triggers").glob("part-*"))


def test_a_manifest_of_something_else_is_not_replaced(tmp_path: Path) -> None:
    (tmp_path / "manifest.json").write_text('{"schema_version": 3, "name": "of another program"}')
    (tmp_path / "images").mkdir()
    with pytest.raises(UserError, match="no run"):
        check_output(tmp_path, force=True)


def test_looking_whether_a_folder_can_be_written_removes_nothing(tmp_path: Path) -> None:
    (tmp_path / ".diffgen-write-probe").write_text("mine")
    check_output(tmp_path / "run", force=False)
    assert [each.name for each in tmp_path.iterdir()] == [".diffgen-write-probe"]
    assert (tmp_path / ".diffgen-write-probe").read_text() == "mine"


def test_two_points_behind_a_new_folder_make_no_run_in_the_one_above(tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("mine")
    with pytest.raises(UserError, match="not empty"):
        check_output(tmp_path / "new" / "..", force=False)
    assert check_output(tmp_path / "new" / ".." / "run", force=False) == tmp_path / "run"


def test_models_with_other_classes_are_not_asked_again(stranger: Path, tmp_path: Path) -> None:
    """0 of 63 triggers would read like a fix."""

    def of_two(images: Any) -> Any:
        import numpy as np

        return np.tile(np.array([[0.25, 0.75]], dtype=np.float32), (len(images), 1))

    with pytest.raises(UserError, match="2 classes but those of the run"):
        replay(stranger, MODELS[0], of_two)


@pytest.mark.parametrize("files", [{}, "x", {"A": {"name": "a", "path": None, "sha256": None}}, "three"])
def test_a_run_of_other_models_than_it_names_is_damaged(stranger: Path, files: Any) -> None:
    """In a sentence, and not by the name of an error of Python."""
    manifest = json.loads((stranger / "manifest.json").read_text(encoding="utf-8"))
    if files == "three":
        files = {**manifest["files"], "C": manifest["files"]["A"]}
    (stranger / "manifest.json").write_text(json.dumps({**manifest, "files": files}), encoding="utf-8")
    for verb in (draw_report, browse, lambda run: export(run, run.parent / "exported")):
        with pytest.raises(UserError, match=r"(cannot be used|cannot be read) \((files|it has answers)"):
            verb(stranger)
