"""diffgen.data.resize: images of any size brought to one"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from diffgen.data import load
from diffgen.data.loading import load_with
from diffgen.data.resize import Resizer, Usual, resized
from diffgen.errors import UserError
from diffgen.events import Progress
from diffgen.types import ImageSet
from tests.recording import Recording

RANDOM = np.random.default_rng(0)


def image_set(*shape: int) -> ImageSet:
    values = RANDOM.integers(0, 256, (50, *shape), dtype=np.uint8)
    return ImageSet(images=values, labels=np.arange(50) % 3, class_names=("a", "b", "c"), source="mine")


@settings(max_examples=100)
@given(
    height=st.integers(1, 90),
    width=st.integers(1, 90),
    size=st.tuples(st.integers(16, 60), st.integers(16, 60)),
    fit=st.sampled_from(["crop", "pad", "stretch"]),
    colour=st.booleans(),
)
def test_any_picture_gets_any_size(height: int, width: int, size: tuple[int, int], fit: Any, colour: bool) -> None:
    picture = np.resize(np.arange(1, 251, dtype=np.uint8), (height, width, 3) if colour else (height, width))
    resizer = Resizer(size, fit)
    found = resizer(picture)
    assert found.shape == (*size, *picture.shape[2:])
    assert found.dtype == np.uint8
    if (height, width) == size:
        assert found is picture
        assert resizer.report(1) == ""
    else:
        assert resizer.report(1).startswith(f"Resized 1 of 1 images to {size[1]}x{size[0]} (they had {width}x{height})")


def test_rules_against_pillow_alone() -> None:
    picture = RANDOM.integers(1, 256, (40, 100, 3), dtype=np.uint8)
    image = Image.fromarray(picture)
    # 24x48: of 100x40 the middle 80x40
    expected = image.crop((10, 0, 90, 40)).resize((48, 24), Image.Resampling.BICUBIC)
    assert np.array_equal(Resizer((24, 48))(picture), np.asarray(expected))
    expected = image.resize((48, 24), Image.Resampling.BICUBIC)
    assert np.array_equal(Resizer((24, 48), "stretch")(picture), np.asarray(expected))
    padded = Resizer((24, 48), "pad")(picture)
    expected = image.resize((48, 19), Image.Resampling.BICUBIC)
    assert np.array_equal(padded[2:21], np.asarray(expected))
    assert not padded[:2].any()
    assert not padded[21:].any()


def pictures_of(make: Any, folder: Path, *sizes: tuple[int, int]) -> Path:
    files = {f"{n:03}.png": make.picture(n, size=sizes[n % len(sizes)]) for n in range(60)}
    return make.write_folder(folder, files)


@pytest.mark.parametrize(
    ("sizes", "usual", "shape"),
    [
        ([(40, 30), (30, 40)], Usual((32, 48), shrinks=True), (32, 48)),
        ([(40, 30), (30, 40)], Usual((32, 48), shrinks=False), (32, 48)),
        # of one size: never enlarged, and made smaller only where every model says what it takes
        ([(40, 30)], Usual((32, 48), shrinks=True), (30, 40)),
        ([(60, 50)], Usual((32, 48), shrinks=True), (32, 48)),
        ([(60, 50)], Usual((32, 48), shrinks=False), (50, 60)),
        ([(48, 32)], Usual((32, 48), shrinks=True), (32, 48)),
    ],
)
def test_the_usual_size(tmp_path: Path, make: Any, sizes: Any, usual: Usual, shape: tuple[int, int]) -> None:
    folder = pictures_of(make, tmp_path / "set", *sizes)
    resizer = Resizer(usual=usual)
    found = load_with(folder, resizer, skip_broken=False, progress=Progress())
    assert found.image_shape == (1, *shape)
    changed = shape != sizes[0][::-1] or len(sizes) > 1
    assert resizer.size == (shape if changed else None)
    if changed:
        assert np.array_equal(found.images, load(folder, resize=shape).images)


def test_arrays_keep_their_size() -> None:
    images = image_set(1, 40, 40).images
    found = load_with(images, Resizer(usual=Usual((32, 32), shrinks=True)), skip_broken=False, progress=Progress())
    assert found.image_shape == (1, 40, 40)


@settings(max_examples=60)
@given(height=st.integers(1, 90), width=st.integers(1, 90), side=st.sampled_from([28, 32, 64]), colour=st.booleans())
def test_any_picture_becomes_the_square(height: int, width: int, side: int, colour: bool) -> None:
    picture = np.resize(np.arange(251, dtype=np.uint8), (height, width, 3) if colour else (height, width))
    found = Resizer(side)(picture)
    assert found.shape[:2] == (side, side)
    assert found.ndim == picture.ndim
    assert found.dtype == np.uint8


def test_against_pillow_alone() -> None:
    picture = RANDOM.integers(0, 256, (70, 100, 3), dtype=np.uint8)
    middle = Image.fromarray(picture).crop((15, 0, 85, 70))
    expected = np.asarray(middle.resize((32, 32), Image.Resampling.BICUBIC))
    assert np.array_equal(Resizer(32)(picture), expected)


def test_what_lies_outside_the_square_does_not_matter() -> None:
    picture = RANDOM.integers(0, 256, (40, 60), dtype=np.uint8)
    other = picture.copy()
    other[:, :10] = other[:, 50:] = 0
    assert np.array_equal(Resizer(28)(picture), Resizer(28)(other))


def test_only_cut_where_the_square_has_the_size() -> None:
    picture = RANDOM.integers(0, 256, (28, 41), dtype=np.uint8)
    assert np.array_equal(Resizer(28)(picture), picture[:, 6:34])


def test_large_pictures_are_smoothed() -> None:
    """A chessboard of single pixels becomes grey; picking pixels would keep it black and white."""
    board = (np.indices((64, 64)).sum(axis=0) % 2 * 255).astype(np.uint8)
    inner = Resizer(28)(board)[4:-4, 4:-4]
    assert inner.min() > 90
    assert inner.max() < 165


def test_too_many_for_the_memory_in_the_new_size() -> None:
    with pytest.raises(UserError, match="would take 6 GiB of memory"):
        resized(ImageSet(np.zeros((2000, 3, 20, 20), np.uint8), None, None, "mine"), Resizer(1024), Progress())


def test_nothing_is_done_to_the_right_size() -> None:
    given_set, listener = image_set(3, 32, 32), Recording()
    assert resized(given_set, Resizer(32), listener.progress) is given_set
    assert load(given_set, resize=32, progress=listener.progress) is given_set
    assert listener.lines == []


@pytest.mark.parametrize("channels", [1, 3])
def test_image_sets(channels: int) -> None:
    given_set, listener = image_set(channels, 20, 24), Recording()
    found = load(given_set, resize=28, progress=listener.progress)
    assert found.images.shape == (50, channels, 28, 28)
    assert found.class_names == given_set.class_names
    assert found.labels is given_set.labels
    for channel in range(channels):
        cut = Image.fromarray(given_set.images[7, channel][:, 2:22])
        expected = np.asarray(cut.resize((28, 28), Image.Resampling.BICUBIC))
        assert np.array_equal(found.images[7, channel], expected)
    (line,) = listener.lines
    assert line == "Resized 50 of 50 images to 28x28 (they had 24x20); 50 that are no squares keep only their middle."


def test_arrays(refused: Any) -> None:
    images = image_set(1, 8, 8).images
    assert load(images, resize=32).images.shape == (50, 1, 32, 32)
    found = load((images, np.arange(50)), resize=64)
    assert found.images.shape == (50, 1, 64, 64)
    assert found.labels is not None


def test_the_same_each_time() -> None:
    images = image_set(3, 45, 31).images
    assert load(images, resize=64).digest == load(images, resize=64).digest


def test_digits_and_idx_and_npz(tmp_path: Path, make: Any) -> None:
    assert load("digits:test", resize=64).images.shape == (898, 1, 64, 64)
    images = image_set(1, 20, 20).images
    (tmp_path / "t10k-images-idx3-ubyte").write_bytes(make.idx_bytes(images[:, 0]))
    np.savez(tmp_path / "set.npz", images=images)
    from_idx, from_npz = load(tmp_path, resize=28), load(tmp_path / "set.npz", resize=28)
    assert from_idx.digest == from_npz.digest
    assert from_idx.image_shape == (1, 28, 28)


@pytest.mark.parametrize("packed", [False, True])
def test_folders_of_mixed_sizes(tmp_path: Path, make: Any, refused: Any, packed: bool) -> None:
    files = make.classes() | {f"dog/x{n}.png": make.picture(n, size=(30 + n, 90 - n)) for n in range(20)}
    source = make.write_zip(tmp_path / "set.zip", files) if packed else make.write_folder(tmp_path / "set", files)
    refused(source, "differ in size", "--resize")
    listener = Recording()
    found = load(source, resize=32, progress=listener.progress)
    assert found.image_shape == (1, 32, 32)
    assert found.class_names == ("cat", "dog")
    (line,) = listener.lines
    assert line.startswith("Resized 70 of 70 images to 32x32 (they had 8x8, ")
    assert "more sizes" in line
    assert "20 that are no squares" in line


@pytest.mark.parametrize("side", [0, -1, 3, 100_000, 2**70, 28.0, "28", True, float("nan")])
def test_no_size(side: Any) -> None:
    with pytest.raises(UserError, match="--resize"):
        load("digits", resize=side)
