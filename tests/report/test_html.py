"""The page as a whole: complete, self-contained, well-formed, safe, small, and the same for the same data."""

from __future__ import annotations

import base64
import hashlib
import io
import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from PIL import Image

from diffgen.report.data import BehaviourGroup, ReportData
from diffgen.report.html import render_html
from diffgen.runs.figures import Preflight
from diffgen.tasks.classification import LabelPairs
from tests.report.changes import changed

_HOSTILE = (
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "' onmouseover='alert(1)",
    "{{ 7 * 7 }}{% raw %}",
    "日本語",
    "\u202egnirts desrever",
    "a very long class name that goes on and on without an end in sight, for no reason",
    "undecodable \udc80 and \0",
    "&lt;&amp;",
    "</style></title></script><b>",
)


def _decode(uri: str) -> np.ndarray:
    pixels = np.asarray(Image.open(io.BytesIO(base64.b64decode(uri.removeprefix("data:image/png;base64,")))))
    return pixels[None] if pixels.ndim == 2 else np.moveaxis(pixels, 2, 0)


def _hostile(data: ReportData) -> ReportData:
    return changed(
        data,
        class_names=_HOSTILE,
        run=_HOSTILE[0],
        created=_HOSTILE[0],
        version=_HOSTILE[0],
        command=f"diffgen {_HOSTILE[9]}",
        model_names=(_HOSTILE[1], "x" * 300 + _HOSTILE[7]),
        data_name=_HOSTILE[9],
        technique=_HOSTILE[0],
        preset=_HOSTILE[2],
        preflight=replace(data.preflight, outputs=(_HOSTILE[0], _HOSTILE[1]), warnings=(_HOSTILE[0],)),
        filters=tuple(replace(view, name=_HOSTILE[0], description=_HOSTILE[1]) for view in data.filters),
        gan={_HOSTILE[0]: _HOSTILE[1]},
        settings={_HOSTILE[0]: {_HOSTILE[1]: [_HOSTILE[2], {"a": None}]}},
        files={_HOSTILE[0]: {"path": _HOSTILE[1], "sha256": _HOSTILE[2]}},
        groups=tuple(
            replace(group, pictures=tuple(replace(own, scores={_HOSTILE[1]: 1.0}) for own in group.pictures))
            for group in data.groups
        ),
        rejected=tuple(replace(picture, rejected_by=_HOSTILE[1]) for picture in data.rejected),
    )


def _hundred(data: ReportData) -> ReportData:
    matrix = np.zeros((100, 100), np.int64)
    matrix[:10, :10] = data.pairs.matrix()

    def wide(pictures):
        return tuple(replace(own, probabilities=np.pad(own.probabilities, ((0, 0), (0, 90)))) for own in pictures)

    return changed(
        data,
        class_names=tuple(f"class {index}" for index in range(100)),
        pair_counts=LabelPairs.of_matrix(matrix),
        real_matrix=LabelPairs.of_matrix(matrix.T),
        groups=tuple(replace(group, pictures=wide(group.pictures)) for group in data.groups),
        rejected=wide(data.rejected),
        real_disagreements=wide(data.real_disagreements),
    )


def _bare(data: ReportData) -> ReportData:
    return changed(
        data,
        triggers=0,
        valid_triggers=0,
        behaviours=0,
        label_pairs=0,
        queries=0,
        seconds=0.0,
        verified_single=0,
        pair_counts=LabelPairs.of_matrix(np.zeros_like(data.pairs.matrix())),
        real_matrix=LabelPairs.of_matrix(np.zeros_like(data.pairs.matrix())),
        groups=(),
        rejected=(),
        real_disagreements=(),
        history={},
        filters=(),
        samples=np.zeros((0, 1, 8, 8), np.uint8),
        gan={},
        settings={},
        files={},
        preflight=Preflight(0, float("nan"), None, ("logits", "logits"), 0.0, 0.0),
    )


