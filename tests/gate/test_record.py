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
from diffgen.gate.boxes import BoxRate, BoxShift, ErrorRise, PrecisionDrop
from diffgen.gate.conditions import CRITERIA, UNMEASURED, evaluate, table
from diffgen.gate.maps import ClassRate, IouDrop, MapDistance, PixelRate
from diffgen.gate.measurements import (
    AccuracyDrop,
    CalibrationRise,
    ClassDisagreement,
    ClassDrop,
    Rate,
    Shift,
    Undecided,
)
from diffgen.gate.record import make_record, read_conditions, read_values
from diffgen.gate.result import CheckResult
from diffgen.gate.values import Behaviour, GateValues, KnownBehaviour, Replay, SearchState, Steadiness

COUNTS = st.integers(0, 500)
SHARES = st.floats(0, 1)
RATES = st.builds(Rate, COUNTS, st.just(500), COUNTS)
# both right, only the base, only the candidate
DROPS = st.tuples(*[st.integers(0, 100)] * 3).map(lambda n: (n[0] + n[1], n[0] + n[2], n[1], 500))
CLASSES = st.integers(0, 9).map(lambda label: (label, "abcdefghij"[label], 10))
CLUSTERED = st.tuples(*[st.integers(0, 50)] * 4, SHARES, SHARES).map(
    lambda n: (n[0], n[0] + n[1], min(n[0], n[2]), n[2] + n[3], *n[4:])
)
KINDS: dict[type[Any], st.SearchStrategy[Any]] = {
    Rate: RATES,
    Undecided: st.builds(Undecided, st.integers(0, 250), st.just(500), only_base=st.integers(0, 250)),
    AccuracyDrop: DROPS.map(lambda drop: AccuracyDrop(*drop)),
    ClassDrop: st.tuples(DROPS, CLASSES).map(lambda both: ClassDrop(*both[0], *both[1])),
    ClassDisagreement: st.tuples(DROPS, CLASSES).map(lambda both: ClassDisagreement(*both[0], *both[1])),
    CalibrationRise: st.builds(
        CalibrationRise, SHARES, SHARES, st.floats(-1, 1), st.floats(-1, 1), st.integers(1, 500)
    ),
    **{kind: CLUSTERED.map(lambda numbers, kind=kind: kind(*numbers)) for kind in (BoxRate, PixelRate, ClassRate)},
    MapDistance: st.builds(MapDistance, SHARES, SHARES, SHARES, st.integers(1, 500)),
    **{
        kind: st.builds(kind, SHARES, SHARES, st.floats(-1, 1), st.floats(-1, 1), st.integers(1, 500))
        for kind in (PrecisionDrop, IouDrop)
    },
    ErrorRise: st.tuples(*[st.integers(0, 50)] * 3, st.floats(-1, 1), st.floats(-1, 1)).map(
        lambda n: ErrorRise(n[0], n[2], n[0] + n[1], *n[3:])
    ),
    BoxShift: st.builds(BoxShift, st.floats(-1, 1), st.floats(-1, 1), SHARES, st.integers(1, 500)),
    Shift: st.builds(Shift, SHARES, st.integers(1, 500)),
}
MEASURED = st.fixed_dictionaries(
    {each.name: st.none() | KINDS[each.kind] for each in CRITERIA if each.kind is not None}
)
TEXTS = st.lists(st.text(max_size=9), max_size=2).map(tuple)
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
    MEASURED,
    drawn=COUNTS,
    accepted=COUNTS,
    varied=COUNTS,
    jury=st.booleans(),
    replay=st.builds(Replay, COUNTS, COUNTS, COUNTS),
    search=st.builds(SearchState, COUNTS, st.sampled_from(["", "The search broke off."])),
    behaviours=st.lists(BEHAVIOURS, max_size=3).map(tuple),
    steadiness=st.builds(Steadiness, SHARES, SHARES, TEXTS, TEXTS),
    **dict.fromkeys(("smells", "faint_smells", "base_smells", "silences"), TEXTS),
    classes=st.none() | st.tuples(COUNTS, COUNTS),
    outputs=st.tuples(st.text(max_size=9), st.text(max_size=9)),
    **dict.fromkeys(("labels_alone", "left_out"), st.tuples(st.booleans(), st.booleans())),
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


def recorded(values: GateValues, limits: Limits | None = None) -> dict[str, Any]:
    """What results.json says, as it is read."""
    limits, model = limits or Limits(), {"name": "net.onnx", "sha256": None}
    record = make_record(
        values,
        evaluate(values, limits),
        limits,
        base=model,
        candidate=model,
        data="digits",
        store=None,
        class_names="abcdefghij",
        seconds=1.0,
    )
    read: dict[str, Any] = json.loads(json.dumps(record))
    return read


@settings(max_examples=40)
@given(VALUES, LIMITS)
def test_what_was_written_is_read(values: GateValues, limits: Limits) -> None:
    record = recorded(values, limits)
    assert (read_values(record), read_conditions(record)) == (values, evaluate(values, limits))
    assert len(CheckResult.from_record(Path("run"), record).worst) == len(values.new)


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
        {
            **UNMEASURED,
            "disagreement_real": Rate(1, 100, 1),
            "disagreement_random": Rate(2, 100),
            "accuracy_drop": AccuracyDrop(90, 89, 2, 100),
            "shift_real": Shift(0.2, 100),
            "shift_random": Shift(0.3, 100),
            "undecided_real": Undecided(0, 100, only_base=3),
            "class_accuracy_drop": ClassDrop(9, 8, 1, 10, 1, "b", 3),
        },
        drawn=100,
        accepted=100,
        search=SearchState(1_000),
        behaviours=(Behaviour((1, 2), 0, 3, 0, 0.5, (0,)),),
        known=(KnownBehaviour("A-1_B-2_00000000", ("b", "c"), 1, 0.3),),
    )
    whole = recorded(values)
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
        rows = table(result.values, [each.name for each in result.conditions])
        assert all(isinstance(each.value, str) for each in rows)
        names = [name for each in record["behaviours"] for name in each["names"]]
        assert all(name.isprintable() for name in names) and "\x1b" not in "".join(result.worst)
    assert read > 30 and refused > 30


def test_a_verdict_that_its_conditions_do_not_give() -> None:
    record = recorded(GateValues(UNMEASURED, search=SearchState(9, "The search broke off.")))
    with pytest.raises(ValueError, match="its status is PASS, but that of its conditions ERROR"):
        CheckResult.from_record(Path("run"), {**record, "status": "PASS"})


def test_a_measurement_that_no_condition_has_is_a_mistake() -> None:
    values = read_values(recorded(GateValues(UNMEASURED)))
    assert values["accuracy_drop"] is None
    with pytest.raises(KeyError, match="acuracy_drop"):
        values["acuracy_drop"]
