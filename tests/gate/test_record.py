"""What results.json says of a check is read again without loss."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from diffgen.config import Limits
from diffgen.gate.conditions import evaluate
from diffgen.gate.measured import measured
from diffgen.gate.record import make_record, read_conditions, read_values
from diffgen.gate.result import CheckResult
from diffgen.gate.values import (
    AccuracyDrop,
    Behaviour,
    ClassDrop,
    GateValues,
    KnownBehaviour,
    Rate,
    Replay,
    SearchState,
    Shift,
    Steadiness,
    Undecided,
)

COUNTS = st.integers(0, 500)
SHARES = st.floats(0, 1)
RATES = st.none() | st.builds(Rate, COUNTS, st.just(500), COUNTS)
UNDECIDED = st.none() | st.builds(
    Undecided, st.integers(0, 250), st.just(500), only_base=st.none() | st.integers(0, 250)
)
SHIFTS = st.none() | st.builds(Shift, SHARES, st.integers(1, 500))
# both right, only the base, only the candidate
DROPS = st.tuples(*[st.integers(0, 100)] * 3).map(lambda n: AccuracyDrop(n[0] + n[1], n[0] + n[2], n[1], 500))
CLASS_DROPS = st.tuples(*[st.integers(0, 100)] * 3, st.integers(1, 9)).map(
    lambda n: ClassDrop(n[0] + n[1], n[0] + n[2], n[1], 500, n[3], "abcdefghij"[n[3]], 10)
)
BEHAVIOURS = st.builds(
    Behaviour,
    st.tuples(st.integers(0, 9), st.integers(0, 9)),
    COUNTS,
    st.integers(1, 500),
    COUNTS,
    SHARES,
    st.lists(COUNTS, max_size=4).map(tuple),
    st.booleans(),
    COUNTS,
)
VALUES = st.builds(
    GateValues,
    RATES,
    RATES,
    COUNTS,
    COUNTS,
    st.none() | DROPS,
    SHIFTS,
    SHIFTS,
    st.builds(Replay, COUNTS, COUNTS, COUNTS),
    st.builds(SearchState, COUNTS, st.sampled_from(["", "The search broke off."])),
    st.lists(BEHAVIOURS, max_size=3).map(tuple),
    steadiness=st.builds(Steadiness, SHARES, SHARES, st.lists(st.text(max_size=9), max_size=2).map(tuple)),
    smells=st.lists(st.text(max_size=9), max_size=2).map(tuple),
    faint_smells=st.lists(st.text(max_size=9), max_size=2).map(tuple),
    base_smells=st.lists(st.text(max_size=9), max_size=2).map(tuple),
    undecided=UNDECIDED,
    unanswered=st.none() | UNDECIDED,
    silences=st.lists(st.text(max_size=9), max_size=2).map(tuple),
    outputs=st.tuples(st.text(max_size=9), st.text(max_size=9)),
    background=st.none() | UNDECIDED,
    classes=st.none() | st.tuples(COUNTS, COUNTS),
    labels_alone=st.tuples(st.booleans(), st.booleans()),
    left_out=st.tuples(st.booleans(), st.booleans()),
    class_accuracy=st.none() | CLASS_DROPS,
    sure=st.none() | RATES,
    class_disagreement=st.none() | CLASS_DROPS,
    variations=st.none() | DROPS,
    varied=COUNTS,
    jury=st.booleans(),
)
LIMITS = st.builds(
    Limits,
    st.none() | SHARES,
    st.none() | SHARES,
    st.none() | COUNTS,
    st.none() | COUNTS,
    max_class_accuracy_drop=st.none() | SHARES,
    max_new_faults=st.none() | COUNTS,
    max_variation_faults=st.none() | SHARES,
)


@settings(max_examples=40)
@given(VALUES, LIMITS)
def test_what_was_written_is_read(values: GateValues, limits: Limits) -> None:
    conditions = evaluate(values, limits)
    model = {"name": "net.onnx", "sha256": None}
    record = make_record(
        values,
        conditions,
        limits,
        base=model,
        candidate=model,
        data="digits",
        store=None,
        class_names="abcdefghij",
        seconds=1.0,
    )
    record = json.loads(json.dumps(record))
    assert (read_values(record), read_conditions(record)) == (values, conditions)
    assert len(CheckResult.from_record(Path("run"), record).worst) == len(values.new)


def test_a_record_without_what_came_later_is_read() -> None:
    values = GateValues(Rate(1, 10), Rate(0, 10), 10, 10)
    record = make_record(
        values,
        (),
        Limits(),
        base={"name": "a", "sha256": None},
        candidate={"name": "b", "sha256": None},
        data="digits",
        store=None,
        class_names="ab",
        seconds=1.0,
    )
    for name in (
        "steadiness",
        "smells",
        "faint_smells",
        "base_smells",
        "undecided_real",
        "unanswered_real",
        "silences",
        "outputs",
        "background_real",
        "classes",
        "labels_alone",
        "left_out",
        "class_accuracy_drop",
        "sure_disagreement_real",
        "class_disagreement_real",
        "variations",
        "new_faults",
    ):
        del record["values"][name]
    assert read_values(record) == values


def _places(value: Any, *way: str | int) -> Iterator[tuple[str | int, ...]]:
    """Every place in JSON values, as the way to it."""
    inside = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, each in inside:
        yield (*way, key)
        yield from _places(each, *way, key)


@pytest.mark.parametrize("odd", [None, "x", "\x1b[2J", -1, 0.5, 1e9, float("inf"), [], {}, True], ids=repr)
def test_a_record_that_somebody_changed_is_read_or_refused(odd: Any) -> None:
    """Whatever stands in one place: what is read can be printed, and what is not is said to be damaged."""
    values = GateValues(
        Rate(1, 100, 1),
        Rate(2, 100),
        100,
        100,
        AccuracyDrop(90, 89, 2, 100),
        Shift(0.2, 100),
        Shift(0.3, 100),
        search=SearchState(1_000),
        behaviours=(Behaviour((1, 2), 0, 3, 0, 0.5, (0,)),),
        known=(KnownBehaviour("A-1_B-2_00000000", ("b", "c"), 1, 0.3),),
        undecided=Undecided(0, 100, only_base=3),
        class_accuracy=ClassDrop(9, 8, 1, 10, 1, "b", 3),
    )
    model = {"name": "net.onnx", "sha256": "0"}
    conditions = evaluate(values, Limits())
    whole = make_record(
        values,
        conditions,
        Limits(),
        base=model,
        candidate=model,
        data="digits",
        store=None,
        class_names="abc",
        seconds=1.0,
    )
    whole = json.loads(json.dumps(whole))
    read = refused = 0
    for *way, last in _places(whole):
        record = copy.deepcopy(whole)
        place = record
        for key in way:
            place = place[key]
        place[last] = odd
        try:
            result = CheckResult.from_record(Path("run"), record)
        except (KeyError, TypeError, ValueError):
            refused += 1
            continue
        read += 1
        rows = measured(result.values, [each.name for each in result.conditions])
        assert all(isinstance(each.value, str) for each in rows)
        names = [name for each in record["behaviours"] for name in each["names"]]
        assert all(name.isprintable() for name in names) and "\x1b" not in "".join(result.worst)
    assert read > 30 and refused > 30


def test_a_verdict_that_its_conditions_do_not_give() -> None:
    values = GateValues(search=SearchState(9, "The search broke off."))
    model = {"name": "net.onnx", "sha256": None}
    record = make_record(
        values,
        evaluate(values, Limits()),
        Limits(),
        base=model,
        candidate=model,
        data="digits",
        store=None,
        class_names="ab",
        seconds=1.0,
    )
    with pytest.raises(ValueError, match="its status is PASS, but that of its conditions ERROR"):
        CheckResult.from_record(Path("run"), {**record, "status": "PASS"})
