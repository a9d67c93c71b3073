"""diffgen.metrics.ssim against scikit-image."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.typing import NDArray
from skimage.metrics import structural_similarity as of_scikit_image
from sklearn.datasets import load_sample_image

from diffgen.data import load
from diffgen.metrics.ssim import moments, similarity_of, structural_similarity

Images = NDArray[np.uint8]
TOLERANCE = 5e-4  # a variance in float32, of pictures of nearly one shade
SHAPES = [(1, 28, 28), (3, 28, 28), (1, 32, 32), (3, 32, 32)]


def slow(a: Images, b: Images) -> NDArray[np.float64]:
    """Pair by pair, in float64."""
    return np.array([of_scikit_image(x, y, data_range=255, channel_axis=0) for x, y in zip(a, b, strict=True)])


def fast(a: Images, b: Images) -> NDArray[np.float32]:
    return structural_similarity(torch.from_numpy(a), torch.from_numpy(b)).numpy()


def assert_agree(a: Images, b: Images) -> None:
    found = fast(a, b)
    assert found.shape == (len(a),)
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, slow(a, b), rtol=0, atol=TOLERANCE)


def photographs(count: int, shape: tuple[int, int, int]) -> Images:
    """Squares cut out of a photograph."""
    channels, height, width = shape
    photograph = load_sample_image("china.jpg")
    rng = np.random.default_rng(0)
    corners = zip(rng.integers(0, 427 - height, count), rng.integers(0, 640 - width, count), strict=True)
    cut = np.stack([photograph[y : y + height, x : x + width] for y, x in corners])
    return np.ascontiguousarray(cut.transpose(0, 3, 1, 2)[:, :channels])


def test_real_digits_in_every_kind_of_pair() -> None:
    found = load("digits:test")
    images, labels = found.images, found.labels
    assert labels is not None
    assert_agree(images[:100], images[100:200])
    same_class = images[labels == 3]
    assert_agree(same_class[:40], same_class[40:80])
    assert slow(same_class[:40], same_class[40:80]).max() > 0.5  # the pairs are not all alike or all different


@pytest.mark.parametrize("shape", SHAPES)
def test_photographs(shape: tuple[int, int, int]) -> None:
    images = photographs(60, shape)
    assert_agree(images[:30], images[30:])


@pytest.mark.parametrize("shape", SHAPES)
def test_noise(shape: tuple[int, int, int]) -> None:
    rng = np.random.default_rng(1)
    a, b = rng.integers(0, 256, (2, 30, *shape)).astype(np.uint8)
    assert_agree(a, b)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("level", [0, 1, 127, 128, 254, 255])
def test_blank_and_nearly_blank_images(shape: tuple[int, int, int], level: int) -> None:
    """Here float32 has the least to hold on to: tiny variances on large means."""
    rng = np.random.default_rng(level)
    blank = np.full((12, *shape), level, dtype=np.uint8)
    nearly = np.clip(blank.astype(int) + rng.integers(-2, 3, blank.shape), 0, 255).astype(np.uint8)
    spotted = blank.copy()
    spotted[..., 11, 17] ^= 1
    noise = rng.integers(0, 256, blank.shape).astype(np.uint8)
    for other in (blank, blank[::-1] ^ 255, nearly, spotted, noise):
        assert_agree(blank, other)
        assert_agree(nearly, other)


@st.composite
def pairs(draw: st.DrawFn) -> tuple[Images, Images]:
    shape = draw(st.sampled_from([*SHAPES, (1, 7, 7), (3, 7, 9)]))
    one = arrays(np.uint8, shape, elements=st.integers(0, 255), fill=st.integers(0, 255))
    return draw(one)[None], draw(one)[None]


@settings(max_examples=150)
@given(pairs())
def test_any_pair(pair: tuple[Images, Images]) -> None:
    assert_agree(*pair)


@settings(max_examples=50)
@given(pairs())
def test_symmetric_bounded_and_one_for_a_copy(pair: tuple[Images, Images]) -> None:
    a, b = pair
    np.testing.assert_array_equal(fast(a, b), fast(b, a))
    assert abs(fast(a, b)[0]) <= 1 + 1e-5
    np.testing.assert_allclose(fast(a, a), 1, atol=1e-5)


def test_a_pair_does_not_depend_on_the_other_pairs() -> None:
    images = load("digits:test").images
    together = fast(images[:64], images[64:128])
    alone = np.concatenate([fast(images[n : n + 1], images[64 + n : 65 + n]) for n in range(64)])
    np.testing.assert_allclose(together, alone, rtol=0, atol=1e-6)


def test_moments_are_asked_for_once_and_used_often() -> None:
    images = torch.from_numpy(load("digits:test").images[:200])
    known = moments(images)
    rows = torch.tensor([199, 3, 3, 0, 120])
    found = similarity_of(known[:5], known[rows])
    np.testing.assert_allclose(found, slow(images[:5].numpy(), images[rows].numpy()), rtol=0, atol=TOLERANCE)
    np.testing.assert_allclose(moments(images[rows]).variances, known[rows].variances, rtol=1e-5, atol=1e-2)


def test_no_pairs() -> None:
    assert fast(np.empty((0, 1, 28, 28), np.uint8), np.empty((0, 1, 28, 28), np.uint8)).shape == (0,)


def test_images_are_left_as_they_were() -> None:
    a, b = (torch.from_numpy(load("digits:test").images[n : n + 5].copy()) for n in (0, 5))
    before = a.clone(), b.clone()
    structural_similarity(a, b)
    assert torch.equal(a, before[0])
    assert torch.equal(b, before[1])
