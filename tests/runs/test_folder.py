"""A run folder is made, replaced and found again."""

from __future__ import annotations

import json
import os
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from diffgen.errors import UserError
from diffgen.runs.creation import check_output
from diffgen.runs.folder import SCHEMA_VERSION, RunFolder
from tests.runs.conftest import CONFIG, MANIFEST, create, stop


def snapshot(path: Path) -> dict[str, bytes]:
    return {str(file.relative_to(path)): file.read_bytes() for file in path.rglob("*") if file.is_file()}


# -- making and finding ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("place", ["run", "deep/down/run"])
def test_create_and_open(tmp_path: Path, place: str) -> None:
    made = create(tmp_path / place)
    found = RunFolder.open(str(tmp_path / place))
    assert found.path == made.path == tmp_path / place
    assert found.manifest == made.manifest == {**MANIFEST, "schema_version": SCHEMA_VERSION, "parts": []}
    assert found.config() == CONFIG
    assert tomllib.loads((tmp_path / place / "config.toml").read_text())["technique"] == "diffgan"
    assert sorted(each.name for each in found.path.iterdir()) == ["config.toml", "manifest.json", "triggers"]


def test_an_empty_folder_will_do(tmp_path: Path) -> None:
    create(tmp_path)
    assert RunFolder.open(tmp_path).read_triggers().columns()["images"].tolist() == []


def test_the_parts_are_the_folder_s_own_affair(tmp_path: Path) -> None:
    assert create(tmp_path / "run", parts=[{"file": "x", "rows": 1}]).manifest["parts"] == []


