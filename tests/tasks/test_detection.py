"""What detectors differ on, against a slow version that loops over boxes and tries every matching."""

from itertools import permutations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from diffgen.tasks.detection import GAINED, KINDS, LOST, MOVED, NONE, RENAMED, Detection, overlaps

CLASSES = ("cat", "dog", "owl")
TASK = Detection(CLASSES, threshold=0.3)
PLAIN = [10.0, 10.0, 50.0, 50.0]  # medium: 40 pixels a side


def answers(*models: list[list[float]]) -> np.ndarray:
    """float32 (1, M, P * 6) of one picture, padded."""
    most = max(1, *map(len, models))
    rows = [[*each, *[[0, 0, 0, 0, 0, -1]] * (most - len(each))] for each in models]
    return np.array(rows, dtype=np.float32).reshape(1, len(models), -1)


def said(vectors: np.ndarray) -> list[str]:
    return [TASK.words[number] for number in vectors[0].argmax(axis=1)]


def margin(vectors: np.ndarray) -> float:
    best = np.sort(vectors, axis=2)
    return float((best[..., -1] - best[..., -2]).min())


@pytest.mark.parametrize(
    ("a", "b", "words", "kind"),
    [
        ([[*PLAIN, 0.9, 0]], [], ["medium cat", "nothing"], LOST),
        ([], [[*PLAIN, 0.9, 0]], ["nothing", "medium cat"], GAINED),
        ([[*PLAIN, 0.9, 0]], [[*PLAIN, 0.8, 1]], ["medium cat", "medium dog"], RENAMED),
        ([[*PLAIN, 0.9, 0]], [[18, 10, 58, 50, 0.8, 0]], ["medium cat", "medium cat, moved"], MOVED),
        ([[*PLAIN, 0.9, 0]], [[12, 10, 52, 50, 0.8, 0]], ["medium cat", "medium cat"], NONE),
        ([[*PLAIN, 0.9, 0]], [[*PLAIN, 0.2, 0]], ["medium cat", "nothing"], LOST),
        ([], [], ["nothing", "nothing"], NONE),
        ([[0, 0, 300, 300, 0.9, 2]], [], ["large owl", "nothing"], LOST),
    ],
)
def test_a_difference_is_named(a: list[list[float]], b: list[list[float]], words: list[str], kind: int) -> None:
    """A box that one model alone has, has of another class, or elsewhere."""
    found = TASK.differences(answers(a, b))
    assert (said(found.vectors), found.kinds.tolist()) == (words, [kind])
    counts = TASK.counts(answers(a, b))[0]
    assert (counts[NONE], counts[-1]) == (len(a), sum(box[4] >= TASK.threshold for box in b))
    assert counts[1:-1].tolist() == [int(kind == each) for each in range(1, len(KINDS))]


def test_the_margin_is_how_far_the_score_is_from_the_threshold() -> None:
    """A score at the threshold is undecided; the numeric noise of the scores decides what counts."""
    margins = [margin(TASK.contested(answers([[*PLAIN, 0.3 + each, 0]], []))) for each in (1e-4, 0.1, 0.35, 0.7)]
    np.testing.assert_allclose(margins, np.array([1e-4, 0.1, 0.35, 0.7]) / 0.7, atol=1e-6)
    near = TASK.counts(answers([[*PLAIN, 0.3 + 1e-4, 0]], []), margin=0.01)[0]
    assert near[LOST] == 0


def test_a_box_that_nears_the_threshold_is_further_apart() -> None:
    """A search is led to where one model is about to lose what the other one keeps."""
    scores = [0.9, 0.6, 0.4, 0.31, 0.29, 0.1]
    vectors = [TASK.contested(answers([[*PLAIN, 0.9, 0]], [[*PLAIN, each, 0]]))[0] for each in scores]
    divergence = [np.linalg.norm(each[0] - each[1]) + (each[0].argmax() != each[1].argmax()) for each in vectors]
    assert all(np.diff(divergence) > 0)


AGAIN, FAR = [PLAIN[0] + 8, PLAIN[1], PLAIN[2] + 8, PLAIN[3]], [100.0, 100.0, 140.0, 140.0]


