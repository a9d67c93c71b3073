"""Passes over the given images, each image once a pass, transformed anew."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch

from diffgen.gan_training.augmentation import TRANSFORMATIONS, plain_background
from diffgen.models import load as load_model
from diffgen.origins import read_recipe
from diffgen.search.loop import SearchLoop
from diffgen.techniques import RealImages
from diffgen.types import ImageSet


def test_every_image_is_transformed_once_a_pass(
    digits: ImageSet, start: Callable[..., SearchLoop], found: Callable[..., dict[str, np.ndarray]]
) -> None:
    sure = np.eye(10, dtype=np.float32) * 0.9 + 0.01
    # models that differ on everything: all that is asked about can be seen in the archive
    models = tuple(load_model(lambda x, c=c: np.tile(sure[c], (len(x), 1)), name=f"always {c}") for c in (2, 5))
    for model in models:
        model.prepare(digits.images[:9])
    parts: list[dict[str, np.ndarray]] = []
    columns = found(start("real_data", f"{2 * len(digits)}q", models=models, parts=parts), parts)
    count = len(digits)
    first = columns.query <= count
    assert sorted(columns.seeds[first]) == list(range(count))
    # the second pass has another order, and hardly a picture (a shift by the same whole pixels) comes again
    second = columns.seeds[~first]
    assert len(np.unique(second)) == len(second) > 0.98 * count
    assert not np.array_equal(columns.seeds[first][:50], second[:50])
    # nothing is asked about as it was given
    assert (columns.images != digits.images[columns.seeds]).any(axis=(1, 2, 3)).all()
    close = np.abs(columns.images.astype(int) - digits.images[columns.seeds]).mean(axis=(1, 2, 3))
    assert np.median(close) < 40


def test_the_seed_decides(start: Callable[..., SearchLoop], real: RealImages) -> None:
    runs = []
    for seed in (0, 0, 1):
        loop = start("real_data", "300q", seed=seed)
        loop.run()
        runs.append(loop.evaluator.archive.digest())
    assert runs[0] == runs[1] != runs[2]


def test_the_recipe_makes_the_picture_again(start: Callable[..., SearchLoop], digits: ImageSet) -> None:
    proposal = start("real_data", "64q").technique.propose(64)
    assert proposal.origins is not None
    real = torch.from_numpy(digits.images)
    background = plain_background(real)
    for image, row, recipe in zip(proposal.images, proposal.origins.seeds, proposal.origins.recipes, strict=True):
        (step,) = read_recipe(recipe)
        made = TRANSFORMATIONS[step.operator].apply(real[row][None], background, dict(step.strengths))[0]
        # strengths are written with six digits
        assert (made.int() - image.int()).abs().max() <= 1
