"""Operators: each does to an image what its name says, whatever the image's size, and its neighbours in the batch."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
import torch
from PIL import Image
from scipy.ndimage import correlate1d, generate_binary_structure, grey_dilation, grey_erosion

from diffgen.gan_training.augmentation import TRANSFORMATIONS, plain_background
from diffgen.sources.operators import OPERATORS, Scene, is_grey, usual_operators
from diffgen.sources.seeds import SeedsSettings, SeedsSource
from diffgen.sources.space import random_genes
from tests.sources.scenes import EVERY, scene_of

CPU = torch.device("cpu")


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


def test_shades_of_grey_that_are_saved_as_colours_are_changed_as_those_of_one_channel() -> None:
    one = scene_of(False)
    seeds = one.seeds.repeat(1, 3, 1, 1)
    three = Scene(seeds, plain_background(seeds), grey=is_grey(seeds.numpy()))
    sources = [SeedsSource(scene, SeedsSettings(), device=CPU) for scene in (one, three)]
    assert sources[0].operators == sources[1].operators == usual_operators(1)
    genes = random_genes(sources[0].space, 400, torch.Generator().manual_seed(0))
    grey, colours = (source.draw(genes) for source in sources)
    # sums over three channels and over one are rounded otherwise
    assert (colours.int() - grey.int()).abs().max() <= 1
    assert is_grey(colours.numpy())
    assert not is_grey(scene_of(True).seeds.numpy())


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
    image = images[0].numpy().astype(float)
    for row, column in ((0, 0), (height // 2, width // 2), (height - 1, 3), (5, width - 1)):
        x, y = column - (width - 1) / 2, row - (height - 1) / 2
        seen = [seen_at(image, x + share * right, y + share * down) for share in np.linspace(-0.5, 0.5, 201)]
        assert abs(made[row, column] - np.mean(seen)) <= 1.5


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


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("pixels", [-1.6, -1.0, -0.3, 0.0, 0.7, 1.0, 1.9])
def test_strokes_grow_as_the_largest_of_their_neighbours_do(pixels: float, dark: bool) -> None:
    seeds = 255 - scene_of(False).seeds[:20] if dark else scene_of(False).seeds[:20]
    scene = Scene(seeds, plain_background(seeds))
    # another strength beside it, which needs more rings
    made = OPERATORS["stroke"].apply(seeds, scene, [{"pixels": pixels}, {"pixels": 1.95}] * 10)[::2].numpy()
    grows = grey_dilation if (pixels > 0) != dark else grey_erosion
    cross = generate_binary_structure(2, 1)
    for image, found in zip(seeds[::2, 0].numpy().astype(float), made[:, 0], strict=True):
        left = abs(pixels)
        while left > 0:
            image = image + min(left, 1.0) * (grows(image, footprint=cross, mode="nearest") - image)
            left -= 1
        assert np.abs(found - image).max() <= 0.5 + 1e-9


@pytest.mark.parametrize(("side", "most"), [(28, 0.8), (64, 1.83), (224, 3.0), (640, 3.0)])
def test_a_usual_blur_leaves_large_pictures_plainly_seen(side: int, most: float) -> None:
    assert OPERATORS["blur"].usual((side, side))["sigma"].high == pytest.approx(most, abs=0.01)
    assert OPERATORS["blur"].widest((side, side))["sigma"].high > most  # what a jury may allow