@pytest.mark.parametrize(
    ("score", "words"), [(0.7, ["medium dog", "nothing"]), (0.31, ["medium cat, twice", "medium cat"])]
)
def test_a_lost_object_is_seen_before_a_second_box_of_another(score: float, words: list[str]) -> None:
    """Unless that one is by far the clearer."""
    one, other = [[*PLAIN, 0.95, 0], [*AGAIN, 0.9, 0], [*FAR, score, 1]], [[*PLAIN, 0.95, 0]]
    for picture, kind, expected in ((answers(one, other), LOST, words), (answers(other, one), GAINED, words[::-1])):
        found = TASK.differences(picture)
        assert (said(found.vectors), found.kinds.tolist()) == (expected, [kind])
        np.testing.assert_array_equal(found.boxes[0], FAR if score == 0.7 else AGAIN)
        assert TASK.counts(picture)[0, kind] == 2


def test_a_second_box_of_another_class_is_no_second_one() -> None:
    """Nobody else says that this is there."""
    found = TASK.differences(answers([[*PLAIN, 0.95, 0], [*AGAIN, 0.9, 1]], [[*PLAIN, 0.95, 0]]))
    assert said(found.vectors) == ["medium dog", "nothing"]


def test_a_lost_object_is_seen_before_one_that_has_moved() -> None:
    """And what has moved is as sure as its boxes."""
    moved = [PLAIN[0] + 12, PLAIN[1], PLAIN[2] + 12, PLAIN[3]]
    for score, sure in ((0.9, 0.85 / 4), (0.32, 0.02 / 0.7 / 4)):
        picture = answers([[*PLAIN, 0.9, 0]], [[*moved, score, 0]])
        assert said(TASK.contested(picture)) == ["medium cat", "medium cat, moved"]
        assert margin(TASK.contested(picture)) == pytest.approx(sure, abs=0.03)
        both = answers([[*PLAIN, 0.9, 0], [*FAR, 0.7, 1]], [[*moved, score, 0]])
        assert said(TASK.contested(both)) == ["medium dog", "nothing"]


def test_a_third_model_is_asked_about_the_same_object() -> None:
    """Of three models the two that differ most choose the object."""
    kept, lost = [[*PLAIN, 0.9, 0]], [[*PLAIN, 0.05, 0]]
    third = TASK.differences(answers(kept, [[11, 10, 51, 50, 0.7, 0]], lost))
    assert said(third.vectors) == ["medium cat", "medium cat", "nothing"]
    assert third.pairs.tolist() == [[0, 2]]
    assert said(TASK.contested(answers(lost, [[*PLAIN, 0.8, 1]], kept))) == ["nothing", "medium dog", "medium cat"]


def test_pixels_may_be_a_limit_too() -> None:
    """A large box that moves by ten pixels has a high IoU."""
    large = answers([[0, 0, 300, 300, 0.9, 0]], [[10, 0, 310, 300, 0.9, 0]])
    assert TASK.differences(large).kinds.tolist() == [NONE]
    assert Detection(CLASSES, threshold=0.3, moved_pixels=6).differences(large).kinds.tolist() == [MOVED]


# -- against a slow version --------------------------------------------------------------------------------------------


def slow_iou(a: np.ndarray, b: np.ndarray) -> float:
    width, height = min(a[2], b[2]) - max(a[0], b[0]), min(a[3], b[3]) - max(a[1], b[1])
    if width <= 0 or height <= 0:
        return 0.0
    shared = float(width * height)
    return shared / float((a[2] - a[0]) * (a[3] - a[1]) + (b[2] - b[0]) * (b[3] - b[1]) - shared)


def slow_matching(a: list[np.ndarray], b: list[np.ndarray]) -> dict[int, int]:
    """The best of all one-to-one matchings, tried one after the other."""
    best, most = dict[int, int](), 0.0
    free = [*range(len(b)), *[None] * len(a)]
    for chosen in set(permutations(free, len(a))):
        pairs = {i: j for i, j in enumerate(chosen) if j is not None and slow_iou(a[i], b[j]) >= 0.5}
        worth = sum(slow_iou(a[i], b[j]) + (a[i][5] == b[j][5]) for i, j in pairs.items())
        if worth > most + 1e-9:
            best, most = pairs, worth
    return best


def slow_counts(a: np.ndarray, b: np.ndarray) -> list[int]:
    own = [each for each in a if each[4] >= TASK.threshold and each[5] >= 0]
    their = [each for each in b if each[4] >= TASK.threshold and each[5] >= 0]
    pairs = slow_matching(own, their)
    renamed = sum(own[i][5] != their[j][5] for i, j in pairs.items())
    moved = sum(own[i][5] == their[j][5] and slow_iou(own[i], their[j]) < TASK.moved_below for i, j in pairs.items())
    return [len(own), len(own) - len(pairs), len(their) - len(pairs), renamed, moved, len(their)]


