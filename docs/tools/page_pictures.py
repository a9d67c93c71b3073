"""The pictures of the page in the browser, taken by Chromium from the runs of ``docs.tools.pictures``.

    python -m docs.tools.page_pictures     needs the runs, the extra test, and Chromium

Every tab is shown twice: light on 1440 pixels, and dark on the 390 of a telephone. The page is the one that ``diffgen
ui`` serves; no name of another machine leads anywhere.
"""

from __future__ import annotations

import io
import os
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

from PIL import Image
from playwright.sync_api import sync_playwright

from diffgen.ui.labelling import Sheets
from diffgen.ui.place import Place
from docs.tools.pictures import PICTURES, RUNS
from tests.ui.serving import ARGUMENTS, chromium, served
from tests.ui.steps import go

PAGE = PICTURES / "page"
SIZES = {1440: "light", 390: "dark"}
_HOME = "/home/ada"  # in place of where the runs lie on this machine
_TOKEN = "for-the-pictures"
_PATIENCE = 120_000  # ms
_MOST_LOOKS = 60  # until a page stands still
_SHEET = 150  # pictures that are to be labelled

# tab -> the run that it is seen with, and what shows that all of it is there
_TABS = {
    "Run": ("demo", ".dg-model >> nth=1"),
    "Live": ("demo", "#dg-live-finds .dg-thumb >> nth=0"),
    "Behaviours": ("demo", "#dg-one .dg-detail"),
    "Label": ("demo", "#dg-sheet .dg-label-picture[src]"),
    "Check": ("gate", "#dg-verdict table >> nth=0"),
    "Runs": ("gate", "#dg-runs .dg-name >> nth=1"),
}
_RENAMED = """([from, to]) => {
    const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    for (let text = texts.nextNode(); text; text = texts.nextNode())
        if (text.data.includes(from)) text.data = text.data.replaceAll(from, to);
}"""


def main() -> None:
    """Serve a copy of the runs and take the pictures."""
    if not (RUNS / "gate" / "junit.xml").is_file():
        sys.exit("The runs are missing; python -m docs.tools.pictures makes them.")
    program = chromium()
    if program is None:
        sys.exit("There is no Chromium, so that the pictures of the page stay as they are: apt-get install chromium")
    PAGE.mkdir(exist_ok=True)
    with sync_playwright() as driver, tempfile.TemporaryDirectory() as home:
        runs = Path(shutil.copytree(RUNS, Path(home).resolve() / "runs"))
        os.chdir(runs.parent)  # what stands on the page is where the files lie, seen from here
        place = Place(runs, (runs,))
        Sheets(place).make("demo", _SHEET)
        browser = driver.chromium.launch(executable_path=program, args=[*ARGUMENTS])
        with served(place, _TOKEN) as address:
            for width, scheme in SIZES.items():
                for tab in _TABS:
                    file = PAGE / f"{tab.lower()}-{width}.png"
                    seen = _settled(_shown(browser, address, tab, width, scheme, str(runs.parent)))
                    # half of the bytes, and no difference that one sees
                    Image.open(io.BytesIO(seen)).convert("RGB").quantize(256, dither=Image.Dither.NONE).save(
                        file, optimize=True
                    )
                    print(f"docs/pictures/page/{file.name}  {file.stat().st_size:,} bytes")


def _shown(browser: Any, address: str, tab: str, width: int, scheme: str, home: str) -> Any:
    """A page of the browser on one tab, with all of it there."""
    run, there = _TABS[tab]
    page = browser.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme)
    page.set_default_timeout(_PATIENCE)
    page.goto(f"{address}?token={_TOKEN}&run={run}")
    page.get_by_role("tab", name="Run", exact=True).first.wait_for()
    go(page, tab)
    if tab == "Run":
        page.locator("#dg-models textarea").fill("demo-models/convolutional.pt\ndemo-models/dense.onnx")
        page.get_by_role("button", name="digits:test").click()
    if tab == "Label":
        page.get_by_label("Who labels").fill("Ada")
        page.get_by_label("Who labels").press("Enter")
    if tab == "Behaviours":
        page.locator("#dg-pictures .dg-thumb.dg-wrong").first.click()  # the jury says who
    page.locator(there).locator("visible=true").first.wait_for()
    page.evaluate(_RENAMED, [home, _HOME])
    return page


def _settled(page: Any) -> bytes:
    """The page as it is when it has stood still for a second, as PNG."""
    now = page.screenshot(full_page=True)
    for _ in range(_MOST_LOOKS):
        page.wait_for_timeout(1000)
        before, now = now, page.screenshot(full_page=True)
        if now == before:
            page.close()
            return bytes(now)
    sys.exit(f"The page {page.url.partition('token')[0]} has not stood still for {_MOST_LOOKS} s.")


if __name__ == "__main__":
    main()
