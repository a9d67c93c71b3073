"""Sheets that people fill in on the page: no vote is lost, and none is another person's."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shutil
import threading
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from diffgen import api
from diffgen.errors import UserError
from diffgen.ui.labelling import Sheets
from diffgen.ui.place import Place, Seen
from diffgen.ui.routes import add_routes
from diffgen.ui.tab_label import _put
from tests.ui.conftest import Take, shared_of


def test_a_vote_replaces_the_file_whole(tmp_path: Path, take: Take) -> None:
    """What was said before stays on the disk until the new file is complete: it is the only copy."""
    take("done", tmp_path / "run")
    sheets = Sheets(Place(tmp_path, (tmp_path,)))
    sheets.make("run", 3)
    first, second, _ = sheets.ids("run")
    sheets.vote("run", "Ada", first, "3")
    file = sheets.folder("run") / "by-Ada.csv"
    before = file.read_text(encoding="utf-8")
    os.link(file, tmp_path / "before.csv")  # sees what happens to the file itself
    sheets.vote("run", "Ada", second, "7")
    assert (tmp_path / "before.csv").read_text(encoding="utf-8") == before
    assert sheets.said("run", "Ada") == {first: "3", second: "7"}
    (file.parent / ".by-Ada.csv.1.0123456789abcdef.tmp").write_text("left by a power cut", encoding="utf-8")
    sheets.clear("run")
    assert not file.parent.exists()


@pytest.mark.parametrize("where", [".ui", ".ui/labels", ".ui/labels/run", "{sheet}", "{sheet}/pictures"])
def test_a_sheet_is_neither_drawn_nor_removed_through_a_link(tmp_path: Path, where: str, take: Take) -> None:
    """A folder of runs may come from a stranger, and with it what the page keeps there."""
    runs, theirs = tmp_path / "runs", tmp_path / "theirs"
    place = Place(runs, (runs,))
    take("done", runs / "run")
    sheets = Sheets(place)
    sheets.make("run", 1)
    identifier, *_ = sheets.ids("run")
    sheet = sheets.folder("run")
    link = runs / where.format(sheet=sheet.relative_to(runs))
    shutil.move(link, theirs)  # what is found behind it looks as it should
    link.symlink_to(theirs)
    before = {each: each.read_bytes() for each in theirs.rglob("*") if each.is_file()}
    for act in (
        lambda: sheets.make("run", 1),
        lambda: sheets.clear("run"),
        lambda: sheets.vote("run", "Ada", identifier, "3"),
        lambda: sheets.picture("run", identifier),
        lambda: sheets.forget("run"),
    ):
        with contextlib.suppress(UserError):
            act()
    assert {each: each.read_bytes() for each in theirs.rglob("*") if each.is_file()} == before


@pytest.mark.parametrize("name", ["labels.csv", "by-Ada.csv", "pictures"])
def test_a_sheet_shows_no_file_behind_a_link(tmp_path: Path, name: str, take: Take) -> None:
    take("done", tmp_path / "run")
    sheets = Sheets(Place(tmp_path, (tmp_path,)))
    sheets.make("run", 1)
    identifier, *_ = sheets.ids("run")
    sheets.vote("run", "Ada", identifier, "3")
    place = sheets.folder("run", *(["pictures", f"{identifier}.png"] if name == "pictures" else [name]))
    shutil.move(place, tmp_path / "theirs")
    place.symlink_to(tmp_path / "theirs")
    look = {
        "labels.csv": sheets.ids,
        "by-Ada.csv": sheets.people,
        "pictures": lambda run: sheets.picture(run, identifier),
    }
    with pytest.raises(UserError, match="symbolic link"):
        look[name]("run")


def test_a_run_of_a_name_that_was_used_before_starts_anew(tmp_path: Path, take: Take) -> None:
    """The folder was deleted beside the page, and made again: what was of the old run is not shown as the new one's."""

    place = Place(tmp_path, (tmp_path,))
    shared = shared_of(place)
    run = take("done", tmp_path / "run")
    shared.sheets.make("run", 3)
    first, *_ = shared.sheets.ids("run")
    shared.sheets.vote("run", "Ada", first, "3")
    job = shared.jobs.start("select", "run", [str(run)])
    while job.alive:
        time.sleep(0.05)
    assert "label" in job.problem
    assert shared.job("run", "select") == job
    shutil.rmtree(run)
    take("done", run)
    assert shared.sheets.said("run", "Ada") == {first: "3"}  # moved away and back: it is the same run
    manifest = json.loads((run / "manifest.json").read_text(encoding="utf-8"))
    manifest["created"] = (datetime.now(UTC) + timedelta(minutes=1)).isoformat(timespec="seconds")
    (run / "manifest.json").write_text(json.dumps(manifest), encoding="utf-8")
    assert shared.sheets.ids("run") == ()
    assert shared.sheets.people("run") == {}
    assert shared.job("run") is None
    assert shared.sheets.make("run", 2) == 2  # nobody has begun with this one
    shared.sheets.forget("run")
    assert [*tmp_path.glob(".ui/labels/*")] == []


