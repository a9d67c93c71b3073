"""Wrecked images are what their names say: what filters are measured with must not be in doubt itself."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.wrecked import BLEND, KINDS, PATCHES, wrecked
from diffgen.data import load


@pytest.fixture(scope="module")
def real() -> np.ndarray:
    return load("digits:test").images[:40]


@pytest.fixture(scope="module")
def kinds(real: np.ndarray) -> dict[str, np.ndarray]:
    return wrecked(real, load("digits:train").images, seed=0)


def test_each_kind_has_as_many_and_the_seed_decides(real: np.ndarray, kinds: dict[str, np.ndarray]) -> None:
    again, other = (wrecked(real, load("digits:train").images, seed=seed) for seed in (0, 1))
    assert tuple(kinds) == KINDS
    for name, images in kinds.items():
        assert images.shape == real.shape and images.dtype == np.uint8
        assert np.array_equal(images, again[name])
        assert name == "inverted" or not np.array_equal(images, other[name])


def test_no_wrecked_image_is_a_real_one(real: np.ndarray, kinds: dict[str, np.ndarray]) -> None:
    known = {image.tobytes() for image in real}
    assert not any(image.tobytes() in known for images in kinds.values() for image in images)


def test_shuffled_patches_are_those_of_the_image_elsewhere(real: np.ndarray, kinds: dict[str, np.ndarray]) -> None:
    def patches(image: np.ndarray) -> list[bytes]:
        h, w = image.shape[1] // PATCHES, image.shape[2] // PATCHES
        return sorted(
            image[:, y * h : (y + 1) * h, x * w : (x + 1) * w].tobytes() for y in range(PATCHES) for x in range(PATCHES)
        )

    for image, mixed in zip(real, kinds["shuffled patches"], strict=True):
        assert patches(image) == patches(mixed)


def test_half_of_a_cut_image_is_as_it_was(real: np.ndarray, kinds: dict[str, np.ndarray]) -> None:
    side = real.shape[-1]
    halves = [np.s_[..., : side // 2, :], np.s_[..., side // 2 :, :], np.s_[..., : side // 2], np.s_[..., side // 2 :]]
    for image, cut in zip(real, kinds["cut"], strict=True):
        kept = [np.array_equal(image[half], cut[half]) for half in halves]
        plain = [np.ptp(cut[half]) == 0 for half in halves]
        assert any(kept[index] and plain[index ^ 1] for index in range(4))


def test_a_blend_lies_between_two_different_images(real: np.ndarray, kinds: dict[str, np.ndarray]) -> None:
    def rebuilt(first: np.ndarray, second: np.ndarray, blend: np.ndarray) -> bool:
        difference = first.astype(float) - second
        weight = ((blend - second.astype(float)) * difference).sum() / max((difference**2).sum(), 1)
        near = np.abs(second + weight * difference - blend).max() < 1.5
        return bool(near and BLEND[0] - 0.01 <= weight <= BLEND[1] + 0.01)

    for index, blend in enumerate(kinds["blend of two"][:10]):
        assert any(rebuilt(real[index], other, blend) for row, other in enumerate(real) if row != index)


def test_the_others_are_what_they_are_called(real: np.ndarray, kinds: dict[str, np.ndarray]) -> None:
    assert np.array_equal(kinds["inverted"], 255 - real)
    assert (np.ptp(kinds["blank"].reshape(len(real), -1), axis=1) == 0).all()
    assert 100 < kinds["noise"].mean() < 155
    known = {image.tobytes() for image in load("digits:train").images}
    assert all(image.tobytes() in known for image in kinds["another data set"])
