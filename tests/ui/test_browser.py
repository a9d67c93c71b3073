"""The page in a real browser: every tab, by mouse and by keyboard, narrow and wide, with the network blocked."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from diffgen.ui.labelling import Sheets
from diffgen.ui.place import Place

playwright = pytest.importorskip("playwright.sync_api", reason="pip install 'diffgen[test]' brings it")
_CHROMIUM = next((found for name in ("chromium", "chromium-browser") if (found := shutil.which(name))), None)
if _CHROMIUM is None:
    pytest.skip("There is no Chromium: apt-get install chromium", allow_module_level=True)

TABS = ("Run", "Live", "Behaviours", "Label", "Check", "Runs")
# what Gradio itself says into the console, and what a reload cuts off
_USUAL = ("svelte-i18n", "was preloaded using link preload", "favicon", "manifest", "AbortError", "errored out")


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with playwright.sync_playwright() as driver:
        found = driver.chromium.launch(executable_path=_CHROMIUM, args=["--no-sandbox"])
        yield found
        found.close()


@pytest.fixture
def opened(browser: Any, page: str) -> Iterator[Callable[..., Any]]:
    """Opens the page; at the end nothing went elsewhere, and the console is silent."""
    contexts, foreign, said = [], [], []

    def open_page(run: str = "done", *, width: int = 1440, scheme: str = "light") -> Any:
        context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
        contexts.append(context)

        def gate(route: Any) -> None:
            if route.request.url.startswith((page, "data:", "blob:")):
                route.continue_()
            else:
                foreign.append(route.request.url)
                route.abort()

        context.route("**/*", gate)
        found = context.new_page()
        found.set_default_timeout(60_000)
        found.on("console", lambda message: said.append(message.text) if message.type == "error" else None)
        found.on("pageerror", lambda error: said.append(str(error)))
        found.goto(f"{page}?run={run}")
        found.get_by_role("tab", name="Run", exact=True).first.wait_for()
        playwright.expect(found.get_by_label("Run", exact=True).first).to_have_value(run)
        return found

    yield open_page
    for context in contexts:
        context.close()
    assert foreign == []
    assert [each for each in said if not any(usual in each for usual in _USUAL)] == []


def go(page: Any, tab: str) -> None:
    """To a tab, also where it has gone into the menu of a narrow page."""
    found = page.get_by_role("tab", name=tab, exact=True).first
    if not found.is_visible():
        page.locator(".overflow-menu > button").click()
        found = page.locator(".overflow-dropdown").get_by_text(tab, exact=True)
    found.click()


@pytest.mark.parametrize(("width", "scheme"), [(1440, "light"), (390, "dark")])
def test_every_tab_fits_and_names_its_fields(opened: Callable[..., Any], width: int, scheme: str) -> None:
    page = opened(width=width, scheme=scheme)
    for tab in TABS:
        go(page, tab)
        page.wait_for_timeout(300)
        assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0, tab
        unnamed = page.evaluate(_UNNAMED)
        assert unnamed == [], tab
    assert page.evaluate("document.body.classList.contains('dark')") is (scheme == "dark")


# visible things that can be used and that a screen reader could not name
_UNNAMED = """() => [...document.querySelectorAll('#dg-tabs button, #dg-tabs input, #dg-tabs textarea, #dg-tabs img')]
  .filter((each) => each.offsetParent && !each.closest('[aria-hidden=true]'))
  .filter((each) => !(each.getAttribute('aria-label') || each.title || each.innerText?.trim() || each.alt !== undefined
    || each.labels?.length || each.placeholder || each.closest('label') || each.closest('[aria-label]')))
  .map((each) => each.outerHTML.slice(0, 150))"""


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
    playwright.expect(page.locator("#dg-matrix button[aria-pressed=true]")).to_have_count(1)
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
    playwright.expect(page.locator("#dg-tabs")).to_contain_text("1 of 4", timeout=60_000)
    held: list[Any] = []
    page.route("**/labels/anew/*", lambda route: held.append(route) if _held(route, held) else route.fallback())
    page.keyboard.press("x")
    ids = sheets.ids("anew")
    sheets.vote("anew", "Ada", ids[3], "9")
    who.focus()
    page.locator(".dg-label").focus()
    playwright.expect(page.locator(".dg-label-done")).to_have_text("3 labelled", timeout=60_000)
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
    playwright.expect(page.locator("#dg-tabs")).to_contain_text("Bo", timeout=60_000)
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
    playwright.expect(page.locator("#dg-tabs")).to_contain_text("1 of 2", timeout=60_000)
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
