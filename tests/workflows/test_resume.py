"""Whatever breaks a run off, what was found is kept, and the resumed run ends as the uninterrupted one."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from diffgen.comparison import checkpoints
from diffgen.comparison import stages as comparison
from diffgen.comparison.stages import CompareResult
from diffgen.config import Budget, CompareConfig, SourceConfig, replace
from diffgen.errors import RunError, UserError
from diffgen.events import StopToken
from diffgen.runs.arrays import read_arrays, write_arrays
from diffgen.runs.folder import RunFolder
from diffgen.runs.lock import LOCK_NAME, RunLock
from diffgen.workflows.compare import compare
from diffgen.workflows.listing import draw_report
from diffgen.workflows.resume import resume
from tests.recording import Recording
from tests.workflows.breaking import Fragile, assert_same, columns

pytestmark = pytest.mark.usefixtures("checkpoint_after_every_generation")


def cut(images: np.ndarray) -> None:
    raise OSError("the wire is cut")


def assert_nearly_same_pictures(result: CompareResult, wanted: CompareResult) -> None:
    """Smaller batches round otherwise: one grey level here and there."""
    difference = np.abs(columns(result.run)["images"].astype(int) - columns(wanted.run)["images"])
    assert difference.max() <= 1
    assert (difference > 0).mean() <= 1e-4


# -- what a model may do ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("after", [0, 120, pytest.param(599, marks=pytest.mark.slow)])
def test_a_model_that_fails(
    after: int,
    start: Callable[..., CompareResult],
    arm: Callable[[Fragile], None],
    model_files: dict[str, Path],
    finished: CompareResult,
    tmp_path: Path,
) -> None:
    model = Fragile(model_files["a"], cut, after=after)
    arm(model)
    with pytest.raises(RunError) as caught:
        start(model)
    assert caught.value.exit_code == 3
    assert any("diffgen.resume(" in note for note in caught.value.__notes__)
    kept = columns(tmp_path / "run")
    wanted = columns(finished.run)
    # what was found before is there, and is what the uninterrupted run found
    assert len(kept.get("images", ())) == (wanted["query"] <= after // 50 * 50).sum()
    if after:
        np.testing.assert_array_equal(kept["images"], wanted["images"][: len(kept["images"])])
    with pytest.raises(UserError, match="did not come to its end"):
        draw_report(tmp_path / "run")
    assert_same(resume(tmp_path / "run", model, None).run, finished.run)


def test_a_model_without_memory_for_the_batch_is_asked_in_smaller_ones(
    start: Callable[..., CompareResult],
    model_files: dict[str, Path],
    finished: CompareResult,
    monkeypatch: pytest.MonkeyPatch,
    told: Callable[..., None],
) -> None:
    network, small = torch.jit.load(str(model_files["a"])), False

    def hungry(images: np.ndarray) -> np.ndarray:
        if small and len(images) > 15:
            raise torch.OutOfMemoryError("CUDA out of memory.")
        with torch.inference_mode():
            return network(torch.from_numpy(images)).numpy()

    search = comparison.run_search

    def run_search(*arguments: Any, **settings: Any) -> Any:
        nonlocal small
        small = True
        try:
            return search(*arguments, **settings)
        finally:
            small = False

    monkeypatch.setattr(comparison, "run_search", run_search)
    listener = Recording()
    result = start(hungry, events=listener)
    assert result.queries == finished.queries
    assert_nearly_same_pictures(result, finished)
    said = [line for line in listener.warnings if "too little memory" in line]
    told("Answers of a model", "too little memory for the batch in mid-run: halved, and the run goes on", said[0])
    assert [line.split(" image(s)")[0].split()[-1] for line in said] == ["25", "12"]


def test_no_memory_for_a_single_image(
    start: Callable[..., CompareResult],
    arm: Callable[[Fragile], None],
    model_files: dict[str, Path],
    told: Callable[..., None],
) -> None:
    def none_at_all(images: np.ndarray) -> None:
        model._left = 0  # also for half of them
        raise MemoryError

    model = Fragile(model_files["a"], none_at_all, after=100)
    arm(model)
    with pytest.raises(RunError, match="single image") as caught:
        start(model)
    told("Answers of a model", "no memory for a single image", caught.value)


# -- what the user may do --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("batch_size", "answered"), [("auto", 350), (10, 300)])
def test_a_stop_in_the_search(
    batch_size: Any,
    answered: int,
    start: Callable[..., CompareResult],
    arm: Callable[[Fragile], None],
    model_files: dict[str, Path],
    finished: CompareResult,
) -> None:
    """Of fifty pictures in batches of ten, those whose batch is not begun at the stop are left unasked."""
    stop = StopToken()
    model = Fragile(model_files["a"], lambda images: stop.stop(), after=330)
    arm(model)
    result = start(model, stop=stop, batch_size=batch_size)
    assert result.interrupted and result.go_on == f'diffgen.resume("{result.run}", model_a, None)'
    assert result.queries == answered
    assert RunFolder.open(result.run).manifest["status"] == "interrupted"
    assert (Path(result.run) / "report.html").is_file()
    (Path(result.run) / "images" / "trigger-999999-A0-B1.png").touch()
    folder = RunFolder.open(result.run)
    folder.save_manifest(warnings=["of before"])
    again = resume(result.run, model, None)
    assert not again.interrupted
    assert RunFolder.open(result.run).manifest["warnings"][0] == "of before"
    if batch_size == "auto":
        assert_same(again.run, finished.run)
    else:
        assert again.queries == finished.queries
        assert_nearly_same_pictures(again, finished)
    # pictures of the first report may show triggers whose numbers now mean others
    assert not (Path(result.run) / "images" / "trigger-999999-A0-B1.png").exists()


def test_ctrl_c_before_the_search_writes_nothing(
    start: Callable[..., CompareResult], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def asking(*arguments: object, **settings: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("diffgen.comparison.stages.inspect_real_images", asking)
    with pytest.raises(KeyboardInterrupt) as caught:
        start()
    assert "search had not begun" in caught.value.__notes__[0]
    assert not (tmp_path / "run").exists()
    with pytest.raises(UserError, match="not a run folder"):
        resume(tmp_path / "run")


def test_ctrl_c_while_the_folder_is_made_leaves_none(
    start: Callable[..., CompareResult], small_config: CompareConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(path: Path, text: str) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("diffgen.runs.folder.write_text", interrupted)
    quick = replace(small_config, source=SourceConfig(), filters=replace(small_config.filters, names=()))
    (tmp_path / "run").mkdir()
    for there in (True, False):  # whoever made the folder keeps it
        with pytest.raises(KeyboardInterrupt) as caught:
            start(config=quick)
        assert "start it again with the same command" in caught.value.__notes__[0]
        assert (tmp_path / "run").exists() == there
        if there:
            (tmp_path / "run").rmdir()


@pytest.mark.parametrize("stage", ["judge_triggers", pytest.param("write_outcome", marks=pytest.mark.slow)])
def test_after_the_search_nothing_is_searched_again(
    stage: str,
    start: Callable[..., CompareResult],
    finished: CompareResult,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(f"diffgen.comparison.stages.{stage}", lambda *a, **s: signal.raise_signal(signal.SIGINT))
        with pytest.raises(KeyboardInterrupt) as caught:
            start()
    assert "--resume" in caught.value.__notes__[0]
    parts = {file: file.stat().st_mtime_ns for file in (tmp_path / "run" / "triggers").iterdir()}
    listener = Recording()
    result = resume(tmp_path / "run", events=listener)
    assert any("search is finished (600 queries)" in line for line in listener.lines)
    assert {file: file.stat().st_mtime_ns for file in (tmp_path / "run" / "triggers").iterdir()} == parts
    assert_same(result.run, finished.run)


def test_a_run_that_is_done_stays_as_it_is(finished: CompareResult) -> None:
    before = {file: file.read_bytes() for file in Path(finished.run).rglob("*") if file.is_file()}
    listener = Recording()
    assert resume(finished.run, events=listener) == finished
    assert any("is done" in line for line in listener.lines)
    assert {file: file.read_bytes() for file in Path(finished.run).rglob("*") if file.is_file()} == before


def test_two_processes_on_one_folder(
    start: Callable[..., CompareResult], small_config: CompareConfig, finished: CompareResult, tmp_path: Path
) -> None:
    folder = shutil.copytree(finished.run, tmp_path / "run")
    brief = replace(small_config, budget=Budget(queries=50))
    with RunLock(folder):
        for call in (lambda: resume(folder), lambda: start(force=True)):
            with pytest.raises(UserError, match=f"in use by process {os.getpid()}"):
                call()
    # what a killed process leaves behind is in nobody's way
    (folder / LOCK_NAME).write_text('{"pid": 999999999, "host": "elsewhere"}')
    resume(folder)
    (folder / LOCK_NAME).write_text('{"pid": 999999999, "host": "elsewhere"}')
    assert start(config=brief, force=True).queries == 50


# -- what may happen to the files ------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def broken_off(
    model_files: dict[str, Path], small_config: CompareConfig, tmp_path_factory: pytest.TempPathFactory
) -> Path:
    """A run that broke off after some checkpoints; not to be changed."""
    folder = tmp_path_factory.mktemp("broken") / "run"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(checkpoints, "SECONDS", 0.0)
        patch.setattr(checkpoints, "SHARE", 1e9)
        generations = 0
        after = checkpoints.Checkpointer.after_generation

        def break_off(self: checkpoints.Checkpointer) -> None:
            nonlocal generations
            after(self)
            generations += 1
            if generations == 7:
                raise RunError("broken off")

        patch.setattr(checkpoints.Checkpointer, "after_generation", break_off)
        with pytest.raises(RunError, match="broken off"):
            compare(model_files["a"], model_files["b"], data="digits:test", config=small_config, output=folder)
    assert len(RunFolder.open(folder).manifest["parts"]) == 7
    return folder


@pytest.fixture
def broken(broken_off: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(broken_off, tmp_path / "broken"))


def truncate(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:-200])


def flip(file: Path) -> None:
    content = bytearray(file.read_bytes())
    # at several places: one of them may hold nothing, such as the time of a file in a zip
    for place in range(len(content) // 9, len(content), len(content) // 9):
        content[place] ^= 64
    file.write_bytes(content)


def empty(file: Path) -> None:
    file.write_bytes(b"")


@pytest.mark.parametrize(
    ("name", "damage"),
    [
        ("checkpoint.npz", Path.unlink),
        ("triggers/part-00006.npz", flip),
        *(pytest.param("checkpoint.npz", each, marks=pytest.mark.slow) for each in (flip, empty, truncate)),
        *(
            pytest.param("triggers/part-00006.npz", each, marks=pytest.mark.slow)
            for each in (empty, truncate, Path.unlink)
        ),
    ],
)
def test_damage_is_recognised_and_the_checkpoint_before_is_used(
    name: str, damage: Callable[[Path], None], broken: Path, finished: CompareResult
) -> None:
    damage(broken / name)
    listener = Recording()
    result = resume(broken, events=listener)
    assert any("after 300 queries" in line for line in listener.lines)
    lost_in_the_middle_of_a_renaming = damage is Path.unlink and name == "checkpoint.npz"
    assert len(listener.warnings) == (0 if lost_in_the_middle_of_a_renaming else 1)
    assert_same(result.run, finished.run)


def test_without_any_usable_checkpoint_the_search_starts_again(broken: Path, finished: CompareResult) -> None:
    flip(broken / "triggers" / "part-00000.npz")
    listener = Recording()
    result = resume(broken, events=listener)
    assert any("starts from its beginning" in line for line in listener.warnings)
    assert_same(result.run, finished.run)


def test_a_part_that_belongs_to_another_run_is_not_taken_for_its_own(broken: Path, finished: CompareResult) -> None:
    """Whole, of the right size, and wrong: the checkpoint knows its triggers."""
    file = broken / "triggers" / "part-00006.npz"
    content = read_arrays(file)
    content["hashes"] = content["hashes"][::-1].copy()
    write_arrays(file, content)
    assert_same(resume(broken).run, finished.run)


def test_a_checkpoint_of_another_version_is_refused(broken: Path) -> None:
    state = read_arrays(broken / "checkpoint.npz")
    del state["representatives"]
    write_arrays(broken / "checkpoint.npz", state)
    with pytest.raises(UserError, match="version"):
        resume(broken)


def test_leftovers_are_removed_and_changes_are_told(broken: Path, finished: CompareResult) -> None:
    (broken / "triggers" / ".part-00007.npz.123.0123456789abcdef.tmp").write_bytes(b"half")
    (broken / ".checkpoint.npz.123.0123456789abcdef.tmp").write_bytes(b"half")
    (broken / "triggers" / "part-00008.npz").write_bytes(b"not named in the manifest")
    folder = RunFolder.open(broken)
    folder.save_manifest(versions={**folder.manifest["versions"], "torch": "2.0.1"}, gan="0" * 64)
    listener = Recording()
    result = resume(broken, events=listener)
    assert any("torch 2.0.1 then" in line for line in listener.warnings)
    assert any("network that drew" in line for line in listener.warnings)
    assert_same(result.run, finished.run)


@pytest.mark.parametrize(
    "technique",
    [
        "real_data",
        "dflare",
        # which ask for long, or train a network of their own first
        *(pytest.param(name, marks=pytest.mark.slow) for name in ("random_latent", "diffchaser", "drfuzz")),
        *(pytest.param(name, marks=pytest.mark.slow) for name in ("giftbench", "latte", "sinvad", "argus")),
    ],
)
def test_other_techniques_too(
    technique: str,
    start: Callable[..., CompareResult],
    arm: Callable[[Fragile], None],
    model_files: dict[str, Path],
    small_config: CompareConfig,
    tmp_path: Path,
    short_descent: None,
) -> None:
    config = replace(small_config, batch_size=32, budget=Budget(queries=300))
    whole = start(config=config, technique=technique)
    kept = shutil.move(whole.run, tmp_path / "whole")
    model = Fragile(model_files["a"], cut, after=200)
    arm(model)
    with pytest.raises(RunError):
        start(model, config=config, technique=technique)
    assert_same(resume(tmp_path / "run", model, None).run, kept)
