"""What is written as results.json is read again as it was; what is missing or cannot be is damage."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from diffgen.errors import UserError
from diffgen.metrics.richness import Discovery
from diffgen.runs.figures import Alone, ManyFigures
from diffgen.runs.folder import RunFolder
from diffgen.runs.results import (
    Calibration,
    FilterFigures,
    Preflight,
    RunResults,
    UnfinishedCheck,
    read_finished,
    read_results,
    write_results,
)
from diffgen.tasks.classification import LabelPairs

counts = st.integers(0, 2**53)
shares = st.floats(0, 1)
names = st.text(st.characters(categories=("L", "N")), min_size=1, max_size=5)
check = st.just({"status": "PASS", "behaviours": []}) | st.none()
preflights = st.builds(
    Preflight,
    images=counts,
    agreement=shares,
    accuracy=st.none() | st.tuples(shares, shares),
    outputs=st.tuples(names, names),
    numeric_noise=shares,
    margin=shares,
    warnings=st.lists(names).map(tuple),
    calibration_error=st.none() | st.tuples(shares, shares),
)
models = st.lists(st.lists(counts, min_size=3, max_size=3).map(tuple), min_size=3, max_size=3).map(tuple)
many = st.builds(
    ManyFigures,
    alone=st.fixed_dictionaries({role: st.builds(Alone, counts, counts, counts, counts) for role in "ABC"}),
    majority=counts,
    majority_recognised=counts,
    majority_right=counts,
    found=models,
    recognised=st.none() | models,
    real=models,
    spared=counts,
)


def pairs(classes: int) -> st.SearchStrategy[LabelPairs]:
    row = st.lists(counts, min_size=classes, max_size=classes)
    return st.lists(row, min_size=classes, max_size=classes).map(LabelPairs.of_matrix)


@st.composite
def results(draw: st.DrawFn) -> RunResults:
    class_names = tuple(draw(st.lists(names, min_size=1, max_size=3)))
    whole = ("queries", "triggers", "valid_triggers", "distinct_valid_triggers", "behaviours", "behaviours_at_least")
    whole += ("label_pairs", "verified_single", "verified_batch", "unconfirmed", "real_disagreements")
    return RunResults(
        **{name: draw(counts) for name in whole},
        **{name: draw(st.booleans()) for name in ("saturated", "interrupted", "mutated")},
        **{name: draw(shares) for name in ("seconds", "effective_label_pairs", "effective_behaviours")},
        **{name: draw(st.none() | shares) for name in ("validity", "near_duplicate")},
        discovery=draw(st.builds(Discovery, counts, counts)),
        most_frequent=tuple(draw(st.lists(st.tuples(names, names, counts), max_size=3))),
        pair_counts=draw(pairs(len(class_names))),
        real_matrix=draw(pairs(len(class_names))),
        history={"queries": draw(st.lists(counts, max_size=3))},
        class_names=class_names,
        preflight=draw(preflights),
        milliseconds=draw(st.none() | st.tuples(st.none() | shares, shares)),
        many=draw(st.none() | many),
        geometric_diversity=draw(st.none() | st.just({"size": 50, "found": {"mean": -1.5}})),
        warnings=tuple(draw(st.lists(names))),
        calibration=draw(st.builds(Calibration, shares, st.none() | shares, counts)),
        filters=tuple(
            draw(
                st.lists(
                    st.builds(
                        FilterFigures,
                        name=names,
                        description=names,
                        false_alarm=shares,
                        threshold=shares,
                        rejected=counts,
                    )
                )
            )
        ),
        gan=draw(st.dictionaries(names, names)),
        check=draw(check),
    )


@pytest.fixture(scope="module")
def place(take: Callable[[str, Path], Path], tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    """Of a run; each test writes its own figures into it."""
    return RunFolder.open(take("done", tmp_path_factory.mktemp("results") / "run"))


@given(found=results())
def test_what_is_written_is_read(place: RunFolder, found: RunResults) -> None:
    write_results(place, found)
    assert read_results(place) == found
    # names and order of the file are those of the class
    left_out = {name for name in ("many", "check") if getattr(found, name) is None}
    assert list(place.results()) == [each.name for each in fields(RunResults) if each.name not in left_out]
    write_results(place, read_results(place))  # as a check does
    assert all(type(each) is int for each in place.results()["history"]["queries"])  # and not 500.0


@given(pre=preflights, class_names=st.lists(names, min_size=1), apart=counts)
def test_an_unfinished_check_is_read_as_it_was(
    place: RunFolder, pre: Preflight, class_names: list[str], apart: int
) -> None:
    found = UnfinishedCheck(
        class_names=tuple(class_names), preflight=pre, real_disagreements=apart, check={"status": "ERROR"}
    )
    write_results(place, found)
    assert read_results(place) == found
    with pytest.raises(UserError, match="did not come to its end; go on with it"):
        read_finished(place)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        *(({name: None}, name) for name in ("queries", "preflight", "filters", "gan", "history")),
        ({"queries": -1}, "queries"),
        ({"queries": True}, "queries"),
        ({"seconds": float("nan")}, "seconds"),
        ({"class_names": ["a\nb"] * 10}, "class_names"),
        ({"history": {"queries": [1], "triggers": []}}, "its curves differ in length"),
        ({"pair_counts": [[1]]}, "pair_counts: .*not one of 10 classes"),
        ({"real_matrix": {"pairs": [[0, 10, 1]]}}, "real_matrix: .*not one of 10 classes"),
        ({"real_matrix": {"pairs": [[0, 1]]}}, "real_matrix"),
        ({"pair_counts": {}}, "pair_counts"),
        ({"check": {"status": 3}}, "check"),
    ],
)
def test_a_figure_that_is_missing_or_cannot_be_is_damage(
    done_run: Path, place: RunFolder, change: dict[str, Any], said: str
) -> None:
    values = {**RunFolder.open(done_run).results(), **change}
    place.file("results.json").write_text(json.dumps(values), encoding="utf-8")
    with pytest.raises(UserError, match=rf"{said}.*the run folder is damaged"):
        read_results(place)
