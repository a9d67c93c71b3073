"""What was accepted may not become worse, and the same candidate is never worse than itself."""

from __future__ import annotations

import json
from bisect import bisect_left
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.stats import binom

from diffgen.gate.conditions import table
from diffgen.gate.measurements import AccuracyDrop, Rate
from diffgen.gate.ratchet import DESIGN_EFFECT, Acceptance, Level, ratchet
from diffgen.gate.rules import Condition
from diffgen.gate.values import GateValues, KnownBehaviour, SearchState
from tests.gate.made_values import changed

NAME = "A-4_B-9_0123abcd"
QUERIES = 20_000


def known(pictures: int, shift: float, name: str = NAME) -> KnownBehaviour:
    return KnownBehaviour(name, ("four", "nine"), pictures, shift)


def of(conditions: list[Condition]) -> dict[str, str]:
    return {each.name: each.status.value for each in conditions}


AS_ACCEPTED = changed(
    GateValues(search=SearchState(QUERIES), known=(known(40, 0.3),)),
    disagreement_real=Rate(84, 898),
    disagreement_random=Rate(150, 2_000),
    accuracy_drop=AccuracyDrop(867, 792, 80, 898),
)
ACCEPTED = Acceptance.of(AS_ACCEPTED, {NAME: Level(40, 0.3)})


def measured(**values: Any) -> GateValues:
    return changed(GateValues(), **values)


def acceptance(queries: int = QUERIES, behaviours: dict[str, Level] | None = None, **values: Any) -> Acceptance:
    return Acceptance(queries, values, behaviours or {})


def test_nothing_was_accepted_and_nothing_is_asked_for() -> None:
    assert list(ratchet(AS_ACCEPTED, ())) == []


def test_the_accepted_candidate_itself_passes() -> None:
    conditions = list(ratchet(AS_ACCEPTED, (ACCEPTED,)))
    assert of(conditions) == {
        "accuracy_drop_accepted": "PASS",
        "disagreement_real_accepted": "PASS",
        "disagreement_random_accepted": "PASS",
        "known_behaviours": "PASS",
    }
    # each has a value in the tables
    names = [each.name for each in conditions]
    assert {each.name for each in table(AS_ACCEPTED, names)} >= set(names)


def test_a_far_worse_candidate_after_a_bad_one_was_accepted() -> None:
    """867 of 898 right, then 792, which someone accepted; then 709."""
    worse = changed(
        AS_ACCEPTED,
        accuracy_drop=AccuracyDrop(867, 709, 165, 898),
        disagreement_real=Rate(170, 898),
        disagreement_random=Rate(420, 2_000),
    )
    found = of(list(ratchet(worse, (ACCEPTED,))))
    assert found == {
        "accuracy_drop_accepted": "FAIL",
        "disagreement_real_accepted": "FAIL",
        "disagreement_random_accepted": "FAIL",
        "known_behaviours": "PASS",
    }
    assert any("8.35 points accepted" in each.limit for each in ratchet(worse, (ACCEPTED,)))
    # ... until that one is accepted too
    again = Acceptance.of(worse, {})
    assert set(of(list(ratchet(worse, (ACCEPTED, again)))).values()) == {"PASS"}


@pytest.mark.parametrize(
    ("pictures", "shift", "status", "said"),
    [
        (40, 0.39, "PASS", "none more severe"),
        (400, 0.3, "FAIL", "400 pictures in 20,000 queries, 40 in 20,000 accepted"),
        (0, 0.9, "FAIL", "probability shift 0.90, 0.30 accepted"),
        (0, 0.0, "PASS", "none more severe"),
    ],
)
def test_known_behaviours(pictures: int, shift: float, status: str, said: str) -> None:
    condition = list(ratchet(replace(AS_ACCEPTED, known=(known(pictures, shift),)), (ACCEPTED,)))[-1]
    assert (condition.name, condition.status.value) == ("known_behaviours", status)
    assert said in condition.sentence
    if status == "FAIL":
        assert "base says four, candidate says nine" in condition.sentence


def test_a_longer_search_may_meet_more() -> None:
    longer = replace(AS_ACCEPTED, search=SearchState(10 * QUERIES), known=(known(400, 0.3),))
    assert of(list(ratchet(longer, (ACCEPTED,))))["known_behaviours"] == "PASS"


def test_a_behaviour_that_was_stored_before_there_were_values() -> None:
    """Of an old store nothing is known but that it was accepted."""
    old = replace(AS_ACCEPTED, known=(known(4_000, 1.0, "A-1_B-2_00000000"),))
    assert "known_behaviours" not in of(list(ratchet(old, (ACCEPTED,))))