@pytest.fixture(scope="module", params=["usual", "hostile", "hundred classes", "bare"])
def any_page(request: pytest.FixtureRequest, report_data: ReportData, read_page: type) -> tuple[str, Any]:
    """A page as text and as it is read, of usual and of odd data."""
    makers = {"usual": replace, "hostile": _hostile, "hundred classes": _hundred, "bare": _bare}
    source = render_html(makers[request.param](report_data))
    return source, read_page(source)


def test_the_page_is_well_formed(any_page):
    source, page = any_page
    assert source.startswith("<!DOCTYPE html>")
    assert page.problems == []
    ids = [own["id"] for _, own in page.elements if "id" in own]
    assert len(ids) == len(set(ids))
    source.encode("utf-8")


def test_every_reference_stays_inside_the_page(any_page):
    source, page = any_page
    ids = {own["id"] for _, own in page.elements if "id" in own}
    for tag, own in page.elements:
        for name in ("src", "href", "xlink:href", "srcset", "action", "poster", "data"):
            value = own.get(name)
            assert value is None or value.startswith(("data:image/png;base64,", "#")) or value == "data:,", (tag, value)
            if value is not None and value.startswith("#"):
                assert value[1:] in ids, value
        assert tag not in ("iframe", "object", "embed", "base")
    assert "://" not in source
    assert "url(" not in page.style
    assert "@import" not in page.style
    assert all(target in ids for target in re.findall(r"url\(#([^)]+)\)", source))


def test_only_the_own_script_may_run(any_page):
    _, page = any_page
    assert len(page.all("script")) == 1
    assert not [own for _, own in page.elements if any(name.startswith("on") for name in own)]
    digest = base64.b64encode(hashlib.sha256(page.script.encode()).digest()).decode()
    (policy,) = [own["content"] for own in page.all("meta") if own.get("http-equiv") == "Content-Security-Policy"]
    assert "default-src 'none'" in policy
    assert f"script-src 'sha256-{digest}'" in policy


def test_hostile_names_show_as_they_are(report_data, read_page):
    page = read_page(render_html(_hostile(report_data)))
    assert not [own for own in page.all("img") if not own["src"].startswith("data:")]
    for name in (*_HOSTILE[:7], *_HOSTILE[8:]):
        assert name in page.text
    assert "undecodable ? and \N{REPLACEMENT CHARACTER}" in page.text


def test_equal_data_gives_equal_bytes(report_data):
    assert render_html(report_data) == render_html(replace(report_data))


def test_pictures_hold_exactly_the_given_pixels(report_data, page):
    shown = {own["alt"]: own["src"] for own in page.all("img") if own["alt"].startswith("trigger ")}
    assert shown
    given = {picture.identifier: picture for group in report_data.groups for picture in group.pictures}
    for alt, uri in shown.items():
        np.testing.assert_array_equal(_decode(uri), given[int(alt.split()[1].rstrip(":"))].image)
    nearest = [own["src"] for own in page.all("img", alt="nearest real image")]
    real = {picture.nearest_real.tobytes() for picture in (*given.values(), *report_data.rejected)}
    assert {_decode(uri).tobytes() for uri in nearest} <= real
    samples = [own["src"] for own in page.all("img") if own["alt"].startswith("random picture")]
    np.testing.assert_array_equal(np.stack([_decode(uri) for uri in samples]), report_data.samples)


def test_every_picture_says_what_it_is(page):
    assert all(own.get("alt") for own in page.all("img"))
    assert all(own.get("aria-label") for own in page.all("svg", role="img"))
    assert all(own.get("scope") for own in page.all("th"))


@pytest.mark.parametrize(("shape", "classes"), [((1, 28, 28), 10), ((3, 32, 32), 100), ((3, 224, 224), 10)])
def test_three_hundred_pictures_stay_small(with_pictures, shape, classes):
    # Noise does not compress: real pictures come out smaller.
    page = render_html(with_pictures(shape, 300, classes))
    assert len(page.encode()) < 3_000_000


