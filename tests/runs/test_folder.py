"""diffgen.runs.folder"""

from __future__ import annotations

import json
import os
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from diffgen.config import CompareConfig, to_dict
from diffgen.errors import UserError
from diffgen.runs import folder as folder_module
from diffgen.runs.checkpoints import drop_checkpoint, has_checkpoint, read_checkpoint, write_checkpoint
from diffgen.runs.creation import check_output
from diffgen.runs.folder import SCHEMA_VERSION, RunFolder
from diffgen.runs.triggers import TriggerTable

CONFIG = to_dict(CompareConfig())
MANIFEST = {"status": "running", "version": "1", "data": {"source": "digits"}}


def create(path: Path, *, force: bool = False, **manifest: Any) -> RunFolder:
    return RunFolder.create(path, config=CONFIG, manifest={**MANIFEST, **manifest}, force=force)


def table(rows: int, first: int = 0) -> TriggerTable:
    """A part like those of the archive."""
    rng = np.random.default_rng(first)
    return TriggerTable.of(
        rng.integers(0, 256, (rows, 1, 28, 28)).astype(np.uint8),
        rng.random((rows, 2, 10)).astype(np.float32),
        divergence=np.ones(rows, np.float32),
        query=np.arange(first, first + rows),
        seeds=np.arange(rows),
        recipes=np.array([f"rotation(degrees={10**row})" for row in range(rows)], dtype=np.bytes_),
    )


def part(rows: int, first: int = 0) -> dict[str, np.ndarray[Any, Any]]:
    """Its columns."""
    return table(rows, first).columns()


@pytest.fixture
def run(tmp_path: Path) -> RunFolder:
    """Two parts of triggers."""
    folder = create(tmp_path / "run")
    folder.write_part(table(5))
    folder.write_part(table(3, first=5))
    return folder


def write_manifest(folder: RunFolder, **changes: Any) -> None:
    file = folder.path / "manifest.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), **changes}))


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
    write_checkpoint(run, {"a": 1})
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
    assert read_checkpoint(RunFolder.open(path)) is None


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
        patch.setattr(Path, "unlink", lambda self, **options: _stop() if cut(self) else unlink(self, **options))
        patch.setattr(os, "rmdir", lambda path, **options: _stop() if cut(path) else rmdir(path, **options))
        with pytest.raises(KeyboardInterrupt):
            create(run.path, force=True)
    create(run.path, force=True)
    assert RunFolder.open(run.path).read_triggers().columns()["images"].tolist() == []


def _stop() -> None:
    raise KeyboardInterrupt


# -- the manifest ----------------------------------------------------------------------------------------------------


def test_changes_of_the_manifest_are_kept(run: RunFolder) -> None:
    run.save_manifest(status="done", threads=2)
    again = RunFolder.open(run.path)
    assert (again.manifest["status"], again.manifest["threads"]) == ("done", 2)
    assert len(again.manifest["parts"]) == 2


@pytest.mark.parametrize("place", ["", "missing", "run/manifest.json"])
def test_what_is_no_run_folder(run: RunFolder, place: str) -> None:
    with pytest.raises(UserError, match="is not a run folder"):
        RunFolder.open(run.path.parent / place)


def test_a_newer_run_asks_for_an_upgrade(run: RunFolder) -> None:
    write_manifest(run, schema_version=SCHEMA_VERSION + 1)
    with pytest.raises(UserError, match=f"newer diffgen .schema {SCHEMA_VERSION + 1}.*upgrade"):
        RunFolder.open(run.path)
    # even one that keeps its parts elsewhere
    (run.path / "manifest.json").write_text(json.dumps({"schema_version": 99}))
    with pytest.raises(UserError, match="upgrade"):
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
        b'{"schema_version": 1}',
        b'{"schema_version": 1, "parts": 5}',
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


# -- triggers --------------------------------------------------------------------------------------------------------


def test_parts_come_back_in_order(run: RunFolder) -> None:
    expected = [part(5), part(3, first=5)]
    for folder in (run, RunFolder.open(run.path)):
        found = folder.read_triggers().columns()
        assert found.keys() == expected[0].keys()
        for name, column in found.items():
            assert column.dtype.kind == expected[0][name].dtype.kind
            np.testing.assert_array_equal(column, np.concatenate([each[name] for each in expected]))
    assert run.manifest["parts"] == [{"file": "part-00000.npz", "rows": 5}, {"file": "part-00001.npz", "rows": 3}]


