"""What is written as results.json is read again as it was, also where it comes from an older version."""

from __future__ import annotations

import json
import shutil
from dataclasses import fields, replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from diffgen.errors import UserError
from diffgen.metrics.richness import Discovery
from diffgen.runs import schema
from diffgen.runs.folder import RunFolder
from diffgen.runs.many import Alone, ManyFigures
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
from diffgen.tasks.label_pairs import LabelPairs

ASSETS = Path(__file__).resolve().parent.parent / "assets"

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
        calibration=draw(st.none() | st.builds(Calibration, shares, st.none() | shares, counts)),
        filters=tuple(
            draw(
                st.lists(
                    st.builds(
                        FilterFigures,
                        name=names,
                        description=names,
                        false_alarm=st.none() | shares,
                        threshold=shares,
                        rejected=counts,
                    )
                )
            )
        ),
        gan=draw(st.dictionaries(names, names)),
        check=draw(check),
    )


@given(results())
def test_what_is_written_is_read(found: RunResults) -> None:
    written = json.loads(json.dumps(found.as_json()))
    schema.RESULTS(written)
    assert RunResults.from_json(written) == found
    # names and order of the file are those of the class
    left_out = {name for name in ("many", "check") if getattr(found, name) is None}
    assert list(written) == [each.name for each in fields(RunResults) if each.name not in left_out]
    # a later version may have written more
    assert RunResults.from_json({**written, "of a later version": 1}) == found


@given(preflights | st.none(), st.lists(names, min_size=1), counts)
def test_an_unfinished_check_is_read_as_it_was(pre: Preflight | None, class_names: list[str], apart: int) -> None:
    found = UnfinishedCheck(
        class_names=tuple(class_names), preflight=pre, real_disagreements=apart, check={"status": "ERROR"}
    )
    written = json.loads(json.dumps(found.as_json()))
    schema.RESULTS(written)
    assert UnfinishedCheck.from_json(written) == found


@pytest.fixture(params=["run-0.1.0", "run-0.1.0-near-duplicates"])
def old(request: pytest.FixtureRequest, tmp_path: Path) -> RunFolder:
    return RunFolder.open(shutil.copytree(ASSETS / request.param, tmp_path / "run"))


def test_a_run_of_an_old_version_is_counted_anew_once(old: RunFolder) -> None:
    stored, found = old.results(), read_finished(old)
    assert "behaviours_at_least" not in stored
    assert found == read_finished(old, old.read_judged())
    assert found.queries == stored["queries"] and found.preflight.margin == stored["preflight"]["margin"]
    assert [each.name for each in found.filters] == [each["name"] for each in stored["filters"]]
    write_results(old, found)
    (old.path / "verdicts.npz").unlink()  # nothing is left to count
    assert read_finished(old) == replace(found, schema_version=1)


@pytest.mark.parametrize("name", ["queries", "preflight", "filters", "gan", "history"])
def test_a_figure_that_is_missing_is_damage(old: RunFolder, name: str) -> None:
    values = old.results()
    del values[name]
    old.file("results.json").write_text(json.dumps(values), encoding="utf-8")
    with pytest.raises(UserError, match="it is damaged"):
        read_results(old)


def test_a_check_that_broke_off_is_not_taken_for_a_finished_search(old: RunFolder) -> None:
    write_results(old, UnfinishedCheck(class_names=("a", "b"), check={"status": "ERROR"}))
    assert isinstance(read_results(old), UnfinishedCheck)
    with pytest.raises(UserError, match="did not come to its end; go on with it"):
        read_finished(old)