def test_data_without_labels_and_a_check_that_broke_off() -> None:
    assert of(list(ratchet(changed(AS_ACCEPTED, accuracy_drop=None), (ACCEPTED,)))).keys() == {
        "disagreement_real_accepted",
        "disagreement_random_accepted",
        "known_behaviours",
    }
    assert list(ratchet(measured(), (ACCEPTED,))) == []


def test_a_candidate_as_good_as_the_base_is_no_worse_than_a_better_one() -> None:
    better = acceptance(accuracy_drop=AccuracyDrop(800, 890, 2, 898))
    equal = changed(AS_ACCEPTED, accuracy_drop=AccuracyDrop(800, 800, 0, 898))
    assert of(list(ratchet(equal, (better,))))["accuracy_drop_accepted"] in ("PASS", "WARN")


def random_rate(accepted: int, now: int) -> str:
    """The status of the rate on 2,000 random images."""
    before = acceptance(QUERIES, disagreement_random=Rate(accepted, 2_000))
    return next(iter(ratchet(measured(disagreement_random=Rate(now, 2_000)), (before,)))).status.value


def known_pictures(accepted: int, now: int) -> str:
    """The status of the one known behaviour, in two searches of 20,000 queries."""
    before = acceptance(QUERIES, behaviours={NAME: Level(accepted, 0.3)})
    values = measured(search=SearchState(QUERIES), known=(known(now, 0.3),))
    return next(iter(ratchet(values, (before,)))).status.value


def first_to_fail(status: Callable[[int, int], str], accepted: int, most: int) -> int:
    """The smallest count that fails where ``accepted`` was accepted, ``most`` + 1 if none does."""
    return bisect_left(range(most + 1), True, key=lambda now: status(accepted, now) == "FAIL")


def chance_of_failing(status: Callable[[int, int], str], chances: NDArray[np.float64]) -> float:
    """How often the second of two independent counts fails where the first was accepted.

    Computed and not drawn, so that nothing in it is luck.

    Args:
        chances: float64 (n,), how likely each of the counts 0..n-1 is.
    """
    beyond = np.append(chances[::-1].cumsum()[::-1], 0.0)  # chance of a count or a higher one
    usual = np.flatnonzero(chances > 1e-9).tolist()
    fails = first_to_fail(status, usual[0], len(chances) - 1)
    found = 0.0
    for first in usual:
        while fails < len(chances) and status(first, fails) != "FAIL":  # whoever accepts more allows more
            fails += 1
        found += float(chances[first] * beyond[fails])
    return found


def in_clumps(mean: float, design_effect: float, most: int) -> NDArray[np.float64]:
    """Chances of the counts 0..most of pictures that come in clumps: Poisson many, of geometric size (Panjer 1981)."""
    stop = 2 / (design_effect + 1)  # a clump ends with each picture: E(size^2) / E(size) = 2 / stop - 1
    sizes = np.arange(1, most + 1)
    weighted = sizes * stop * (1 - stop) ** (sizes - 1)
    chances = np.zeros(most + 1)
    chances[0] = np.exp(-mean * stop)
    for count in sizes:
        chances[count] = mean * stop / count * (weighted[:count] @ chances[count - 1 :: -1])
    return chances


@pytest.mark.parametrize("share", [0.0005, 0.01, *(pytest.param(each, marks=pytest.mark.slow) for each in (0.08, 0.4))])
def test_the_same_candidate_on_other_random_images_does_not_fail(share: float) -> None:
    """Each seed draws other images; two 95 % intervals that must not touch fail at most 3 of 1,000 checks by chance."""
    assert chance_of_failing(random_rate, binom.pmf(np.arange(2_001), 2_000, share)) <= 0.003


@pytest.mark.parametrize("mean", [2, 24, 90])
def test_the_same_candidate_in_another_search_does_not_fail(mean: float) -> None:
    """As for the rates, in clumps as large as the design effect allows; as measured (2), not even of 130 behaviours."""
    most = int(10 * mean + 50)
    assert chance_of_failing(known_pictures, in_clumps(mean, DESIGN_EFFECT, most)) <= 0.003
    assert 130 * chance_of_failing(known_pictures, in_clumps(mean, 2.0, most)) <= 0.001


def test_larger_clumps_than_were_measured_fail_more_often() -> None:
    """The design effect is what the promise rests on: with 7 in place of 5 it is broken."""
    assert chance_of_failing(known_pictures, in_clumps(32, 7.0, 370)) > 0.003


