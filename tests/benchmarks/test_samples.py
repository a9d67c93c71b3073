"""What benchmarks take of data in order of class holds every class, and what a GAN was trained on is kept apart."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from benchmarks.filters import _WRECKED, _image_sets
from benchmarks.judge import judge_for, measure
from diffgen.data import load
from diffgen.data.split import DataSplit, split_rows
from diffgen.events import Progress
from diffgen.features import cells
from diffgen.sampling import random_rows
from diffgen.sources.base import FamilyContext
from diffgen.sources.gan import prepare_gan
from tests.benchmarks.conftest import SMALL


def test_the_filters_are_shown_every_class(small_gan: Path) -> None:
    data, test = load("digits"), load("digits:test")
    assert data.labels is not None
    order = np.argsort(data.labels, kind="stable")
    training = replace(data, images=data.images[order], labels=data.labels[order])
    encoder = cells.prepare(test).encoder
    domain = prepare_gan(
        DataSplit(test, SMALL.split), SMALL.gan, FamilyContext(encoder, torch.device("cpu"), Progress())
    )
    sets = _image_sets(training, test.images, domain, None)
    label_of = {image.tobytes(): label for image, label in zip(data.images, data.labels, strict=True)}
    shown = [label_of[(255 - image).tobytes()] for image in sets["inverted"].numpy()]
    assert len(shown) == _WRECKED
    assert np.bincount(shown, minlength=10).min() > _WRECKED / 20


@pytest.mark.slow
def test_a_gan_that_repeats_its_training_images_covers_the_others_no_better_than_they_do() -> None:
    test = load("digits:test")
    judge = judge_for(load("digits:train"), test)
    trained, held_out = (each.numpy() for each in split_rows(len(test), SMALL.split))
    blocks = len(trained) // len(held_out)
    rows = trained[random_rows(len(trained), blocks * len(held_out))]
    found = measure(judge, test, torch.from_numpy(test.images[rows]), SMALL.split)
    assert found.covered_images == len(held_out) == 90
    assert found.coverage_trained == 1.0 > found.coverage_trained_ceiling
    assert found.coverage_held_out == found.coverage_held_out_ceiling < 1.0
    assert sum(found.class_coverage) == 10
