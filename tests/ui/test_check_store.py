"""Where the tab Check puts what is accepted: into the store that the check was held against, wherever it lies."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from diffgen import api
from diffgen.report.data import GateBehaviour, GateView
from diffgen.ui.place import Place
from diffgen.ui.tab_check import Pages, _accepted, _offer, _own_store
from tests.ui.conftest import Take, shared_of


@pytest.mark.parametrize(
    ("begun", "recorded", "own", "told"),
    [
        ("{files}/st", "st", "{files}/st", ""),  # typed in a terminal that stood in the folder of the models
        ("{files}/x/../st", "../st", "{files}/st", ""),
        ("{runs}/mine", "{runs}/mine", "{runs}/mine", ""),
        ("{runs}/mine", "{files}/moved", "{files}/moved", ""),  # named anew where the check was gone on with
        (None, "", "", ""),
        ("{elsewhere}/st", "st", "", "{elsewhere}/st"),
        ("{elsewhere}/best", "st", "", "st"),
    ],
)
def test_what_is_accepted_goes_into_the_store_of_the_check(
    tmp_path: Path, begun: str | None, recorded: str, own: str, told: str, take: Take
) -> None:

    where = {each: str(tmp_path / each) for each in ("runs", "files", "elsewhere")}
    place = Place(Path(where["runs"]), (Path(where["files"]),))
    file = take("done", place.runs / "run") / "manifest.json"
    manifest = json.loads(file.read_text(encoding="utf-8"))
    manifest["check"] = {"store": begun and begun.format(**where)}
    file.write_text(json.dumps(manifest), encoding="utf-8")
    view = GateView("run", "FAIL", "A", "B", "digits", (), (), False, recorded.format(**where), "", "", 0)
    store, problem = _own_store(shared_of(place), view)
    assert store == own.format(**where)
    assert (f"may not write into the store of this check, {told.format(**where)};" in problem) == bool(told)
    named = Path(store).name or "the store that the field names"
    assert _offer(view, store, Pages()).value == f"Accept what is new into {named}"


@pytest.mark.parametrize(
    ("new", "turned", "offered"),
    [(0, [], True), (12, [], True), (13, [], False), (13, [1], True), (30, [1, 0, 2], True), (30, [2], False)],
)
def test_what_is_new_is_accepted_when_all_of_it_was_shown(new: int, turned: list[int], offered: bool) -> None:

    made = [GateBehaviour((0, 1), ("zero", "one"), at, 1, at < new, 0.1, False) for at in range(40)]
    view = GateView("run", "FAIL", "A", "B", "digits", (), tuple(made), False, "st", "", "", 0)
    pages = Pages()
    for page in turned:
        pages = pages.on(page)
    assert _offer(view, "st", pages).visible == offered


def test_the_name_of_a_store_stays_text() -> None:
    """The folder of the runs may have any name."""

    said = _accepted(api.AcceptResult("/runs/<img src=x onerror=alert(1)>/st", 1, 2))
    assert said == "1 behaviour was added to /runs/&lt;img src=x onerror=alert(1)&gt;/st; 2 were known."
