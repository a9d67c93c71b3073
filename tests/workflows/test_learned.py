"""Comparisons whose filter learns from people's answers: the same answers, or none, from beginning to end."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
import torch

from diffgen.config import Budget, CompareConfig, FilterConfig, replace
from diffgen.errors import UserError
from diffgen.events import Event, StageAdvanced, StopToken
from diffgen.runs.folder import RunFolder
from diffgen.types import ImageSet
from diffgen.workflows.compare import compare
from diffgen.workflows.resume import resume


@dataclass(frozen=True)
class ByBrightness:
    """A scorer that comes with a source, as a discriminator does."""

    def score(self, images: torch.Tensor) -> torch.Tensor:
        return images.to(torch.float32).mean(dim=(1, 2, 3))


def write_answers(path: Path, digits: ImageSet, *, valid: int = 120) -> Path:
    """Real digits, which are valid, and halves of digits, which are not."""
    images = digits.images[:200].copy()
    images[valid:, :, 10:] = 0
    np.savez(path, images=images, valid=np.arange(200) < valid)
    return path


def config_of(answers: str | Path, names: tuple[str, ...] = ("learned", "ssim")) -> CompareConfig:
    return CompareConfig(
        technique="real_data",
        budget=Budget(queries=600),
        seed=3,
        device="cpu",
        filters=FilterConfig(
            names=names,
            filters={"reconstruction": {"training_steps": 80}, "jury": {"shown": 6_000}},
            learned_from=str(answers),
        ),
    )


@pytest.fixture
def broken(
    model_files: dict[str, Path], digits: ImageSet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> RunFolder:
    """A run that was stopped, started in the folder of its answers and naming them from there."""
    write_answers(tmp_path / "said.npz", digits)
    monkeypatch.chdir(tmp_path)
    stop = StopToken()

    def listen(event: Event) -> None:
        if isinstance(event, StageAdvanced) and event.name == "Searching for disagreements" and event.done >= 200:
            stop.stop()

    files = model_files["a"], model_files["b"]
    result = compare(
        *files, data="digits:test", config=config_of("said.npz"), output=tmp_path / "run", events=listen, stop=stop
    )
    assert result.interrupted
    return RunFolder.open(result.run)


def test_a_stopped_run_goes_on_from_anywhere_and_ends_as_a_whole_one(
    broken: RunFolder, model_files: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = model_files["a"], model_files["b"]
    whole = compare(*files, data="digits:test", config=config_of("said.npz"), output=tmp_path / "whole")
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    ended = resume(broken.path)
    assert replace(ended, run="", seconds=0) == replace(whole, run="", seconds=0)
    results = RunFolder.open(broken.path).results()
    assert [each["name"] for each in results["filters"]] == ["learned", "ssim"]
    assert "by 200 answers of people (120 valid)" in results["filters"][0]["description"]
    judged = RunFolder.open(broken.path).read_judged()
    scores, rejected = judged.known.scores, judged.known.rejected_by
    np.testing.assert_array_equal(rejected == 0, scores[:, 0] < 0)
    assert len(np.unique(scores[:, 0])) > 10 and (rejected == -1).any()


def test_a_run_does_not_go_on_with_other_answers(broken: RunFolder, digits: ImageSet, tmp_path: Path) -> None:
    shutil.copy(tmp_path / "said.npz", tmp_path / "kept.npz")
    write_answers(tmp_path / "said.npz", digits, valid=119)
    with pytest.raises(UserError, match="have changed since the run"):
        resume(broken.path)
    shutil.copy(tmp_path / "kept.npz", tmp_path / "said.npz")
    assert resume(broken.path).queries == 600


def test_answers_of_no_use_are_refused_before_anything_is_made(
    model_files: dict[str, Path], digits: ImageSet, tmp_path: Path
) -> None:
    files = model_files["a"], model_files["b"]
    few = write_answers(tmp_path / "few.npz", digits, valid=195)
    for answers, words in ((few, "5 of them invalid"), (tmp_path / "missing.npz", "cannot be read")):
        with pytest.raises(UserError, match=words):
            compare(*files, data="digits:test", config=config_of(answers), output=tmp_path / "run")
        assert not (tmp_path / "run").exists()
