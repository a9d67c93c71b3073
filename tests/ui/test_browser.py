"""The page in a real browser: every tab, by mouse and by keyboard, narrow and wide, with the network blocked."""

from __future__ import annotations

import re
import shutil
import time
from collections.abc import Callable
from typing import Any

import pytest

from diffgen import api
from diffgen.report.data import ConditionView, GateView
from diffgen.ui import tab_behaviours
from diffgen.ui.jobs import Jobs
from diffgen.ui.place import Place
from diffgen.ui.tab_check import verdict as verdict_of
from tests.ui.steps import TABS, choose, figure, go

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


def test_every_tab_has_names_and_fits_a_telephone_in_the_dark(opened: Callable[..., Any]) -> None:
    """Every control has a name, with all that is folded open, and the pictures have a text."""
    page = opened(fails=True)  # a reload cuts off what is on its way
    for tab in TABS:
        go(page, tab)
        for folded in page.locator("button.label-wrap:visible").all():
            if "open" not in str(folded.get_attribute("class")).split():
                folded.click()
        page.locator(_FIRST[tab]).locator("visible=true").first.wait_for()
        if tab == "Run":
            page.locator("#dg-tree-model .dg-entry").first.wait_for()
        if tab == "Behaviours":
            page.locator(_FIRST[tab]).first.click()
            page.locator("#dg-one .dg-detail").wait_for()
        seen = page.locator("body").aria_snapshot()
        assert len(re.findall(r"- '?(?:button|textbox|combobox|link) ", seen)) > 4, tab
        assert _UNNAMED.findall(seen) == [], tab
        assert page.locator("img:not([alt])").count() == 0, tab
        assert page.evaluate(_WIDER_THAN_THE_PAGE) <= 0, tab
    page.set_viewport_size({"width": 390, "height": 900})
    page.emulate_media(color_scheme="dark")
    page.reload()
    playwright.expect(page.get_by_role("tab").locator("visible=true")).to_have_text([*TABS])
    for tab in TABS:
        go(page, tab)
        page.locator(_FIRST[tab]).locator("visible=true").first.wait_for()
        assert page.evaluate(_WIDER_THAN_THE_PAGE) <= 0, tab
    assert page.evaluate("document.body.classList.contains('dark')")


def test_what_has_no_name_is_found() -> None:
    unnamed = ("  - button", '- checkbox [checked]: ""', "- textbox: abc", "- textbox:")
    assert [line for line in unnamed if not _UNNAMED.findall(line)] == []
    named = ('- button "Stop"', "  - 'slider \"a: b\"': 3", "- tabpanel:", "- table:", '- tab "Run" [selected]')
    assert [line for line in named if _UNNAMED.findall(line)] == []


_WIDER_THAN_THE_PAGE = "document.documentElement.scrollWidth - innerWidth"


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


