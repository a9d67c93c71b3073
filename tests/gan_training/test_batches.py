"""diffgen.gan_training.trainer"""

from __future__ import annotations

import numpy as np
import pytest
import torch

from diffgen.config import GanConfig
from diffgen.gan_training.augmentation import augment
from diffgen.gan_training.networks import to_uint8
from diffgen.gan_training.trainer import Batches
from diffgen.types import ImageSet

CPU = torch.device("cpu")


def make(data: ImageSet, *, labelled: bool = True, **settings: object) -> Batches:
    config = GanConfig(latent_dim=5, batch_size=256, **settings)  # type: ignore[arg-type]
    assert data.labels is not None
    labels = torch.from_numpy(data.labels) if labelled else None
    rng = torch.Generator().manual_seed(1)
    return Batches(torch.from_numpy(data.images), labels, config, rng=rng, device=CPU)


def keys(images: torch.Tensor) -> list[bytes]:
    return [image.numpy().tobytes() for image in images]


@pytest.mark.parametrize("transformed", [0.0, 0.5, 1.0])
def test_images_come_with_their_labels_and_some_are_transformed(digits: ImageSet, transformed: float) -> None:
    batches = make(digits, transformed=transformed)
    assert digits.labels is not None
    count = len(digits)
    everything = augment(torch.from_numpy(digits.images), generator=torch.Generator().manual_seed(1))
    label_of: dict[bytes, set[int]] = {}
    for key, label in zip(keys(everything), list(digits.labels) * 6, strict=True):
        label_of.setdefault(key, set()).add(int(label))
    originals = set(keys(everything[:count]))
    real, labels = batches.draw()
    assert labels is not None
    assert real.shape == (256, 1, 28, 28)
    drawn = keys(to_uint8(real))
    assert all(int(label) in label_of[key] for key, label in zip(drawn, labels, strict=True))
    share = sum(key not in originals for key in drawn) / len(drawn)
    assert share == transformed if transformed in (0, 1) else 0.35 < share < 0.65


def test_latent_vectors_hold_the_class_that_is_asked_for(digits: ImageSet) -> None:
    batches = make(digits)
    latents, asked = batches.latents(400)
    assert asked is not None
    assert latents.shape == (400, 6)
    assert torch.equal(latents[:, -1].long(), asked)
    assert set(asked.tolist()) == set(range(10))
    assert batches.class_labels.tolist() == list(range(10))
    assert abs(float(latents[:, :-1].std()) - 1) < 0.1


def test_labels_with_gaps_are_as_many_classes_as_there_are(digits: ImageSet) -> None:
    """Threes and sevens alone: two classes, not eight of which six have no image."""
    assert digits.labels is not None
    rows = np.isin(digits.labels, (3, 7))
    some = ImageSet(digits.images[rows], digits.labels[rows], digits.class_names, "3 and 7")
    batches = make(some, augment=False)
    assert (batches.classes, batches.class_labels.tolist()) == (2, [3, 7])
    label_of = dict(zip(keys(torch.from_numpy(some.images)), digits.labels[rows].tolist(), strict=True))
    real, classes = batches.draw()
    assert classes is not None
    drawn = keys(to_uint8(real))
    assert [int(batches.class_labels[each]) for each in classes] == [label_of[key] for key in drawn]
    _, asked = batches.latents(50)
    assert asked is not None
    assert set(asked.tolist()) == {0, 1}


def test_without_labels_there_is_no_class(digits: ImageSet) -> None:
    batches = make(digits, labelled=False)
    latents, asked = batches.latents(7)
    assert (asked, latents.shape, batches.classes) == (None, (7, 5), 0)
    assert batches.draw()[1] is None


def test_another_source_of_random_numbers_leaves_that_of_the_training_alone(digits: ImageSet) -> None:
    disturbed, alone = make(digits), make(digits)
    disturbed.latents(30, torch.Generator().manual_seed(9))
    assert torch.equal(disturbed.draw()[0], alone.draw()[0])
