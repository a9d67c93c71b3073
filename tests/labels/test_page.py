"""The labelling page in a real browser: label, undo, save, import."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np
import pytest

from diffgen.config import LabelConfig
from diffgen.labels.sheet import render_page
from diffgen.runs.folder import RunFolder
from diffgen.workflows.label import label_export, label_import, read_store, read_valid_triggers
from tests.labels.browser import Browser, find_browser, wait_for

BROWSER = find_browser()
needs_browser = pytest.mark.skipif(BROWSER is None, reason="There is no Chromium or Chrome on this machine.")


def call(page: Browser, name: str) -> None:
    """Write who labels, and leave the field."""
    page.value(f"document.getElementById('annotator').value = {json.dumps(name)}")
    page.value("document.getElementById('annotator').dispatchEvent(new Event('change'))")


def progress(page: Browser) -> str:
    return str(page.value("document.getElementById('progress').textContent"))


@needs_browser
def test_ten_labels_undo_save_import(run: RunFolder, tmp_path: Path) -> None:
    sheet = tmp_path / "sheet"
    label_export(run.path, sheet, config=LabelConfig(count=10, seed=4))
    with (sheet / "labels.csv").open(newline="") as file:
        ids = [row["id"] for row in csv.DictReader(file)]
    downloads = tmp_path / "downloads"
    downloads.mkdir()
    assert BROWSER is not None
    with Browser(BROWSER, tmp_path / "profile", downloads) as page:
        page.open(sheet / "label.html")
        page.press("0")  # nobody's
        assert progress(page) == "0 of 10"
        call(page, "Ann B.")
        shown = set()
        for key in "012345678":
            shown.add(page.value("document.getElementById('picture').src"))
            page.press(key)
        page.press("Backspace")  # the 8 was a mistake
        assert page.value("document.getElementById('progress').textContent") == "8 of 10"
        assert page.value("document.getElementById('current').textContent") == "picture 9"
        page.press("9")
        page.press("x")
        assert len(shown) == 9
        assert page.value("document.getElementById('progress').textContent") == "10 of 10"
        page.click("#save")
        saved = downloads / "labels-Ann_B_.csv"
        wait_for(lambda: saved.is_file() and saved.read_text().count("\n") == 11)
        # a page that is opened again knows what was labelled, once the browser has handed it from process to process

        def knows() -> bool:
            page.open(sheet / "label.html")
            assert progress(page) == "0 of 10", "it is nobody's yet"
            call(page, "Ann B.")
            return progress(page) == "10 of 10"

        wait_for(knows)
        # a second person is as blind as the first was
        call(page, "Bo")
        assert progress(page) == "0 of 10"
        page.press("7")
        page.press("Backspace")
        page.press("Backspace")
        assert progress(page) == "0 of 10"
        call(page, "Ann B.")
        assert progress(page) == "10 of 10"
    result = label_import(run.path, [saved])
    assert (result.labelled, result.invalid, result.undecided, result.kappa) == (9, 1, 0, None)
    finds = read_valid_triggers(run)
    labels, sources = read_store(run, finds).of(finds.hashes)
    wanted = dict(zip(ids, [0, 1, 2, 3, 4, 5, 6, 7, 9, -1], strict=True))
    from diffgen.labels.sheet import image_id

    for digest, label, source in zip(finds.hashes, labels, sources, strict=True):
        assert label == wanted.get(image_id(digest), -2)
        assert source == ("human" if image_id(digest) in wanted else "")


@needs_browser
def test_many_classes_are_chosen_by_name_and_names_do_no_harm(tmp_path: Path) -> None:
    names = ["</script><script>document.title='stolen'</script>", 'a "quoted", name', *(f"kind {i}" for i in range(60))]
    images = np.random.default_rng(0).integers(0, 256, (3, 3, 8, 12), dtype=np.uint8)
    (tmp_path / "page.html").write_text(render_page(["t1", "t2", "t3"], images, names), encoding="utf-8")
    downloads = tmp_path / "downloads"
    downloads.mkdir()
    assert BROWSER is not None
    with Browser(BROWSER, tmp_path / "profile", downloads) as page:
        page.open(tmp_path / "page.html")
        assert "stolen" not in page.value("document.title")
        call(page, names[0])
        page.press("1")
        page.value("document.getElementById('name').value = 'kind 59'")
        page.value("document.getElementById('by-name').requestSubmit()")
        page.click("button[data-label='0']")
        page.click("#save")
        saved = downloads / "labels-_script_script_document_title_stolen_script_.csv"
        wait_for(lambda: saved.is_file() and saved.read_text().count("\n") == 4)
    with saved.open(newline="") as file:
        rows = list(csv.reader(file))
    assert rows == [["id", "label"], ["t1", names[1]], ["t2", "kind 59"], ["t3", names[0]]]


def test_the_page_is_blind_and_loads_nothing(run: RunFolder, tmp_path: Path) -> None:
    label_export(run.path, tmp_path / "sheet", config=LabelConfig(count=20))
    text = (tmp_path / "sheet" / "label.html").read_text()
    assert "http:" not in text
    assert "https:" not in text
    assert "default-src 'none'" in text
    start = text.index('id="sheet">') + len('id="sheet">')
    values = json.loads(text[start : text.index("</script>", start)])
    assert set(values) == {"name", "ids", "pictures", "classes", "keys", "invalid"}
    # nothing about the models' answers, nor the order in which the search found the pictures
    assert (tmp_path / "sheet" / "labels.csv").read_text().splitlines()[0] == "id,file,label"
    order = {identifier: row for row, identifier in enumerate(values["ids"])}
    from diffgen.labels.sheet import image_id

    found = [order[i] for i in map(image_id, read_valid_triggers(run).hashes) if i in order]
    assert found != sorted(found)