@pytest.mark.slow
def test_what_was_picked_stays_while_another_tab_is_looked_at(
    opened: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The tab asks anew what it can offer whenever it is entered; of the same run that takes nothing back."""
    drawn: list[Any] = []
    draw_all = tab_behaviours.draw_all

    def noted(*given: Any) -> tuple[Any, ...]:
        result = draw_all(*given)
        drawn.append(given)
        return result

    monkeypatch.setattr(tab_behaviours, "draw_all", noted)
    page = opened()
    go(page, "Behaviours")
    field = page.locator("#dg-matrix button.dg-heat").first
    count = int(field.inner_text())
    field.click()
    pictures = page.locator("#dg-pictures button.dg-thumb")
    playwright.expect(pictures).to_have_count(count)
    choose(page, "Model", "A: a.onnx")
    playwright.expect(pictures).to_have_count(count)
    before = len(drawn)
    for tab in ("Runs", "Behaviours"):
        go(page, tab)
    while len(drawn) == before:
        page.wait_for_timeout(100)
    playwright.expect(pictures).to_have_count(count)
    playwright.expect(page.locator("#dg-matrix button[aria-pressed=true]")).to_have_count(1)
    playwright.expect(page.get_by_label("Model", exact=True).locator("visible=true")).to_have_value("A: a.onnx")
    page.get_by_label("Run", exact=True).first.click()
    page.get_by_role("option", name="hostile", exact=True).click()
    playwright.expect(page.get_by_label("Model", exact=True).locator("visible=true")).to_have_value("any model")


@pytest.mark.slow
def test_a_page_that_was_used_in_a_hurry_comes_to_rest(opened: Callable[..., Any]) -> None:
    """Of an event that comes again while functions listen to it still, each is called once more, and not for ever."""
    page = opened()
    for tab in ("Behaviours", "Label"):
        go(page, tab)
    asked: list[float] = []

    def note(request: Any) -> None:
        # what a clock of the page asks goes on
        if "/queue/join" in request.url and request.post_data_json["trigger_id"] not in clocks:
            asked.append(time.monotonic())

    clocks = {each["id"] for each in page.evaluate("gradio_config.components") if each["type"] == "timer"}
    page.on("request", note)
    for name in ("hostile", "done") * 4:
        page.get_by_label("Run", exact=True).first.click()
        page.get_by_role("option", name=name, exact=True).click()
        go(page, "Behaviours")
        go(page, "Label")
    until = time.monotonic() + 1200
    while time.monotonic() - asked[-1] < 5:
        assert time.monotonic() < until, "it still asks"
        page.wait_for_timeout(500)
    assert len(asked) > 8


@pytest.mark.slow
@pytest.mark.usefixtures("stopped")
@pytest.mark.timeout(3000)
def test_three_browsers_see_one_run(opened: Callable[..., Any], place: Place) -> None:
    """All see the same figures while a search goes on, one stops it, and the others see it; stages are read out.

    Who opens the page while something runs sees it; what is drawn anew again and again closes no fold, and opens none.
    """
    words = [*(str(place.runs / each) for each in ("a.onnx", "b.onnx")), "--data", "digits:test"]
    words += ["-o", str(place.runs / "seen"), "--technique", "real_data", "--budget", "50000000q"]
    words += ["--set", "data_labels=ignore", "--set", "filters.names=[]", "--set", "search.population=50"]
    Jobs(place).start("compare", "seen", words)
    pages = [opened("seen", another=True) for _ in range(3)]
    heard = pages[0].locator("#dg-status").get_by_role("status")
    for page in pages:
        playwright.expect(page.get_by_role("tab", name="Live", exact=True, selected=True)).to_be_visible()
        page.locator("#dg-live-finds .dg-thumb").first.wait_for()
        assert _UNNAMED.findall(page.locator("body").aria_snapshot()) == []
    playwright.expect(heard).to_have_text(re.compile(r"^running\s+Searching for disagreements$"))
    playwright.expect(pages[0].get_by_role("progressbar", name="Searching for disagreements")).to_be_visible()
    fold = pages[0].locator("details.dg-said")
    for open_now in (True, False):
        fold.locator("summary").click()
        before = figure(pages[0], "disagreements written")
        while figure(pages[0], "disagreements written") == before:
            pages[0].wait_for_timeout(200)
        assert fold.locator("ul").is_visible() is open_now
    while len({figure(page, "disagreements written") for page in pages}) > 1:
        pages[0].wait_for_timeout(200)
    pages[1].get_by_role("button", name="Stop", exact=True).click()
    for page in pages:
        playwright.expect(page.locator(".dg-warn").filter(has_text="Stopping: ")).to_be_visible()
        playwright.expect(page.get_by_role("button", name="Stop at once", exact=True)).to_be_visible()
    for page in pages:
        page.get_by_role("button", name="Resume", exact=True).wait_for()
        assert page.get_by_role("button", name="Stop", exact=True).count() == 0
        playwright.expect(page.locator("#dg-status .dg-badge")).to_have_text("interrupted")
        said = page.get_by_role("status").filter(has_text="It was stopped (exit code 130).")
        playwright.expect(said).to_contain_text("kept, judged and reported; Resume goes on from there")
        assert page.locator(".dg-warn").filter(has_text="Stopping: ").count() == 0
    playwright.expect(heard).to_have_text(re.compile(r"^interrupted\s*$"))
    found = api.describe_run(place.runs / "seen")
    assert found.status == "interrupted"
    assert found.figures
    for name, what in (("queries", "queries"), ("triggers", "disagreements"), ("behaviours", "behaviours")):
        assert [figure(page, what) for page in pages] == [f"{round(found.figures[name]):,}"] * 3


@pytest.mark.parametrize("inputs", [0, 11], ids=["while-the-first-is-heard", "while-the-first-is-drawn"])
@pytest.mark.slow
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
    expected = len(finds.numbers(api.TriggerQuery("all", label=3)))
    assert expected not in (0, len(finds.numbers(api.TriggerQuery("distinct", label=3))), len(finds))
    held[0].continue_()
    playwright.expect(page.locator("#dg-matrix small")).to_have_text(f"{expected:,} pictures")


@pytest.mark.slow
def test_back_forward_and_a_reload_lead_to_tab_and_run(opened: Callable[..., Any]) -> None:
    """A run that is opened from the list is one step, though tab and run change."""
    page = opened(fails=True)  # a reload cuts off what is on its way
    page.wait_for_function("() => location.hash === '#run'")
    steps = [("done", "Live"), ("done", "Runs"), ("hostile", "Live"), ("hostile", "Behaviours")]
    for run, tab in steps:
        if run == "hostile" and tab == "Live":
            page.locator("#dg-runs .dg-name", has_text="hostile").click()
        else:
            go(page, tab)
        _is_at(page, run, tab)
    for run, tab in [*reversed(steps[:-1]), ("done", "Run")]:
        page.go_back()
        _is_at(page, run, tab)
    page.go_forward()
    _is_at(page, *steps[0])
    page.evaluate("history.go(3)")
    _is_at(page, *steps[-1])
    page.reload()
    _is_at(page, *steps[-1])
    page.locator(_FIRST["Behaviours"]).locator("visible=true").first.wait_for()
    held: list[Any] = []
    knows = False
    page.route("**/queue/join*", lambda route: route.fallback() if knows else held.append(route))
    page.reload()
    go(page, "Check")  # before the page knows which tab its address names
    knows = True
    for each in held:
        each.fallback()
    _is_at(page, "hostile", "Check")


def _is_at(page: Any, run: str, tab: str) -> None:
    page.wait_for_function(f"() => location.href.endsWith('?run={run}#{tab.lower()}')")
    playwright.expect(page.get_by_label("Run", exact=True).first).to_have_value(run)
    playwright.expect(page.get_by_role("tab", name=tab, exact=True, selected=True)).to_be_visible()
    page.wait_for_timeout(300)  # longer than the page waits before it writes a step


def test_what_is_read_out_is_words_and_a_tab_says_that_it_is_loading(opened: Callable[..., Any]) -> None:
    """Gradio itself reads out that something has ended by a name that it has in no language."""
    page = opened(fails=True)  # a reload cuts off what is on its way
    page.evaluate("""() => {
        window.heard = [];
        const live = '[aria-live], [role=status], [role=alert]';
        new MutationObserver((changes) => changes.forEach(({target}) => heard.push(
            (target.closest ? target : target.parentElement)?.closest(live)?.textContent.trim())
        )).observe(document.body, {subtree: true, childList: true, characterData: true});
    }""")
    page.locator("#dg-models textarea").fill("a.onnx")
    page.locator("#dg-models textarea").blur()
    page.wait_for_function("() => heard.includes('done')")
    assert not [each for each in page.evaluate("heard") if each and "common." in each]
    page.route("**/queue/join*", lambda route: None)  # nothing is answered
    page.reload()
    for tab in ("Live", "Behaviours", "Label", "Check", "Runs"):
        go(page, tab)
        playwright.expect(page.locator(".dg-loading").locator("visible=true")).to_have_text("Loading ...")


def test_what_was_typed_under_run_is_there_after_a_reload(opened: Callable[..., Any]) -> None:
    """But no address of a server, which may hold a key."""
    page = opened(another=True, fails=True)  # what is asked about the models meanwhile is cut off
    budget = page.get_by_label("Budget").locator("visible=true")
    models, data = page.locator("#dg-models textarea"), page.locator("#dg-data textarea, #dg-data input").first
    models.fill("https://user:key@models.example/v2\nb.onnx")
    data.fill("digits:test")
    budget.fill("4000q")
    page.wait_for_function("() => sessionStorage.getItem('diffgen-run')?.includes('4000q')")
    assert "key" not in page.evaluate("sessionStorage.getItem('diffgen-run')")
    page.reload()
    playwright.expect(budget).to_have_value("4000q")
    playwright.expect(data).to_have_value("digits:test")
    playwright.expect(models).to_have_value("")


_CUT = """() => [...document.querySelectorAll('.dg-matrix th')].filter(({offsetParent}) => offsetParent).flatMap(
  (each) => [each, each.firstElementChild ?? each]).filter(
  (each) => each.scrollWidth > each.clientWidth + 1 || each.scrollHeight > each.clientHeight + 1 ||
    getComputedStyle(each).textOverflow === 'ellipsis').map((each) => each.textContent)"""


def test_names_of_classes_are_whole_in_the_matrix_and_hostile_ones_run_nothing(opened: Callable[..., Any]) -> None:
    page = opened("hostile", width=390)
    go(page, "Behaviours")
    page.locator("#dg-behaviours button.dg-group").first.wait_for()
    assert page.locator("#dg-matrix th[title]").count() == page.locator("#dg-matrix th").count() > 10
    for width in (390, 1280):
        page.set_viewport_size({"width": width, "height": 900})
        assert page.evaluate(_CUT) == []
        assert page.evaluate(_WIDER_THAN_THE_PAGE) <= 0
    text = page.locator("#dg-behaviours").inner_text() + page.locator("#dg-matrix").inner_text()
    for each in ("<img src=x", "{{constructor}}", "${document.title"):
        assert each in text
    assert page.title() != "hacked"


@pytest.mark.slow
def test_the_reason_of_a_failed_start_takes_a_few_lines_of_a_telephone(
    opened: Callable[..., Any], place: Place
) -> None:
    job = Jobs(place).start("compare", "missing", [str(place.runs / "none.onnx"), "b.onnx", "--data", "digits:test"])
    while job.alive:
        time.sleep(0.05)
    page = opened(width=390)
    go(page, "Runs")
    reason = page.locator("#dg-runs .dg-sentence", has_text="none.onnx")
    reason.wait_for()
    assert reason.bounding_box()["width"] > 200
    for when in page.locator("#dg-runs .dg-when").all():
        assert when.bounding_box()["height"] < 30
    Jobs(place).forget("missing")


def test_a_verdict_comes_before_the_form_on_a_telephone(opened: Callable[..., Any]) -> None:
    """A check is looked at more often than it is begun there; beside each other they fit a wide page alone."""
    page = opened(width=390)
    go(page, "Check")
    page.locator(_FIRST["Check"]).locator("visible=true").first.wait_for()
    form, verdict = page.get_by_placeholder("models/float.onnx").locator("visible=true"), page.locator("#dg-verdict")
    assert form.bounding_box()["y"] < verdict.bounding_box()["y"]  # there is none yet
    why = "The candidate is right on fewer of the real images than the limit allows, on 3 of 898 of them."
    row = ConditionView("accuracy_drop", "accuracy drop", "FAIL", "0.33 points (3 of 898)", "", "0.20 points", why)
    shown = verdict_of(GateView("done", "FAIL", "A", "B", "digits", (row,), (), False, "", "", "", 0))
    verdict.evaluate("(each, shown) => { each.innerHTML = shown; }", str(shown))
    assert verdict.locator(".dg-scroll").evaluate("each => each.scrollWidth - each.clientWidth") == 0
    assert verdict.get_by_text(why).bounding_box()["width"] > 200
    link = verdict.get_by_role("link", name="Open the report")
    assert link.get_attribute("href") == "files/done/report.html"
    assert verdict.bounding_box()["y"] < form.bounding_box()["y"]
    page.set_viewport_size({"width": 1280, "height": 900})
    assert form.bounding_box()["x"] < verdict.bounding_box()["x"]


@pytest.mark.slow
def test_runs_come_and_go_while_one_looks(opened: Callable[..., Any], place: Place) -> None:
    """Another page, or a terminal, makes a run and deletes it again; the chosen one goes from the address too."""
    page = opened("done")
    go(page, "Runs")
    listed = page.locator("#dg-runs")
    playwright.expect(listed).to_contain_text("unfinished")
    shutil.copytree(place.runs / "done", place.runs / "passing")
    playwright.expect(listed).to_contain_text("passing")
    page.locator("#dg-runs .dg-name", has_text="passing").click()
    page.wait_for_function("() => new URL(location).searchParams.get('run') === 'passing'")
    go(page, "Runs")
    shutil.rmtree(place.runs / "passing")
    playwright.expect(page.get_by_text("There is no run passing any more.")).to_be_visible()
    page.wait_for_function("() => !new URL(location).searchParams.has('run')")
    playwright.expect(listed).not_to_contain_text("passing")
