"""Real images with operators: every image is a function of its genes, keeps its label, and says how it was made."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image
from scipy.ndimage import correlate1d
from sklearn.datasets import load_sample_image
from sklearn.neighbors import KNeighborsClassifier

from diffgen.data import load
from diffgen.errors import UserError
from diffgen.features.auto_encoder import AutoEncoder
from diffgen.features.vae import train
from diffgen.gan_training.augmentation import TRANSFORMATIONS, plain_background
from diffgen.origins import read_recipe
from diffgen.sources.base import Source
from diffgen.sources.draws import NumpyDraws, UnsearchedDraws
from diffgen.sources.operators import OPERATORS, STRENGTHS, Scene, usual_operators
from diffgen.sources.seeds import SeedsSettings, SeedsSource, applied
from diffgen.sources.seeds_space import SeedsAndOperators
from diffgen.sources.space import Mutating, random_genes
from diffgen.types import ImageSet

CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def digits() -> ImageSet:
    return load("digits:test")


@functools.cache
def scene_of(colour: bool) -> Scene:
    """With an auto-encoder that has learnt a little."""
    images = torch.from_numpy(photographs() if colour else load("digits:test").images)
    return Scene(images, plain_background(images), AutoEncoder(train(images, steps=60), images))


def source_of(colour: bool, **given: object) -> SeedsSource:
    """With every operator unless it is said."""
    return SeedsSource(scene_of(colour), SeedsSettings(**{"operators": tuple(OPERATORS), **given}), device=CPU)


def fitting(colour: bool) -> tuple[str, ...]:
    return tuple(name for name, each in OPERATORS.items() if each.fits(3 if colour else 1))


EVERY = [(name, colour) for colour in (False, True) for name in fitting(colour)]


def photographs() -> np.ndarray:
    """uint8 (12, 3, 32, 32), without a plain background."""
    image = load_sample_image("china.jpg").transpose(2, 0, 1)
    return np.stack([image[:, y : y + 32, x : x + 32] for y in (0, 150, 300) for x in (0, 200, 400, 560)])


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


@pytest.mark.parametrize("name", ["rotation", "shift", "shear", "brightness", "blur"])
@pytest.mark.parametrize("colour", [False, True])
def test_operators_do_what_the_transformations_of_that_name_do(name: str, colour: bool) -> None:
    """To within rounding: torchvision computes in another order."""
    scene = scene_of(colour)
    images = scene.seeds[:30]
    ranges = OPERATORS[name].usual((images.shape[2], images.shape[3]))
    for genes in ((-0.4, 0.7), (0.55, -1.0), (1.0, 1.0)):
        strengths = OPERATORS[name].strengths(genes, 0, ranges)
        mine = OPERATORS[name].apply(images, scene, [strengths] * len(images))
        theirs = TRANSFORMATIONS[name].apply(images, scene.background, strengths)
        difference = (mine.int() - theirs.int()).abs().float()
        assert torch.quantile(difference.flatten()[:100_000], 0.98) <= 1, strengths


@pytest.mark.parametrize(("name", "colour"), EVERY)
def test_without_strength_nothing_changes(name: str, colour: bool) -> None:
    scene, operator = scene_of(colour), OPERATORS[name]
    images = scene.seeds[:12]
    ranges = operator.usual((images.shape[2], images.shape[3]))
    one_way = all(each.low == each.neutral for each in ranges.values())
    weakest = operator.strengths((-1.0, 0.3) if one_way else (0.0, 0.0), 3, ranges)
    assert torch.equal(operator.apply(images, scene, [weakest] * 12), images)


@pytest.mark.parametrize(("name", "colour"), EVERY)
def test_with_strength_something_changes(name: str, colour: bool) -> None:
    scene, operator = scene_of(colour), OPERATORS[name]
    images = scene.seeds[:12]
    strongest = operator.strengths((1.0, 0.3), 3, operator.widest((images.shape[2], images.shape[3])))
    made = operator.apply(images, scene, [strongest] * 12)
    assert (made != images).flatten(1).any(
        dim=1
    ).sum() >= 8  # a plain sky stays one; the seed 3 goes nowhere on its way to itself


def seen_at(image: np.ndarray, across: float, down: float) -> np.ndarray:
    """The value at a place of an image (C, H, W) mirrored at its edges without end: a plain loop."""

    def mirrored(place: int, side: int) -> int:
        while not 0 <= place < side:
            place = -place if place < 0 else 2 * (side - 1) - place
        return place

    height, width = image.shape[1:]
    x, y = across + (width - 1) / 2, down + (height - 1) / 2
    left, top = int(np.floor(x)), int(np.floor(y))
    return sum(
        (1 - abs(x - column)) * (1 - abs(y - row)) * image[:, mirrored(row, height), mirrored(column, width)]
        for row in (top, top + 1)
        for column in (left, left + 1)
    )


@pytest.mark.parametrize("sides", [(16, 16), (24, 8), (40, 9), (8, 32)])
@pytest.mark.parametrize(
    ("name", "strengths", "place"),
    [
        ("scale", {"factor": 0.5}, lambda x, y: (2 * x, 2 * y)),
        ("shift", {"right": 5.0, "down": -3.0}, lambda x, y: (x - 5, y + 3)),
        ("shear", {"degrees": -40.0}, lambda x, y: (x - np.tan(np.radians(40)) * y, y)),
        ("stretch", {"width": 0.5, "height": 1.25}, lambda x, y: (2 * x, y / 1.25)),
    ],
)
def test_photographs_of_any_size_are_mirrored_as_far_as_an_operator_reaches(
    name: str, strengths: dict[str, float], place: Callable[..., tuple[float, float]], sides: tuple[int, int]
) -> None:
    height, width = sides
    images = torch.from_numpy(np.random.default_rng(0).integers(50, 256, (2, 3, height, width), dtype=np.uint8))
    made = OPERATORS[name].apply(images, Scene(images, None), [strengths] * 2).numpy()
    wanted = np.empty(made.shape)
    for row in range(height):
        for column in range(width):
            at = place(column - (width - 1) / 2, row - (height - 1) / 2)
            for number in range(2):
                wanted[number, :, row, column] = seen_at(images[number].numpy().astype(float), *at)
    assert np.abs(made - wanted).max() <= 0.51


@pytest.mark.parametrize("sides", [(16, 16), (24, 8), (8, 32)])
def test_in_perspective_one_side_is_further_away(sides: tuple[int, int]) -> None:
    height, width = sides
    images = torch.from_numpy(np.random.default_rng(0).integers(50, 256, (2, 3, height, width), dtype=np.uint8))
    strengths = {"right": 0.4, "down": -0.2}
    made = OPERATORS["perspective"].apply(images, Scene(images, None), [strengths] * 2).numpy()
    for row in range(height):
        for column in range(width):
            x, y = column - (width - 1) / 2, row - (height - 1) / 2
            away = 1 / (1 - 0.4 * x / (width / 2) + 0.2 * y / (height / 2))
            for number in range(2):
                wanted = seen_at(images[number].numpy().astype(float), x * away, y * away)
                assert np.abs(made[number, :, row, column] - wanted).max() <= 0.51


def test_in_perspective_lines_stay_straight_and_a_side_becomes_as_much_smaller_as_is_said() -> None:
    band = torch.zeros((1, 1, 201, 201), dtype=torch.uint8)
    band[:, :, 51:150] = 255
    made = OPERATORS["perspective"].apply(band, Scene(band, None), [{"right": 0.2, "down": 0.0}])[0, 0]
    heights = (made.double() / 255).sum(dim=0)[torch.tensor([20, 60, 100, 140, 180])]
    assert heights.diff().numpy() == pytest.approx(np.full(4, -0.2 * 99 * 80 / 201), abs=0.6)


def test_usual_operators_are_more_of_colour_images() -> None:
    grey, colour = usual_operators(1), usual_operators(3)
    of_photographs = {"stretch", "perspective", "shade", "tint", "saturation", "motion", "jpeg"}
    assert set(colour) - set(grey) == of_photographs
    assert set(grey) - set(colour) == {"stroke"}
    assert not any(OPERATORS[name].learned for name in (*grey, *colour))
    scene = scene_of(True)
    auto = SeedsSource(scene, SeedsSettings(), device=CPU)
    assert auto.operators == colour
    assert SeedsSource(scene_of(False), SeedsSettings(), device=CPU).operators == grey
    # what is named is used, of grey images too
    named = SeedsSource(scene_of(False), SeedsSettings(operators=("jpeg", "tint")), device=CPU)
    assert named.operators == ("jpeg",)


@pytest.mark.parametrize("side", [224, 512])
def test_a_motion_leaves_no_gaps(side: int) -> None:
    line = torch.zeros((1, 1, 3, side), dtype=torch.uint8)
    line[:, :, :, side // 2] = 255
    made = OPERATORS["motion"].apply(line, Scene(line, None), [{"right": 0.15 * side, "down": 0.0}])[0, 0, 1]
    lit = (made > 0).nonzero().squeeze(1)
    assert len(lit) == int(lit.max() - lit.min()) + 1
    assert len(lit) == pytest.approx(0.15 * side, abs=6)  # what lies between pixels is shared among them
    middle = made[lit[4:-4]].double()
    assert middle.max() <= 255 / (0.15 * side) + 1.5 and middle.min() >= 255 / (0.15 * side) - 1.5


def test_light_from_one_side_has_a_slope_and_leaves_the_middle() -> None:
    images = torch.full((1, 3, 9, 15), 100, dtype=torch.uint8)
    made = OPERATORS["shade"].apply(images, Scene(images, None), [{"right": 0.3, "down": 0.0}])[0].int()
    assert (made == made[:1, :1]).all()
    line = made[0, 0].tolist()
    assert line == [round(100 * (1 + 0.3 * (2 * column - 14) / 15)) for column in range(15)]
    below = OPERATORS["shade"].apply(images, Scene(images, None), [{"right": 0.0, "down": -0.3}])[0, 0, :, 0].tolist()
    assert below == sorted(below, reverse=True) and below[4] == 100


def test_tint_and_saturation_change_colours_alone() -> None:
    scene = scene_of(True)
    images = scene.seeds
    grey = OPERATORS["saturation"].apply(images, scene, [{"factor": 0.0}] * len(images))
    for image, found in zip(images, grey, strict=True):
        wanted = np.asarray(Image.fromarray(image.permute(1, 2, 0).numpy()).convert("L")).astype(int)
        assert np.abs(found.numpy() - wanted).max() <= 1
    # what has no colour keeps none
    assert torch.equal(OPERATORS["saturation"].apply(grey, scene, [{"factor": 2.0}] * len(grey)), grey)
    even = torch.full((1, 3, 4, 4), 100, dtype=torch.uint8)
    warm = OPERATORS["tint"].apply(even, scene, [{"warmer": 0.2, "greener": -0.1}])
    assert warm[0, :, 0, 0].tolist() == [120, 90, 80]


@pytest.mark.parametrize("sides", [(28, 28), (32, 20), (120, 30)])
def test_a_motion_is_the_mean_along_a_line(sides: tuple[int, int]) -> None:
    height, width = sides
    # smooth, so that it does not matter how often what lies between pixels is found
    y, x = np.mgrid[:height, :width]
    waves = 127 + 60 * np.sin(x / width * 5 + y / height * 3) + 60 * np.cos(y / height * 6)
    images = torch.from_numpy(waves.round().astype(np.uint8))[None, None]
    right, down = 0.15 * width, -0.08 * height
    made = OPERATORS["motion"].apply(images, Scene(images, None), [{"right": right, "down": down}])[0, 0].numpy()
    repeated = np.pad(images[0].numpy().astype(float), ((0, 0), (40, 40), (40, 40)), mode="symmetric")
    for row, column in ((0, 0), (height // 2, width // 2), (height - 1, 3), (5, width - 1)):
        x, y = column - (width - 1) / 2, row - (height - 1) / 2
        seen = [seen_at(repeated, x + share * right, y + share * down) for share in np.linspace(-0.5, 0.5, 201)]
        # each step mirrors what the one before made, which at an edge is not quite what the line sees
        at_edge = row in (0, height - 1)
        assert abs(made[row, column] - np.mean(seen)) <= (5 if at_edge else 1.5)


@pytest.mark.parametrize("colour", [False, True])
def test_a_jpeg_of_less_quality_keeps_less(colour: bool) -> None:
    scene = scene_of(colour)
    images = scene.seeds[:12]
    lost = []
    for loss in (0, 1, 30, 60, 85):
        made = OPERATORS["jpeg"].apply(images, scene, [{"loss": float(loss)}] * 12)
        lost.append(float((made.int() - images.int()).abs().float().mean()))
    assert lost[0] == 0
    assert lost == sorted(lost) and lost[-1] > 2 * lost[1]


@pytest.mark.parametrize("name", [name for name, each in OPERATORS.items() if each.patterned])
def test_patterns_are_functions_of_their_gene(name: str) -> None:
    scene, operator = scene_of(False), OPERATORS[name]
    images = scene.seeds[:1].expand(3, -1, -1, -1)
    ranges = operator.widest((28, 28))
    strengths = [operator.strengths((1.0, gene), 0, ranges) for gene in (0.25, 0.25, 0.250001)]
    first, same, other = operator.apply(images, scene, strengths)
    assert torch.equal(first, same)
    assert not torch.equal(first, other)


def test_strokes_grow_and_shrink_whatever_their_colour() -> None:
    scene = scene_of(False)
    paper = Scene(255 - scene.seeds, plain_background(255 - scene.seeds))
    for pixels, grows in ((0.8, True), (-0.8, False)):
        strengths = [{"pixels": pixels}] * 20
        light = OPERATORS["stroke"].apply(scene.seeds[:20], scene, strengths)
        dark = OPERATORS["stroke"].apply(paper.seeds[:20], paper, strengths)
        assert torch.equal(255 - dark, light)
        more = light.int().sum(dim=(1, 2, 3)) > scene.seeds[:20].int().sum(dim=(1, 2, 3))
        assert bool((more == grows).all())


@pytest.mark.parametrize(("height", "width"), [(8, 8), (28, 28), (32, 20), (20, 64), (100, 90)])
def test_a_blur_is_a_sum_of_neighbours_mirrored_at_the_edges(height: int, width: int) -> None:
    rng = np.random.default_rng(0)
    images = rng.integers(256, size=(5, 3, height, width)).astype(np.uint8)
    images[0] = 255  # what is of one grey stays so
    sigmas = [0.07 * width, 0.0, 0.01 * width, 0.03 * width, 0.01 * width]
    pictures = torch.from_numpy(images)
    blurred = OPERATORS["blur"].apply(pictures, Scene(pictures, None), [{"sigma": each} for each in sigmas])
    reach = min(math.ceil(2.5 * 0.07 * width), min(height, width) - 1)
    for image, sigma, found in zip(images, sigmas, blurred.numpy(), strict=True):
        taps = np.exp(-(np.arange(-reach, reach + 1) ** 2) / (2 * max(sigma, 0.05) ** 2))
        wanted = image.astype(np.float64)
        for axis in (1, 2):
            wanted = correlate1d(wanted, taps / taps.sum(), axis=axis, mode="mirror")
        np.testing.assert_array_equal(found, np.rint(wanted))
    assert (blurred[0] == 255).all()
    assert np.array_equal(blurred[1].numpy(), images[1])


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
    # as does one that was kept before there was anything to keep
    other.restore({})
    assert drawn_shares(other) == pytest.approx(np.full(4, 0.25), abs=0.02)
    # nor did earlier versions keep anything less than nothing
    other.restore({"seed_worth": np.array([1.0, -5, 0, 0]), "seed_tries": np.array([3, 6, 2, 0])})
    assert (drawn_shares(other) > 0).all()
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
