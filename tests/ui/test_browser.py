"""The page in a real browser: every tab, by mouse and by keyboard, narrow and wide, with the network blocked."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from diffgen import api
from diffgen.ui.labelling import Sheets
from diffgen.ui.place import Place
from tests.ui.steps import TABS, choose, go

playwright = pytest.importorskip("playwright.sync_api", reason="pip install 'diffgen[test]' brings it")


pytestmark = pytest.mark.timeout(900)  # it waits for what it looks for, however slow the machine is

# what a screen reader would call by its kind alone
_UNNAMED = re.compile(
    r"^ *- '?(?:button|checkbox|combobox|link|listbox|menuitem|option|progressbar|radio|searchbox|slider|spinbutton|"
    r"switch|tab|textbox)\b(?! \")(?: \[.*\])?:?.*$",
    re.MULTILINE,
)


# what shows that a tab is there
_FIRST = {
    "Run": "#dg-models textarea",
    "Live": "#dg-live-finds .dg-thumb",
    "Behaviours": "#dg-pictures .dg-thumb",
    "Label": "#dg-sheet .dg-empty, #dg-sheet .dg-note",
    "Check": "#dg-verdict .dg-empty",
    "Runs": "#dg-runs .dg-name",
}


def test_every_control_has_a_name(opened: Callable[..., Any]) -> None:
    """Of every tab, with all that is folded open; and the pictures have a text."""
    page = opened()
    for tab in TABS:
        go(page, tab)
        for folded in page.locator("button.label-wrap:visible").all():
            if "open" not in str(folded.get_attribute("class")).split():
                folded.click()
        page.locator(_FIRST[tab]).locator("visible=true").first.wait_for()
        if tab == "Run":
            page.locator("#dg-tree .dg-entry").first.wait_for()
        if tab == "Behaviours":
            page.locator(_FIRST[tab]).first.click()
            page.locator("#dg-one .dg-detail").wait_for()
        seen = page.locator("body").aria_snapshot()
        assert len(re.findall(r"- '?(?:button|textbox|combobox|link) ", seen)) > 4, tab
        assert _UNNAMED.findall(seen) == [], tab
        assert page.locator("img:not([alt])").count() == 0, tab
        assert page.evaluate(_WIDER_THAN_THE_PAGE) <= 0, tab


def test_what_has_no_name_is_found() -> None:
    unnamed = ("  - button", '- checkbox [checked]: ""', "- textbox: abc", "- textbox:")
    assert [line for line in unnamed if not _UNNAMED.findall(line)] == []
    named = ('- button "Stop"', "  - 'slider \"a: b\"': 3", "- tabpanel:", "- table:", '- tab "Run" [selected]')
    assert [line for line in named if _UNNAMED.findall(line)] == []


_WIDER_THAN_THE_PAGE = "document.documentElement.scrollWidth - innerWidth"


def test_every_tab_fits_a_telephone_in_the_dark(opened: Callable[..., Any]) -> None:
    page = opened(width=390, scheme="dark")
    for tab in TABS:
        go(page, tab)
        page.locator(_FIRST[tab]).locator("visible=true").first.wait_for()
        assert page.evaluate(_WIDER_THAN_THE_PAGE) <= 0, tab
    assert page.evaluate("document.body.classList.contains('dark')")


def test_models_are_picked_and_dropped(opened: Callable[..., Any], place: Place, tmp_path: Path) -> None:
    """From the folders that were named by keyboard, from elsewhere by dropping; a file that is no model is told of."""
    (place.runs / "more").mkdir()
    shutil.copyfile(place.runs / "b.onnx", place.runs / "more" / "b.onnx")
    (place.runs / "more" / "notes.txt").write_text("no model", encoding="utf-8")
    (place.runs / "more" / "out.onnx").symlink_to(tmp_path / "secret.onnx")
    (tmp_path / "secret.onnx").write_bytes(b"from elsewhere")
    (tmp_path / "wrong.onnx").write_bytes(b"no model at all")
    page = opened()
    page.get_by_role("button", name="Pick from a folder").click()
    models, tree = page.locator("#dg-models textarea"), page.locator("#dg-tree")
    tree.get_by_role("button", name="add the model a.onnx").click()
    playwright.expect(models).to_have_value(f"{place.runs}/a.onnx")
    folder = tree.get_by_role("button", name="open the folder more")
    folder.focus()
    page.keyboard.press("Enter")
    picked = tree.get_by_role("button", name="add the model b.onnx")
    playwright.expect(tree.get_by_role("listitem")).to_have_text(["..", "b.onnx"])
    playwright.expect(tree.get_by_role("button", name="back to the folder above")).to_be_focused()
    picked.focus()
    page.keyboard.press("Enter")
    playwright.expect(models).to_have_value(f"{place.runs}/a.onnx\n{place.runs}/more/b.onnx")
    data = page.locator("#dg-data textarea, #dg-data input").first
    data.fill("digits:test")
    page.locator("input[type=file]").first.set_input_files(tmp_path / "wrong.onnx")
    playwright.expect(models).to_have_value(re.compile(r"b\.onnx\n.*/\.ui/uploads/.*/wrong\.onnx$"))
    cards = page.locator(".dg-model, .dg-note.dg-bad")
    playwright.expect(cards).to_have_count(3)
    playwright.expect(page.get_by_role("alert")).to_contain_text("wrong.onnx")
    page.locator("input[type=file]").nth(1).set_input_files(tmp_path / "wrong.onnx")
    playwright.expect(page.locator("#dg-data textarea, #dg-data input").first).to_have_value(
        re.compile(r"wrong\.onnx$")
    )
    playwright.expect(page.get_by_role("alert").first).to_contain_text("wrong.onnx")


def test_from_the_matrix_to_one_picture_by_keyboard(opened: Callable[..., Any]) -> None:
    page = opened()
    go(page, "Behaviours")
    matrix = page.locator("#dg-matrix button.dg-heat")
    matrix.first.wait_for()
    said = matrix.first.get_attribute("aria-label")
    count = int(matrix.first.inner_text())
    matrix.first.focus()
    page.keyboard.press("Enter")
    pictures = page.locator("#dg-pictures button.dg-thumb")
    playwright.expect(pictures).to_have_count(count)
    playwright.expect(page.locator("#dg-matrix button[aria-pressed=true]")).to_be_focused()
    page.locator("#dg-behaviours button.dg-group").first.focus()
    page.keyboard.press("Enter")
    playwright.expect(page.locator("#dg-behaviours button[aria-pressed=true]")).to_have_count(1)
    pictures.first.focus()
    page.keyboard.press("Space")
    detail = page.locator("#dg-one .dg-detail")
    detail.wait_for()
    a, b = re.findall(r"says ([^,:]+)", said)
    playwright.expect(detail.locator("h4")).to_have_text(f"A says {a}, B says {b}")
    assert detail.locator("img").first.evaluate("image => image.decode().then(() => image.naturalWidth)") == 28


@pytest.mark.parametrize("inputs", [0, 11], ids=["while-the-first-is-heard", "while-the-first-is-drawn"])
def test_what_was_chosen_last_is_what_is_shown(opened: Callable[..., Any], place: Place, inputs: int) -> None:
    """A second filter, chosen while the answer about the first is on its way, is not lost."""
    page = opened()
    go(page, "Behaviours")
    pictures = page.locator("#dg-pictures button.dg-thumb")
    pictures.first.wait_for()
    held: list[Any] = []

    def hold(route: Any) -> None:
        if not held and len(route.request.post_data_json["data"]) == inputs:
            held.append(route)
        else:
            route.fallback()

    page.route("**/queue/join*", hold)
    choose(page, "Pictures", "all")
    while not held:
        page.wait_for_timeout(50)
    choose(page, "Says class", "3")
    finds = api.browse(place.runs / "done")
    expected = len(finds.numbers(api.Wanted("all", label=3)))
    assert expected not in (0, len(finds.numbers(api.Wanted("distinct", label=3))), len(finds))
    held[0].continue_()
    playwright.expect(page.locator("#dg-matrix small")).to_have_text(f"{expected:,} pictures")


def test_hostile_names_run_nothing(opened: Callable[..., Any]) -> None:
    page = opened("hostile")
    go(page, "Behaviours")
    page.locator("#dg-behaviours button.dg-group").first.wait_for()
    text = page.locator("#dg-behaviours").inner_text() + page.locator("#dg-matrix").inner_text()
    assert "<img src=x" in text
    assert "{{constructor}}" in text
    assert "${document.title" in text
    assert page.title() != "hacked"


def test_labels_by_keyboard_survive_a_reload(opened: Callable[..., Any], place: Place) -> None:
    sheets = Sheets(place)
    shutil.copytree(place.runs / "done", place.runs / "unlabelled")
    sheets.make("unlabelled", 6)
    page = opened("unlabelled")
    go(page, "Label")
    page.get_by_label("Who labels").fill("Ada")
    page.keyboard.press("Enter")
    page.locator(".dg-label-picture").wait_for()
    page.locator(".dg-label").focus()
    for key in ("3", "x", "7", "ArrowLeft", "8"):
        page.keyboard.press(key)
    playwright.expect(page.locator(".dg-label-done")).to_have_text("3 labelled")
    ids = sheets.ids("unlabelled")
    _until_said(page, sheets, "unlabelled", "Ada", {ids[0]: "3", ids[1]: "invalid", ids[2]: "8"})
    playwright.expect(page.locator("#dg-tabs")).to_contain_text("3 of 6")
    page.reload()
    page.get_by_role("tab", name="Label", exact=True).first.wait_for()
    go(page, "Label")
    page.get_by_label("Who labels").fill("Ada")
    page.keyboard.press("Enter")
    playwright.expect(page.locator(".dg-label-at")).to_contain_text("picture 4 of 6")


def test_a_sheet_drawn_anew_keeps_its_place_and_its_votes(opened: Callable[..., Any], place: Place) -> None:
    """The sheet is drawn again while a vote is on its way, and with one that Ada gave in another window."""
    sheets = Sheets(place)
    shutil.copytree(place.runs / "done", place.runs / "anew")
    sheets.make("anew", 4)
    page = opened("anew")
    go(page, "Label")
    who = page.get_by_label("Who labels")
    who.fill("Ada")
    who.press("Enter")
    page.locator(".dg-label").focus()
    page.keyboard.press("3")
    playwright.expect(page.locator("#dg-tabs")).to_contain_text("1 of 4")
    held: list[Any] = []
    page.route("**/labels/anew/*", lambda route: held.append(route) if _held(route, held) else route.fallback())
    page.keyboard.press("x")
    ids = sheets.ids("anew")
    sheets.vote("anew", "Ada", ids[3], "9")
    who.focus()
    page.locator(".dg-label").focus()
    playwright.expect(page.locator(".dg-label-done")).to_have_text("3 labelled")
    playwright.expect(page.locator(".dg-label-at")).to_have_text("picture 3 of 4")
    page.keyboard.press("7")
    held[0].continue_()
    _until_said(page, sheets, "anew", "Ada", {ids[0]: "3", ids[1]: "invalid", ids[2]: "7", ids[3]: "9"})


def test_votes_that_wait_stay_with_who_gave_them(opened: Callable[..., Any], place: Place) -> None:
    """Two votes of Ada, the second still in the queue when Bo takes over."""
    sheets = Sheets(place)
    shutil.copytree(place.runs / "done", place.runs / "queued")
    sheets.make("queued", 4)
    page = opened("queued")
    held: list[Any] = []
    page.route("**/labels/queued/*", lambda route: held.append(route) if _held(route, held) else route.fallback())
    go(page, "Label")
    who = page.get_by_label("Who labels")
    for person, keys in (("Ada", "35"), ("Bo", "7")):
        who.fill(person)
        who.press("Enter")
        page.wait_for_function(
            "who => JSON.parse(document.querySelector('[data-sheet]')?.dataset.sheet || '{}').person === who",
            arg=person,
        )
        page.locator(".dg-label").focus()
        for key in keys:
            page.keyboard.press(key)
    held[0].continue_()
    playwright.expect(page.locator("#dg-tabs")).to_contain_text("Bo")
    first, second, *_ = sheets.ids("queued")
    _until_said(page, sheets, "queued", "Ada", {first: "3", second: "5"})
    _until_said(page, sheets, "queued", "Bo", {first: "7"})


def test_a_class_beyond_the_buttons_is_written(
    opened: Callable[..., Any], place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("diffgen.ui.tab_label._MOST_BUTTONS", 7)
    sheets = Sheets(place)
    shutil.copytree(place.runs / "done", place.runs / "wide")
    sheets.make("wide", 2)
    page = opened("wide")
    go(page, "Label")
    page.get_by_label("Who labels").fill("Ada")
    page.keyboard.press("Enter")
    playwright.expect(page.locator(".dg-key")).to_have_count(8)
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


def _held(route: Any, held: list[Any]) -> bool:
    """Whether it is the first vote, which waits until it is let through."""
    return route.request.method == "POST" and not held
