"""The parts that the page is made of: pictures, cards, gallery, matrix and charts."""

from __future__ import annotations

import io
import subprocess
import sys
from collections import Counter
from dataclasses import replace
from xml.etree import ElementTree

import matplotlib
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from diffgen.report.cards import LARGEST_EDGE, PictureBudget, data_uri, display_size, encoded, make_card
from diffgen.report.charts import operator_charts, progress_chart, score_histogram
from diffgen.report.data import OperatorCurve, OperatorsView, Picture
from diffgen.report.gallery import GALLERY_PICTURES, OPEN_GROUPS, make_gallery
from diffgen.report.reading import grouped
from diffgen.report.tables import MAX_CLASSES, axes, matrix_view
from diffgen.runs.triggers import TriggerTable, Verdicts


@pytest.mark.parametrize("shape", [(1, 8, 8), (3, 32, 32), (1, 1, 1), (3, 96, 20)])
def test_png_is_exact(shape):
    image = np.random.default_rng(0).integers(0, 256, shape, np.uint8)
    kind, content = encoded(image)
    pixels = np.asarray(Image.open(io.BytesIO(content)))
    assert kind == "png"
    np.testing.assert_array_equal(
        pixels if shape[0] == 1 else np.moveaxis(pixels, 2, 0), image.squeeze(0) if shape[0] == 1 else image
    )


