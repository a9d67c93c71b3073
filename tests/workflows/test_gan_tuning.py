"""Tuning on several workers: those that fail or die, and what cannot be asked for."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from diffgen.cli import main
from diffgen.config import TrainGanConfig, replace
from diffgen.data import load
from diffgen.errors import RunError, UserError
from diffgen.events import Listener, Message
from diffgen.features import cells
from diffgen.gan_training.checkpoint import read_header
from diffgen.sources.base import FamilyContext
from diffgen.workflows import gan_tuning
from diffgen.workflows.train_gan import train_gan
from tests.pool.here import Here
from tests.recording import Recording
from tests.workflows.test_train_gan import SMALL, SPACE


def on_workers(monkeypatch: pytest.MonkeyPatch, run_trials: Callable[..., None], said: Recording) -> None:
    """Two workers that do what is given, in this process."""
    monkeypatch.setattr(gan_tuning, "Processes", Here)
    monkeypatch.setattr(gan_tuning, "run_trials", run_trials)
    images: Any = np.zeros((1, 1, 2, 2), np.uint8)
    nothing: Any = None
    context = FamilyContext(nothing, torch.device("cpu"), said.progress)
    gan_tuning._on_workers(images, TrainGanConfig(), context, Path("gan"), 2)


def test_workers_that_break_off_are_replaced(monkeypatch: pytest.MonkeyPatch, told: Callable[..., None]) -> None:
    begun: list[str] = []

    def breaks(listener: Listener, data: Any, config: Any, device: str, *rest: Any) -> None:
        begun.append(device)
        if len(begun) in (1, 3):
            raise RunError("The disk was full for a moment.")
        listener(Message("info", "Trial 1 is finished."))

    said = Recording()
    on_workers(monkeypatch, breaks, said)
    assert begun == ["cpu"] * 4
    assert said.lines == ["Worker 2: Trial 1 is finished.", "Worker 1: Trial 1 is finished."]
    assert len(said.warnings) == 2
    told("`diffgen train-gan`", "a worker of `--tune --workers` breaks off: a warning", said.warnings[0])


def test_a_worker_that_breaks_off_again_and_again(monkeypatch: pytest.MonkeyPatch, told: Callable[..., None]) -> None:
    begun: list[int] = []

    def breaks(listener: Listener, *rest: Any) -> None:
        begun.append(1)
        if len(begun) != 2:
            raise MemoryError

    with pytest.raises(RunError) as caught:
        on_workers(monkeypatch, breaks, Recording())
    assert len(begun) == 3 + 1
    told("`diffgen train-gan`", "a worker of `--tune --workers` breaks off again and again", caught.value)


def test_what_no_worker_can_open_ends_all(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuses(*rest: Any) -> None:
        raise UserError("The study cannot be opened; name another storage.")

    with pytest.raises(UserError, match="Worker 1 cannot work: The study cannot"):
        on_workers(monkeypatch, refuses, Recording())


def test_workers_that_cannot_be(capsys: pytest.CaptureFixture[str], told: Callable[..., None]) -> None:
    for case, words in {
        "`--workers 0`": ("--tune", "3", "--workers", "0"),
        "`--workers` without `--tune`": ("--workers", "2"),
    }.items():
        assert main(["train-gan", "digits:test", *words]) == 2
        told("`diffgen train-gan`", case, capsys.readouterr().err.strip())


@pytest.mark.slow
def test_two_workers_share_a_study(tmp_path: Path) -> None:
    cells.prepare(load("digits:test"))
    config = replace(SMALL, tuning=replace(SPACE, trials=3, storage=str(tmp_path / "study.log")))
    said = Recording()
    result = train_gan("digits:test", config=config, workers=2, events=said)
    trials = read_header(Path(result.gan))["tuning"]["trials"]
    assert [trial["number"] for trial in trials] == [0, 1, 2]
    assert {line.partition(":")[0] for line in said.lines if ": Trial " in line} == {"Worker 1", "Worker 2"}
    assert result.tuning is not None
    assert result.tuning["trials"] == 3