def test_checking_the_output_makes_nothing(tmp_path: Path) -> None:
    for force in (False, True):
        check_output(tmp_path / "a" / "b", force=force)
        check_output(tmp_path, force=force)
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_is_not_empty_needs_force(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    before = snapshot(tmp_path)
    for call in (lambda: check_output(tmp_path, force=False), lambda: create(tmp_path)):
        with pytest.raises(UserError, match="--force") as caught:
            call()
        assert str(tmp_path) in str(caught.value)
    assert snapshot(tmp_path) == before


def test_a_hidden_file_makes_a_folder_not_empty(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    with pytest.raises(UserError, match="not empty"):
        check_output(tmp_path, force=False)


@pytest.mark.parametrize("force", [False, True])
def test_places_where_no_folder_can_be(tmp_path: Path, force: bool, told: Callable[..., None]) -> None:
    (tmp_path / "file").write_text("mine")
    (tmp_path / "nowhere").symlink_to(tmp_path / "gone")
    places = [
        tmp_path / "file",
        tmp_path / "file" / "run",
        tmp_path / "file" / "deep" / "run",
        tmp_path / "nowhere",
        tmp_path / ("long" * 100),
        tmp_path / ("long" * 100) / "run",
    ]
    before = snapshot(tmp_path)
    for place in places:
        with pytest.raises(UserError, match="-o") as caught:
            check_output(place, force=force)
        shown = str(place.relative_to(tmp_path))
        shown = shown if len(shown) <= 20 else f"{shown[:12]}...{shown[-8:]}"
        told("Folders and disks", f"-o {shown}", caught.value)
    assert snapshot(tmp_path) == before


@pytest.mark.parametrize("place", ["s3://bucket/run", "abfs+x://me/run", "file:///run"])
def test_an_address_is_no_folder(
    tmp_path: Path, place: str, monkeypatch: pytest.MonkeyPatch, told: Callable[..., None]
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UserError, match=r"address of a store.*diffgen export --to") as caught:
        check_output(Path(place), force=False)
    told("Folders and disks", f"-o {place}", caught.value)
    assert snapshot(tmp_path) == {}
    (tmp_path / place.split("/")[0]).mkdir()
    check_output(Path(place), force=False)


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="the superuser may write everywhere")
def test_a_place_without_permission(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    try:
        with pytest.raises(UserError, match="-o"):
            check_output(tmp_path / "run", force=False)
    finally:
        tmp_path.chmod(0o700)


# -- force -----------------------------------------------------------------------------------------------------------


def test_force_removes_the_old_run_and_nothing_else(run: RunFolder) -> None:
    path = run.path
    run.write_checkpoint({"a": 1})
    run.write_arrays("verdicts", {"a": np.zeros(3)})
    for name in ("results.json", "report.html", "summary.md", "report.npz"):
        (path / name).write_text("old")
    (path / "images").mkdir()
    (path / "images" / "trigger-000001-A1-B2.png").write_text("old")
    (path / "notes.txt").write_text("mine")
    (path / "mine").mkdir()
    (path / "mine" / "images").write_text("mine too")
    create(path, force=True)
    assert sorted(each.name for each in path.iterdir()) == [
        "config.toml",
        "manifest.json",
        "mine",
        "notes.txt",
        "triggers",
    ]
    assert list((path / "triggers").iterdir()) == []
    assert (path / "notes.txt").read_text() == "mine"
    assert (path / "mine" / "images").read_text() == "mine too"
    assert RunFolder.open(path).read_triggers().columns()["images"].tolist() == []
    assert RunFolder.open(path).read_checkpoint() is None


def test_force_beside_files_that_no_run_makes(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    create(tmp_path, force=True)
    assert (tmp_path / "notes.txt").read_text() == "mine"


@pytest.mark.parametrize("manifest", [None, "{}", "[]", "{", '{"name": "a web page\'s manifest", "icons": []}'])
@pytest.mark.parametrize("name", ["images", "triggers", "config.toml", "report.html"])
def test_force_never_removes_what_no_run_made(tmp_path: Path, name: str, manifest: str | None) -> None:
    """A folder of photographs or a project's config.toml has the same name as a part of a run."""
    if "." in name:
        (tmp_path / name).write_text("mine")
    else:
        (tmp_path / name).mkdir()
        (tmp_path / name / "holiday.jpg").write_text("mine")
    if manifest is not None:
        (tmp_path / "manifest.json").write_text(manifest)
    before = snapshot(tmp_path)
    for call in (lambda: check_output(tmp_path, force=True), lambda: create(tmp_path, force=True)):
        with pytest.raises(UserError, match="no run") as caught:
            call()
        assert str(tmp_path) in str(caught.value)
    assert snapshot(tmp_path) == before


def test_force_does_not_follow_links(run: RunFolder, tmp_path: Path) -> None:
    (tmp_path / "photographs").mkdir()
    (tmp_path / "photographs" / "holiday.jpg").write_text("mine")
    (run.path / "images").symlink_to(tmp_path / "photographs")
    create(run.path, force=True)
    assert not (run.path / "images").exists()
    assert (tmp_path / "photographs" / "holiday.jpg").read_text() == "mine"


@pytest.mark.parametrize("stage", ["config.toml", "triggers", "images"])
def test_a_replacement_that_was_cut_short_can_be_forced_again(
    run: RunFolder, stage: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (run.path / "images").mkdir()
    unlink, rmdir = Path.unlink, os.rmdir

    def cut(path: Any) -> bool:
        return Path(path).name == stage

    with monkeypatch.context() as patch:
        patch.setattr(Path, "unlink", lambda self, **options: stop() if cut(self) else unlink(self, **options))
        patch.setattr(os, "rmdir", lambda path, **options: stop() if cut(path) else rmdir(path, **options))
        with pytest.raises(KeyboardInterrupt):
            create(run.path, force=True)
    create(run.path, force=True)
    assert RunFolder.open(run.path).read_triggers().columns()["images"].tolist() == []


def test_changes_of_the_manifest_are_kept(run: RunFolder) -> None:
    run.save_manifest(status="done", threads=2)
    again = RunFolder.open(run.path)
    assert (again.manifest["status"], again.manifest["threads"]) == ("done", 2)
    assert len(again.manifest["parts"]) == 2


@pytest.mark.parametrize("place", ["", "missing", "run/manifest.json"])
def test_what_is_no_run_folder(run: RunFolder, place: str) -> None:
    with pytest.raises(UserError, match="is not a run folder"):
        RunFolder.open(run.path.parent / place)


@pytest.mark.parametrize("version", [1, SCHEMA_VERSION + 1])
def test_a_run_of_another_schema_is_refused(run: RunFolder, version: int) -> None:
    """Also one that keeps its parts elsewhere."""
    (run.path / "manifest.json").write_text(json.dumps({"schema_version": version}))
    with pytest.raises(UserError, match=f"has schema {version}, and this diffgen reads schema {SCHEMA_VERSION}; read"):
        RunFolder.open(run.path)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"[]",
        b"5",
        b"null",
        b'"text"',
        b"{}",
        b'{"schema_version": "new", "parts": []}',
        b'{"schema_version": null, "parts": []}',
        b'{"schema_version": 2}',
        b'{"schema_version": 2, "parts": 5}',
        b"\xff\xfe",
        b"[" * 100_000,
    ],
)
def test_a_damaged_manifest(run: RunFolder, content: bytes) -> None:
    (run.path / "manifest.json").write_bytes(content)
    with pytest.raises(UserError, match="damaged") as caught:
        RunFolder.open(run.path)
    assert "manifest.json" in str(caught.value)


@pytest.mark.parametrize("content", [b"a = ", b"\xff"])
def test_damaged_settings(run: RunFolder, content: bytes) -> None:
    (run.path / "config.toml").write_bytes(content)
    with pytest.raises(UserError, match=r"config.toml.*damaged"):
        RunFolder.open(run.path).config()


def test_a_run_that_was_killed_while_its_folder_was_made(run: RunFolder) -> None:
    (run.path / "config.toml").unlink()
    with pytest.raises(UserError, match=r"broke off before .*--force"):
        RunFolder.open(run.path).config()
    create(run.path, force=True)
