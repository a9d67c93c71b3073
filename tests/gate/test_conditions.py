"""Conditions on values: what fails, what warns, what passes, and that an unfinished search never passes."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from diffgen.config import Limits
from diffgen.errors import UserError
from diffgen.gate.conditions import EXIT_CODES, Status, evaluate, overall
from diffgen.gate.values import AccuracyDrop, Behaviour, GateValues, Rate, SearchState, Shift

DONE = SearchState(1000)
BROKEN = SearchState(300, "The search broke off: the model raised.")


def values(**changes: object) -> GateValues:
    made = GateValues(
        real=Rate(3, 10_000),
        random=Rate(0, 2_000),
        drawn=4_000,
        accepted=2_500,
        accuracy=AccuracyDrop(9_800, 9_790, 15, 10_000),
        shift_real=Shift(0.2, 10_000),
        shift_random=Shift(0.4, 2_000),
        search=DONE,
    )
    return replace(made, **changes)


def behaviour(count: int, known: int) -> Behaviour:
    return Behaviour((1, 7), 3, count, known, 0.5, (0,))


def statuses(measured: GateValues, limits: Limits) -> dict[str, str]:
    return {each.name: each.status.value for each in evaluate(measured, limits)}


def test_what_has_no_limit_has_no_condition() -> None:
    assert statuses(values(), Limits()) == {"search": "PASS", "new_behaviours": "PASS"}
    assert statuses(values(), Limits(max_new_behaviours=None)) == {"search": "PASS"}


@pytest.mark.parametrize(
    ("rate", "limit", "status"),
    [
        (Rate(6, 1_000), 0.005, "FAIL"),
        (Rate(5, 1_000), 0.005, "WARN"),
        (Rate(3, 10_000), 0.005, "PASS"),
        (Rate(0, 100), 0.005, "WARN"),  # up to 3.6 % of all images may differ
        (Rate(0, 100), 0.0, "WARN"),  # as of any other limit: no number of images shows that there is none
        (Rate(1, 100), 0.0, "FAIL"),
        (Rate(0, 0), 0.005, "ERROR"),
        (None, 0.005, "ERROR"),
    ],
)
def test_rate(rate: Rate | None, limit: float, status: str) -> None:
    found = statuses(values(real=rate), Limits(max_disagreement=limit))
    assert found["disagreement_real"] == status


def test_accuracy_and_faults_and_shift() -> None:
    limits = Limits(max_accuracy_drop=0.002, max_regression_faults=14, max_shift=0.3)
    found = statuses(values(), limits)
    assert found["accuracy_drop"] == "PASS"  # 0.10 points, up to 0.19
    assert found["regression_faults"] == "FAIL"
    assert (found["shift_real"], found["shift_random"]) == ("PASS", "FAIL")
    assert statuses(values(), Limits(max_accuracy_drop=0.0015))["accuracy_drop"] == "WARN"
    assert statuses(values(), Limits(max_accuracy_drop=0.0009))["accuracy_drop"] == "FAIL"
    better = values(accuracy=AccuracyDrop(9_700, 9_800, 0, 10_000))
    assert statuses(better, Limits(max_accuracy_drop=0.0))["accuracy_drop"] == "PASS"


def test_an_accuracy_that_is_as_before_hides_no_broken_image_from_a_limit_of_zero() -> None:
    """8 of 50 images broke and 8 others were mended: the drop is 0, and nobody may say that none broke."""
    limits = Limits(max_accuracy_drop=0.0)
    condition = next(
        each for each in evaluate(values(accuracy=AccuracyDrop(40, 40, 8, 50)), limits) if each.name == "accuracy_drop"
    )
    assert condition.status.value == "WARN"
    assert "None" not in condition.sentence and "up to" in condition.sentence


def test_behaviours_are_new_when_most_of_their_pictures_are() -> None:
    two = (behaviour(3, 1), behaviour(2, 1))
    assert [each.new for each in two] == [True, False]
    assert statuses(values(behaviours=two), Limits())["new_behaviours"] == "FAIL"
    assert statuses(values(behaviours=two), Limits(max_new_behaviours=1))["new_behaviours"] == "PASS"


rates = st.integers(0, 2000).flatmap(lambda of: st.builds(Rate, st.integers(0, of), st.just(of)))
limits = st.builds(
    Limits,
    max_disagreement=st.none() | st.floats(0, 1),
    max_new_behaviours=st.none() | st.integers(0, 3),
    max_shift=st.none() | st.floats(0, 1),
)


@given(st.none() | rates, st.none() | rates, limits, st.integers(0, 4))
def test_an_unfinished_search_never_passes(real: Rate | None, random: Rate | None, limits: Limits, new: int) -> None:
    measured = values(real=real, random=random, behaviours=(behaviour(1, 0),) * new, search=BROKEN)
    conditions = evaluate(measured, limits)
    assert overall(conditions) is Status.ERROR
    assert EXIT_CODES[overall(conditions)] == 3
    assert conditions[0].sentence == BROKEN.problem


cells = st.sampled_from([0, 8]) | st.integers(0, 300)
drops = st.tuples(cells, cells, cells).map(lambda n: AccuracyDrop(n[0] + n[1], n[0] + n[2], n[1], 1000))
shifts = st.builds(Shift, st.floats(0, 1), st.integers(1, 500))


@given(
    rates,
    rates,
    drops,
    shifts,
    st.integers(0, 4),
    st.lists(st.sampled_from([0.0, 0.001, 0.005, 0.02]) | st.floats(0, 1), min_size=2, max_size=2).map(sorted),
    st.tuples(st.integers(0, 5), st.integers(0, 5)).map(sorted),
)
def test_no_limit_is_laxer_than_a_larger_one(
    real: Rate,
    random: Rate,
    drop: AccuracyDrop,
    shift: Shift,
    new: int,
    shares: list[float],
    counts: list[int],
) -> None:
    measured = values(
        real=real,
        random=random,
        accuracy=drop,
        shift_real=shift,
        shift_random=shift,
        behaviours=(behaviour(1, 0),) * new,
    )
    strict, lax = (
        evaluate(
            measured,
            Limits(
                max_disagreement=share,
                max_accuracy_drop=share,
                max_new_behaviours=count,
                max_regression_faults=count,
                max_shift=share,
            ),
        )
        for share, count in zip(shares, counts, strict=True)
    )
    order = ("PASS", "WARN", "FAIL", "ERROR")
    for small, large in zip(strict, lax, strict=True):
        assert small.name == large.name
        assert order.index(small.status.value) >= order.index(large.status.value), small


@given(rates, rates, limits)
def test_the_worst_condition_decides(real: Rate, random: Rate, limits: Limits) -> None:
    conditions = evaluate(values(real=real, random=random), limits)
    found = {each.status for each in conditions}
    worst = next(each for each in (Status.ERROR, Status.FAIL, Status.WARN, Status.PASS) if each in found)
    assert overall(conditions) is worst


@pytest.mark.parametrize(("accepted", "status"), [(200, "PASS"), (199, "WARN"), (1, "WARN"), (0, "ERROR")])
def test_a_search_that_could_find_nothing_does_not_pass(accepted: int, status: str) -> None:
    assert statuses(values(accepted=accepted), Limits())["search"] == status


@pytest.mark.parametrize("wrong", [{"max_disagreement": 5}, {"max_shift": -0.1}, {"max_regression_faults": -1}])
def test_limits_that_cannot_be(wrong: dict[str, float]) -> None:
    with pytest.raises(UserError, match=next(iter(wrong))):
        Limits(**wrong)
