"""Boxes go where operators take the pixels: against what is bright in what the real operator makes."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from diffgen.origins import Step, read_recipe
from diffgen.sources.operators import OPERATORS, Scene, moved_boxes, step_of

SIDES = (48, 64)
MOVING = sorted(name for name, operator in OPERATORS.items() if operator.moves is not None)
STAYING = sorted(
    name for name, operator in OPERATORS.items() if operator.moves is None and not operator.learned and name != "motion"
)


def picture(box):
    """A bright rectangle on black, uint8 (1, 3, H, W)."""
    x1, y1, x2, y2 = map(int, box[:4])
    image = torch.zeros((1, 3, *SIDES), dtype=torch.uint8)
    image[:, :, y1:y2, x1:x2] = 255
    return image


def bright(image):
    """The box around what is bright, or None; it says whether that touches an edge."""
    mask = image[0, 0].numpy() > 127
    if not mask.any():
        return None
    rows, columns = np.flatnonzero(mask.any(axis=1)), np.flatnonzero(mask.any(axis=0))
    return np.array([columns[0], rows[0], columns[-1] + 1, rows[-1] + 1])


def applied(image, steps):
    scene = Scene(seeds=image, background=[0.0, 0.0, 0.0])
    for step in steps:
        image = OPERATORS[step.operator].apply(image, scene, [dict(step.strengths)])
    return image


boxes = st.tuples(st.integers(0, 50), st.integers(0, 34), st.integers(8, 40), st.integers(8, 30)).map(
    lambda b: np.array([[b[0], b[1], min(b[0] + b[2], SIDES[1]), min(b[1] + b[3], SIDES[0]), 2]], dtype=np.float32)
)
genes = st.tuples(*[st.floats(-1, 1, width=32)] * 2)


@pytest.mark.parametrize("name", MOVING)
@settings(max_examples=60, deadline=None)
@given(boxes, genes)
def test_boxes_go_where_the_pixels_go(name, known, both):
    operator = OPERATORS[name]
    step = step_of(name, operator, both, 0, operator.widest(SIDES) if name != "elastic" else operator.usual(SIDES))
    seen = bright(applied(picture(known[0]), [step]))
    moved = moved_boxes(known, (step,), SIDES)
    if len(moved) == 0:
        own = operator.moves(known[:, :4].astype(np.float64), SIDES, dict(step.strengths))[0]
        inside = own.clip(0, [SIDES[1], SIDES[0]] * 2)
        ratio = (inside[2] - inside[0]) * (inside[3] - inside[1]) / ((own[2] - own[0]) * (own[3] - own[1]))
        assert ratio < 0.5
        return
    assert seen is not None and moved[0, 4] == 2
    # of a corner that was turned, the tip is less than half bright; and where the picture ends, the corner that the
    # box is around may lie beyond it
    inner = moved[0, :4]
    assert (inner[:2] <= seen[:2] + 1.5).all() and (inner[2:] >= seen[2:] - 1.5).all()
    whole = operator.moves(known[:, :4].astype(np.float64), SIDES, dict(step.strengths))[0]
    if (whole >= 0).all() and (whole <= [SIDES[1], SIDES[0]] * 2).all():
        np.testing.assert_allclose(inner, seen, atol=2.5)


@settings(max_examples=60, deadline=None)
@given(boxes, st.lists(st.tuples(st.sampled_from(["shift", "scale", "stretch"]), genes), min_size=2, max_size=3))
def test_steps_follow_each_other(known, steps):
    recipe = [step_of(name, OPERATORS[name], both, 0, OPERATORS[name].usual(SIDES)) for name, both in steps]
    seen = bright(applied(picture(known[0]), recipe))
    moved = moved_boxes(known, recipe, SIDES)
    if len(moved):
        np.testing.assert_allclose(moved[0, :4], seen, atol=2)


@pytest.mark.parametrize("name", STAYING)
def test_what_moves_no_pixels_moves_no_boxes(name):
    operator = OPERATORS[name]
    known = np.array([[10, 10, 40, 30, 1]], dtype=np.float32)
    step = step_of(name, operator, (0.7, 0.7), 0, operator.usual(SIDES))
    np.testing.assert_array_equal(moved_boxes(known, (step,), SIDES), known)


def test_boxes_leave_with_more_than_half_of_them():
    known = np.array([[40, 10, 60, 20, 0], [38, 10, 58, 20, 1], [0, 0, 10, 10, 2]], dtype=np.float32)
    recipe = read_recipe("shift(right=15, down=0)")
    # a quarter above the edge of 64 pixels is cut off from the first, nothing of the others left out
    np.testing.assert_array_equal(
        moved_boxes(known, recipe, SIDES), [[55, 10, 64, 20, 0], [53, 10, 64, 20, 1], [15, 0, 25, 10, 2]][1:]
    )
    # two steps that take a third each
    twice = read_recipe("shift(right=13, down=0); shift(right=5, down=0)")
    assert moved_boxes(known, twice, SIDES)[:, 4].tolist() == [2]
    back = read_recipe("shift(right=10, down=0); shift(right=-10, down=0)")
    np.testing.assert_array_equal(moved_boxes(known[:1], back, SIDES), [[40, 10, 54, 20, 0]])


def test_what_nobody_knows():
    known = np.array([[10, 10, 40, 30, 1]], dtype=np.float32)
    assert moved_boxes(None, (), SIDES) is None
    assert moved_boxes(known, (Step("somebodys_own"),), SIDES) is None
    learned = next(name for name, operator in OPERATORS.items() if operator.learned)
    assert moved_boxes(known, (Step(learned, (("other", 1.0),)),), SIDES) is None
    assert moved_boxes(known[:0], read_recipe("rotation(degrees=10)"), SIDES).shape == (0, 5)
