"""Comparisons of models with inputs of different sizes, on pictures of many sizes, without an option."""

from __future__ import annotations

import tomllib
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from torch import nn

from benchmarks.quick import trained_as_asked
from diffgen.comparison.real_data import usual_size
from diffgen.config import Budget, CompareConfig, Preprocessing, SearchConfig
from diffgen.data import load, picture_stack
from diffgen.data.decoded import ImageMap
from diffgen.errors import UserError
from diffgen.models import load as load_model
from diffgen.runs.files import write_text
from diffgen.runs.folder import RunFolder
from diffgen.workflows.compare import compare
from diffgen.workflows.replay import replay
from diffgen.workflows.resume import resume
from tests.recording import Recording

SMALL = trained_as_asked(
    CompareConfig(budget=Budget(queries=200), seed=3, device="cpu", search=SearchConfig(population=50)), quick=True
)


class Brighter(nn.Module):
    """Is one half brighter than the other? Of images of one size alone, as the file declares."""

    def __init__(self, axis: int) -> None:
        super().__init__()
        self.axis = axis

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        one, other = x.mean(dim=1).tensor_split(2, dim=self.axis)
        margin = 8 * (one.mean(dim=(1, 2)) - other.mean(dim=(1, 2)))
        return torch.stack([margin, -margin], dim=1)


def save(path: Path, axis: int, size: tuple[int, int]) -> Path:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(
            Brighter(axis),
            (torch.zeros(1, 3, *size),),
            str(path),
            dynamo=False,
            input_names=["x"],
            dynamic_axes={"x": {0: "n"}},
        )
    return path


@pytest.fixture
def pair(tmp_path: Path) -> tuple[Path, Path]:
    return save(tmp_path / "a.onnx", 1, (40, 48)), save(tmp_path / "b.onnx", 2, (44, 36))


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    """Slowly changing colours, no two pictures of one size, and no labels."""
    rng = np.random.default_rng(0)
    folder = tmp_path / "photos"
    folder.mkdir()
    for number in range(120):
        small = Image.fromarray(rng.integers(0, 256, (3, 3, 3), dtype=np.uint8))
        size = (50 + number, 170 - number)
        small.resize(size, Image.Resampling.BICUBIC).save(folder / f"{number:03}.jpg")
    return folder


def test_no_option_is_needed(pair: tuple[Path, Path], photos: Path, tmp_path: Path) -> None:
    run, listener = tmp_path / "run", Recording()
    result = compare(*pair, data=photos, config=SMALL, output=run, events=listener)
    assert result.triggers > 0
    settings = tomllib.loads((run / "config.toml").read_text())
    # the larger of both heights and of both widths
    assert settings["resize"] == [44, 48]
    assert [each["preprocessing"]["size"] for each in settings["models"]] == [[40, 48], [44, 36]]
    assert any(line.startswith("Nobody named a size: images are brought to 48x44") for line in listener.lines)
    assert any("resized to 48x40 for A and to 36x44 for B" in line for line in listener.lines)
    assert RunFolder.open(run).read_triggers().images.shape[1:] == (3, 44, 48)
    assert replay(run).reproduced == result.triggers


@pytest.mark.slow
def test_what_was_decided_is_kept(pair: tuple[Path, Path], photos: Path, tmp_path: Path) -> None:
    """A run that is resumed with models that declare other inputs reads the images as it did."""
    run = tmp_path / "run"
    result = compare(*pair, data=photos, fit="pad", config=SMALL, output=run)
    manifest = run / "manifest.json"
    write_text(manifest, manifest.read_text().replace('"status": "done"', '"status": "interrupted"'))
    assert resume(run).triggers == result.triggers
    assert tomllib.loads((run / "config.toml").read_text())["fit"] == "pad"


@pytest.mark.slow
def test_pictures_of_one_small_size_keep_it(pair: tuple[Path, Path], tmp_path: Path, photos: Path) -> None:
    for path in photos.iterdir():
        Image.open(path).resize((36, 30)).save(path)
    run = tmp_path / "run"
    compare(*pair, data=photos, config=SMALL, output=run)
    settings = tomllib.loads((run / "config.toml").read_text())
    assert "resize" not in settings
    assert RunFolder.open(run).read_triggers().images.shape[1:] == (3, 30, 36)


def test_what_is_cut_out_is_there_first(pair: tuple[Path, Path]) -> None:
    """Pictures are brought to what the model resizes them to, and not to the middle of that, which it is handed."""
    found = usual_size([load_model(pair[0], preprocessing=Preprocessing(crop=0.8)), load_model(pair[1])])
    assert found is not None and found.size == (50, 60)


def test_an_input_that_is_too_large(photos: Path, tmp_path: Path, pair: tuple[Path, Path]) -> None:
    large = save(tmp_path / "large.onnx", 1, (32, 1200))
    with pytest.raises(UserError, match="Model A takes images of 1200x32 pixels, and images may have 1024 a side"):
        compare(large, pair[1], data=photos, config=SMALL, output=tmp_path / "run")
    assert not (tmp_path / "run").exists()


@pytest.mark.slow
def test_a_run_on_a_map_is_the_run_on_the_images_in_memory(
    pair: tuple[Path, Path], photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the sample that networks learn from holds all images, nothing else differs."""
    found: list[Any] = []
    for name, limit in (("memory", 2**30), ("map", 1000), ("again", 1000)):
        monkeypatch.setattr(picture_stack, "LARGE_BYTES", limit)
        listener = Recording()
        compare(*pair, data=photos, config=SMALL, output=tmp_path / name, events=listener)
        triggers = RunFolder.open(tmp_path / name).read_triggers()
        found.append((triggers.images, triggers.probabilities, listener.lines))
    assert isinstance(load(photos, resize=(44, 48)).images, ImageMap)
    for images, probabilities, _ in found[1:]:
        assert np.array_equal(images, found[0][0])
        assert np.array_equal(probabilities, found[0][1])
    assert any("What the models say of the 120 real images is in the cache" in line for line in found[2][2])


def test_larger_than_images_may_be(tmp_path: Path) -> None:
    images = np.zeros((50, 1, 20, 1100), dtype=np.uint8)
    with pytest.raises(UserError, match="1x20x1100, and may have 1024 pixels a side at most"):
        compare(lambda x: x, lambda x: x, data=images, config=SMALL, output=tmp_path / "r")
