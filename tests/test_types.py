"""diffgen.types"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from diffgen.data import load
from diffgen.gan_training.networks import DcganDiscriminator, DcganGenerator
from diffgen.sources.base import Source
from diffgen.sources.gan import DiscriminatorScorer, GanSource
from diffgen.types import ImageSet, Scorer, several


def image_set(**changes: Any) -> ImageSet:
    values: dict[str, Any] = {
        "images": np.arange(60 * 8, dtype=np.uint8).reshape(60, 1, 2, 4),
        "labels": np.arange(60, dtype=np.int64) % 3,
        "class_names": ("a", "b", "c"),
        "source": "here",
    }
    return ImageSet(**{**values, **changes})


def test_digest_is_a_sha256_that_is_the_same_every_time() -> None:
    assert image_set().digest == image_set().digest
    assert len(image_set().digest) == hashlib.sha256().digest_size * 2
    assert set(image_set().digest) <= set("0123456789abcdef")


def test_digest_changes_with_every_single_pixel() -> None:
    seen = {image_set().digest}
    for position in range(0, 480, 37):
        images = image_set().images.copy()
        images.flat[position] ^= 1
        seen.add(image_set(images=images).digest)
    assert len(seen) == 1 + len(range(0, 480, 37))


def test_digest_changes_with_labels() -> None:
    labels = image_set().labels
    assert labels is not None
    other = labels.copy()
    other[59] = 1 - other[59]
    digests = {image_set(labels=each).digest for each in (labels, other, np.zeros(60, np.int64), None)}
    assert len(digests) == 4


def test_digest_changes_with_shape_though_the_bytes_are_the_same() -> None:
    images = image_set().images
    shapes = [(60, 1, 2, 4), (60, 1, 4, 2), (60, 2, 2, 2), (30, 1, 4, 4), (120, 1, 2, 2)]
    assert len({image_set(images=images.reshape(shape), labels=None).digest for shape in shapes}) == len(shapes)


def test_digest_changes_with_the_order_of_the_images() -> None:
    assert image_set().digest != image_set(images=image_set().images[::-1]).digest


def test_digest_is_of_the_values_not_of_how_memory_holds_them() -> None:
    wide = np.repeat(image_set().images, 2, axis=3)
    assert image_set(images=wide[..., ::2]).digest == image_set().digest
    assert image_set(labels=(np.arange(60) % 3).astype(np.int32)).digest == image_set().digest
    assert image_set(source="elsewhere", class_names=None).digest == image_set().digest


def test_shape_and_length() -> None:
    images = load("digits:test")
    assert (len(images), images.image_shape) == (898, (1, 28, 28))


def test_the_trained_networks_are_a_generator_and_a_scorer() -> None:
    cpu = torch.device("cpu")
    generator = GanSource(DcganGenerator((1, 28, 28), latent_dim=4, width=4), device=cpu)
    scorer = DiscriminatorScorer(DcganDiscriminator((1, 28, 28), width=4), device=cpu)
    assert isinstance(generator, Source)
    assert not isinstance(generator, Scorer)
    assert isinstance(scorer, Scorer)
    assert not isinstance(scorer, Source)


@pytest.mark.parametrize("one", ["a.csv", Path("a.csv"), 3, np.int64(3), print, torch.nn.Sequential(torch.nn.ReLU())])
def test_one_thing_stands_for_a_list_of_it(one: Any) -> None:
    assert several(one) == (one,)
    assert several([one, one]) == several(each for each in (one, one)) == (one, one)


def test_several_things_are_as_they_are() -> None:
    assert several(()) == ()
    assert several(np.array([3, 1])) == (3, 1)
