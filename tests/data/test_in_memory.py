"""diffgen.data.loading, and the rules of diffgen.data.checks, which are the same for every source"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from diffgen.data import checks, load
from diffgen.errors import UserError
from diffgen.types import ImageSet

IMAGES = np.random.default_rng(0).integers(0, 256, (60, 3, 4, 5), dtype=np.uint8)
LABELS = np.arange(60) % 7


def test_array() -> None:
    found = load(IMAGES)
    assert np.array_equal(found.images, IMAGES)
    assert found.labels is None
    assert found.class_names is None
    assert found.image_shape == (3, 4, 5)


@pytest.mark.parametrize("labels", [LABELS, LABELS.astype(np.uint8), LABELS.tolist(), tuple(LABELS.tolist())])
def test_array_and_labels(labels: Any) -> None:
    found = load((IMAGES, labels))
    assert found.labels is not None
    assert found.labels.dtype == np.int64
    assert np.array_equal(found.labels, LABELS)


def test_array_and_no_labels() -> None:
    assert load((IMAGES, None)).labels is None


def test_arrays_are_copied() -> None:
    images, labels = IMAGES.copy(), LABELS.copy()
    found = load((images, labels))
    images[:] = 0
    labels[:] = 0
    assert np.array_equal(found.images, IMAGES)
    assert np.array_equal(found.labels, LABELS)  # type: ignore[arg-type]


def test_grey_images_have_the_strides_of_a_new_array() -> None:
    """torch takes a stride of 1 along the only channel for channels last."""
    pixels = np.arange(60 * 8 * 8, dtype=np.uint8).reshape(60, 8, 8)
    for images in (pixels[:, None], pixels[:, None][np.arange(60)]):
        found = checks.checked(images, None, None, "here").images
        assert found.strides == (64, 64, 8, 1)
        assert np.shares_memory(found, images)
        np.testing.assert_array_equal(found[:, 0], pixels)


def test_views_become_contiguous() -> None:
    found = load(np.zeros((60, 4, 5, 3), np.uint8).transpose(0, 3, 1, 2))
    assert found.images.shape == (60, 3, 4, 5)
    assert found.images.flags.c_contiguous


def test_image_set_is_given_back() -> None:
    given_set = ImageSet(IMAGES, LABELS.astype(np.int64), tuple("abcdefg"), "mine")
    assert load(given_set) is given_set


def test_image_set_with_other_labels_is_mended() -> None:
    found = load(ImageSet(IMAGES, LABELS.astype(np.int32), None, "mine"))  # type: ignore[arg-type]
    assert found.labels is not None
    assert found.labels.dtype == np.int64
    assert found.source == "mine"


@pytest.mark.parametrize(
    ("images", "words"),
    [
        (IMAGES.astype(np.float32) / 255, "float32, not uint8"),
        (IMAGES.astype(np.int64), "int64, not uint8"),
        (IMAGES[:, 0], "images[:, None]"),
        (IMAGES.transpose(0, 2, 3, 1), "transpose(0, 3, 1, 2)"),
        (IMAGES[:, :2], "2 channels"),
        (IMAGES[:0], "is empty"),
        (IMAGES[:, :, :, :0], "is empty"),
        (IMAGES[:49], "only 49 images"),
        (np.broadcast_to(np.uint8(0), (2**20, 3, 64, 64)), "12 GiB of memory"),
    ],
)
def test_images_that_break_a_rule(refused: Any, images: np.ndarray, words: str) -> None:
    refused(images, words, case=f"an array of {images.dtype} {images.shape}")
    refused(ImageSet(images, None, None, "mine"), words)


@pytest.mark.parametrize(
    ("labels", "words"),
    [
        (LABELS[:-1], "60 images but 59 labels"),
        (LABELS - 1, "contain -1"),
        (LABELS.astype(float), "float64, not whole numbers"),
        (LABELS == 0, "bool, not whole numbers"),
        (np.eye(7)[LABELS].astype(int), "argmax"),
        (np.full(60, checks.MAX_CLASSES), "room for 32768 classes"),
        (np.full(60, 2**64 - 1, np.uint64), "18446744073709551615"),
        (["cat"] * 60, "not whole numbers"),
        ([[1], [1, 2]], "not a list of whole numbers"),
        (3, "not (N,)"),
    ],
)
def test_labels_that_break_a_rule(refused: Any, labels: Any, words: str) -> None:
    refused((IMAGES, labels), words)


def test_labels_beyond_the_names(refused: Any) -> None:
    refused(ImageSet(IMAGES, LABELS, tuple("abcdef"), "mine"), "contain 6", "6 names")


def test_names_that_are_not_text(refused: Any) -> None:
    refused(ImageSet(IMAGES, LABELS, ("a", "b\n", *"cdefg"), "mine"), "not printable")


def test_tuple_of_another_length(refused: Any) -> None:
    refused((IMAGES,), "tuple of 1")
    refused((IMAGES, LABELS, LABELS), "tuple of 3")


def test_what_is_no_array(refused: Any) -> None:
    refused((IMAGES.tolist(), LABELS), "a list, not a numpy array")
    refused(IMAGES.tolist(), "A list is not a source of images")
    refused(None, "NoneType")


@settings(max_examples=60)
@given(
    shape=st.lists(st.sampled_from([0, 1, 2, 3, 4, 50, 60]), max_size=5),
    kind=st.sampled_from(["uint8", "int8", "float64", "bool", "object", "U1", "complex64", "datetime64[s]"]),
    labels=st.one_of(
        st.none(), st.lists(st.integers(-1, 5000), max_size=60), st.just([0] * 60), st.just([0] * 50), st.text()
    ),
)
def test_any_array_is_accepted_or_a_user_error(shape: list[int], kind: str, labels: Any) -> None:
    if np.prod(shape, dtype=object) > 10**6:
        return
    try:
        found = load((np.zeros(shape, dtype=kind), labels))
    except UserError:
        return
    assert found.images.dtype == np.uint8
    assert found.images.ndim == 4
    assert found.image_shape[0] in (1, 3)
    assert found.labels is None or (len(found.labels) == len(found) and found.labels.min() >= 0)
