"""What made the pictures of a behaviour, in words."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from diffgen.origins import Step, read_recipe
from diffgen.report.origins import made_by
from diffgen.sources.operators import OPERATORS

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