@pytest.mark.parametrize("side", [32, 64, 224])
def test_it_says_of_how_many_pictures_the_nearest_real_image_is_there(with_pictures, read_page, side):
    page = read_page(render_html(with_pictures((3, side, side), 300, 10)))
    pictures = len([own for own in page.all("img") if own["alt"].startswith("trigger ")])
    nearest = len(page.all("img", alt="nearest real image"))
    assert 0 < nearest <= pictures
    below = "each" if nearest == pictures else f"{nearest} of them"
    assert f"Below {below} the real image that is most like it." in page.flat_text


def test_no_nearest_real_image_is_promised_where_none_is_there(report_data, read_page, page):
    def without(pictures):
        return tuple(replace(own, nearest_real=None) for own in pictures)

    groups = tuple(replace(group, pictures=without(group.pictures)) for group in report_data.groups)
    data = changed(report_data, groups=groups, rejected=without(report_data.rejected), accepted=())
    assert "most like" not in read_page(render_html(data)).flat_text.split("Words used on this page")[0]
    assert "left a trigger, right the real image" not in read_page(render_html(data)).flat_text
    assert "Below each the real image that is most like it." in page.flat_text


def test_each_part_is_there_in_its_order(page):
    parts = [own["id"] for own in page.all("section")]
    assert parts == ["gallery", "matrix", "preflight", "real", "search", "validity", "generator", "settings"]
    assert [own["href"][1:] for own in page.all("a") if own["href"][1:] in parts] == parts


def test_a_long_list_of_operators_takes_a_row_of_its_own(report_data, read_page):
    facts = {"seeds": "100 real images", "operators": "rotation -12 to 12 degrees; " * 20, "GAN": "none"}
    text = render_html(changed(report_data, gan=facts))
    assert text.count('<div class="whole"><dt>operators</dt>') == 1 == text.count('<div class="whole">')


def test_headline_numbers(report_data, page):
    text = page.flat_text
    assert (
        f"A and B disagree on {report_data.results.valid_triggers} valid generated pictures, in "
        f"{report_data.results.behaviours} different ways, found with 600 queries in 12 s." in text
    )
    for name in report_data.model_names:
        assert name in text


def test_no_trigger_says_what_it_means_and_what_not(without_triggers, read_page):
    text = read_page(render_html(without_triggers)).flat_text
    assert "No disagreement found between A and B , with 600 queries in 12 s." in text.replace("B,", "B ,")
    assert "What it means:" in text
    assert "What it does not mean: that A and B agree everywhere." in text
    assert f"On the real images A and B do disagree: {without_triggers.real_disagreement_count} images" in text
    assert "Nothing to show: no valid trigger was found." in text


def test_warnings_and_an_interruption_stand_before_the_numbers(report_data, read_page):
    preflight = replace(report_data.preflight, warnings=("Model B is no better than chance.",))
    text = read_page(render_html(changed(report_data, preflight=preflight, interrupted=True))).flat_text
    assert text.index("Model B is no better than chance.") < text.index("The search was interrupted")
    assert text.index("The search was interrupted") < text.index("valid triggers")


def test_the_matrix_leads_to_the_pictures(report_data, page):
    links = [own for own in page.all("a") if "data-pair" in own]
    groups = {own["id"]: own for own in page.all("article")}
    assert len(links) == report_data.results.label_pairs
    for link in links:
        group = groups[link["href"][1:]]
        assert link["data-pair"] == f"{group['data-a']}-{group['data-b']}"


def test_real_images_name_their_label(report_data, page):
    cards = [own["title"] for own in page.all("summary") if own.get("title", "").startswith("real image")]
    assert len(cards) == min(32, len(report_data.real_disagreements))
    assert all("true label" in title for title in cards)


def test_a_shortened_gallery_says_so(report_data, read_page):
    few = tuple(BehaviourGroup(g.labels, g.cell, g.count + 5, g.pictures[:1]) for g in report_data.groups[:2])
    text = read_page(render_html(changed(report_data, groups=few))).flat_text
    assert f"{few[0].count} pictures, 1 shown" in text
    assert f"{report_data.results.behaviours - 2} further behaviours without a picture here" in text


def test_page_without_scripts_shows_all_probabilities(page):
    cards = [own for own in page.all("details") if own.get("class") == "pic"]
    assert cards
    assert len(page.all("table", class_="probs")) == len(cards)
