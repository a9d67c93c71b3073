"""The tab Label in a real browser: what somebody says by keyboard arrives, once and in turn, whatever comes between."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Callable
from typing import Any

import pytest
from markupsafe import Markup

from diffgen.ui import tab_label
from diffgen.ui.labelling import Sheets
from diffgen.ui.place import Place
from diffgen.ui.shared import Shared
from diffgen.ui.tab_label import known_html
from tests.ui.steps import go

playwright = pytest.importorskip("playwright.sync_api", reason="pip install 'diffgen[test]' brings it")

pytestmark = pytest.mark.timeout(900)  # it waits for what it looks for, however slow the machine is


@pytest.fixture
def labelling(opened: Callable[..., Any], place: Place) -> Callable[..., tuple[Any, Sheets]]:
    """The tab Label of a run of its own, which has a sheet."""

    def begin(name: str, pictures: int, **how: bool) -> tuple[Any, Sheets]:
        sheets = Sheets(place)
        shutil.copytree(place.runs / "done", place.runs / name)
        sheets.make(name, pictures)
        page = opened(name, **how)
        go(page, "Label")
        return page, sheets

    return begin


def _begin(page: Any, person: str) -> None:
    """Say who labels, and wait for the sheet of that person, and until it listens to keys: then a picture is shown."""
    who = page.get_by_label("Who labels")
    who.fill(person)
    who.press("Enter")
    page.wait_for_function(
        "who => JSON.parse(document.querySelector('[data-sheet]')?.dataset.sheet || '{}').person === who", arg=person
    )
    playwright.expect(page.locator(".dg-label-at")).to_contain_text("picture")
    page.locator(".dg-label").focus()


def test_labels_by_keyboard_survive_a_reload(labelling: Callable[..., tuple[Any, Sheets]]) -> None:
    page, sheets = labelling("unlabelled", 6, fails=True)  # a reload cuts off what is on its way
    _begin(page, "Ada")
    for key in ("3", "x", "7", "ArrowLeft", "8"):
        page.keyboard.press(key)
    playwright.expect(page.locator(".dg-label-done")).to_have_text("3 labelled")
    ids = sheets.ids("unlabelled")
    _until_said(page, sheets, "unlabelled", "Ada", {ids[0]: "3", ids[1]: "invalid", ids[2]: "8"})
    playwright.expect(page.locator("#dg-tabs")).to_contain_text("3 of 6")
    page.reload()
    page.get_by_role("tab", name="Label", exact=True).first.wait_for()
    go(page, "Label")
    _begin(page, "Ada")
    playwright.expect(page.locator(".dg-label-at")).to_contain_text("picture 4 of 6")


def test_a_sheet_is_drawn_by_the_first_click(opened: Callable[..., Any], place: Place) -> None:
    """By who has typed nothing: of as many pictures as a margin asks for."""
    shutil.copytree(place.runs / "done", place.runs / "first")
    page = opened("first", another=True)
    go(page, "Label")
    page.get_by_role("button", name="The sheet").click()
    page.get_by_role("button", name="Draw a sheet").click()
    playwright.expect(page.locator("#dg-sheet")).to_contain_text("Write who labels")
    assert len(Sheets(place).ids("first")) > 10


def test_a_sheet_drawn_anew_keeps_its_place_and_its_votes(
    labelling: Callable[..., tuple[Any, Sheets]],
) -> None:
    """The sheet is drawn again while a vote is on its way, and with one that Ada gave in another window."""
    page, sheets = labelling("anew", 4)
    _begin(page, "Ada")
    page.keyboard.press("3")
    playwright.expect(page.locator("#dg-tabs")).to_contain_text("1 of 4")
    held = _first_vote(page)
    page.keyboard.press("x")
    ids = sheets.ids("anew")
    while not held:
        page.wait_for_timeout(50)
    assert held[0].request.post_data_json == {"id": ids[1], "label": "invalid"}
    sheets.vote("anew", "Ada", ids[3], "9")
    page.get_by_label("Who labels").focus()
    page.locator(".dg-label").focus()
    playwright.expect(page.locator(".dg-label-done")).to_have_text("3 labelled")
    playwright.expect(page.locator(".dg-label-at")).to_have_text("picture 3 of 4")
    page.keyboard.press("7")
    held[0].continue_()
    _until_said(page, sheets, "anew", "Ada", {ids[0]: "3", ids[1]: "invalid", ids[2]: "7", ids[3]: "9"})


@pytest.mark.slow
def test_what_another_window_takes_away_is_gone_here_too(labelling: Callable[..., tuple[Any, Sheets]]) -> None:
    """Ada takes a label away in another window; then she draws the sheet anew there, with the same pictures."""
    page, sheets = labelling("windows", 3)
    _begin(page, "Ada")
    ids = sheets.ids("windows")
    for key in "357":
        page.keyboard.press(key)
    _until_said(page, sheets, "windows", "Ada", dict(zip(ids, "357", strict=True)))
    done = page.locator(".dg-label-done")
    playwright.expect(done).to_have_text("3 labelled")
    page.wait_for_timeout(20)  # a file's time counts milliseconds
    sheets.vote("windows", "Ada", ids[1], "")
    _draw_again(page)
    playwright.expect(done).to_have_text("2 labelled")
    page.locator(".dg-no-label").click()
    _until_said(page, sheets, "windows", "Ada", {ids[0]: "3"})
    sheets.clear("windows")
    sheets.make("windows", 3)
    _draw_again(page)
    playwright.expect(done).to_have_text("0 labelled")
    playwright.expect(page.locator(".dg-label-at")).to_have_text("picture 1 of 3")


def _draw_again(page: Any) -> None:
    """Leave the tab and come back."""
    go(page, "Runs")
    go(page, "Label")


def test_a_late_drawing_takes_no_count_back(
    labelling: Callable[..., tuple[Any, Sheets]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ada leaves the field of her name, the sheet is drawn again, and she labels before that drawing is shown."""
    page, sheets = labelling("late", 4)
    left, counted, shown = threading.Event(), threading.Event(), threading.Event()

    def known(shared: Shared, name: str | None) -> Markup:  # the last of what is drawn: people were counted
        if left.is_set():
            counted.set()
            assert shown.wait(1200)
        return known_html(shared, name)

    monkeypatch.setattr(tab_label, "known_html", known)
    _begin(page, "Ada")
    left.set()
    page.get_by_label("Who labels").focus()
    page.locator(".dg-label").focus()
    assert counted.wait(1200)
    page.keyboard.press("3")
    _until_said(page, sheets, "late", "Ada", {sheets.ids("late")[0]: "3"})
    page.wait_for_timeout(1000)
    shown.set()
    page.wait_for_timeout(1000)
    playwright.expect(page.locator("#dg-tabs")).to_contain_text("1 of 4")


