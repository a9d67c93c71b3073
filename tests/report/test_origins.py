"""How a picture was made, and what made those of a behaviour, in plain English; any recipe has some words."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from diffgen.origins import Step, read_recipe, recipe_text
from diffgen.report.origins import made_by, origin_sentence, step_phrase
from diffgen.runs.triggers import Origin
from diffgen.sources.operators import OPERATORS
from diffgen.techniques.mutation import Mutator
from diffgen.techniques.mutation.geometry import rotation, scale, shear, translation
from diffgen.techniques.mutation.levels import brightness, contrast, pixels, salt_and_pepper

NAMES = tuple("0123456789")
WORDS = st.from_regex(r"[a-z][a-z0-9_]{0,8}", fullmatch=True)
STRENGTHS = st.lists(st.tuples(WORDS, st.floats(-1e6, 1e6)), max_size=3, unique_by=lambda pair: pair[0])


@pytest.mark.parametrize(
    ("recipe", "wanted"),
    [
        ("rotation(degrees=11)", "turned 11 degrees"),
        ("rotation(degrees=-1)", "turned \N{MINUS SIGN}1 degree"),
        ("shift(right=2, down=-1)", "moved 2 pixels right and 1 pixel up"),
        ("shift(right=0, down=0)", "not moved"),
        ("brightness(levels=-12.5)", "made 12.5 grey levels darker"),
        ("brightness(factor=1.2)", "brightness times 1.2"),
        ("scale(factor=0.9)", "scaled to 90%"),
        ("contrast(factor=1.25); random_pixels(count=3)", "contrast times 1.25, then 3 pixels replaced at random"),
        ("median_blur(side=3)", "median blur (side 3)"),
        ("rotation(turns=2)", "rotation (turns 2)"),
        ("unchanged()", "unchanged"),
        ("stretch(width=0.9, height=1.15)", "stretched to 90% of its width and 115% of its height"),
        ("perspective(right=0.2, down=-0.1)", "smaller by 20% on the right and 10% above"),
        ("shade(right=-0.3, down=0)", "lighter by 30% on the left"),
        ("shade(right=0, down=0)", "unchanged"),
        ("tint(warmer=-0.1, greener=0.05)", "10% colder and 5% greener"),
        ("tint(warmer=0, greener=0)", "unchanged"),
        ("saturation(factor=0.5)", "saturation times 0.5"),
        ("motion(right=3, down=-4)", "smeared by a motion of 5 pixels"),
        ("jpeg(loss=70)", "saved as JPEG of quality 30"),
    ],
)
def test_phrases(recipe: str, wanted: str) -> None:
    origin = Origin(seed=4311, seed_label=4, recipe=read_recipe(recipe), generation=3)
    assert origin.source == "real image"
    assert origin_sentence(origin, NAMES, "the GAN") == f"made from real image 4,311, labelled 4: {wanted}"


@pytest.mark.parametrize("name", OPERATORS)
def test_every_operator_has_a_phrase_of_its_own(name: str) -> None:
    """None of them names its strengths otherwise than its phrase expects; then its bare name would be said."""
    operator = OPERATORS[name]
    strengths = operator.strengths((1.0, 0.2), 3, operator.usual((28, 28)))
    phrase = step_phrase(Step(name, tuple(strengths.items())))
    assert "(" not in phrase and phrase != name.replace("_", " ")


def test_what_is_not_known_is_not_said() -> None:
    assert origin_sentence(Origin(7, None, (), 1), NAMES, "the GAN") == "made from real image 7"
    # a run from a stranger may name classes that it does not have
    assert origin_sentence(Origin(7, 99, (), 1), NAMES, "the GAN") == "made from real image 7"
    drawn = Origin(None, None, (), 1200)
    assert drawn.source == "generator"
    assert origin_sentence(drawn, NAMES, "your generator") == "drawn by your generator, generation 1,200"


@given(st.one_of(WORDS, st.sampled_from(["rotation", "shift", "scale", "brightness"])), STRENGTHS)
def test_every_step_has_words(operator: str, strengths: list[tuple[str, float]]) -> None:
    step = Step(operator, tuple(strengths))
    phrase = step_phrase(step)
    assert phrase and "_" not in phrase.split("(")[0]
    assert step_phrase(read_recipe(recipe_text((step,)))[0])


@pytest.mark.parametrize(
    ("mutator", "begins"),
    [
        (translation(1, 3), "moved "),
        (scale(0.8, 0.9), "scaled to "),
        (shear(0.3), "sheared "),
        (rotation(20), "turned "),
        (contrast(1.2, 1.4), "contrast times "),
        (brightness(30), "made "),
        (pixels(5), ""),
        (salt_and_pepper(0.1), ""),
    ],
)
def test_the_mutators_have_phrases(mutator: Mutator, begins: str) -> None:
    """None of them names its strengths otherwise than its phrase expects; then its bare name would be said."""
    images = np.full((3, 1, 8, 8), 100, dtype=np.uint8)
    for step in mutator(images, np.random.default_rng(0)).steps:
        phrase = step_phrase(step)
        assert phrase.startswith(begins)
        assert "(" not in phrase


Recipe = tuple[Step, ...]


def turned(degrees: float) -> Recipe:
    return (Step("rotation", (("degrees", degrees),)),)


@pytest.mark.parametrize(
    ("recipes", "told"),
    [
        ([], ""),
        ([(), (), ()], ""),
        ([turned(9), turned(-12)], ""),  # two are no pattern
        ([turned(9.31), turned(-12), turned(15)], "3 of 3: turned by 9.3 degrees or more"),
        ([turned(each) for each in (1, *range(10, 40))], "27 of 31: turned by 13 degrees or more"),
        ([turned(9), turned(10), turned(11), *[()] * 9], ""),  # a quarter only
        ([read_recipe("shift(right=2, down=-3); blur(sigma=0.4)")] * 4, "4 of 4: moved by 3 pixels or more"),
        ([read_recipe("gamma(exponent=1.017)")] * 3, ""),  # nobody sees it
        ([read_recipe("elastic(pixels=0.3); rotation(degrees=20)")] * 3, "3 of 3: turned by 20 degrees or more"),
        ([read_recipe("scale(factor=0.8)")] * 3 + [read_recipe("scale(factor=1.25)")], "4 of 4: scaled by 20% or more"),
        # a chain may have an operator again and again, the plainest not last
        (
            [read_recipe("rotation(degrees=20); blur(sigma=0.1); rotation(degrees=1)")] * 3,
            "3 of 3: turned by 20 degrees or more",
        ),
        ([read_recipe("rotation(degrees=20); rotation(turns=3)")] * 3, "3 of 3: turned by 20 degrees or more"),
        ([read_recipe("latent_steps(distance=12.5)")] * 3, "3 of 3: varied as a code of the source"),
        ([read_recipe("another(strength=3)")] * 5, ""),
        ([read_recipe("rotation(turns=3)")] * 5, ""),
    ],
)
def test_what_is_told(recipes: list[Recipe], told: str) -> None:
    assert made_by(recipes) == told


def test_every_operator_has_its_words() -> None:
    for name, operator in OPERATORS.items():
        strengths = operator.strengths((1.0, 0.2), 3, operator.widest((28, 28)))
        recipe = (Step(name, tuple(strengths.items())),)
        assert made_by([recipe] * 3).startswith("3 of 3: ")


@given(st.lists(st.integers(-50_000, 50_000).map(lambda each: each / 1000), min_size=3, max_size=40))
def test_the_count_is_of_those_that_are_as_strong(degrees: list[float]) -> None:
    told = made_by([turned(each) for each in degrees])
    seen = [abs(each) for each in degrees if abs(each) >= 2]
    if len(seen) < max(3, len(degrees) / 3):
        assert told == ""
        return
    count, rest = told.split(" of ", 1)
    least = float(rest.split(" by ")[1].split()[0])
    assert int(count) == sum(each >= least for each in seen)
    assert int(count) >= 0.8 * len(seen)
