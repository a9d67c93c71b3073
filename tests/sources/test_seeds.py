"""Real images with operators: every image is a function of its genes, keeps its label, and says how it was made."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.datasets import load_sample_image
from sklearn.neighbors import KNeighborsClassifier

from diffgen.data import load
from diffgen.errors import UserError
from diffgen.gan_training.augmentation import TRANSFORMATIONS, plain_background
from diffgen.origins import read_recipe
from diffgen.sources.base import Source
from diffgen.sources.operators import OPERATORS, STRENGTHS, step_of
from diffgen.sources.seeds import SeedsSettings, SeedsSource
from diffgen.sources.space import random_genes
from diffgen.types import ImageSet

CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def digits() -> ImageSet:
    return load("digits:test")


def source_of(images: np.ndarray, **given: object) -> SeedsSource:
    return SeedsSource(torch.from_numpy(images), SeedsSettings(**given), device=CPU)


def photographs() -> np.ndarray:
    """uint8 (12, 3, 32, 32), without a plain background."""
    image = load_sample_image("china.jpg").transpose(2, 0, 1)
    return np.stack([image[:, y : y + 32, x : x + 32] for y in (0, 150, 300) for x in (0, 200, 400, 560)])


def genes_of(source: Source, count: int, seed: int = 0) -> torch.Tensor:
    return random_genes(source.space, count, torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("colour", [False, True])
def test_it_is_a_source(colour: bool, digits: ImageSet) -> None:
    images = photographs() if colour else digits.images
    source = source_of(images)
    assert isinstance(source, Source)
    assert source.image_shape == images.shape[1:]
    genes = genes_of(source, 300)
    made, origins = source.draw(genes), source.origins(genes)
    assert (made.shape, made.dtype) == ((300, *images.shape[1:]), torch.uint8)
    assert len(origins) == 300
    assert set(np.unique(origins.seeds)) <= set(range(len(images)))
    assert source.draw(genes[:0]).shape == (0, *images.shape[1:])
    assert len(source.origins(genes[:0])) == 0


@given(st.integers(0, 10_000), st.integers(1, 3), st.booleans())
@settings(max_examples=25, deadline=None)
def test_an_image_depends_on_its_own_genes_alone(seed: int, steps: int, colour: bool) -> None:
    images = photographs() if colour else load("digits:test").images
    source = source_of(images, steps=steps)
    genes = genes_of(source, 24, seed)
    together = source.draw(genes)
    alone = torch.cat([source.draw(each) for each in genes.split(1)])
    assert torch.equal(together, alone)
    assert torch.equal(source.draw(genes.flip(0)), together.flip(0))


@pytest.mark.parametrize("name", tuple(OPERATORS))
@pytest.mark.parametrize("colour", [False, True])
def test_the_recipe_makes_the_image_again(name: str, colour: bool, digits: ImageSet) -> None:
    images = torch.from_numpy(photographs() if colour else digits.images)
    source = source_of(images.numpy(), operators=(name,), steps=1)
    genes = genes_of(source, 40)
    made, origins = source.draw(genes), source.origins(genes)
    background = plain_background(images)
    for image, row, recipe in zip(made, origins.seeds, origins.recipes, strict=True):
        (step,) = read_recipe(recipe)
        assert step.operator == name
        again = OPERATORS[name].apply(images[int(row)][None], background, [dict(step.strengths)])[0]
        # strengths are written with six digits
        assert (again.int() - image.int()).abs().max() <= 1


@pytest.mark.parametrize("name", ["rotation", "shift", "shear", "brightness", "blur"])
@pytest.mark.parametrize("colour", [False, True])
def test_operators_do_what_the_transformations_of_that_name_do(name: str, colour: bool, digits: ImageSet) -> None:
    """To within rounding: torchvision computes in another order."""
    images = torch.from_numpy(photographs() if colour else digits.images[:30])
    background = plain_background(images)
    sides = (images.shape[2], images.shape[3])
    for first, second in ((-0.9, 0.7), (0.55, -1.0), (1.0, 1.0)):
        strengths = dict(step_of(name, first, second, sides).strengths)
        mine = OPERATORS[name].apply(images, background, [strengths] * len(images))
        theirs = TRANSFORMATIONS[name].apply(images, background, strengths)
        difference = (mine.int() - theirs.int()).abs().float()
        assert torch.quantile(difference.flatten()[:100_000], 0.98) <= 1, strengths


@pytest.mark.parametrize("name", tuple(OPERATORS))
def test_without_strength_hardly_anything_changes(name: str, digits: ImageSet) -> None:
    images = torch.from_numpy(digits.images[:20])
    weakest = -1.0 if name in ("blur", "noise") else 0.0
    strengths = [dict(step_of(name, weakest, 0.0, (28, 28)).strengths)] * 20
    made = OPERATORS[name].apply(images, plain_background(images), strengths)
    assert (made.int() - images.int()).abs().float().mean() < 4
    if name not in ("blur",):
        assert torch.equal(made, images)


def test_noise_is_a_function_of_its_gene(digits: ImageSet) -> None:
    images = torch.from_numpy(digits.images[:1]).expand(3, -1, -1, -1)
    strengths = [dict(step_of("noise", 1.0, gene, (28, 28)).strengths) for gene in (0.25, 0.25, 0.250001)]
    first, same, other = OPERATORS["noise"].apply(images, [0.0], strengths)
    assert torch.equal(first, same)
    assert not torch.equal(first, other)


def test_labels_are_kept(digits: ImageSet) -> None:
    """As a classifier by neighbours sees it, which knows the other half of the digits."""
    training = load("digits:train")
    judge = KNeighborsClassifier(3).fit(training.images.reshape(len(training), -1), training.labels)
    source = source_of(digits.images)
    genes = genes_of(source, 800)
    said = judge.predict(source.draw(genes).numpy().reshape(800, -1))
    plain = judge.score(digits.images.reshape(len(digits), -1), digits.labels)
    assert digits.labels is not None
    assert (said == digits.labels[source.origins(genes).seeds]).mean() > plain - 0.12


def test_genes_name_the_seed_and_the_operators(digits: ImageSet) -> None:
    source = source_of(digits.images, operators=("shift", "contrast"), steps=2)
    genes = torch.tensor([[1.0, -1.0, 0.5, 0.0, 17.0, 0.0, 1.0]])
    assert source.space.length == 2 * STRENGTHS + 3
    assert source.space.categories == (len(digits), 2, 2)
    origins = source.origins(genes)
    assert origins.seeds.tolist() == [17]
    assert origins.recipes == ("shift(right=2, down=-2); contrast(factor=1.15)",)


def test_settings_that_cannot_be() -> None:
    with pytest.raises(UserError, match="'rotatoin' is not known"):
        SeedsSettings(operators=("rotatoin",))
    with pytest.raises(UserError, match="needs an operator"):
        SeedsSettings(operators=())
