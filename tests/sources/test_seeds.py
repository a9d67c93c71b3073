"""Real images with operators: every image is a function of its genes, keeps its label, and says how it was made."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.neighbors import KNeighborsClassifier

from diffgen.data import load
from diffgen.errors import UserError
from diffgen.features.shrinking import shrunk
from diffgen.origins import read_recipe
from diffgen.sources.base import Source
from diffgen.sources.chains import applied
from diffgen.sources.draws import NumpyDraws, UnsearchedDraws
from diffgen.sources.operators import OPERATORS, STRENGTHS, Scene, usual_operators
from diffgen.sources.seeds import PREVIEW_SIDE, SeedsAndOperators, SeedsSettings, SeedsSource
from diffgen.sources.space import Mutating, random_genes
from diffgen.types import ImageSet
from tests.sources.scenes import EVERY, scene_of

CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def digits() -> ImageSet:
    return load("digits:test")


def source_of(colour: bool, **given: object) -> SeedsSource:
    """With every operator unless it is said."""
    return SeedsSource(scene_of(colour), SeedsSettings(**{"operators": tuple(OPERATORS), **given}), device=CPU)


def genes_of(source: Source, count: int, seed: int = 0) -> torch.Tensor:
    return random_genes(source.space, count, torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("colour", [False, True])
def test_it_is_a_source(colour: bool) -> None:
    source = source_of(colour)
    seeds = source.scene.seeds
    assert isinstance(source, Source)
    assert source.image_shape == seeds.shape[1:]
    genes = genes_of(source, 300)
    made, origins = source.draw(genes), source.origins(genes)
    assert (made.shape, made.dtype) == ((300, *seeds.shape[1:]), torch.uint8)
    assert len(origins) == 300
    assert set(np.unique(origins.seeds)) <= set(range(len(seeds)))
    assert source.draw(genes[:0]).shape == (0, *seeds.shape[1:])
    assert len(source.origins(genes[:0])) == 0


@given(st.integers(0, 10_000), st.integers(1, 3), st.booleans())
@settings(max_examples=12, deadline=None)
def test_an_image_depends_on_its_own_genes_alone(seed: int, steps: int, colour: bool) -> None:
    source = source_of(colour, steps=steps)
    genes = genes_of(source, 24, seed)
    together = source.draw(genes)
    alone = torch.cat([source.draw(each) for each in genes.split(1)])
    assert torch.equal(together, alone)
    assert torch.equal(source.draw(genes.flip(0)), together.flip(0))
    assert torch.equal(torch.cat([source.draw(genes[:5]), source.draw(genes[5:])]), together)


@pytest.mark.parametrize(("name", "colour"), EVERY)
def test_the_recipe_makes_the_image_again(name: str, colour: bool) -> None:
    source = source_of(colour, operators=(name,), steps=1)
    genes = genes_of(source, 40)
    made, origins = source.draw(genes), source.origins(genes)
    chains = [read_recipe(recipe) for recipe in origins.recipes]
    assert {step.operator for chain in chains for step in chain} == {name}
    again = applied(chains, source.scene.seeds[torch.from_numpy(origins.seeds)], source.scene)
    assert torch.equal(again, made)


def test_labels_are_kept(digits: ImageSet) -> None:
    """As a classifier by neighbours sees it, which knows the other half of the digits."""
    training = load("digits:train")
    judge = KNeighborsClassifier(3).fit(training.images.reshape(len(training), -1), training.labels)
    source = source_of(False)
    genes = genes_of(source, 800)
    said = judge.predict(source.draw(genes).numpy().reshape(800, -1))
    plain = judge.score(digits.images.reshape(len(digits), -1), digits.labels)
    assert digits.labels is not None
    assert (said == digits.labels[source.origins(genes).seeds]).mean() > plain - 0.12


def test_genes_name_the_seeds_and_the_operators() -> None:
    source = source_of(False, operators=("shift", "contrast", "towards"), steps=2)
    count = len(source.scene.seeds)
    assert source.space.length == 2 * STRENGTHS + 4
    assert source.space.categories == (count, count, 3, 4)
    genes = torch.tensor(
        [
            [1.0, 0.0, 0.5, 0.0, 17.0, 4.0, 0.0, 1.0],
            [0.0, -1.0, 0.0, 0.0, 17.0, 4.0, 0.0, 3.0],
            [0.5, 0.0, -1.0, 1.0, 5.0, 4.0, 2.0, 1.0],
        ]
    )
    origins = source.origins(genes)
    assert origins.seeds.tolist() == [17, 17, 5]
    assert origins.recipes == (
        "shift(right=2, down=0); contrast(factor=1.15)",
        "shift(right=0, down=-2)",  # and nothing after it
        "towards(share=0.15, other=4); contrast(factor=0.7)",
    )


def test_single_operators_are_as_frequent_as_composed_ones() -> None:
    source = source_of(False)
    for draws in (NumpyDraws(np.random.default_rng(0)), UnsearchedDraws(0)):
        genes = torch.from_numpy(source.space.sample(1000, draws)).float()
        single = np.mean(["; " not in recipe for recipe in source.origins(genes).recipes])
        assert 0.45 < single < 0.55


def test_a_search_prefers_seeds_of_weight_and_what_is_not_searched_does_not() -> None:
    weights = np.ones(100)
    weights[:10] = 50
    space = SeedsAndOperators(100, 5, 2, weights)
    searched = space.sample(2000, NumpyDraws(np.random.default_rng(0)))
    evenly = space.sample(2000, UnsearchedDraws(0))
    rows = space.continuous
    assert (searched[:, rows] < 10).mean() > 0.75
    assert (evenly[:, rows] < 10).mean() < 0.15
    how = Mutating(gene_probability=0.0, category_probability=1.0, eta=20)
    mutated = space.mutate(evenly, how, np.random.default_rng(1))
    assert (mutated[:, rows] < 10).mean() > 0.75
    assert (mutated[:, rows + 1] < 10).mean() < 0.15  # the other image has no weight
    # what is mutated in nothing else gets another seed nearly always
    still = Mutating(gene_probability=0.0, category_probability=0.0, eta=20)
    moved = space.mutate(evenly, still, np.random.default_rng(1)) != evenly
    assert 0.86 < moved[:, rows].mean() < 0.92
    assert not moved[:, rows + 1 :].any()
    assert not moved[:, :rows].any()


def drawn_shares(space: SeedsAndOperators, seed: int = 1) -> np.ndarray:
    """How often each of few seeds is drawn."""
    rows = space.sample(8000, NumpyDraws(np.random.default_rng(seed)))[:, space.continuous].astype(int)
    return np.bincount(rows, minlength=space.categories[0]) / len(rows)


def test_seeds_are_drawn_by_what_the_search_that_asked_found_of_them() -> None:
    space = SeedsAndOperators(4, 3, 2)
    own, other = space.searched("generator", 1.0), space.searched("generator", 1.0)
    genes = space.sample(40, NumpyDraws(np.random.default_rng(0)))
    genes[:, own.continuous] = np.arange(40) % 4
    # ten pictures each: ten that are worth 1 of one, ten that are worth a quarter of another, nothing of the rest
    worth = np.zeros(40)
    worth[2::4] = 1
    worth[3::4] = 0.25
    own.learn(genes, worth)
    # the mean of all is 13.5 / 42, and as much as it speaks for is two pictures
    promise = np.array([2, 2, 2 + 10 * 42 / 13.5, 2 + 2.5 * 42 / 13.5]) / 12
    assert drawn_shares(own) == pytest.approx(promise / promise.sum(), abs=0.02)
    # a search that did not ask draws all alike, one that goes on does not
    assert drawn_shares(other) == pytest.approx(np.full(4, 0.25), abs=0.02)
    other.restore(own.checkpoint())
    assert np.array_equal(drawn_shares(other), drawn_shares(own))
    other.mutate(genes, Mutating(gene_probability=0.5, category_probability=0.5, eta=20), np.random.default_rng(1))


def test_a_seed_that_was_tried_in_vain_is_drawn_less_until_all_were() -> None:
    space = SeedsAndOperators(4, 3, 2)
    rows = space.continuous
    genes = space.sample(4000, NumpyDraws(np.random.default_rng(0)))
    genes[:, rows] = np.arange(4000) % 4
    space.learn(genes[genes[:, rows] != 3][:9], np.zeros(9))  # three times each of the others
    assert drawn_shares(space) == pytest.approx(np.array([0.4, 0.4, 0.4, 1]) / 2.2, abs=0.02)
    # a seed that promises less is kept less where nothing else is mutated
    still = Mutating(gene_probability=0.0, category_probability=0.0, eta=20)
    kept = space.mutate(genes, still, np.random.default_rng(3))[:, rows] == genes[:, rows]
    shares = np.array([kept[genes[:, rows] == seed].mean() for seed in range(4)])
    chance, own = np.array([0.4, 0.4, 0.4, 1]) / 2.2, 0.1 * np.array([0.4, 0.4, 0.4, 1])
    assert shares == pytest.approx(own + (1 - own) * chance, abs=0.04)
    space.learn(np.repeat(genes[genes[:, rows] == 3][:1], 3, axis=0), np.zeros(3))
    assert drawn_shares(space) == pytest.approx(np.full(4, 0.25), abs=0.02)


def test_settings_that_cannot_be() -> None:
    with pytest.raises(UserError, match="'rotatoin' is not known"):
        SeedsSettings(operators=("rotatoin",))
    with pytest.raises(UserError, match="needs an operator"):
        SeedsSettings(operators=())
    with pytest.raises(UserError, match="stroke does not fit"):
        source_of(True, operators=("stroke",))
    with pytest.raises(UserError, match="tint does not fit"):
        source_of(False, operators=("tint",))


@given(st.integers(0, 10_000))
@settings(max_examples=6, deadline=None)
def test_previews_are_about_what_is_drawn_averaged_down(seed: int) -> None:
    """The slow reference: drawn large, then averaged down."""
    rng = np.random.default_rng(seed)
    coarse = torch.from_numpy(rng.integers(0, 256, (6, 3, 8, 8), dtype=np.uint8))
    seeds = torch.nn.functional.interpolate(coarse.to(torch.float32), size=(160, 128), mode="bicubic").clamp(0, 255)
    named = tuple(name for name in usual_operators(3) if name != "noise")  # its grain averages out
    source = SeedsSource(Scene(seeds.round().to(torch.uint8), None), SeedsSettings(operators=named), device=CPU)
    genes = genes_of(source, 40, seed)
    small, large = source.previews(genes), shrunk(source.draw(genes), PREVIEW_SIDE)
    assert small is not None and small.shape == large.shape == (40, 3, 64, 51)
    apart = (small.to(torch.float32) - large).abs().flatten(1).mean(dim=1)
    assert float(apart.median()) < 3 and float(apart.max()) < 20  # of 255 grey levels


def test_small_pictures_have_no_previews() -> None:
    source = source_of(True, operators=("rotation",))
    assert source.previews(genes_of(source, 2)) is None
