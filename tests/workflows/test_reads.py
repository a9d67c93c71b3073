"""The images of the triggers are read from the disk at most once by each command."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from diffgen.comparison.stages import CompareResult
from diffgen.config import Budget, CheckConfig, CompareConfig, Limits, SelectorConfig, replace
from diffgen.runs.arrays import read_arrays
from diffgen.runs.folder import RunFolder
from diffgen.workflows.check import check
from diffgen.workflows.compare import compare
from diffgen.workflows.export import export
from diffgen.workflows.label import label_export
from diffgen.workflows.label_oracle import label_oracle
from diffgen.workflows.listing import draw_report
from diffgen.workflows.replay import replay
from diffgen.workflows.select import select
from diffgen.workflows.shrink import shrink


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How often the bytes of the images of each part were read, by the name of the part."""
    counted: Counter[str] = Counter()

    def spy(path: Path, **which: str) -> dict[str, Any]:
        if path.parent.name == "triggers" and which.get("unread") != "images":
            counted[path.name] += 1
        return read_arrays(path, **which)

    monkeypatch.setattr("diffgen.runs.folder.read_arrays", spy)
    return counted


@pytest.fixture
def run(finished: CompareResult, tmp_path: Path) -> Path:
    """A finished run in which every trigger is valid."""
    copy = Path(shutil.copytree(finished.run, tmp_path / "run"))
    folder = RunFolder.open(copy)
    verdicts = folder.read_arrays("verdicts")
    folder.write_arrays("verdicts", {**verdicts, "rejected_by": np.full_like(verdicts["rejected_by"], -1)})
    return copy


VERBS: dict[str, Callable[[Path], Any]] = {
    "report": draw_report,
    "export": lambda run: export(run, run.parent / "out", everything=True),
    "replay": replay,
    "label --export": lambda run: label_export(run, run.parent / "sheet"),
    "label --oracle": lambda run: label_oracle(run, [lambda pixels: np.eye(10, dtype=np.float32)[[3] * len(pixels)]]),
    "shrink": lambda run: shrink(run, limit=2),
}


@pytest.mark.parametrize("verb", VERBS)
def test_once_at_most(verb: str, run: Path, reads: Counter[str]) -> None:
    VERBS[verb](run)
    assert set(reads) <= {part["file"] for part in RunFolder.open(run).manifest["parts"]}
    assert reads and max(reads.values()) == 1


def test_a_selector_and_its_report_read_them_once(run: Path, reads: Counter[str]) -> None:
    folder = RunFolder.open(run)
    triggers = folder.read_judged()
    truth = np.where(np.arange(len(triggers)) % 2, triggers.labels[:, 0], triggers.labels[:, 1])
    by_bytes = {image.tobytes(): label for image, label in zip(triggers.images, truth, strict=True)}

    def knows(pixels: np.ndarray) -> np.ndarray:
        labels = [by_bytes.get(np.rint(np.asarray(each) * 255).astype(np.uint8).tobytes(), 0) for each in pixels]
        return np.eye(10, dtype=np.float32)[labels] * 0.9 + 0.01

    label_oracle(run, [knows])
    reads.clear()
    select(run, config=SelectorConfig(features="pixels", trees=5, seed=1))
    assert reads and max(reads.values()) == 1


def test_a_comparison_and_a_check_read_none_of_their_own(
    model_files: dict[str, Path], small_config: CompareConfig, tmp_path: Path, reads: Counter[str]
) -> None:
    """The search has them in memory."""
    files, brief = (model_files["a"], model_files["b"]), replace(small_config, budget=Budget(queries=150))
    result = compare(*files, data="digits:test", config=brief, output=tmp_path / "compare")
    assert result.triggers > 0
    assert (tmp_path / "compare" / "report.html").is_file()
    assert not reads
    limits = replace(Limits(), max_regression_faults=None)
    config = CheckConfig(limits=limits, random_images=100, variations=0, compare=brief)
    checked = check(*files, data="digits:test", config=config, output=tmp_path / "check")
    assert checked.values.behaviours
    assert (tmp_path / "check" / "report.html").is_file()
    assert not reads
