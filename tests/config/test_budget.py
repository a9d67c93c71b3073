"""Budgets: what the user types, what is refused, and what a budget prints."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from diffgen.config import Budget
from diffgen.errors import UserError
from tests.config.strategies import budgets


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("60s", Budget(seconds=60.0)),
        ("1.5m", Budget(seconds=90.0)),
        ("2h", Budget(seconds=7200.0)),
        ("20000q", Budget(queries=20_000)),
        ("20_000q", Budget(queries=20_000)),
        ("60s,20000q", Budget(seconds=60.0, queries=20_000)),
        (" 20000 q , 1 m ", Budget(seconds=60.0, queries=20_000)),
        ("3.0q", Budget(queries=3)),
    ],
)
def test_parse(text: str, expected: Budget) -> None:
    assert Budget.parse(text) == expected


def test_parse_hands_a_budget_back() -> None:
    budget = Budget(seconds=1.0)
    assert Budget.parse(budget) is budget


@pytest.mark.parametrize(
    "text",
    ["", ",", "60", "s", "60 seconds", "-5s", "+5s", "0s", "0q", "0.0h", "1.5q", "1e3s", "nans", "infs", "60s,", ".5s"],
)
def test_what_is_no_budget_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(UserError, match=r"60s|20000q"):
        Budget.parse(text)


@pytest.mark.parametrize("text", ["60s,5m", "100q,200q", "1s,1s"])
def test_two_limits_of_one_kind_are_refused(text: str) -> None:
    """The first of them must not be dropped without a word."""
    with pytest.raises(UserError, match="two limits of one kind"):
        Budget.parse(text)


@pytest.mark.parametrize("given_to_python", [60, 60.0, None, ["60s"]])
def test_what_is_no_text_is_refused_too(given_to_python: Any) -> None:
    with pytest.raises(UserError, match="is not understood"):
        Budget.parse(given_to_python)


@given(st.one_of(st.text(), st.text(alphabet="0123456789.,_ smhqe-+\n\u0661\u00b2", max_size=30)))
@example("9" * 400 + "q")
@example("9" * 400 + "s")
@example("9" * 5000 + "q")
@example("9" * 308 + "h")
def test_parse_gives_a_budget_or_a_user_error(text: str) -> None:
    try:
        budget = Budget.parse(text)
    except UserError as error:
        assert error.exit_code == 2
        return
    assert budget.seconds is not None or budget.queries is not None
    assert budget.seconds is None or (budget.seconds > 0 and math.isfinite(budget.seconds))
    assert budget.queries is None or (budget.queries >= 1 and isinstance(budget.queries, int))


@given(budgets)
@example(Budget(seconds=1_234_567.0))
@example(Budget(seconds=1e-7))
@example(Budget(seconds=0.1 + 0.2))
@example(Budget(queries=2**53 + 1))
def test_what_a_budget_prints_can_be_parsed(budget: Budget) -> None:
    """A run folder keeps the budget as text, and a resumed run must stop where the first would have."""
    assert Budget.parse(str(budget)) == budget


@pytest.mark.parametrize(
    ("budget", "text"),
    [
        (Budget(seconds=60.0), "60s"),
        (Budget(seconds=0.5), "0.5s"),
        (Budget(seconds=3600.0, queries=20_000), "3600s,20000q"),
        (Budget(seconds=1_234_567.0), "1234567s"),
        (Budget(seconds=60), "60s"),
    ],
)
def test_budgets_print_short(budget: Budget, text: str) -> None:
    assert str(budget) == text


@pytest.mark.parametrize(
    "values",
    [
        {},
        {"seconds": 0.0},
        {"seconds": -1.0},
        {"seconds": math.nan},
        {"seconds": math.inf},
        {"queries": 0},
        {"queries": -5},
        {"seconds": 5.0, "queries": 0},
    ],
)
def test_empty_and_negative_budgets_cannot_be_made(values: dict[str, Any]) -> None:
    with pytest.raises(UserError):
        Budget(**values)