def test_large_pictures_are_reduced():
    kind, content = encoded(np.zeros((3, 100, 400), np.uint8))
    assert (kind, Image.open(io.BytesIO(content)).size) == ("webp", (LARGEST_EDGE, LARGEST_EDGE // 4))
    assert Image.open(io.BytesIO(encoded(np.zeros((1, 400, 400), np.uint8), 96)[1])).size == (96, 96)


def test_photographs_of_224_pixels_are_whole_and_look_as_they_are():
    down, across = np.mgrid[:224, :224]
    image = np.stack([128 + 90 * np.sin(down / 9), 128 + 90 * np.cos(across / 7), (down + across) / 2])
    image = image.round().astype(np.uint8)
    _, content = encoded(image)
    shown = np.moveaxis(np.asarray(Image.open(io.BytesIO(content)).convert("RGB")), 2, 0)
    assert shown.shape == image.shape
    assert np.abs(shown.astype(int) - image).mean() < 4
    assert len(content) < image.size / 8


@pytest.mark.parametrize("image", [np.zeros((2, 4, 4), np.uint8), np.zeros((4, 4), np.uint8), np.zeros((1, 4, 4))])
def test_what_is_no_image_is_refused(image):
    with pytest.raises(ValueError, match="uint8"):
        encoded(image)


@pytest.mark.parametrize(
    ("shape", "size"), [((28, 28), (84, 84)), ((32, 32), (96, 96)), ((8, 8), (96, 96)), ((224, 112), (48, 96))]
)
def test_thumbnails_are_whole_multiples(shape, size):
    assert display_size(np.zeros((1, *shape), np.uint8), 96) == size


def test_budget_leaves_out_everything_after_the_first_that_does_not_fit():
    small, large = np.zeros((1, 2, 2), np.uint8), np.random.default_rng(0).integers(0, 256, (3, 60, 60), np.uint8)
    budget = PictureBudget(2 * len(data_uri(small)) + 10)
    assert budget.take(small) == data_uri(small)
    assert budget.take(large) is None
    assert budget.take(small) is None


def test_budget_leaves_bytes_for_other_pictures():
    image = np.zeros((1, 2, 2), np.uint8)
    each = len(data_uri(image))
    budget = PictureBudget(3 * each)
    assert budget.take(image, leave=each) and budget.take(image, leave=each)
    assert budget.take(image, leave=each) is None
    assert budget.take(image) == data_uri(image)
    assert budget.take(image) is None


def test_a_rare_behaviour_is_shown_beside_frequent_ones(with_pictures):
    data = with_pictures((1, 8, 8), 2000, 20)
    gallery = make_gallery(data)
    assert gallery.pictures == GALLERY_PICTURES
    assert [len(group.cards) for group in gallery.groups[:OPEN_GROUPS]] == [5] * OPEN_GROUPS
    assert all(len(group.cards) == 1 for group in gallery.groups[OPEN_GROUPS:])
    assert len(gallery.groups) == OPEN_GROUPS + GALLERY_PICTURES - 5 * OPEN_GROUPS
    assert gallery.hidden == data.results.behaviours - len(gallery.groups)


def test_card_of_few_classes_has_every_probability(report_data):
    picture = report_data.groups[0].pictures[0]
    card = make_card(
        picture, source="", nearest=None, kind="trigger", names=report_data.class_names, filters=report_data.filters
    )
    assert [row.name for row in card.rows] == list(report_data.class_names)
    np.testing.assert_allclose(
        [[each.share for each in row.shares] for row in card.rows], picture.probabilities.T, atol=0.0006
    )
    for model, label in enumerate(picture.labels):
        assert [row.shares[model].says for row in card.rows].index(True) == label
    assert (card.rest, card.spectrum) == (None, None)
    assert card.scores[0].passed is True


def test_card_of_many_classes_sums_up_the_rest(with_pictures):
    data = with_pictures((1, 8, 8), 5, 100)
    picture = data.groups[0].pictures[0]
    card = make_card(picture, source="", nearest=None, kind="trigger", names=data.class_names, filters=())
    assert card.rest is not None
    assert card.rest.name == f"{100 - len(card.rows)} other classes"
    assert sum(row.shares[0].share for row in (*card.rows, card.rest)) == pytest.approx(1, abs=0.01)
    assert [sum(row.shares[model].says for row in card.rows) for model in (0, 1)] == [1, 1]
    assert card.spectrum is not None
    assert card.spectrum.path_a.count("M") <= 100
    assert card.scores[0].passed is None


@pytest.mark.parametrize(("true_label", "verdict"), [(None, ""), (0, "A right"), (1, "B right"), (2, "both wrong")])
def test_verdict(report_data, true_label, verdict):
    picture = replace(report_data.groups[0].pictures[0], labels=(0, 1), true_label=true_label)
    card = make_card(picture, source="", nearest=None, kind="real image", names=report_data.class_names, filters=())
    assert card.verdict == verdict


def test_a_card_survives_probabilities_that_are_none(report_data):
    picture = replace(report_data.groups[0].pictures[0], probabilities=np.full((2, 10), np.nan, np.float32))
    card = make_card(picture, source="", nearest=None, kind="trigger", names=report_data.class_names, filters=())
    assert {each.text for row in card.rows for each in row.shares} == {"0.0%"}


@pytest.mark.parametrize("classes", [2, 10, 100, 1000])
def test_matrix_keeps_every_count(classes):
    random = np.random.default_rng(0)
    matrix = np.zeros((classes, classes), np.int64)
    np.add.at(matrix, tuple(random.integers(0, classes, (2, 500))), 1)
    names = tuple(map(str, range(classes)))
    rows, columns = axes((matrix, matrix * 0), names)
    view = matrix_view(matrix, rows, columns, "pictures")
    assert sum(int(cell.text or 0) for _, cells in view.rows for cell in cells) == view.total == 500
    assert len(view.columns) == len(view.rows) == min(classes, MAX_CLASSES)
    for row, (_, cells) in zip(rows.members, view.rows, strict=True):
        for column, cell in zip(columns.members, cells, strict=True):
            if cell.pair:
                assert cell.pair == f"{row[0]}-{column[0]}"
                assert cell.text == str(matrix[row[0], column[0]])


def test_matrix_of_many_classes_has_only_those_that_occur():
    matrix = np.zeros((100, 100), np.int64)
    matrix[40, 7], matrix[40, 99] = 20_000, 1
    rows, columns = axes((matrix,), tuple(map(str, range(100))))
    view = matrix_view(matrix, rows, columns, "pictures")
    assert (view.columns, [name for name, _ in view.rows]) == (("7", "99"), ["40"])
    assert [cell.text for cell in view.rows[0][1]] == ["20k", "1"]
    assert [cell.heat for cell in view.rows[0][1]] == [8, 1]
    assert view.rows[0][1][0].title == "A says 40, B says 7: 20,000 pictures (>99.9%)"


@pytest.mark.parametrize(
    "chart",
    [
        progress_chart([1, 2, 3], [0, 5, 9], x_label="queries", title="<b>", name="one"),
        progress_chart([], [], x_label="queries", title="none", name="one"),
        progress_chart([0.0], [0.0], x_label="seconds", title="zero", name="one"),
        progress_chart(list(range(5000)), list(range(5000)), x_label="queries", title="long", name="one"),
        score_histogram(np.float32([1, 2, 2, np.nan]), np.float32([2, 3]), 1.5, title="usual", name="one"),
        score_histogram(np.float32([]), np.float32([]), 0.5, title="empty", name="one"),
        score_histogram(np.float32([]), np.float32([]), float("nan"), title="nothing", name="one"),
        score_histogram(np.float32([3] * 9), np.float32([3]), 3.0, title="constant", name="one"),
    ],
)
def test_charts_are_elements_of_the_page(chart):
    root = ElementTree.fromstring(chart)
    assert root.tag == "svg"
    assert root.get("aria-label")
    assert "://" not in chart
    assert "#0" not in chart.replace("#one-", "")
    assert "font-family" not in chart
    ids = [element.get("id") for element in root.iter() if element.get("id")]
    assert all(own.startswith("one-") for own in ids)
    assert len(ids) == len(set(ids))
    assert len(chart) < 25_000


def test_charts_do_not_depend_on_the_users_settings():
    def draw():
        return progress_chart([1, 2], [3, 4], x_label="queries", title="a", name="b")

    expected = draw()
    with matplotlib.rc_context({"font.size": 30, "svg.hashsalt": None, "axes.grid": True}):
        assert draw() == expected
        assert matplotlib.rcParams["font.size"] == 30


def test_the_threshold_is_written_as_it_is():
    chart = score_histogram(np.float32([0.1, 0.9]), np.float32([0.5]), 0.499, title="a", name="b")
    assert "threshold 0.499<" in chart


def test_matplotlib_is_imported_late():
    code = "import sys, diffgen.report; sys.exit('matplotlib' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_every_model_has_a_curve():
    shares = (1.0, 0.5)
    curve = OperatorCurve("shift", "pixels right", (0.0, 4.0), (shares,) * 5, (0.0, 0.5))
    ((title, chart),) = operator_charts(OperatorsView((curve,), 200, "label", 400))
    assert title == "shift"
    assert all(f"{role} right" in chart for role in "ABCDE") and "disagree" in chart


_TRIGGER = st.tuples(st.integers(0, 2), st.integers(0, 2), st.integers(0, 1), st.booleans())


@given(st.lists(_TRIGGER.filter(lambda each: each[0] != each[1]), max_size=20), st.data())
def test_each_behaviour_counts_its_distinct_triggers(
    triggers: list[tuple[int, int, int, bool]], data: st.DataObject
) -> None:
    rows = len(triggers)
    answers = np.zeros((rows, 2, 3), dtype=np.float32)
    for row, (a, b, _, _) in enumerate(triggers):
        answers[row, [0, 1], [a, b]] = 1
    repeats = np.array([row if kept else 0 for row, (_, _, _, kept) in enumerate(triggers)], dtype=np.int64)
    verdicts = Verdicts.replayed(np.array([cell for _, _, cell, _ in triggers], dtype=np.int64))
    verdicts.near_duplicate_of[:] = repeats
    turned = np.array([b"rotation(degrees=%d)" % (row + 1) for row in range(rows)], dtype="S32")
    table = TriggerTable.of(
        np.zeros((rows, 1, 2, 2), np.uint8), answers, seeds=np.zeros(rows, np.int64), recipes=turned
    ).judged(verdicts)
    distinct = [row for row in range(rows) if repeats[row] == row]
    shown = data.draw(st.permutations(distinct))[:5]
    gallery = [Picture(table.images[row], triggers[row][:2], answers[row], row) for row in shown]

    groups = grouped(gallery, table)

    counts = Counter(triggers[row][:3] for row in distinct)
    assert {(*each.labels, each.cell): each.count for each in groups} == {
        triggers[row][:3]: counts[triggers[row][:3]] for row in shown
    }
    assert [picture.identifier for each in groups for picture in each.pictures] == sorted(
        shown, key=lambda row: [triggers[other][:3] for other in shown].index(triggers[row][:3])
    )
    for each in groups:
        # every one was turned: where there are three, all of them are told of
        assert each.made_by.startswith(f"{each.count} of {each.count}: turned") == (each.count >= 3)
