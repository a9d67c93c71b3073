"""Runs are listed, watched and looked through; every way that is fast gives what a plain loop gives."""

from __future__ import annotations

import contextlib
import json
import math
from collections.abc import Callable
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pytest

from diffgen.comparison.stages import CompareResult
from diffgen.errors import UserError
from diffgen.runs.folder import RunFolder
from diffgen.tasks.classification import by_verdict
from diffgen.workflows.browse import DRAWN, RunTriggers, TriggerQuery, Watcher, browse
from diffgen.workflows.listing import delete_run, describe_run, list_runs, run_settings
from diffgen.workflows.preview import preview

Take: TypeAlias = Callable[[str, Path], Path]


@pytest.fixture(scope="module")
def finds(done_run: Path) -> RunTriggers:
    return browse(done_run)


def _plain(found: RunTriggers) -> Callable[[TriggerQuery], list[int]]:
    """Looks for the same triggers one after the other."""
    table = found.triggers
    verdicts, report = by_verdict(table.faults), table.distinct_by_verdict
    origins, labels = [table.origin(row) for row in range(len(table))], table.labels.tolist()
    distinct = [any(rows[row] for rows in report.values()) for row in range(len(table))]
    shown_in = {
        "distinct": distinct if table.has_jury else table.distinct,
        "valid": table.valid,
        "rejected": table.confirmed & ~table.valid,
        "all": table.confirmed,
    }
    recognised = table.recognised

    def is_shown(row: int, wanted: TriggerQuery) -> bool:
        said = labels[row]
        shown = shown_in[wanted.shown][row]
        if wanted.verdict == "":
            shown = shown and not recognised[row]
        elif wanted.verdict is not None:
            shown = shown and verdicts[wanted.verdict][row]
        if wanted.operator == DRAWN:
            shown = shown and origins[row].seed is None
        elif wanted.operator:
            shown = shown and wanted.operator in {step.operator for step in origins[row].recipe}
        if wanted.label is not None:
            shown = shown and (wanted.label in said if wanted.model is None else said[wanted.model] == wanted.label)
        return shown and all(label in (None, said[model]) for model, label in enumerate(wanted.said))

    return lambda wanted: [row for row in range(len(table)) if is_shown(row, wanted)]


def test_filters_give_what_a_plain_loop_gives(finds: RunTriggers, finished: CompareResult) -> None:
    some = 0
    for found in (finds, browse(finished.run)):
        plain, operators = _plain(found), ["", *list(found.operators)[:3]]
        for shown, verdict, operator, label in product(
            ("distinct", "valid", "rejected", "all"), (None, "", "A", "all"), operators, (None, 3)
        ):
            for model, said in ((None, ()), (1, ()), (None, (8, None))):
                wanted = TriggerQuery(shown, verdict, operator, label, model, said)  # type: ignore[arg-type]
                numbers = found.numbers(wanted).tolist()
                assert numbers == plain(wanted)
                some += len(numbers) > 0
    assert some > 50


def test_a_verdict_that_there_cannot_be_is_refused(finds: RunTriggers) -> None:
    with pytest.raises(UserError, match=r"There is no verdict 'Q'; the run has 'B', 'A', 'all', '' \(the jury names"):
        finds.numbers(TriggerQuery(verdict="Q"))


def test_behaviours_divide_the_pictures(finds: RunTriggers) -> None:
    numbers = finds.numbers(TriggerQuery("all"))
    lines = finds.behaviours(numbers)
    assert sorted(number for line in lines for number in line.rows.tolist()) == numbers.tolist()
    for line in lines:
        rows = finds.triggers.behaviours[line.rows]
        assert (rows == (*line.labels, line.cell)).all()
    counts = [len(line.rows) for line in lines]
    assert counts == sorted(counts, reverse=True)
    assert finds.behaviours(numbers[:0]) == ()


def test_one_picture_is_told_whole(finds: RunTriggers) -> None:
    number = int(finds.numbers(TriggerQuery("all"))[0])
    find = finds.find(number)
    assert find.picture.identifier == number
    assert np.array_equal(find.picture.image, finds.triggers.images[number])
    assert find.answers.shape == (2, 10)
    assert find.answers.argmax(axis=1).tolist() == list(find.picture.labels)
    assert find.picture.origin.startswith("made from real image")
    assert find.seed is not None
    seed = finds.seed(number)
    assert seed is not None
    assert seed.shape == find.picture.image.shape