@pytest.mark.parametrize(("accepted", "fails"), [(1, 45), (10, 68), (100, 214)])
def test_how_many_pictures_it_takes_to_fail(accepted: int, fails: int) -> None:
    assert first_to_fail(known_pictures, accepted, 1_000) == fails


def test_a_short_check_that_is_accepted_too_allows_no_more_than_before() -> None:
    """0 pictures in 200 queries may stand for 9 % of them, and 0 of 5 images for half; neither is worse than 1 %."""
    thorough = acceptance(QUERIES, disagreement_random=Rate(20, 2_000), behaviours={NAME: Level(10, 0.3)})
    short = acceptance(200, disagreement_random=Rate(0, 5), behaviours={NAME: Level(0, 0.3)})
    worse = measured(disagreement_random=Rate(200, 2_000), search=SearchState(QUERIES), known=(known(1_000, 0.3),))
    failed = {"disagreement_random_accepted": "FAIL", "known_behaviours": "FAIL"}
    assert of(list(ratchet(worse, (thorough,)))) == failed
    assert of(list(ratchet(worse, (thorough, short)))) == failed


@given(st.integers(0, 2_000), st.integers(0, 2_000), st.integers(0, 2_000))
def test_a_higher_rate_is_never_better(accepted: int, first: int, second: int) -> None:
    before = acceptance(disagreement_random=Rate(accepted, 2_000))
    low, high = sorted((first, second))
    order = ("PASS", "WARN", "FAIL")
    statuses = [
        of(list(ratchet(measured(disagreement_random=Rate(count, 2_000)), (before,))))["disagreement_random_accepted"]
        for count in (low, high)
    ]
    assert order.index(statuses[0]) <= order.index(statuses[1])
    assert high > accepted or statuses[1] == "PASS"


@given(st.lists(st.tuples(st.integers(1, 60), st.integers(1, 60)), min_size=1, max_size=4), st.data())
def test_whoever_was_accepted_passes_among_others(pairs: list[tuple[int, int]], data: st.DataObject) -> None:
    accepted = [
        acceptance(most, disagreement_random=Rate(min(pair), most), behaviours={NAME: Level(min(pair), 0.3)})
        for pair in pairs
        for most in [max(pair)]
    ]
    again = data.draw(st.sampled_from(accepted))
    level = again.behaviours[NAME]
    values = measured(
        disagreement_random=again.measured["disagreement_random"],
        search=SearchState(again.queries),
        known=(known(level.pictures, level.shift),),
    )
    assert "FAIL" not in of(list(ratchet(values, accepted))).values()


counts = st.integers(0, 500)
rates = st.builds(Rate, counts, st.just(500), counts)
drops = st.tuples(*[st.integers(0, 100)] * 3).map(lambda n: AccuracyDrop(n[0] + n[1], n[0] + n[2], n[1], 500))
MEASURED = st.fixed_dictionaries(
    {}, optional={"accuracy_drop": drops, "disagreement_real": rates, "disagreement_random": rates}
)
levels = st.dictionaries(
    st.from_regex(r"A-[0-9]{1,3}_B-[0-9]{1,3}_[0-9a-f]{8}", fullmatch=True),
    st.builds(Level, counts, st.floats(0, 1)),
    max_size=3,
)


@given(st.builds(Acceptance, counts, MEASURED, levels))
def test_what_was_written_is_read(accepted: Acceptance) -> None:
    assert Acceptance.read(json.loads(json.dumps(accepted.as_dict()))) == accepted


WRONG: list[dict[str, Any]] = [
    {"queries": -1},
    {"queries": "many"},
    {"queries": True},
    {"disagreement_real": {"count": 900, "of": 898, "undecided": 0}},
    {"disagreement_random": []},
    {"accuracy_drop": {"base_right": 10, "candidate_right": 600, "only_base": 0, "of": 500}},
    {"behaviours": {"../../evil": {"pictures": 1, "shift": 0.1}}},
    {"behaviours": {NAME: {"pictures": 1, "shift": float("nan")}}},
    {"behaviours": {NAME: {"pictures": 2**60, "shift": 0.5}}},
    {"behaviours": []},
]


@pytest.mark.parametrize("wrong", WRONG, ids=str)
def test_values_that_cannot_be(wrong: dict[str, Any]) -> None:
    with pytest.raises((KeyError, TypeError, ValueError, AttributeError)):
        Acceptance.read({**ACCEPTED.as_dict(), **wrong})
