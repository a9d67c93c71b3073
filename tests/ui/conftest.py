"""A place with real run folders, and the page served from it."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from diffgen.ui.jobs import Jobs
from diffgen.ui.labelling import Sheets
from diffgen.ui.place import Place, Seen
from diffgen.ui.shared import Shared
from tests.conftest import ASSETS
from tests.ui.serving import ARGUMENTS, chromium, served

Take: TypeAlias = Callable[[str, Path], Path]
HOSTILE = ("<img src=x onerror=document.title='hacked'>", "${document.title='hacked'}", "{{constructor}}")


@pytest.fixture(scope="session")
def place(tmp_path_factory: pytest.TempPathFactory, take: Take) -> Place:
    """Three runs: done, unfinished, and one whose classes have hostile names."""
    runs = tmp_path_factory.mktemp("place")
    take("done", runs / "done")
    take("unfinished", runs / "unfinished")
    hostile = take("done", runs / "hostile")
    results = json.loads((hostile / "results.json").read_text(encoding="utf-8"))
    results["class_names"][: len(HOSTILE)] = HOSTILE
    (hostile / "results.json").write_text(json.dumps(results), encoding="utf-8")
    shutil.copyfile(ASSETS / "a.onnx", runs / "a.onnx")
    shutil.copyfile(ASSETS / "b.onnx", runs / "b.onnx")
    return Place(runs.resolve(), (runs.resolve(),))


def shared_of(place: Place, jobs: Jobs | None = None) -> Shared:
    """What the tabs of a page over a place have in common."""
    return Shared(place, jobs or Jobs(place), Seen(place), Sheets(place))


TOKEN = "for-the-tests"


@pytest.fixture(scope="session")
def page(place: Place) -> Iterator[str]:
    """The address of the page, served by this process; who asks must know ``TOKEN``."""
    with served(place, TOKEN, first="done") as address:
        yield address


PATIENCE = 240_000  # ms that anything may take in a browser: the machine may be busy
# what Gradio itself says into the console, and what a reload cuts off
_USUAL = ("svelte-i18n", "was preloaded using link preload", "favicon", "manifest", "AbortError", "errored out")
# the last three: by a reload
_CUT_OFF = (
    "net::ERR_FAILED",
    "status of 502",
    "Unexpected error 404",
    "network error",
    "ERR_INCOMPLETE_CHUNKED_ENCODING",
)


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """Debian's Chromium; no name of another machine leads anywhere."""
    playwright = pytest.importorskip("playwright.sync_api", reason="pip install 'diffgen[test]' brings it")
    program = chromium()
    if program is None:
        pytest.skip("There is no Chromium: apt-get install chromium")
    playwright.expect.set_options(timeout=PATIENCE)
    with playwright.sync_playwright() as driver:
        found = driver.chromium.launch(executable_path=program, args=[*ARGUMENTS])
        yield found
        found.close()


def known_to(browser: Any, page: str) -> Any:
    """A browser that has opened the address with the token once; what it loads it keeps for itself."""
    found = browser.new_context(accept_downloads=True)
    found.set_default_timeout(PATIENCE)
    found.request.get(page, params={"token": TOKEN})
    return found


@pytest.fixture(scope="module")
def context(browser: Any, page: str) -> Any:
    """One for all tests."""
    return known_to(browser, page)


@pytest.fixture
def stopped(place: Place) -> Iterator[None]:
    """At the end nothing goes on, also where the test has failed: a search outlives the page."""
    yield
    for job in Jobs(place).every():
        while job.alive:
            job.stop()
            time.sleep(0.5)


@pytest.fixture
def opened(context: Any, browser: Any, page: str) -> Iterator[Callable[..., Any]]:
    """Opens the page; at the end nothing went elsewhere, and the console is silent."""
    from playwright.sync_api import expect

    closed, asked, said = [], [], []

    def open_page(
        run: str = "done", *, width: int = 1440, scheme: str = "light", another: bool = False, fails: bool = False
    ) -> Any:
        """A page on a run, in the browser of all tests or in another one; ``fails``: the test cuts requests off."""
        usual = (*_USUAL, *_CUT_OFF) if fails else _USUAL
        own = known_to(browser, page) if another else context
        found = own.new_page()
        closed.append(own if another else found)
        found.set_viewport_size({"width": width, "height": 900})
        found.emulate_media(color_scheme=scheme)
        found.on("request", lambda request: asked.append(request.url))
        found.on("console", lambda message: said.append((message.text, usual)) if message.type == "error" else None)
        found.on("pageerror", lambda error: said.append((str(error), usual)))
        found.goto(f"{page}?run={run}")
        found.get_by_role("tab", name="Run", exact=True).first.wait_for()
        expect(found.get_by_label("Run", exact=True).first).to_have_value(run)
        return found

    yield open_page
    for each in closed:
        each.close()
    assert [each for each in asked if not each.startswith((page, "data:", "blob:"))] == []
    assert [each for each, usual in said if not any(one in each for one in usual)] == []
