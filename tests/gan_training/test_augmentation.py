"""diffgen.gan_training.augmentation"""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch
from sklearn.datasets import load_sample_image

from diffgen.gan_training.augmentation import (
    BRIGHTNESS_PERCENT,
    SHIFT_PERCENT,
    TRANSFORMATIONS,
    augment,
    plain_background,
)

NAMES = ("rotation", "shift", "shear", "brightness", "blur")
GEOMETRIC = ("rotation", "shift", "shear")


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def by_name(images: torch.Tensor, seed: int = 0) -> dict[str, torch.Tensor]:
    """Each transformation's images."""
    parts = augment(images, generator=seeded(seed)).split(len(images))
    return dict(zip(("original", *TRANSFORMATIONS), parts, strict=True))


def photographs() -> torch.Tensor:
    """uint8 (N, 3, 32, 32): squares of two photographs without anything black in them."""
    squares = [
        photograph[y : y + 32, x : x + 32].transpose(2, 0, 1)
        for photograph in (load_sample_image("china.jpg"), load_sample_image("flower.jpg"))
        for y, x in itertools.product(range(0, 395, 24), range(0, 608, 24))
    ]
    chosen = torch.from_numpy(np.stack([square for square in squares if square.min() >= 40]))
    assert len(chosen) > 100
    return chosen


def blank_corners(images: torch.Tensor, background: int) -> torch.Tensor:
    """bool (N, 4): nothing but background within reach of the corner, which is what can be moved into it."""
    reach = 6
    away = torch.arange(images.shape[-1], dtype=torch.float32)
    quarter = torch.hypot(away[:, None], away[None, :]) <= reach
    blocks = (quarter, quarter.flip(1), quarter.flip(0), quarter.flip(0, 1))
    return torch.stack([(images[..., block] == background).flatten(1).all(dim=1) for block in blocks], dim=1)


def corners(images: torch.Tensor) -> torch.Tensor:
    """uint8 (N, C, 4): top left, top right, bottom left, bottom right."""
    return images[:, :, [0, 0, -1, -1], [0, -1, 0, -1]]


@pytest.mark.parametrize("count", [1, 5, 64, 65, 130])
@pytest.mark.parametrize("shape", [(1, 28, 28), (3, 32, 32)])
def test_six_times_as_many_originals_first(count: int, shape: tuple[int, int, int]) -> None:
    images = torch.randint(256, (count, *shape), generator=seeded(), dtype=torch.uint8)
    before = images.clone()
    found = augment(images, generator=seeded())
    assert found.shape == (6 * count, *shape)
    assert found.dtype == torch.uint8
    assert torch.equal(found[:count], before)
    assert torch.equal(images, before)


@pytest.mark.parametrize("seed", [0, 1, 2])
@pytest.mark.parametrize("name", NAMES)
def test_every_image_is_changed_but_not_beyond_recognition(images: torch.Tensor, name: str, seed: int) -> None:
    """The published code shifted by 0.2 pixels, which is no shift at all."""
    found = by_name(images, seed)[name]
    changed = (found != images).flatten(1).float().mean(dim=1)
    assert changed.min() > 0.05
    flat, other = images.flatten(1).double(), found.flatten(1).double()
    cosine = torch.nn.functional.cosine_similarity(flat, other, dim=1)
    assert cosine.min() > 0.6
    assert cosine.max() > 0.8


def test_same_seed_same_images(images: torch.Tensor) -> None:
    some = images[:100]
    assert torch.equal(augment(some, generator=seeded(5)), augment(some, generator=seeded(5)))
    for name, part in by_name(some, seed=6).items():
        assert name == "original" or name == "blur" or not torch.equal(part, by_name(some, seed=5)[name])


def test_the_global_random_numbers_are_left_alone(images: torch.Tensor) -> None:
    before = torch.get_rng_state()
    augment(images[:70], generator=seeded())
    assert torch.equal(torch.get_rng_state(), before)


# -- what comes into view at the border ------------------------------------------------------------------------------


def test_digits_have_a_plain_background_though_some_touch_the_border(images: torch.Tensor) -> None:
    assert (images[:, :, 0] > 100).any()
    assert plain_background(images) == [0.0]
    assert plain_background(255 - images) == [255.0]
    assert plain_background(torch.cat([images, 255 - images, images], dim=1)) == [0.0, 255.0, 0.0]


def test_photographs_have_none() -> None:
    assert plain_background(photographs()) is None


@pytest.mark.parametrize("background", [0, 255])
@pytest.mark.parametrize("name", [*GEOMETRIC, "blur"])
def test_corners_stay_background(images: torch.Tensor, name: str, background: int) -> None:
    on_this = images if background == 0 else 255 - images
    blank = blank_corners(on_this, background)
    assert (blank.sum(dim=0) > 50).all()
    assert (corners(by_name(on_this)[name])[:, 0][blank] == background).all()


@pytest.mark.parametrize("name", GEOMETRIC)
def test_strokes_at_the_border_are_not_mirrored(images: torch.Tensor, name: str) -> None:
    """What comes into view holds no ink: no image gets much more of it than it had."""
    ink = images.flatten(1).double().sum(dim=1)
    found = by_name(images)[name].flatten(1).double().sum(dim=1)
    assert (found / ink).max() < 1.03


@pytest.mark.parametrize("level", [0, 77, 255])
@pytest.mark.parametrize("name", [*GEOMETRIC, "blur"])
def test_blank_images_stay_blank(name: str, level: int) -> None:
    blank = torch.full((70, 3, 32, 32), level, dtype=torch.uint8)
    blank[:, 1] = 255 - level
    assert torch.equal(by_name(blank)[name], blank)