def slow_shift(a: np.ndarray, b: np.ndarray) -> list[float]:
    own = [each for each in a if each[4] >= TASK.threshold and each[5] >= 0]
    their = [each for each in b if each[4] >= TASK.threshold and each[5] >= 0]
    pairs = slow_matching(own, their).items()
    return [
        np.mean(
            [
                (sum(their[j][axis::2][:2]) - sum(own[i][axis::2][:2])) / 2 / np.ptp(own[i][axis::2][:2])
                for i, j in pairs
            ]
        )
        if pairs
        else np.nan
        for axis in (0, 1)
    ]


def mapped(score: float) -> float:
    low, middle = TASK.threshold / 10, TASK.threshold
    if score < middle:
        return max(0.0, 0.5 * (score - low) / (middle - low))
    return 0.5 + 0.5 * (score - middle) / (1 - middle)


def slow_faint(place: np.ndarray, boxes: np.ndarray) -> float:
    faint = (each for each in boxes if each[4] < TASK.threshold and each[5] == place[5])
    return max((mapped(each[4]) for each in faint if slow_iou(place, each) >= 0.5), default=0.0)


def slow_worth(a: np.ndarray, b: np.ndarray) -> float:
    """Of the object on which the two differ most: 1 + how clearly, or how close they come to differing.

    What has moved is a quarter as clear as what is lost, and a second box of what both report a tenth.
    """
    own = [each for each in a if each[4] >= TASK.threshold]
    their = [each for each in b if each[4] >= TASK.threshold]
    pairs, found = slow_matching(own, their), [0.0]
    same = [(own[i], their[j]) for i, j in pairs.items() if own[i][5] == their[j][5]]
    for i, j in pairs.items():
        sure, other = mapped(own[i][4]), mapped(their[j][4])
        if own[i][5] != their[j][5]:
            found.append(1 + min(2 * sure - 1, 2 * other - 1))
            continue
        iou = slow_iou(own[i], their[j])
        found.append(abs(sure - other))
        moved = min((0.75 - iou) / 0.25, 2 * sure - 1, 2 * other - 1)
        found.append(1 + moved / 4 if iou < 0.75 else 0.5 * (1 - iou) / 0.25)
    for mine, yours, matched in ((a, b, set(pairs)), (b, a, set(pairs.values()))):
        number = -1
        for box in mine:
            reported = box[4] >= TASK.threshold
            number += reported
            if reported and number in matched:
                continue
            other = slow_faint(box, yours)
            sure = mapped(box[4]) if reported else slow_faint(box, mine)
            clearly = 1 + min(2 * sure - 1, 1 - 2 * other)
            again = any(each[5] == box[5] and slow_iou(box, each) >= 0.4 for pair in same for each in pair)
            if reported and clearly > 1:
                found.append(1 + min((2 * sure - 1) / 10, 1 - 2 * other) if again else clearly)
            else:
                found.append(abs(sure - other))
    return max(found)


def drawn(seed: int, count: int) -> np.ndarray:
    """Boxes of two models in one picture, float32 (2, P, 6), crowded so that several overlap with several."""
    rng = np.random.default_rng(seed)
    corner, side = rng.uniform(0, 12, (count, 2)), rng.uniform(14, 40, (count, 2))
    one = np.column_stack([corner, corner + side, rng.uniform(0, 1, count), rng.integers(0, 3, count)])
    other = one.copy()
    other[:, :4] += rng.normal(0, 2, (count, 4))
    other[:, 4] = rng.uniform(0, 1, count)
    other[rng.random(count) < 0.3, 5] = 1
    return np.stack([one, rng.permutation(other)]).astype(np.float32)


@settings(max_examples=150, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), count=st.integers(0, 4))
def test_counts_and_worth_are_those_of_a_loop(seed: int, count: int) -> None:
    """Vectors, counts, margin and closeness, whichever boxes there are."""
    both = drawn(seed, count)
    picture = both.reshape(1, 2, -1)
    assert TASK.counts(picture)[0].tolist() == slow_counts(*both)
    np.testing.assert_allclose(TASK.shifts(picture)[0], slow_shift(*both), atol=1e-5)
    vectors = TASK.contested(picture)
    np.testing.assert_allclose(vectors.sum(axis=2), 1, atol=1e-6)
    wanted = slow_worth(*both)
    one, other = vectors[0]
    if one.argmax() != other.argmax():
        assert 1 + margin(vectors) == pytest.approx(wanted, abs=1e-4)
    else:
        assert np.linalg.norm(one - other) / np.sqrt(2) == pytest.approx(wanted, abs=1e-4)


