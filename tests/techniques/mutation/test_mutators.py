"""Every mutator on real images, grey and in colour; geometry against torchvision."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import torchvision.transforms.v2.functional as transform

from diffgen.origins import read_recipe, recipe_text
from diffgen.techniques import dflare, drfuzz
from diffgen.techniques.mutation import Mutated, geometry, levels, mutate
from diffgen.techniques.mutation.mutator import steps_of
from diffgen.types import ImageSet

ALL = {
    **{f"DRfuzz {k}": v for k, v in drfuzz.MUTATORS.items()},
    **{f"DFlare {k}": v for k, v in dflare.MUTATORS.items()},
}


def test_there_are_as_many_as_published() -> None:
    assert (len(drfuzz.MUTATORS), len(dflare.MUTATORS)) == (15, 7)


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("colour", [False, True])
def test_a_mutator_gives_other_images_of_the_same_kind(name: str, colour: bool, digits: ImageSet) -> None:
    images = digits.images[:24]
    if colour:
        images = np.concatenate([images, images // 2, 255 - images], axis=1)
    before = images.copy()
    mutated = ALL[name](images, np.random.default_rng(5))
    made = mutated.images
    assert (made.shape, made.dtype) == (images.shape, np.uint8)
    np.testing.assert_array_equal(images, before)
    np.testing.assert_array_equal(made, ALL[name](images, np.random.default_rng(5)).images)
    assert (made != images).any(axis=(1, 2, 3)).mean() > 0.4
    assert len(mutated.steps) == len(images)
    assert read_recipe(recipe_text(mutated.steps))[0].operator == mutated.steps[0].operator
    # one picture many times: every copy gets parameters of its own
    copies = ALL[name](np.repeat(images[:1], 40, axis=0), np.random.default_rng(6)).images
    assert len({image.tobytes() for image in copies}) >= 3


def test_geometry_is_that_of_torchvision(digits: ImageSet) -> None:
    """To within a grey level in almost all pixels: both round once, but compute in another order."""
    images = digits.images[:5]
    angles, shears = np.array([-50.0, -7.0, 0.0, 20.0, 45.0]), np.array([-0.6, -0.1, 0.0, 0.3, 0.6])
    radians = np.deg2rad(angles)
    turned = np.stack([np.cos(radians), np.sin(radians), -np.sin(radians), np.cos(radians)], axis=1).reshape(-1, 2, 2)
    slanted = np.tile(np.eye(2), (5, 1, 1))
    slanted[:, 0, 1] = shears
    shifts = np.array([[-3, 2], [0, 0], [1, -3], [2, 2], [-1, 0]])
    none = np.zeros((5, 2))
    for made, settings in (
        (geometry.warp(images, turned, none), [{"angle": angle} for angle in angles]),
        (geometry.warp(images, slanted, none), [{"shear": [float(np.rad2deg(np.arctan(s))), 0.0]} for s in shears]),
        (geometry.warp(images, np.tile(np.eye(2), (5, 1, 1)), shifts), [{"translate": s.tolist()} for s in shifts]),
    ):
        for image, mine, each in zip(images, made, settings, strict=True):
            full = {"angle": 0.0, "translate": [0, 0], "scale": 1.0, "shear": [0.0, 0.0], **each}
            expected = transform.affine(
                torch.from_numpy(image).float(), interpolation=transform.InterpolationMode.BILINEAR, **full
            )
            difference = np.abs(mine - expected.round().clamp(0, 255).numpy())
            assert np.quantile(difference, 0.99) <= 1, each


def test_a_shift_moves_bytes_and_a_scale_of_one_keeps_them(digits: ImageSet) -> None:
    images = digits.images[:3]
    moved = geometry.warp(images, np.tile(np.eye(2), (3, 1, 1)), np.tile([2, -3], (3, 1)))
    np.testing.assert_array_equal(moved[:, :, :-3, 2:], images[:, :, 3:, :-2])
    assert not moved[:, :, -3:].any()
    assert not moved[:, :, :, :2].any()
    np.testing.assert_array_equal(geometry.scale(1.0, 1.0)(images, np.random.default_rng(0)).images, images)


def test_a_patch_is_two_by_two_and_lies_anywhere() -> None:
    black = np.zeros((3000, 1, 9, 9), dtype=np.uint8)
    made = levels.patch("white")(black, np.random.default_rng(0)).images
    assert (made.reshape(len(made), -1) == 255).sum(axis=1).tolist() == [4] * len(made)
    assert (made.sum(axis=0)[0] > 0).all()  # corners, too
    grey = np.full((1, 1, 9, 9), 55, dtype=np.uint8)
    assert set(np.unique(levels.patch("reverse")(grey, np.random.default_rng(0)).images)) == {55, 200}


def test_noise_never_wraps_around() -> None:
    white, dark = np.full((200, 1, 8, 8), 255, dtype=np.uint8), np.full((200, 1, 8, 8), 1, dtype=np.uint8)
    rng = np.random.default_rng(0)
    assert levels.gaussian_noise([2.0])(white, rng).images.min() > 240
    assert levels.gaussian_noise([2.0])(dark, rng).images.max() < 12
    assert levels.multiplicative_noise([1.0])(dark, rng).images.max() < 10
    # what is added is not cut off: as much goes up as down
    middle = np.full((500, 1, 8, 8), 100, dtype=np.uint8)
    assert abs(levels.gaussian_noise([0.1])(middle, rng).images.mean() - 100) < 0.01


def test_each_image_is_handed_to_its_own_mutator() -> None:
    images = np.full((4, 1, 4, 4), 7, dtype=np.uint8)
    mutators = [
        lambda group, rng: Mutated(group + 1, steps_of("more", len(group), by=np.arange(len(group)))),
        lambda group, rng: Mutated(group * 2, steps_of("twice", len(group))),
    ]
    mutated = mutate(images, np.array([1, 0, 0, 1]), mutators, np.random.default_rng(0))
    assert list(map(str, mutated.steps)) == ["twice()", "more(by=0)", "more(by=1)", "twice()"]
    assert mutated.images[:, 0, 0, 0].tolist() == [14, 8, 8, 14]


def test_a_step_says_what_was_done(digits: ImageSet) -> None:
    """Done again with the strengths that were reported, the same pictures come out, to a grey level of rounding."""
    images = digits.images[:20]
    turned = geometry.rotation(50)(images, np.random.default_rng(1))
    for image, made, step in zip(images, turned.images, turned.steps, strict=True):
        ((name, degrees),) = read_recipe(str(step))[0].strengths
        assert name == "degrees"
        expected = transform.affine(
            torch.from_numpy(image).float(),
            angle=degrees,
            translate=[0, 0],
            scale=1.0,
            shear=[0.0, 0.0],
            interpolation=transform.InterpolationMode.BILINEAR,
        )
        difference = np.abs(made - expected.round().clamp(0, 255).numpy())
        assert np.quantile(difference, 0.95) <= 1
    shifted = geometry.translation(-3, 2)(images, np.random.default_rng(1))
    for image, made, step in zip(images, shifted.images, shifted.steps, strict=True):
        of = dict(step.strengths)
        expected = np.roll(image, (int(of["down"]), int(of["right"])), axis=(1, 2))
        np.testing.assert_array_equal(made[:, 3:-3, 3:-3], expected[:, 3:-3, 3:-3])
    brighter = levels.contrast(0.5, 1.5)(images, np.random.default_rng(1))
    for image, made, step in zip(images, brighter.images, brighter.steps, strict=True):
        np.testing.assert_array_equal(made, np.rint(image * step.strengths[0][1]).clip(0, 255))
