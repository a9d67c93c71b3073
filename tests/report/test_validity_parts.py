"""The parts of the page about filters, near-duplicates and smallest steps."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis.extra import numpy as arrays

from diffgen.report.data import ReportData, ShrunkPair
from diffgen.report.gallery import SHRUNK_PAIRS, amplified_difference, make_pairs
from diffgen.report.html import render_html
from diffgen.report.markdown import render_markdown
from tests.report.changes import changed


@pytest.fixture(scope="module")
def with_pairs(report_data: ReportData) -> ReportData:
    """Each picture with one that differs by two grey levels in one pixel."""
    pairs = []
    for number, group in enumerate(report_data.groups):
        picture = group.pictures[0]
        image = picture.image.copy()
        image[0, 0, 0] ^= 2
        agreeing = replace(picture, image=image, labels=(picture.labels[0], picture.labels[0]))
        pairs.append(ShrunkPair(agreeing, picture, picture, difference=0.25 + number, before=9.5))
    return changed(report_data, shrunk=tuple(pairs))


def test_pairs_are_shown_the_closest_first(with_pairs: ReportData, read_page) -> None:
    page = read_page(render_html(with_pairs))
    assert not page.problems
    assert page.all("section", id="shrunk")
    assert len(page.all("figure", class_="step")) == min(SHRUNK_PAIRS, len(with_pairs.shrunk))
    first = with_pairs.shrunk[0]
    assert f"trigger {first.trigger.identifier}: 0.25 grey levels apart" in page.flat_text
    assert "\N{MULTIPLICATION SIGN}63" in page.flat_text
    assert "Smallest steps" in page.flat_text
    views = make_pairs(with_pairs)
    assert [view.rms for view in views] == sorted(view.rms for view in views)


def test_without_pairs_there_is_no_such_part(report_data: ReportData) -> None:
    text = render_html(report_data)
    assert 'id="shrunk"' not in text
    assert "Smallest steps" not in text


images = arrays.arrays(np.uint8, (1, 3, 4))


@given(images, images)
def test_a_change_can_be_seen_and_read_back(before: np.ndarray, after: np.ndarray) -> None:
    picture, times = amplified_difference(before, after)
    change = after.astype(int) - before.astype(int)
    assert np.array_equal(picture == 128, change == 0)
    largest = np.abs(change).max()
    if 0 < largest <= 127:
        assert np.array_equal((picture.astype(int) - 128) // times, change)
        assert np.abs(picture.astype(int) - 128).max() > 63
    assert (np.sign(picture.astype(int) - 128) == np.sign(change)).all()


def test_accepted_and_rejected_stand_side_by_side_with_their_scores(report_data: ReportData, read_page) -> None:
    accepted = tuple(group.pictures[0] for group in report_data.groups[:5])
    page = read_page(render_html(changed(report_data, accepted=accepted)))
    assert not page.problems
    assert len(page.all("details", name="accepted")) == 5
    assert len(page.all("details", name="rejected")) == len(report_data.rejected) > 0
    assert page.flat_text.index("Accepted") < page.flat_text.index("Rejected")
    fails = page.all("span", class_="fails")
    assert len(fails) == len(report_data.rejected)
    assert len(page.all("span", class_="passes")) == 5


def test_near_duplicates_are_left_out_of_the_headline_and_said(report_data: ReportData, read_page) -> None:
    fewer = report_data.results.valid_triggers - 3
    data = changed(report_data, distinct_valid_triggers=fewer)
    text = read_page(render_html(data)).flat_text
    assert f"A and B disagree on {fewer} valid generated pictures" in text
    assert "3 valid triggers more are left out of this number as near-duplicates" in text
    markdown = render_markdown(data)
    assert f"| valid triggers | {fewer} of {data.results.triggers} triggers |" in markdown
    assert "near-duplicates" not in render_html(
        changed(report_data, distinct_valid_triggers=report_data.results.valid_triggers)
    )


def test_filters_that_do_no_work_are_named_at_the_top(report_data: ReportData, read_page) -> None:
    sentence = "The filter distance rejected none of the 60 triggers that it was asked about."
    data = changed(report_data, warnings=(sentence,), calibration="All filters together reject 4.9%.")
    text = read_page(render_html(data)).flat_text
    assert text.index(sentence) < text.index("valid triggers")
    assert "All filters together reject 4.9%." in text
    assert sentence in render_markdown(data)


def test_the_share_of_valid_triggers_of_one_run_is_no_estimate(report_data: ReportData, read_page) -> None:
    diversity = "Geometric diversity \N{MINUS SIGN}41.2, of real images \N{MINUS SIGN}35.0."
    data = changed(
        report_data, validity=1.0, triggers=1, effective_label_pairs=3.14, effective_behaviours=2.0, diversity=diversity
    )
    text = render_html(data)
    assert diversity in text and diversity in render_markdown(data)
    said = read_page(text).flat_text
    assert "Valid: 100.0% of the 1 trigger of this run. Every one was judged, so nothing is estimated here" in said
    assert "95%" not in said
    assert "as diverse as 3.1 equally frequent label pairs" in text
