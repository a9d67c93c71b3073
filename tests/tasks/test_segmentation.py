"""What maps of classes differ on, against a slow version that goes from pixel to pixel."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from diffgen.tasks.segmentation import NO_ANSWER, Segmentation, map_sides

CLASSES = ("ground", "cat", "dog", "owl")
SIDES = (10, 12)
TASK = Segmentation(CLASSES, SIDES)


def answers(*maps: np.ndarray) -> np.ndarray:
    """float32 (1, M, h * w) of one picture."""
    return np.stack([each.astype(np.float32).ravel() for each in maps])[None]


def ground(*patches: tuple[int, slice, slice]) -> np.ndarray:
    """A map with some patches of a class."""
    made = np.zeros(SIDES, dtype=np.int64)
    for number, rows, columns in patches:
        made[rows, columns] = number
    return made


def said(*maps: np.ndarray, task: Segmentation = TASK) -> list[str]:
    return [CLASSES[number] for number in task.contested(answers(*maps))[0].argmax(axis=1)]


# -- the slow version --------------------------------------------------------------------------------------------------


def slow_rule(a: np.ndarray, b: np.ndarray, task: Segmentation) -> bool:
    """Whether two maps differ, class by class."""
    shares = {c: (float((a == c).mean()), float((b == c).mean())) for c in range(len(CLASSES))}
    largest = max(max(each) for each in shares.values())
    ious = []
    for c, each in shares.items():
        if max(each) >= min(task.class_share, largest):
            either = sum(1 for x, y in zip(a.flat, b.flat, strict=True) if c in (x, y))
            ious.append(sum(1 for x, y in zip(a.flat, b.flat, strict=True) if x == y == c) / either)
    lost = any(max(each) >= task.class_share and min(each) < task.class_share / 4 for each in shares.values())
    return lost or sum(ious) / len(ious) < task.iou_below


def slow_regions(a: np.ndarray, b: np.ndarray) -> list[set[tuple[int, int]]]:
    """All connected regions in which each map says one class, and not the same."""
    left = {(y, x) for y, x in np.ndindex(*a.shape) if a[y, x] != b[y, x]}
    found = []
    while left:
        start = left.pop()
        pair, region, rim = (a[start], b[start]), {start}, [start]
        while rim:
            y, x = rim.pop()
            for near in ((y - 1, x), (y + 1, x), (y, x - 1), (y, x + 1)):
                if near in left and (a[near], b[near]) == pair:
                    left.remove(near)
                    region.add(near)
                    rim.append(near)
        found.append(region)
    return found


MAPS = arrays(np.int64, SIDES, elements=st.integers(0, len(CLASSES) - 1), fill=st.just(0))


@st.composite
def patchy(draw: st.DrawFn) -> np.ndarray:
    """A map of some rectangles."""
    made = np.zeros(SIDES, dtype=np.int64)
    for _ in range(draw(st.integers(0, 4))):
        top, left = draw(st.integers(0, SIDES[0] - 1)), draw(st.integers(0, SIDES[1] - 1))
        high, wide = draw(st.integers(1, 8)), draw(st.integers(1, 8))
        made[top : top + high, left : left + wide] = draw(st.integers(0, len(CLASSES) - 1))
    return made


@settings(max_examples=150, deadline=None)
@given(a=st.one_of(patchy(), MAPS), b=st.one_of(patchy(), MAPS), iou=st.sampled_from([0.3, 0.5, 1.0]))
def test_models_disagree_where_the_rule_says_so(a: np.ndarray, b: np.ndarray, iou: float) -> None:
    """On one of the largest regions: as large as any, of one pair of classes, and all of it in one piece."""
    task = Segmentation(CLASSES, SIDES, iou_below=iou, class_share=0.05)
    found = task.regions(answers(a, b))
    one, other = found.vectors[0].argmax(axis=1)
    assert (one != other) == slow_rule(a, b, task)
    np.testing.assert_allclose(found.vectors.sum(axis=2), 1, atol=1e-6)
    regions = slow_regions(a, b)
    place = {(int(y), int(x)) for y, x in np.argwhere(found.regions[0])}
    if not regions:
        assert place == set()
        return
    assert place in regions
    y, x = next(iter(place))
    if one != other:
        assert (one, other) == (a[y, x], b[y, x])
    lost = task.differences(np.stack([a, b])[None]).deciding[0]
    rivals = [each for each in regions if lost < 0 or lost in (a[next(iter(each))], b[next(iter(each))])]
    assert len(place) <= max(map(len, regions))
    if lost < 0:
        assert len(place) == max(map(len, rivals))


def test_a_lost_class_is_what_is_contested() -> None:
    """And not a larger region along the border of something that both have."""
    cat = (1, slice(0, 6), slice(0, 10))
    a, b = ground(cat, (2, slice(7, 9), slice(0, 4))), ground((1, slice(0, 6), slice(0, 7)))
    assert said(a, b) == ["dog", "ground"]
    assert said(b, a) == ["ground", "dog"]
    assert TASK.regions(answers(a, b)).regions.sum() == 8


def test_another_class_inside_of_an_object_is_what_is_contested() -> None:
    """The region alone, where the object itself is in the same place."""
    a = ground((1, slice(2, 8), slice(2, 10)))
    b = ground((1, slice(2, 8), slice(2, 10)), (2, slice(3, 7), slice(6, 10)))
    found = TASK.regions(answers(a, b))
    assert [CLASSES[each] for each in found.vectors[0].argmax(axis=1)] == ["cat", "dog"]
    np.testing.assert_array_equal(found.regions[0], b == 2)


def test_maps_that_come_apart_come_closer_to_a_disagreement() -> None:
    """As far as the mean IoU falls, and beyond its limit the margin grows."""
    whole = ground((1, slice(0, 10), slice(0, 8)))
    less = [ground((1, slice(0, 10), slice(0, width))) for width in (8, 7, 6, 5, 4, 3, 2, 1)]
    vectors = [TASK.contested(answers(whole, each))[0] for each in less]
    apart = [float(np.linalg.norm(each[0] - each[1])) for each in vectors]
    differ = [each[0].argmax() != each[1].argmax() for each in vectors]
    assert apart[0] == 0
    assert all(np.diff(apart) > 0)
    assert differ == sorted(differ)
    assert 0 < sum(differ) < len(differ)
    best = [np.sort(each, axis=1) for each in vectors]
    margins = [float((each[:, -1] - each[:, -2]).min()) for each, is_one in zip(best, differ, strict=True) if is_one]
    assert margins == sorted(margins)


def test_small_classes_do_not_count() -> None:
    """A speck that one map has halves no mean."""
    task = Segmentation(CLASSES, SIDES, class_share=0.1)
    a, b = ground((1, slice(0, 1), slice(0, 1))), ground()
    assert task.differences(np.stack([a, b])[None]).iou[0] == pytest.approx(119 / 120)
    assert said(a, b, task=task) == ["cat", "cat"]


def test_a_third_model_is_asked_about_the_same_region() -> None:
    """The two that differ most choose it, and the third says what most of it is."""
    cat, dog = ((number, slice(0, 10), slice(0, 6)) for number in (1, 2))
    third = ground(cat, (3, slice(0, 1), slice(0, 3)))
    assert said(ground(cat), third, ground(dog)) == ["cat", "cat", "dog"]
    assert said(third, ground(dog), ground(cat)) == ["cat", "dog", "cat"]
    assert TASK.regions(answers(ground(cat), third, ground(dog))).pairs.tolist() == [[0, 2]]


def test_a_model_without_an_answer_says_the_first_class_alone() -> None:
    """So that it can be told from one that answers."""
    none = np.full(SIDES, NO_ANSWER)
    for maps in ((none, ground((1, slice(0, 9), slice(0, 9)))), (ground((1, slice(0, 9), slice(0, 9))), none)):
        vectors = TASK.contested(answers(*maps))[0]
        silent = [bool((each == NO_ANSWER).all()) for each in maps].index(True)
        assert vectors[silent].tolist() == [1, 0, 0, 0]


def test_what_is_drawn_are_the_maps_and_the_region() -> None:
    """As many layers as models, and one more."""
    a, b = ground((1, slice(0, 5), slice(0, 5))), ground()
    drawn = TASK.marks(answers(a, b))
    assert (drawn.shape, drawn.dtype) == ((1, 3, *SIDES), np.int16)
    np.testing.assert_array_equal(drawn[0], [a, b, a == 1])


def test_maps_have_a_cell_for_each_pixel_up_to_a_limit() -> None:
    """And keep the proportions of larger pictures."""
    assert (map_sides((28, 40)), map_sides((256, 512)), map_sides((1000, 3))) == ((28, 40), (64, 128), (128, 1))