def test_more_parts_than_five_digits_sort(tmp_path: Path) -> None:
    folder = create(tmp_path / "run")
    for number in range(12):
        folder.write_part(table(1, first=number))
    np.testing.assert_array_equal(RunFolder.open(folder.path).read_triggers().query, np.arange(12))


def test_a_part_that_the_manifest_does_not_name_is_not_there(run: RunFolder) -> None:
    """Written, but the program was stopped before it could say so; the next part takes its place."""
    old = json.loads((run.path / "manifest.json").read_text())
    run.write_part(table(4, first=8))
    (run.path / "manifest.json").write_text(json.dumps(old))
    resumed = RunFolder.open(run.path)
    assert len(resumed.read_triggers().query) == 8
    resumed.write_part(table(2, first=100))
    np.testing.assert_array_equal(RunFolder.open(run.path).read_triggers().query, [*range(8), 100, 101])


def damaged(run: RunFolder) -> str:
    with pytest.raises(UserError, match="damaged") as caught:
        _ = RunFolder.open(run.path).read_triggers().images
    return str(caught.value)


def test_a_part_that_is_missing(run: RunFolder) -> None:
    (run.path / "triggers" / "part-00001.npz").unlink()
    assert "part-00001.npz" in damaged(run)


def test_a_part_that_was_cut_off(run: RunFolder) -> None:
    file = run.path / "triggers" / "part-00000.npz"
    whole = file.read_bytes()
    for length in np.linspace(0, len(whole) - 1, 40, dtype=int):
        file.write_bytes(whole[:length])
        assert "part-00000.npz" in damaged(run)


def test_a_part_with_other_rows_than_the_manifest_says(run: RunFolder) -> None:
    np.savez(run.path / "triggers" / "part-00001.npz", **part(4))
    assert "part-00001.npz" in damaged(run)
    np.savez(run.path / "triggers" / "part-00001.npz", **{**part(3), "query": np.arange(2)})
    damaged(run)


def test_a_part_with_other_columns_than_the_first(run: RunFolder) -> None:
    file = run.path / "triggers" / "part-00001.npz"
    columns = part(3, first=5)
    others = [
        {name: column for name, column in columns.items() if name != "query"},
        {**columns, "more": np.zeros(3)},
        {**columns, "images": columns["images"][:, :, :14]},
        {**columns, "query": columns["query"].astype(str)},
        {**columns, "query": np.int64(3)},
        {},
    ]
    for each in others:
        np.savez(file, **each)
        damaged(run)
    np.savez(file, **columns)
    assert len(RunFolder.open(run.path).read_triggers().query) == 8


@pytest.mark.parametrize("entry", [5, None, "part-00000.npz", {}, {"file": "part-00000.npz"}, {"file": 5, "rows": 5}])
def test_a_manifest_with_damaged_entries(run: RunFolder, entry: Any) -> None:
    write_manifest(run, parts=[entry])
    damaged(run)


def test_a_pickle_among_the_triggers_is_not_run(run: RunFolder, tmp_path: Path) -> None:
    class Bomb:
        def __reduce__(self) -> tuple[Any, ...]:
            return (Path.touch, (tmp_path / "boom",))

    np.savez(run.path / "triggers" / "part-00000.npz", query=np.array([Bomb()] * 5, dtype=object))
    damaged(run)
    assert not (tmp_path / "boom").exists()


# -- everything else -------------------------------------------------------------------------------------------------


def test_the_checkpoint_comes_back(run: RunFolder) -> None:
    assert read_checkpoint(run) is None
    rng = np.random.default_rng(3)
    state = {"X": rng.random((4, 7)), "parts": 2, "random_state": rng.bit_generator.state, "history": [{"n": 1}]}
    write_checkpoint(run, {"X": np.zeros(3), "parts": 0})
    write_checkpoint(run, state)
    found = read_checkpoint(RunFolder.open(run.path))
    assert found is not None
    np.testing.assert_array_equal(found.pop("X"), state.pop("X"))
    assert found == state