def test_what_was_drawn_has_no_seed(done_run: Path) -> None:
    drawn = RunTriggers(done_run)
    drawn.triggers = replace(drawn.triggers, seeds=None, recipes=None)  # as of a run whose pictures a GAN drew
    drawn.__dict__.pop("operators")
    assert drawn.seed(0) is None
    assert list(drawn.operators) == [DRAWN]


@pytest.mark.parametrize("number", [-1, 1_000, 10**9])
def test_a_trigger_that_is_not_there_is_refused(finds: RunTriggers, number: int) -> None:
    with pytest.raises(UserError, match="has no trigger"):
        finds.find(number)
    for numbers in (np.array([0, number]), [number]):
        with pytest.raises(UserError, match=f"has no trigger {number}; "):
            finds.labels(numbers)  # type: ignore[arg-type]
        with pytest.raises(UserError, match=f"has no trigger {number}; "):
            finds.behaviours(numbers)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("wanted", "said"),
    [
        (TriggerQuery(shown="new"), "shown= is 'new'; give one of distinct, valid, rejected, all"),  # type: ignore[arg-type]
        (TriggerQuery(label=1, model=7), "has 2 models, 0 to 1"),
        (TriggerQuery(said=(1, None, 2)), "has 2 models, 0 to 1"),
    ],
)
def test_what_cannot_be_wanted_is_refused(finds: RunTriggers, wanted: TriggerQuery, said: str) -> None:
    with pytest.raises(UserError, match=said):
        finds.numbers(wanted)


def test_an_unfinished_run_cannot_be_browsed_but_watched(unfinished_run: Path) -> None:
    run = unfinished_run
    with pytest.raises(UserError, match="did not come to its end"):
        browse(run)
    table = RunFolder.open(run).read_triggers()
    watcher = Watcher(run)
    sight = watcher.look()
    assert sight.triggers == len(table) > 0
    assert np.array_equal(sight.labels, table.labels)
    assert sight.kinds == len({tuple(row) for row in table.labels.tolist()})
    for query, count, kinds in sight.curve:
        assert query == table.query[count - 1]
        assert kinds == len({tuple(row) for row in table.labels[:count].tolist()})
    assert np.array_equal(watcher.images([count - 1, 0]), table.images[[count - 1, 0]])
    assert watcher.find(0).picture.labels == tuple(table.labels[0].tolist())


def test_a_watcher_sees_what_is_added_and_what_was_taken_back(tmp_path: Path, take: Take) -> None:
    run = take("unfinished", tmp_path / "run")
    folder = RunFolder.open(run)
    watcher = Watcher(run)
    before = watcher.look()
    assert watcher.look() is before  # nothing new: nothing is read again
    table = folder.read_triggers()
    folder.write_part(table)
    after = watcher.look()
    assert after.triggers == 2 * before.triggers
    assert np.array_equal(watcher.images([before.triggers]), watcher.images([0]))
    folder.save_manifest(parts=folder.manifest["parts"][:1])
    assert watcher.look().triggers == folder.manifest["parts"][0]["rows"]
    with pytest.raises(UserError, match="has no trigger"):
        watcher.images([after.triggers])


def test_runs_are_listed_the_newest_first_damaged_ones_too(tmp_path: Path, take: Take) -> None:
    for name in ("done", "unfinished"):
        take(name, tmp_path / name)
    (tmp_path / "damaged").mkdir()
    (tmp_path / "damaged" / "manifest.json").write_text("{", encoding="utf-8")
    (tmp_path / "no-run").mkdir()
    lines = {line.name: line for line in list_runs(tmp_path)}
    assert lines.keys() == {"done", "unfinished", "damaged"}
    assert lines["damaged"].status == "damaged"
    assert "cannot be read" in lines["damaged"].problem
    assert lines["unfinished"].status == "broken off"
    assert not lines["unfinished"].figures
    assert (lines["done"].status, lines["done"].models) == ("done", ("a.onnx", "b.onnx"))
    created = [line.created for line in list_runs(tmp_path)]
    assert created == sorted(created, reverse=True)
    assert run_settings(tmp_path / "done")["search.population"] == 50


