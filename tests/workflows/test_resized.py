"""Comparisons on pictures that were brought to one size on reading."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from diffgen.comparison.settle import _data_path
from diffgen.config import Budget, CompareConfig, FilterConfig, GanConfig, SearchConfig, SourceConfig, replace
from diffgen.data import load
from diffgen.errors import UserError
from diffgen.types import ImageSet
from diffgen.workflows.compare import compare
from diffgen.workflows.resume import resume

SMALL = CompareConfig(
    budget=Budget(queries=150),
    seed=1,
    device="cpu",
    source=SourceConfig(family="gan"),
    gan=GanConfig(width=4, steps=25, batch_size=16, augment=False, monitor_checks=0),
    search=SearchConfig(population=30),
    filters=FilterConfig(filters={"jury": {"shown": 640}}),
)


def halves(images: np.ndarray) -> np.ndarray:
    """A model: is the upper half brighter than the lower one?"""
    middle = images.shape[2] // 2
    margin = 20 * (images[:, :, :middle].mean(axis=(1, 2, 3)) - images[:, :, middle:].mean(axis=(1, 2, 3)))
    return np.stack([1 / (1 + np.exp(-margin)), 1 / (1 + np.exp(margin))], axis=1)


def quarters(images: np.ndarray) -> np.ndarray:
    return halves(np.ascontiguousarray(images.transpose(0, 1, 3, 2)))


@pytest.fixture
def photos(tmp_path: Path, digits: ImageSet) -> Path:
    """Two classes of digits, no two classes of one size."""
    assert digits.labels is not None
    for name, label, size in (("one", 1, (90, 70)), ("seven", 7, (50, 66))):
        (tmp_path / "photos" / name).mkdir(parents=True)
        for number, image in enumerate(digits.images[digits.labels == label][:80, 0]):
            Image.fromarray(image).resize(size).save(tmp_path / "photos" / name / f"{number}.png")
    return tmp_path / "photos"


@pytest.mark.parametrize("side", [28, pytest.param(64, marks=pytest.mark.slow)])
def test_from_pictures_of_any_size_to_a_report_and_on(photos: Path, tmp_path: Path, side: int) -> None:
    run = tmp_path / "run"
    result = compare(halves, quarters, data=photos, resize=side, config=SMALL, output=run)
    assert result.queries == 150
    assert tomllib.loads((run / "config.toml").read_text())["resize"] == side
    manifest = json.loads((run / "manifest.json").read_text())
    assert manifest["data"]["sha256"] == load(photos, resize=side).digest
    assert (run / "report.html").is_file()
    # a run that was broken off reads the same images again, and refuses others
    (run / "manifest.json").write_text(json.dumps({**manifest, "status": "interrupted"}))
    assert resume(run, halves, quarters).triggers == result.triggers
    (run / "manifest.json").write_text(json.dumps({**manifest, "status": "interrupted"}))
    next(photos.glob("one/*.png")).unlink()
    with pytest.raises(UserError, match="not what the run"):
        resume(run, halves, quarters)


def test_mixed_sizes_without_resizing(photos: Path, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="--resize"):
        compare(halves, quarters, data=photos, config=SMALL, output=tmp_path / "run")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("side", [30, 0, 128])
def test_a_size_that_the_gan_cannot_draw(tmp_path: Path, side: int) -> None:
    with pytest.raises(UserError, match="28, 32, 64"):
        compare(halves, quarters, data="digits", config=replace(SMALL, resize=side), output=tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_a_word_is_recorded_as_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also beside a folder of the same name, which the word goes before."""
    (tmp_path / "digits").mkdir()
    (tmp_path / "torchvision").mkdir()
    monkeypatch.chdir(tmp_path)
    assert _data_path("digits") == "digits"
    assert _data_path("torchvision:MNIST") == "torchvision:MNIST"
    assert _data_path("./digits") == _data_path(Path("digits")) == str(tmp_path / "digits")
    assert _data_path("./digits:test") == f"{tmp_path / 'digits'}:test"