@settings(max_examples=50, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), count=st.integers(0, 6), padding=st.integers(0, 5))
def test_order_padding_and_neighbours_change_nothing(seed: int, count: int, padding: int) -> None:
    """A picture's vectors depend on its boxes alone."""
    both = drawn(seed, count)
    alone = TASK.contested(both.reshape(1, 2, -1))
    empty = np.tile(np.array([0, 0, 0, 0, 0, -1], dtype=np.float32), (2, padding, 1))
    shuffled = np.random.default_rng(seed).permutation(np.concatenate([both, empty], axis=1), axis=1)
    among = np.stack([drawn(seed + 1, count + padding), shuffled]).reshape(2, 2, -1)
    np.testing.assert_allclose(TASK.contested(among)[1:], alone, atol=1e-6)


@settings(max_examples=50, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), count=st.integers(0, 6))
def test_a_model_does_not_differ_from_itself(seed: int, count: int) -> None:
    """Whatever its boxes overlap with."""
    one = drawn(seed, count)[0].ravel()
    found = TASK.differences(np.stack([one, one])[None])
    np.testing.assert_array_equal(found.vectors[0, 0], found.vectors[0, 1])
    assert found.kinds.tolist() == [NONE]


def test_boxes_without_area_overlap_with_nothing() -> None:
    """Padding, and boxes that a model gives upside down."""
    flat = np.array([[[5, 5, 5, 9], [9, 9, 5, 5], [0, 0, 0, 0]]], dtype=np.float32)
    np.testing.assert_array_equal(overlaps(flat, flat), 0)


# -- who is right ------------------------------------------------------------------------------------------------------

CAT, DOG = [*PLAIN, 0], [*PLAIN, 1]
BOX, ELSEWHERE = [*PLAIN, 0.9, 0], [18, 10, 58, 50, 0.8, 0]


@pytest.mark.parametrize(
    ("a", "b", "known", "disputed", "true"),
    [
        ([BOX], [], [CAT], [], "medium cat"),
        ([BOX], [], [], [], "nothing"),
        ([BOX, [12, 10, 52, 50, 0.8, 0]], [BOX], [CAT], [], "medium cat"),  # both have it, and one has it twice
        ([BOX, [12, 10, 52, 50, 0.8, 0]], [BOX], [CAT, [12, 10, 52, 50, 0]], [], "medium cat, twice"),
        ([BOX, [12, 10, 52, 50, 0.8, 0]], [BOX], [], [], "nothing"),
        ([], [BOX], [DOG], [], "medium dog"),
        ([BOX], [], [], [CAT], None),
        ([BOX], [], [[30, 10, 70, 50, 0]], [], None),  # it may be another one, partly covered
        ([BOX], [], [[40, 10, 80, 50, 0]], [], "nothing"),
        ([BOX], [], [], [[200, 200, 240, 240, 0]], "nothing"),
        ([BOX], [[*PLAIN, 0.8, 1]], [DOG], [], "medium dog"),
        ([BOX], [[*PLAIN, 0.8, 1]], [DOG, CAT], [], "medium cat"),  # both are there
        ([BOX], [ELSEWHERE], [CAT], [], "medium cat"),
        ([BOX], [ELSEWHERE], [[18, 10, 58, 50, 0]], [], "medium cat, moved"),
        ([BOX], [ELSEWHERE], [], [], None),  # where there is no object, neither is in its place
        ([], [], [CAT], [], None),
    ],
)
def test_known_boxes_say_who_is_right(
    a: list[list[float]],
    b: list[list[float]],
    known: list[list[float]],
    disputed: list[list[float]],
    true: str | None,
) -> None:
    """Of the contested object alone; nothing is said where nobody knows."""
    there = [np.array(each, dtype=np.float32).reshape(-1, 5) for each in (known, disputed)]
    picture = answers(a, b)
    word = TASK.true_words(picture, TASK.differences(picture), there[:1], there[1:])[0]
    assert (None if word < 0 else TASK.words[word]) == true