def test_two_pages_lose_no_vote_of_each_other(tmp_path: Path, take: Take) -> None:
    """One person in two windows, each of a page of its own: every vote reads the file and writes it again."""
    take("done", tmp_path / "run")
    place = Place(tmp_path, (tmp_path,))
    Sheets(place).make("run", 6)
    ids = Sheets(place).ids("run")
    halves = (ids[:3], ids[3:])

    def vote(own: tuple[str, ...], label: str) -> None:
        sheets = Sheets(place)
        for each in own:
            sheets.vote("run", "Ada", each, label)

    for label in ("1", "2", "3", "4", "5", "6", "7", "8"):
        pages = [threading.Thread(target=vote, args=(half, label)) for half in halves]
        for page in pages:
            page.start()
        for page in pages:
            page.join()
        assert Sheets(place).said("run", "Ada") == dict.fromkeys(ids, label)


def test_a_label_that_is_taken_away_goes_from_the_run_too(tmp_path: Path, take: Take) -> None:
    """A sheet of a person may leave open what another one labels; what nobody labels any more has no label."""
    take("done", tmp_path / "run")
    sheets = Sheets(Place(tmp_path, (tmp_path,)))
    sheets.make("run", 6)
    ids = sheets.ids("run")
    for each in ids:
        sheets.vote("run", "Ada", each, "3")
    sheets.vote("run", "Bo", ids[0], "3")
    assert sheets.put("run").labelled == 6
    for each in ids[:3]:
        sheets.vote("run", "Ada", each, "")
    found = sheets.put("run")
    assert (found.labelled, found.invalid, found.undecided) == (4, 0, 2)
    assert api.label_counts(tmp_path / "run")[1]["human"] == 4


def test_one_label_is_told_of_as_one(tmp_path: Path, take: Take) -> None:

    take("done", tmp_path / "run")
    place = Place(tmp_path, (tmp_path,))
    shared = shared_of(place)
    shared.sheets.make("run", 3)
    for identifier, label in zip(shared.sheets.ids("run"), ("3", "invalid"), strict=False):
        shared.sheets.vote("run", "Ada", identifier, label)
    assert "1 picture has a class, 1 shows none, 1 is undecided." in _put(shared, "run")


def test_what_no_class_is_called_is_no_label(tmp_path: Path, take: Take) -> None:
    """One would keep the labels of all people from the run, where the classes are asked for."""
    httpx, fastapi = pytest.importorskip("httpx"), pytest.importorskip("fastapi")

    take("done", tmp_path / "run")
    place = Place(tmp_path, (tmp_path,))
    sheets = Sheets(place)
    sheets.make("run", 2)
    first, second = sheets.ids("run")
    app = fastapi.FastAPI()
    add_routes(app, Seen(place), sheets)

    async def ask() -> list[int]:
        transport = httpx.ASGITransport(app=app)
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
            said = ("3", "", "invalid", "10", "three", "<b>x", "a\nb", " ")
            answers = [await client.post("/labels/run/Ada", json={"id": first, "label": each}) for each in said]
            assert answers[-1].text == "The run run has no such class; say one that it has, or 'invalid'."
            return [each.status_code for each in answers]

    assert asyncio.run(ask()) == [200, 200, 200, 422, 422, 422, 422, 422]
    assert sheets.said("run", "Ada") == {first: "invalid"}
    sheets.vote("run", "Ada", second, "3")
    assert (sheets.put("run").labelled, sheets.put("run").invalid) == (1, 1)


def test_a_vote_that_waits_holds_up_nobody_else(tmp_path: Path, take: Take) -> None:
    httpx, fastapi = pytest.importorskip("httpx"), pytest.importorskip("fastapi")

    take("done", tmp_path / "run")
    place = Place(tmp_path, (tmp_path,))
    sheets = Sheets(place)
    sheets.make("run", 1)
    app = fastapi.FastAPI()
    add_routes(app, Seen(place), sheets)
    taken, answered, in_time = threading.Event(), threading.Event(), []

    def occupy() -> None:
        with sheets._lock:
            taken.set()
            in_time.append(answered.wait(1200))

    async def ask() -> tuple[int, int]:
        transport = httpx.ASGITransport(app=app)
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
            vote = asyncio.create_task(client.post("/labels/run/Ada", json={"id": sheets.ids("run")[0], "label": "3"}))
            await asyncio.sleep(0.2)
            other = await client.get("/files/nothing/report.html")
            answered.set()
            return (await vote).status_code, other.status_code

    occupier = threading.Thread(target=occupy)
    occupier.start()
    taken.wait()
    assert asyncio.run(ask()) == (200, 404)
    occupier.join()
    assert in_time == [True]
