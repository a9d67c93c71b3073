"""Operators go as far as a jury still names real images as before, and no farther."""

from __future__ import annotations

import threading
from pathlib import Path

import numpy as np
import pytest
import torch

from diffgen.config import SplitConfig
from diffgen.data import load
from diffgen.data.split import DataSplit
from diffgen.events import Progress
from diffgen.features import jury as juries
from diffgen.features.jury import Recogniser, certainty
from diffgen.gan_training.augmentation import plain_background
from diffgen.runs.cache import cache_folder
from diffgen.sources.calibration import KEPT, calibrated, image_count, prepare_ranges, probes
from diffgen.sources.operators import OPERATORS, Range, Scene
from diffgen.types import Int64Array
from tests.own_threads import own_threads

NAMES = ("rotation", "shift", "brightness", "noise")
CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def scene() -> Scene:
    images = torch.from_numpy(load("digits:test").images)
    return Scene(images, plain_background(images))


def brightest(images: torch.Tensor) -> Int64Array:
    """Names by the mean grey level, in classes of 10: only what makes an image darker or lighter changes them."""
    return np.asarray(images.float().mean(dim=(1, 2, 3)).numpy() // 10, dtype=np.int64)


def test_each_end_keeps_enough_names_and_a_little_more_would_not(scene: Scene) -> None:
    images = scene.seeds[:150]
    found = calibrated(images, scene, NAMES, brightest, Progress(), CPU)
    before = brightest(images)
    # a shift of a digit in its margin changes no mean, so that the way is free to the widest
    assert found["shift"]["right"].high >= 2
    assert found["noise"]["levels"].low == found["noise"]["levels"].neutral == 0
    for name in NAMES:
        for axis, limit in OPERATORS[name].widest((28, 28)).items():
            own = found[name][axis]
            for end, farthest in ((own.low, limit.low), (own.high, limit.high)):
                assert share_kept(scene, images, before, name, axis, end) >= KEPT
                if end != farthest:
                    step = (farthest - own.neutral) / 16
                    beyond = end + (np.sign(step) if name == "shift" else step)
                    assert share_kept(scene, images, before, name, axis, beyond) < KEPT


def share_kept(scene: Scene, images: torch.Tensor, before: Int64Array, name: str, axis: str, strength: float) -> float:
    """Share of the images that keep their name."""
    operator = OPERATORS[name]
    (own,) = (each for each in operator.axes if each.name == axis)
    strengths = probes(operator, own, strength, len(images), len(scene.seeds))
    return float((brightest(operator.apply(images, scene, strengths)) == before).mean())


def test_what_loses_too_many_names_is_not_drawn_to_the_end(scene: Scene) -> None:
    """Each try is given up with the first part in which one of twenty images too many is lost."""
    images, asked = scene.seeds[:150], list[int]()

    def counted(pictures: torch.Tensor) -> Int64Array:
        asked.append(len(pictures))
        return brightest(pictures)

    calibrated(images, scene, ("brightness",), counted, Progress(), CPU)
    tries, size = 2 * 5, 38  # at most of either direction; images of a part
    assert asked[0] == 150 and set(asked[1:]) <= {size, 150 - 3 * size}
    assert tries * size <= sum(asked[1:]) < 0.8 * tries * 150


def test_several_threads_find_what_one_finds(scene: Scene) -> None:
    images, asking = scene.seeds[:60], set[int]()
    both = threading.Barrier(2, timeout=1200)

    def together(pictures: torch.Tensor) -> Int64Array:
        if len(asking) < 2 and len(pictures) < len(images) and threading.get_ident() not in asking:
            asking.add(threading.get_ident())
            both.wait()  # a thread that worked alone would wait in vain
        return brightest(pictures)

    with own_threads(2):
        shared = calibrated(images, scene, NAMES, together, Progress(), CPU)
    with own_threads(1):
        alone = calibrated(images, scene, NAMES, brightest, Progress(), CPU)
    assert len(asking) == 2
    assert shared == alone and list(shared) == list(NAMES)


def test_directions_differ(scene: Scene) -> None:
    """Of a jury that minds only what becomes lighter."""
    alike = scene.seeds[:1].repeat(100, 1, 1, 1)
    before = float(alike[0].float().mean())

    def lighter(images: torch.Tensor) -> Int64Array:
        return np.asarray(images.float().mean(dim=(1, 2, 3)) > before + 0.5, dtype=np.int64)

    found = calibrated(alike, scene, ("brightness",), lighter, Progress(), CPU)["brightness"]["factor"]
    assert found.low == pytest.approx(OPERATORS["brightness"].widest((28, 28))["factor"].low)
    assert found.high < 1.1


@pytest.fixture(scope="module")
def taught() -> tuple[DataSplit, juries.Jury]:
    """Digits, three tenths of them held out, and a jury that learned the others."""
    data = load("digits:test")
    split = DataSplit(data, SplitConfig(holdout=0.3))
    assert data.labels is not None
    return split, juries.train(split.reference, torch.from_numpy(data.labels)[split.rows[0]], shown=2_500)


def test_ranges_are_kept_in_the_cache(
    scene: Scene, taught: tuple[DataSplit, juries.Jury], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DIFFGEN_CACHE", str(tmp_path))
    split, jury = taught
    recogniser = Recogniser(jury, threshold=-1.0)
    found = prepare_ranges(split, scene, NAMES, recogniser, Progress())
    assert found is not None
    assert found["rotation"]["degrees"].low < -3
    assert found["rotation"]["degrees"].high > 3
    (file,) = (cache_folder() / "filters").glob("*.safetensors")
    stamp = file.stat().st_mtime_ns
    assert prepare_ranges(split, scene, NAMES, recogniser, Progress()) == found
    assert file.stat().st_mtime_ns == stamp
    file.write_bytes(b"not a range")
    assert prepare_ranges(split, scene, NAMES, recogniser, Progress()) == found


def test_how_sure_the_jury_must_be_is_part_of_what_is_kept(
    scene: Scene, taught: tuple[DataSplit, juries.Jury], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It chooses the held-out images that ranges are found on: what another run found is none of this one's."""
    split, jury = taught
    sure = certainty(jury.answers(split.held_out))
    lax, strict = (Recogniser(jury, float(np.quantile(sure, share))) for share in (0.05, 0.7))
    found = {}
    for cache, order in (("first", (lax, strict)), ("second", (strict, lax))):
        monkeypatch.setenv("DIFFGEN_CACHE", str(tmp_path / cache))
        for recogniser in order:
            found[cache, recogniser.threshold] = prepare_ranges(split, scene, NAMES, recogniser, Progress())
    for recogniser in (lax, strict):
        assert found["first", recogniser.threshold] == found["second", recogniser.threshold] is not None
    assert found["first", lax.threshold] != found["first", strict.threshold]


def test_with_a_jury_that_needs_help_no_range_is_shorter_than_usual(
    scene: Scene, taught: tuple[DataSplit, juries.Jury], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DIFFGEN_CACHE", str(tmp_path))
    split, jury = taught
    named = [prepare_ranges(split, scene, NAMES, Recogniser(jury, -1.0, each), Progress()) for each in (-1.0, -0.9)]
    alone, helped = named
    assert alone is not None and helped is not None and alone != helped
    for name, own in helped.items():
        for axis, usual in OPERATORS[name].usual(split.data.image_shape[1:]).items():
            found = alone[name][axis]
            assert own[axis] == Range(min(found.low, usual.low), usual.neutral, max(found.high, usual.high))


def test_a_jury_that_recognises_too_few_says_nothing(scene: Scene) -> None:
    data = load("digits:test")
    jury = juries.Jury(data.image_shape, np.arange(10))
    assert prepare_ranges(DataSplit(data, SplitConfig()), scene, NAMES, Recogniser(jury, 0.1), Progress()) is None


def test_fewer_images_where_they_are_large() -> None:
    sides = (16, 28, 64, 65, 96, 224, 1024)
    assert [image_count(side, side) for side in sides] == [200, 200, 200, 193, 88, 60, 60]
    assert image_count(16, 1024) == 60 and image_count(32, 128) == 200


def test_a_range_is_read_from_genes() -> None:
    assert [Range(-2, 0, 4).at(gene) for gene in (-1, -0.5, 0, 0.5, 1)] == [-2, -1, 0, 2, 4]
    assert [Range(0, 0, 4).at(gene) for gene in (-1, 0, 1)] == [0, 2, 4]
    assert [Range(-4, 0, 0).at(gene) for gene in (-1, 0, 1)] == [-4, -2, 0]
