"""Pieces of HTML: names are escaped, and what is drawn is what was counted."""

from __future__ import annotations

import base64
import re
from collections import Counter
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from diffgen import api
from diffgen.data.picture_file import decode
from diffgen.report.data import GateBehaviour, GateView, Picture
from diffgen.ui.choosing import contact_sheet
from diffgen.ui.finds import matrix, pictures
from diffgen.ui.pieces import badge, cards, curve, note, pager, strip_of, table, thumbnails
from diffgen.ui.tab_check import verdict

HOSTILE = "</b><script>alert(1)</script>\" onload='x'"


class _Seen(HTMLParser):
    """Elements and attributes of a piece."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.picks: dict[str, str] = {}
        self.events: list[str] = []
        self._pick: str | None = None

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self._pick = dict(attrs).get("data-pick")
        self.events += [name for name, _ in attrs if name.startswith("on")]

    def handle_data(self, data: str) -> None:
        if self._pick is not None:
            self.picks[self._pick] = data
            self._pick = None


def seen(piece: str) -> _Seen:
    found = _Seen()
    found.feed(piece)
    return found


def test_hostile_names_stay_text() -> None:
    labels = np.array([[0, 1]])
    pieces = [
        note(HOSTILE, "bad"),
        badge(HOSTILE),
        cards([(HOSTILE, HOSTILE, HOSTILE)]),
        table([HOSTILE], [[HOSTILE, HOSTILE]], HOSTILE),
        thumbnails(HOSTILE, HOSTILE, [(1, HOSTILE, "plain")]),
        matrix(labels, [HOSTILE, HOSTILE], (0, 1)),
        curve([(0, 0), (1, 1)], HOSTILE, HOSTILE),
    ]
    for piece in pieces:
        found = seen(piece)
        assert "script" not in found.tags
        assert not found.events


@settings(max_examples=30)
@given(arrays.arrays(np.int64, st.tuples(st.integers(1, 40), st.just(3)), elements=st.integers(0, 9)), st.booleans())
def test_the_matrix_counts_each_pair(labels: np.ndarray, swapped: bool) -> None:
    pair = (2, 0) if swapped else (0, 1)
    found = seen(matrix(labels, tuple("abcdefghij"), pair)).picks
    expected = Counter(f"{row[pair[0]]},{row[pair[1]]}" for row in labels.tolist())
    assert {key: int(text) for key, text in found.items()} == expected


def test_of_many_classes_the_frequent_ones_are_drawn() -> None:
    random = np.random.default_rng(0)
    labels = np.concatenate([np.tile([[3, 900]], (50, 1)), random.integers(0, 1000, (300, 2))])
    piece = matrix(labels, (), (0, 1))
    assert seen(piece).picks["3,900"] == "50"
    assert piece.count("<th ") <= 30
    assert "more in other classes" in piece


def test_a_contact_sheet_holds_every_picture_where_it_belongs() -> None:
    images = np.random.default_rng(1).integers(0, 256, (13, 3, 5, 4), dtype=np.uint8)
    sheet = contact_sheet(images)
    assert sheet.shape == (3, 2 * 7 - 2, 10 * 6 - 2)
    assert np.array_equal(sheet[:, :5, :4], images[0])
    assert np.array_equal(sheet[:, 7:12, 12:16], images[12])


@given(st.integers(0, 400), st.integers(1, 30), st.data())
def test_a_pager_leads_to_pages_that_are_there(count: int, per_page: int, data: st.DataObject) -> None:
    pages = max(1, -(-count // per_page))
    page = data.draw(st.integers(0, pages - 1))
    piece = pager(page, per_page, count, "pictures")
    found = _Buttons()
    found.feed(piece)
    assert all(0 <= to < pages for to, off in found.pages if not off)
    assert {to for to, off in found.pages if not off} == {
        *([0, page - 1] if page else []),
        *([page + 1, pages - 1] if page < pages - 1 else []),
    }


class _Buttons(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.pages: list[tuple[int, bool]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = dict(attrs)
        if tag == "button":
            self.pages.append((int(found["data-page"] or 0), "disabled" in found))


def test_red_frames_are_explained(done_run: Path) -> None:
    finds = api.browse(done_run)
    vars(finds.triggers)["faults"] = np.zeros((len(finds), 2), dtype=bool)
    numbers = finds.numbers(api.TriggerQuery())
    assert "red" not in pictures(finds, numbers, "run", "", 0, None)
    wrong = np.zeros((len(finds), 2), dtype=bool)
    wrong[numbers[1], 1] = True
    vars(finds.triggers)["faults"] = wrong
    drawn = pictures(finds, numbers, "run", "", 0, None)
    assert "a red frame: the jury says who is wrong" in drawn
    assert drawn.count("dg-wrong") == drawn.count('says who is wrong" title=') == 1


def test_a_check_shows_pictures_of_each_behaviour() -> None:
    """In the order of the verdict, a page of them; names stay text."""
    images = np.random.default_rng(3).integers(0, 256, (20, 1, 9, 7), dtype=np.uint8)
    made = [
        GateBehaviour(
            (0, 1), (HOSTILE, str(at)), 0, 3, at < 15, 0.1, False, pictures=(_picture(image), _picture(image))
        )
        for at, image in enumerate(images)
    ]
    view = GateView("run", "PASS", "A", "B", "digits", (), tuple(made), False, "", "", "", 0)
    pieces = verdict(view), verdict(view, 1)
    assert "script" not in seen(pieces[0]).tags
    assert "may replace the base as far as this check can tell." in pieces[0]
    shown = [re.findall(r'src="data:image/png;base64,([^"]+)"', piece) for piece in pieces]
    assert [*map(len, shown)] == [12, 8]
    for image, drawn in zip(images, [*shown[0], *shown[1]], strict=True):
        strip = decode(base64.b64decode(drawn), "strip", "page")
        assert np.array_equal(strip, np.concatenate([image[0], image[0]], axis=1))
    assert pieces[0].count(">new<") == 12 and pieces[1].count(">new<") == 3


def _picture(image: np.ndarray) -> Picture:
    return Picture(image=image, labels=(0, 1), probabilities=np.zeros((2, 2), dtype=np.float32), identifier=0)


def test_a_strip_of_large_pictures_is_small_and_of_small_ones_exact() -> None:
    small = np.random.default_rng(2).integers(0, 256, (3, 1, 9, 7), dtype=np.uint8)
    assert np.array_equal(strip_of(small), np.concatenate(list(small), axis=2))
    large = np.random.default_rng(2).integers(0, 256, (2, 3, 480, 192), dtype=np.uint8)
    strip = strip_of(large)
    assert strip.shape == (3, 96, 2 * 38)
    assert abs(strip[:, :, :38].astype(float).mean() - large[0].astype(float).mean()) < 1