def test_the_checkpoint_before_is_kept(run: RunFolder) -> None:
    for number in range(3):
        write_checkpoint(run, {"number": number})
    assert read_checkpoint(run) == {"number": 2}
    assert drop_checkpoint(run)
    assert read_checkpoint(run) == {"number": 1}
    assert not drop_checkpoint(run)
    assert not has_checkpoint(run)
    assert read_checkpoint(run) is None


def test_going_back_forgets_what_came_after(run: RunFolder) -> None:
    run.write_part(table(2, first=8))
    for name in ("results.json", "verdicts.npz", "report.html"):
        (run.path / name).write_text("of three parts")
    (run.path / "images").mkdir()
    (run.path / "images" / "trigger-000009-A1-B2.png").touch()
    (run.path / "triggers" / ".part-00003.npz.77.tmp").touch()
    (run.path / "notes.txt").write_text("mine")
    run.rewind(2)
    run.tidy()
    assert RunFolder.open(run.path).read_triggers().query.tolist() == list(range(8))
    assert sorted(each.name for each in (run.path / "triggers").iterdir()) == ["part-00000.npz", "part-00001.npz"]
    assert sorted(each.name for each in run.path.iterdir()) == ["config.toml", "manifest.json", "notes.txt", "triggers"]


def test_a_manifest_that_cannot_be_written_names_nothing_new(run: RunFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else the rows would be in two parts once there is space again."""
    with monkeypatch.context() as patch:
        patch.setattr(folder_module, "write_json", lambda *arguments: _stop())
        with pytest.raises(KeyboardInterrupt):
            run.write_part(table(4, first=8))
    assert len(run.manifest["parts"]) == 2
    run.write_part(table(4, first=8))
    assert RunFolder.open(run.path).read_triggers().query.tolist() == list(range(12))


def test_a_checkpoint_that_was_cut_off_is_none(run: RunFolder) -> None:
    write_checkpoint(run, {"X": np.zeros((4, 7)), "parts": 2})
    file = run.path / "checkpoint.npz"
    whole = file.read_bytes()
    for length in np.linspace(0, len(whole) - 1, 30, dtype=int):
        file.write_bytes(whole[:length])
        assert read_checkpoint(run) is None


@pytest.mark.parametrize("name", ["verdicts", "report"])
def test_arrays_of_the_report(run: RunFolder, name: str) -> None:
    with pytest.raises(UserError, match="did not come to its end"):
        run.read_arrays(name)
    scores = np.array([[0.5, np.nan], [0.25, 1.0]], dtype=np.float32)
    run.write_arrays(name, {"scores": scores, "names": ["discriminator", "ssim"]})
    found = run.read_arrays(name)
    np.testing.assert_array_equal(found["scores"], scores)
    assert found["names"] == ["discriminator", "ssim"]
    file = run.path / f"{name}.npz"
    file.write_bytes(file.read_bytes()[:-30])
    with pytest.raises(UserError, match="damaged"):
        run.read_arrays(name)


def test_damaged_arrays_of_the_report(run: RunFolder) -> None:
    """Compressed data says in its own way that it is damaged."""
    run.write_arrays("verdicts", {"scores": np.random.default_rng(0).integers(0, 9, (300, 2)).astype(np.float32)})
    file, rng = run.path / "verdicts.npz", np.random.default_rng(1)
    whole = file.read_bytes()
    for _ in range(200):
        changed = bytearray(whole)
        changed[int(rng.integers(0, len(whole)))] ^= 1 << int(rng.integers(0, 8))
        file.write_bytes(changed)
        try:
            run.read_arrays("verdicts")
        except UserError as error:
            assert "damaged" in str(error)


def test_results(run: RunFolder) -> None:
    with pytest.raises(UserError, match="did not come to its end"):
        run.results()
    (run.path / "results.json").write_text('{"triggers": 5}')
    assert run.results() == {"triggers": 5}
    for content in ("", "{", "[]", "null", "[" * 100_000):
        (run.path / "results.json").write_text(content)
        with pytest.raises(UserError, match="damaged"):
            run.results()