@pytest.mark.parametrize("name", GEOMETRIC)
def test_photographs_get_no_black_corners(name: str) -> None:
    """Every pixel lies between the darkest and the brightest of its own picture."""
    originals = photographs()
    found = by_name(originals)[name]
    for channel in range(3):
        low, high = originals[:, channel].flatten(1).aminmax(dim=1)
        new_low, new_high = found[:, channel].flatten(1).aminmax(dim=1)
        assert (new_low.int() >= low.int() - 1).all()
        assert (new_high.int() <= high.int() + 1).all()


# -- each against a plain version of itself --------------------------------------------------------------------------


def shifted(image: np.ndarray, down: int, right: int) -> np.ndarray:
    """Moved by whole pixels, with black coming in, pixel by pixel."""
    height, width = image.shape
    moved = np.zeros_like(image)
    for y, x in itertools.product(range(height), range(width)):
        if 0 <= y - down < height and 0 <= x - right < width:
            moved[y, x] = image[y - down, x - right]
    return moved


def test_shift_moves_by_whole_pixels_both_ways(images: torch.Tensor) -> None:
    furthest = round(SHIFT_PERCENT / 100 * 28)
    distances = [n for n in range(-furthest, furthest + 1) if n]
    part = by_name(images)["shift"]
    seen = set()
    for before, after in zip(images[:80, 0].numpy(), part[:80, 0].numpy(), strict=True):
        matching = [
            (down, right)
            for down, right in itertools.product(distances, repeat=2)
            if np.array_equal(shifted(before, down, right), after)
        ]
        assert len(matching) == 1
        seen |= set(matching)
    assert {(down > 0, right > 0) for down, right in seen} == set(itertools.product((True, False), repeat=2))
    assert {abs(n) for pair in seen for n in pair} == {1, 2}


def test_rotation_turns_both_ways_within_bounds() -> None:
    """A dot to the right of the middle tells the angle."""
    dots = torch.zeros(200, 1, 28, 28, dtype=torch.uint8)
    dots[:, 0, 12:16, 24:27] = 255
    found = by_name(dots)["rotation"][:, 0].double()
    axis = torch.arange(28, dtype=torch.float64) - 13.5
    mass = found.sum(dim=(1, 2))
    y = (found * axis[:, None]).sum(dim=(1, 2)) / mass
    x = (found * axis[None, :]).sum(dim=(1, 2)) / mass
    degrees = torch.rad2deg(torch.atan2(y, x))
    assert degrees.abs().min() > 0.38 * 12
    assert 9 < degrees.abs().max() < 12.5
    assert set(degrees.sign().tolist()) == {-1.0, 1.0}
    np.testing.assert_allclose(torch.hypot(x, y), 11.5, atol=0.3)


def test_shear_leans_both_ways_within_bounds() -> None:
    """A dot above the middle moves sideways, one in the middle of a side does not move."""
    dots = torch.zeros(200, 1, 28, 28, dtype=torch.uint8)
    dots[:, 0, 1:3, 12:16] = 255
    found = by_name(dots)["shear"][:, 0].double()
    axis = torch.arange(28, dtype=torch.float64) - 13.5
    mass = found.sum(dim=(1, 2))
    x = (found * axis[None, :]).sum(dim=(1, 2)) / mass
    y = (found * axis[:, None]).sum(dim=(1, 2)) / mass
    degrees = torch.rad2deg(torch.atan2(x, -y))
    assert degrees.abs().min() > 0.36 * 12
    assert 9 < degrees.abs().max() < 12.5
    assert set(degrees.sign().tolist()) == {-1.0, 1.0}
    np.testing.assert_allclose(y, -12, atol=0.3)


def test_brightness_multiplies_within_bounds(images: torch.Tensor) -> None:
    part = by_name(images)["brightness"]
    factors = []
    for before, after in zip(images.double(), part.double(), strict=True):
        fits = (before > 100) & (before < 200)  # bright enough to measure, too dark to be cut off
        factors.append((after[fits] / before[fits]).median().item())
        assert ((before * factors[-1]).clamp(max=255) - after).abs().max() <= 2.5
    changes = np.abs(np.array(factors) - 1) * 100
    assert changes.min() > 0.38 * BRIGHTNESS_PERCENT
    assert changes.max() < 1.05 * BRIGHTNESS_PERCENT
    assert min(factors) < 0.9
    assert max(factors) > 1.1


def test_blur_keeps_the_sum_and_lowers_the_contrast(images: torch.Tensor) -> None:
    inside = torch.zeros(100, 1, 28, 28, dtype=torch.uint8)
    inside[:, :, 6:22, 6:22] = images[:100, :, 6:22, 6:22]
    part = by_name(inside)["blur"]
    before, after = inside.flatten(1).double(), part.flatten(1).double()
    np.testing.assert_allclose(after.sum(dim=1) / before.sum(dim=1), 1, atol=0.01)
    assert (after.std(dim=1) < before.std(dim=1)).all()


@pytest.mark.parametrize("sides", [(64, 16), (256, 16), (16, 256), (63, 16)])
def test_pictures_of_any_proportions(sides: tuple[int, int]) -> None:
    """Bright up to the edges: whatever comes into view is the picture mirrored, and nothing dark."""
    rng = torch.Generator().manual_seed(3)
    # two levels, so that the border is no plain background
    images = (torch.rand(4, 1, *sides, generator=rng) < 0.5).to(torch.uint8) * 100 + 120
    parts = by_name(images)
    for name in GEOMETRIC:
        assert parts[name].shape == images.shape
        assert parts[name].min() >= 119
