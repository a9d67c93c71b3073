"""Recipes survive being written as text; what is no recipe is refused."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from diffgen.errors import UserError
from diffgen.origins import NO_SEED, Origins, Step, check_recipes, read_recipe, recipe_text

_NAMES = st.from_regex(r"[a-z][a-z0-9_]{0,12}", fullmatch=True)
_VALUES = st.floats(-1e9, 1e9, allow_nan=False).map(lambda value: float(f"{value:.6g}"))
_STEPS = st.builds(Step, _NAMES, st.lists(st.tuples(_NAMES, _VALUES), max_size=3).map(tuple))


@given(st.lists(_STEPS, max_size=5).map(tuple))
def test_a_recipe_reads_as_it_was_written(steps: tuple[Step, ...]) -> None:
    assert read_recipe(recipe_text(steps)) == steps


@given(st.integers(0, 10**12))
def test_a_row_is_written_in_full(row: int) -> None:
    (step,) = read_recipe(recipe_text((Step("towards", (("share", 0.2), ("other", row))),)))
    assert dict(step.strengths)["other"] == row


@pytest.mark.parametrize("text", ["rotation", "Rotation(degrees=1)", "rotation(degrees=nan)", "a(b=1) c(d=2)", "a(b)"])
def test_what_is_no_recipe_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"not a step of a recipe|no number"):
        read_recipe(text)
    with pytest.raises(UserError, match=r"^Mine \(.*(not a step of a recipe|no number)\); write one as"):
        check_recipes(("", text), "Mine")


_RECIPES = st.lists(_STEPS, max_size=3).map(tuple).map(recipe_text)


def _spoilt(recipe: str, place: int, character: str) -> str:
    """With one character in place of another, or in its midst."""
    place %= len(recipe) + 1
    return recipe[:place] + character + recipe[place + (len(character) + place) % 2 :]


@given(
    st.one_of(
        _RECIPES,
        st.from_regex(r"[a-c(),;=1e. +-]{0,16}", fullmatch=True),
        st.builds(_spoilt, _RECIPES, st.integers(0, 200), st.sampled_from(["", *"aB_(),;=1e. +-\n"])),
    )
)
def test_a_recipe_is_checked_as_it_is_read(text: str) -> None:
    def refused(look: Callable[[str], object]) -> bool:
        try:
            look(text)
        except (ValueError, UserError):
            return True
        return False

    assert refused(lambda text: check_recipes((text,), "Mine")) == refused(read_recipe)


def test_rows_are_chosen() -> None:
    origins = Origins(np.array([3, NO_SEED, 5]), ("a()", "", "b(c=1)"))
    assert origins[np.array([2, 0])].recipes == ("b(c=1)", "a()")
    assert len(Origins.drawn(4)[:2]) == 2
