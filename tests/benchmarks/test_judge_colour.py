"""The judge's networks for photographs: trained, broken off and gone on with, calibrated."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from benchmarks import judge_colour
from benchmarks.judge import judge_for, judge_is_trained
from benchmarks.judge_colour import KINDS, Photographs, Recipe, changed, train
from diffgen.data import load
from diffgen.types import ImageSet
from tests.benchmarks.conftest import Bench


@pytest.fixture
def photographs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> ImageSet:
    """Red, green and blue squares with grain, and networks that are narrow and shown them three times."""
    monkeypatch.setenv("DIFFGEN_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(judge_colour, "recipe", lambda training: Recipe(width=8, epochs=4, batch=32))
    labels = np.arange(600) % 3
    images = np.random.default_rng(0).integers(0, 80, (600, 3, 16, 16), dtype=np.uint8)
    images[np.arange(600), labels] += 150
    np.savez(tmp_path / "squares.npz", images=images, labels=labels)
    return load(str(tmp_path / "squares.npz"))


def test_a_judge_of_photographs_is_trained_once_and_is_right(photographs: ImageSet) -> None:
    assert not judge_is_trained(photographs)
    judge = judge_for(photographs, photographs)
    assert judge_is_trained(photographs)
    assert set(judge.accuracies) == {*KINDS, "together"}
    assert judge.accuracies["together"] > 0.9
    answers = judge.probabilities(torch.from_numpy(photographs.images[:7]))
    assert answers.shape == (2, 7, 3)
    torch.testing.assert_close(answers.sum(2), torch.ones(2, 7))
    again = judge_for(photographs, photographs)
    assert again.accuracies == judge.accuracies
    assert judge.probabilities(torch.empty(0, 3, 16, 16, dtype=torch.uint8)).shape == (2, 0, 3)


def test_training_that_was_broken_off_goes_on_and_ends_alike(photographs: ImageSet, tmp_path: Path) -> None:
    whole, broken = tmp_path / "whole.safetensors", tmp_path / "broken.safetensors"
    train(photographs, "plain", whole, seed=1)

    class Broken(Exception):
        pass

    def break_off(*_: object) -> torch.Tensor:
        raise Broken

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(judge_colour, "_temperature", break_off)  # after the last epoch
        with pytest.raises(Broken):
            train(photographs, "plain", broken, seed=1)
    assert broken.with_suffix(".unfinished").is_file() and not broken.exists()
    train(photographs, "plain", broken, seed=1)
    assert not broken.with_suffix(".unfinished").exists()
    first, second = load_file(whole), load_file(broken)
    for name, value in first.items():
        torch.testing.assert_close(second[name], value)


def test_an_answer_is_the_same_for_a_mirrored_picture() -> None:
    network = Photographs("residual", 8, 4).eval()
    values = torch.rand(3, 3, 32, 32)
    with torch.inference_mode():
        torch.testing.assert_close(network(values), network(values.flip(3)), atol=1e-5, rtol=1e-4)


def test_what_is_changed_stays_an_image_and_half_keeps_its_grain() -> None:
    torch.manual_seed(0)
    values = torch.rand(64, 3, 32, 32)
    found = changed(values)
    assert found.shape == values.shape and found.min() >= 0 and found.max() <= 1
    grain = found.std(dim=(1, 2, 3))
    assert 0.2 < (grain > 0.27).float().mean() < 0.8  # what is turned is smoothed by it


def test_judge_colour(bench: Bench, photographs: ImageSet, tmp_path: Path) -> None:
    words = (tmp_path / "squares.npz", tmp_path / "net.safetensors", "--kind", "residual", "--epochs", 3)
    said = bench("judge_colour", *words)
    assert "held-out accuracy" in said and (tmp_path / "net.safetensors").is_file()