def test_votes_that_wait_stay_with_who_gave_them(labelling: Callable[..., tuple[Any, Sheets]]) -> None:
    """Two votes of Ada, the second still in the queue when Bo takes over."""
    page, sheets = labelling("queued", 4)
    held = _first_vote(page)
    for person, keys in (("Ada", "35"), ("Bo", "7")):
        _begin(page, person)
        for key in keys:
            page.keyboard.press(key)
    held[0].continue_()
    playwright.expect(page.locator("#dg-tabs")).to_contain_text("Bo")
    first, second, *_ = sheets.ids("queued")
    _until_said(page, sheets, "queued", "Ada", {first: "3", second: "5"})
    _until_said(page, sheets, "queued", "Bo", {first: "7"})


@pytest.mark.parametrize("away", ["behind-a-proxy", pytest.param("cut-off", marks=pytest.mark.slow)])
def test_votes_wait_for_a_page_that_does_not_answer(away: str, labelling: Callable[..., tuple[Any, Sheets]]) -> None:
    """Three votes, of which none arrives until the page is there again; then each does, once and in turn."""
    page, sheets = labelling(away, 4, fails=True)
    tried, arrived, mended = [], [], False

    def cut(route: Any) -> None:
        if route.request.method != "POST":
            route.fallback()
            return
        label = route.request.post_data_json["label"]
        if mended:
            arrived.append(label)
            route.continue_()
        else:
            tried.append(label)
            if away == "cut-off":
                route.abort()
            else:
                route.fulfill(status=502)

    page.route("**/labels/**", cut)  # before the sheet: a browser may send what follows at once past a new route
    _begin(page, "Ada")
    for number, key in enumerate("357", start=2):
        page.keyboard.press(key)
        playwright.expect(page.locator(".dg-label-at")).to_contain_text(f"picture {number} of 4")
    playwright.expect(page.locator(".dg-label-problem")).to_have_text("The page does not answer; labels that wait: 3.")
    mended = True
    _until_said(page, sheets, away, "Ada", dict(zip(sheets.ids(away), "357", strict=False)))
    assert set(tried) == {"3"} and arrived == ["3", "5", "7"]
    playwright.expect(page.locator(".dg-label-problem")).to_have_text("")
    playwright.expect(page.locator(".dg-label-at")).to_contain_text("picture 4 of 4")


def test_a_class_beyond_the_buttons_is_written(
    labelling: Callable[..., tuple[Any, Sheets]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("diffgen.ui.tab_label._MOST_BUTTONS", 7)
    page, sheets = labelling("wide", 2)
    _begin(page, "Ada")
    playwright.expect(page.locator(".dg-key")).to_have_count(9)
    by_name = page.get_by_label("Another class, by its name")
    by_name.fill("99")
    by_name.press("Enter")
    playwright.expect(page.locator(".dg-label-problem")).to_contain_text("No class is called 99")
    by_name.fill("9")
    by_name.press("Enter")
    playwright.expect(page.locator(".dg-label-at")).to_have_text("picture 2 of 2")
    playwright.expect(page.locator("#dg-tabs")).to_contain_text("1 of 2")
    _until_said(page, sheets, "wide", "Ada", {sheets.ids("wide")[0]: "9"})


def _until_said(page: Any, sheets: Sheets, run: str, person: str, expected: dict[str, str]) -> None:
    """Wait for the votes, which the page sends one after the other."""
    for _ in range(600):
        if sheets.said(run, person) == expected:
            return
        page.wait_for_timeout(100)
    assert sheets.said(run, person) == expected


def _first_vote(page: Any) -> list[Any]:
    """Will hold the first vote, which waits until it is let through."""
    held: list[Any] = []

    def hold(route: Any) -> None:
        if route.request.method == "POST" and not held:
            held.append(route)
        else:
            route.fallback()

    page.route("**/labels/**", hold)
    return held
