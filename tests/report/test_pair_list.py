"""Beyond thirty classes the page lists the most frequent label pairs, and a field searches them."""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
import pytest

from diffgen.report.html import render_html
from diffgen.report.markdown import render_markdown
from diffgen.report.tables import MOST_PAIRS, pair_list
from diffgen.tasks.classification import MATRIX_CLASSES, LabelPairs
from tests.labels.browser import Browser, find_browser, wait_for
from tests.report.changes import changed

BROWSER = find_browser()


def test_the_most_frequent_come_first_and_nothing_is_lost() -> None:
    rng = np.random.default_rng(0)
    labels = (rng.random((5_000, 2)) ** 3 * 60).astype(np.int64)
    found = LabelPairs.of(labels, 60)
    assert len(found) > MOST_PAIRS
    names = tuple(f"name {number}" for number in range(60))
    view = pair_list(found, names, "pictures")
    counts = [int(row.count) for row in view.rows]
    assert len(counts) == MOST_PAIRS and counts == sorted(counts, reverse=True)
    assert (view.total, view.pairs) == (5_000, len(found))
    assert view.rest.startswith(f"{len(found) - MOST_PAIRS:,} rarer pairs with {5_000 - sum(counts):,} pictures")
    first = view.rows[0]
    a, b = map(int, first.pair.split("-"))
    assert (first.name_a, first.name_b, first.share) == (names[a], names[b], 1.0)
    assert counts[0] == ((labels[:, 0] == a) & (labels[:, 1] == b)).sum()
    assert pair_list(LabelPairs.of(labels[:3], 60), names, "pictures").rest == ""


@pytest.mark.parametrize("classes", [MATRIX_CLASSES, MATRIX_CLASSES + 1])
def test_a_matrix_for_few_classes_and_a_list_for_many(with_pictures, read_page, classes) -> None:
    page = read_page(render_html(with_pictures((1, 8, 8), 40, classes)))
    assert page.problems == []
    assert bool(page.all("input", type="search")) == (classes > MATRIX_CLASSES)
    heat = [own for _, own in page.elements if own.get("class", "").startswith("heat")]
    assert bool(heat) == (classes <= MATRIX_CLASSES)
    links = [own for own in page.all("a") if "data-pair" in own]
    ids = {own["id"] for _, own in page.elements if "id" in own}
    assert len(links) > 20 and all(own["href"][1:] in ids for own in links)


def test_ten_thousand_classes_are_a_small_page_and_a_quick_one(with_pictures) -> None:
    data = with_pictures((1, 28, 28), 400, 10_000)
    started = time.process_time()
    page = render_html(data)
    assert time.process_time() - started < 10
    # pictures and answers of noise are the worst that there is: with ten classes such a page has 1.3 MB
    assert len(page) < 2_700_000
    assert "9,990 other classes" in page or "9,991 other classes" in page or "9,992 other classes" in page
    assert "| class 0 | class 1 | 1 |" in render_markdown(data)


def test_long_lists_among_the_settings_are_cut(report_data) -> None:
    names = [f"kind {number}" for number in range(10_000)]
    page = render_html(changed(report_data, settings={"models": [{"class_names": names, "class_order": [3, 1, 2]}]}))
    assert "kind 2" in page and "kind 3" not in page and "(10,000 in all)" in page
    assert "3, 1, 2" in page


@pytest.mark.skipif(BROWSER is None, reason="There is no Chromium or Chrome to look at the page with.")
def test_the_field_searches_the_names_of_both(with_pictures, tmp_path: Path) -> None:
    assert BROWSER is not None
    file = tmp_path / "report.html"
    file.write_text(render_html(with_pictures((1, 8, 8), 60, 500)), encoding="utf-8")
    shown = "[...document.querySelectorAll('#pairs-found tbody tr')].filter((row) => !row.hidden)"
    with Browser(BROWSER, tmp_path / "profile", tmp_path / "downloads") as page:
        page.open(file)
        every = page.value(f"{shown}.length")
        assert every == 60
        page.value("document.querySelector('#matrix input[type=search]').focus()")  # the page scrolls smoothly
        for key in "CLASS 7":
            page.press(key)
        wait_for(lambda: page.value(f"{shown}.length") < every)
        texts = page.value(f"{shown}.map((row) => row.cells[0].textContent + ' ' + row.cells[1].textContent)")
        assert texts and all("7" in text for text in texts)
        assert page.value("document.querySelector('#matrix .find output').textContent") == f"{len(texts)} of 60 pairs"
        # a number leads to the pictures of its pair
        page.value(f"{shown}[0].querySelector('a').click()")
        groups = "[...document.querySelectorAll('.group')].filter((group) => !group.hidden)"
        wait_for(lambda: page.value(f"{groups}.length") == 1)
        assert page.value(f"{groups}[0].dataset.a + '-' + {groups}[0].dataset.b") == page.value(
            f"{shown}[0].querySelector('a').dataset.pair"
        )