@pytest.mark.parametrize(
    "value",
    [
        *(None, "x", math.nan, "\ud800", {"a": 1}),
        *(pytest.param(value, marks=pytest.mark.slow) for value in ({}, [], -1, 1e308, [None])),
    ],
)
def test_a_damaged_run_stands_in_nobodys_way(tmp_path: Path, value: Any, take: Take) -> None:
    """Whatever stands in its files: it is listed, as a page can show it, and watching it says what is wrong."""
    files = ("manifest.json", "results.json")
    run, damaged = take("done", tmp_path / "run"), 0
    good = {name: json.loads((run / name).read_text(encoding="utf-8")) for name in files}
    for name, about in good.items():
        places = [(key,) for key in about]
        places += [(key, inner) for key, each in about.items() if isinstance(each, dict) for inner in each]
        for *above, last in [*places, ("check",), ("check", "status"), ("files", "C")]:
            changed = json.loads(json.dumps(about))
            table = changed.setdefault(above[0], {}) if above else changed
            table[last] = value
            (run / name).write_text(json.dumps(changed), encoding="utf-8")
            line = describe_run(run)
            damaged += line.status == "damaged"
            json.dumps([line.created, line.models, line.data, line.check, line.warnings], ensure_ascii=False).encode()
            assert all(math.isfinite(each) for each in (line.figures or {}).values())
            with contextlib.suppress(UserError):
                Watcher(run).look()
        (run / name).write_text(json.dumps(about), encoding="utf-8")
    assert damaged > 10
    assert describe_run(run).status == "done"


@pytest.mark.parametrize("files", [{}, "x", {"A": {"name": "a"}, "B": {}}, {"A": {}, "B": None}])
def test_watching_a_damaged_run_says_what_is_wrong(tmp_path: Path, files: Any, take: Take) -> None:
    run = take("done", tmp_path / "run")
    about = json.loads((run / "manifest.json").read_text(encoding="utf-8"))
    watcher = Watcher(run)
    (run / "manifest.json").write_text(json.dumps({**about, "files": files}), encoding="utf-8")
    with pytest.raises(UserError, match="the run folder is damaged"):
        watcher.look()


def test_more_parts_than_can_be_are_not_looked_at(tmp_path: Path, take: Take) -> None:
    run = take("done", tmp_path / "run")
    about = json.loads((run / "manifest.json").read_text(encoding="utf-8"))
    (run / "manifest.json").write_text(json.dumps({**about, "parts": [{}] * 100_001}), encoding="utf-8")
    assert "100001 entries" in describe_run(run).problem


def test_a_link_to_a_run_is_not_deleted(tmp_path: Path, told: Callable[..., None], take: Take) -> None:
    run = take("done", tmp_path / "run")
    before = sorted(run.iterdir())
    (tmp_path / "link").symlink_to(run)
    with pytest.raises(UserError, match="is a link to a run") as raised:
        delete_run(tmp_path / "link")
    told("runs to delete", "a link to a run", raised.value)
    assert sorted(run.iterdir()) == before


def test_the_end_of_a_name_is_another_operator(done_run: Path) -> None:
    found = RunTriggers(done_run)
    recipes = (b"", b"noise(sigma=1)", b"code_noise(sigma=1)", b"blur(radius=2); noise(sigma=1)")
    column = np.resize(np.array(recipes), len(found))
    found.triggers = replace(found.triggers, recipes=column, seeds=np.zeros(len(found), dtype=np.int64))
    found.__dict__.pop("operators")
    for name, rows in {"noise": (1, 3), "code_noise": (2,), "blur": (3,)}.items():
        assert found.operators[name].tolist() == [row % 4 in rows for row in range(len(found))]


def test_a_deleted_run_takes_nothing_else_with_it(tmp_path: Path, take: Take) -> None:
    run = take("done", tmp_path / "run")
    (run / "notes.txt").write_text("mine", encoding="utf-8")
    delete_run(run)
    assert [each.name for each in run.iterdir()] == ["notes.txt"]
    whole = take("done", tmp_path / "whole")
    delete_run(whole)
    assert not whole.exists()
    with pytest.raises(UserError, match="is not a run folder"):
        delete_run(tmp_path)


def test_a_preview_shows_every_class_alike() -> None:
    found = preview("digits:test", count=20)
    assert found.labels is not None
    assert np.bincount(found.labels).tolist() == [2] * 10
    assert (found.count, sum(found.per_class), found.shape) == (898, 898, (1, 28, 28))
    assert np.array_equal(found.images, preview("digits:test", count=20).images)


def test_a_line_of_no_run_says_why(tmp_path: Path) -> None:
    assert "is not a run folder" in describe_run(tmp_path).problem
