"""Detection: a model's answer is boxes, and two models differ on boxes that are lost, gained, renamed or moved.

Boxes of two models are matched one to one where they overlap by an IoU of 0.5, whatever their classes. Of the objects
of a picture the one is taken on which the models differ most clearly, or, where they differ on none, come closest to
it; what each model says of it is put into words with probabilities, such as "small rbc" 0.8 and "nothing" 0.2. What is
less to a person is less clear: a box that has moved, and a second box of an object that both models report.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from diffgen.config.task import TaskName
from diffgen.tasks.base import Task
from diffgen.types import BoolArray, Float32Array, Int64Array

VALUES = 6  # of a box: x1, y1, x2, y2, score, class
# columns of a box that is drawn; see :meth:`Detection.marks`
MARK_CLASS, MARK_MODEL, MARK_KIND, MARKED = 5, 6, 7, 9
NOTHING = "nothing"
SIZES = ("small", "medium", "large")
MATCHED = 0.5  # IoU from which on two boxes may be of one object
#: What becomes of a box between two models; numbers of these are in :attr:`Differences.kinds`.
KINDS = ("none", "lost", "gained", "renamed", "moved")
UNKNOWN = -1  # a word that nobody knows
NONE, LOST, GAINED, RENAMED, MOVED = range(5)

_SIDES = (32, 96)  # pixels: the squares that part small from medium and medium from large objects, as in COCO
_FORMS = 3  # of a word: in its place, moved, and reported twice
_TWICE = 2  # of these
_AGAIN = 0.4  # IoU from which on a box is a second one of an object that both models report
_BESIDE = 0.2  # IoU from which on a box beside an object may be of another one that it covers
#: How clear that is beside an object that one model loses.
_MOVED_COUNTS, _TWICE_COUNTS = 1 / 4, 1 / 10
_FLOOR = 0.1  # share of the score threshold up to which a box is nothing
_AT_ONCE = 2**20  # pairs of boxes


@dataclass(frozen=True)
class Differences:
    """How M models differ on that object of each of N pictures on which they differ most.

    Attributes:
        vectors: float32 (N, M, K), what each says of it; see :meth:`diffgen.tasks.base.Task.contested`.
        kinds: int64 (N,), a number of :data:`KINDS`, between the two models in ``pairs``; ``NONE`` where they agree.
        boxes: float32 (N, 4), where it is, as the first of the two that has a box says; NaN: nobody has one.
        others: float32 (N, 4), where the second of the two has it, if both have a box.
        words: int64 (N,), what the first of these boxes is called where it is; 0: nobody has one.
        pairs: int64 (N, 2), the two models that are furthest apart on it.
    """

    vectors: Float32Array
    kinds: Int64Array
    boxes: Float32Array
    others: Float32Array
    words: Int64Array
    pairs: Int64Array


@dataclass(frozen=True)
class Detection(Task):
    """When detectors disagree.

    Attributes:
        classes: C names; the class of a box is a number of them.
        threshold: score from which on a box is reported.
        moved_below: IoU of two matched boxes below which one has moved; above 0.5.
        moved_pixels: it has also where an edge is further away than so many pixels; None: that is not asked.
    """

    classes: tuple[str, ...]
    threshold: float = 0.25
    moved_below: float = 0.75
    moved_pixels: float | None = None

    name: ClassVar[TaskName] = "detection"
    no_jury: ClassVar[str] = (
        "No jury: known boxes of the real images say who is right, moved as the picture was changed; where none are "
        "known, those that the models agree on in the real image."
    )

    @property
    def rule(self) -> str:
        """When two detectors differ."""
        pixels = "" if self.moved_pixels is None else f", or by more than {self.moved_pixels:g} pixels"
        return (
            f"a box is reported from a score of {self.threshold:g} (--score-threshold), of one object from an IoU of "
            f"{MATCHED:g}, and moved below {self.moved_below:g}{pixels}"
        )

    @property
    def words(self) -> tuple[str, ...]:
        """ "nothing", and each class in each size, in its place, moved, and reported twice."""
        each = (f"{size} {name}" for name in self.classes for size in SIZES)
        return (NOTHING, *(form for word in each for form in (word, f"{word}, moved", f"{word}, twice")))

    def numbers_in(self, answers: Float32Array) -> Float32Array:
        """Those of the boxes."""
        return answers.reshape(len(answers), -1, VALUES)[..., 5]

    def contested(self, answers: Float32Array) -> Float32Array:
        """See :meth:`diffgen.tasks.base.Task.contested`; answers are float32 (N, M, P * 6)."""
        return self.differences(answers).vectors

    def differences(self, answers: Float32Array) -> Differences:
        """What the models differ on most.

        Args:
            answers: float32 (N, M, P * 6): boxes x1, y1, x2, y2 in pixels, score in [0, 1] and class, padded with
                score 0 and class -1. Boxes below the threshold tell how near a model comes to reporting them.
        """
        count, models = answers.shape[:2]
        vectors = np.zeros((count, models, len(self.words)), dtype=np.float32)
        vectors[:, :, 0] = 1
        kinds, pairs = np.zeros(count, dtype=np.int64), np.tile(np.arange(2), (count, 1))
        places, others = np.full((2, count, 4), np.nan, dtype=np.float32)
        most, words = np.zeros(count, dtype=np.float32), np.zeros(count, dtype=np.int64)
        for some, boxes in self._parts(answers):
            for one, other in combinations(range(models), 2):
                contests = self._contests(boxes[:, one], boxes[:, other])
                worth = contests.worth.max(axis=1, initial=0)
                local = np.flatnonzero(worth > most[some])
                if len(local) == 0:
                    continue
                rows = local + some.start
                own = contests.chosen(local, contests.worth[local].argmax(axis=1))
                most[rows], kinds[rows], places[rows], pairs[rows] = worth[local], own.kinds, own.boxes, (one, other)
                others[rows], words[rows] = own.others, own.firsts[:, 0]
                vectors[rows] = 0
                for column, model in enumerate((one, other)):
                    _add(vectors[:, model], rows, own.firsts[:, column], own.seconds[:, column], own.chances[:, column])
                for model in set(range(models)) - {one, other}:
                    _add(vectors[:, model], rows, *self._said_there(boxes[local, model], own))
        return Differences(vectors, kinds, places, others, words, pairs)

    def true_words(
        self,
        answers: Float32Array,
        found: Differences,
        known: Sequence[Float32Array],
        disputed: Sequence[Float32Array],
    ) -> Int64Array:
        """What is to be said of the contested objects of N pictures, where it is known which boxes are in them.

        A box that one model alone reports is right where an object is that the other model does not report. What
        overlaps with an object, and is none that is known, may be one that is partly covered: nobody says.

        Args:
            answers: float32 (N, M, P * 6), as for :meth:`differences`.
            found: what that gave.
            known: of each picture the boxes that are there, float32 (n, 5), corners and class.
            disputed: of each the boxes that may be there or not.

        Returns:
            int64 (N,), numbers of words; -1 where nobody says.
        """
        true = np.full(len(known), UNKNOWN, dtype=np.int64)
        for row in np.flatnonzero(found.words > 0).tolist():
            place, other = found.boxes[row], found.others[row]
            word, plain = int(found.words[row]), int(_plain(found.words[row]))
            boxes = self._unclaimed(known[row], answers[row], found, row)
            iou, every, maybe = (
                overlaps(place[None, None], each[None])[0, 0] for each in (boxes, known[row], disputed[row])
            )
            if found.kinds[row] == MOVED:
                own = boxes[:, 4] == self._class_of(word)
                there, elsewhere = (
                    float(overlaps(each[None, None], boxes[None, own])[0, 0].max(initial=0)) for each in (place, other)
                )
                if max(there, elsewhere) >= MATCHED and there != elsewhere:
                    true[row] = word + (elsewhere > there)
            elif word != plain and every.max(initial=0) >= _AGAIN:
                # as many boxes as objects
                true[row] = word if iou.max(initial=0) >= MATCHED else plain
            elif iou.max(initial=0) >= MATCHED:
                # of several objects in one place one is right if it is there
                labels = boxes[iou >= MATCHED, 4]
                named = np.append(labels[labels == self._class_of(word)], boxes[iou.argmax(), 4])[:1]
                true[row] = self._word(place[None], named.astype(np.float32))[0]
            elif max(each.max(initial=0) for each in (every, maybe)) < _BESIDE:
                true[row] = 0
        return true

    def _unclaimed(self, known: Float32Array, answers: Float32Array, found: Differences, row: int) -> Float32Array:
        """The known boxes without those that the model reports which lacks the contested one."""
        if found.kinds[row] not in (LOST, GAINED) or len(known) == 0:
            return known
        boxes = answers[found.pairs[row, int(found.kinds[row] == LOST)]].reshape(-1, VALUES)
        own = boxes[self.reported(boxes)]
        alike = (known[:, None, 4] == own[None, :, 5])[None]
        iou = np.where(alike, overlaps(known[None], own[None]), 0)
        partner = match(iou, alike, np.ones((1, len(known)), dtype=np.bool_), np.ones((1, len(own)), dtype=np.bool_))
        return known[partner[0] < 0]

    @staticmethod
    def _class_of(word: int) -> int:
        """The number of the class that a word is of."""
        return (word - 1) // (_FORMS * len(SIZES))

    def counts(self, answers: Float32Array, margin: float = 0.0) -> Int64Array:
        """int64 (N, 6): boxes that the first of two models reports, those lost, gained, renamed and moved, by the
        numbers of :data:`KINDS`, and those that the second reports.

        Args:
            answers: float32 (N, 2, P * 6), as for :meth:`differences`.
            margin: a difference counts where each model is more decided than this.
        """
        found = np.zeros((len(answers), len(KINDS) + 1), dtype=np.int64)
        for some, boxes in self._parts(answers):
            contests = self._contests(boxes[:, 0], boxes[:, 1])
            # a matched box may be contested twice, but at most once with another word
            counted = (contests.kinds != NONE) & (contests.margins > margin)
            for kind in range(1, len(KINDS)):
                found[some, kind] = (counted & (contests.kinds == kind)).sum(axis=1)
            for column, model in ((NONE, 0), (-1, 1)):
                found[some, column] = self.reported(boxes[:, model]).sum(axis=1)
        return found

    def shifts(self, answers: Float32Array) -> Float32Array:
        """float32 (N, 2): by how much the second of two models has what both report further right, and further down.

        In shares of the width and height of a box, the mean of those of a picture; NaN: they have none in common.

        Args:
            answers: float32 (N, 2, P * 6), as for :meth:`differences`.
        """
        found = np.full((len(answers), 2), np.nan, dtype=np.float32)
        for some, boxes in self._parts(answers):
            a, b = boxes[:, 0], boxes[:, 1]
            partner = match(overlaps(a, b), a[:, :, None, 5] == b[:, None, :, 5], self.reported(a), self.reported(b))
            paired = partner >= 0
            b = np.take_along_axis(b, np.maximum(partner, 0)[..., None], axis=1)
            apart = (b[..., :2] + b[..., 2:4] - a[..., :2] - a[..., 2:4]) / 2
            apart = np.divide(apart, a[..., 2:4] - a[..., :2], out=np.zeros_like(apart), where=paired[..., None])
            count = paired.sum(axis=1)[:, None]
            np.divide(apart.sum(axis=1), count, out=found[some], where=count > 0)
        return found

    def marks(self, answers: Float32Array) -> Float32Array:
        """Every reported box of the two models of each picture that are furthest apart.

        Args:
            answers: float32 (N, M, P * 6), as for :meth:`differences`.

        Returns:
            float32 (N, 2 P, 9): x1, y1, x2, y2, score, class, number of the model, number of :data:`KINDS`, and 1 where
            it is what is contested; padded with class -1.
        """
        found, drawn = self.differences(answers), list[Float32Array]()
        boxes = answers.reshape(*answers.shape[:2], -1, VALUES)
        for each, pair, place in zip(boxes, found.pairs, found.boxes, strict=True):
            a, b = (each[model][self.reported(each[model])] for model in pair)
            iou, alike = overlaps(a[None], b[None])[0], a[:, None, 5] == b[None, :, 5]
            every = np.ones(len(a), dtype=np.bool_), np.ones(len(b), dtype=np.bool_)
            partner = match(iou[None], alike[None], every[0][None], every[1][None])[0]
            kinds = np.full(len(a), LOST), np.full(len(b), GAINED)
            contested = (a[:, :4] == place).all(axis=1), (b[:, :4] == place).all(axis=1)
            for own, their in zip(np.flatnonzero(partner >= 0), partner[partner >= 0], strict=True):
                moved = self._shift(iou[own, their], a[own], b[their]) > 0.5
                kinds[0][own] = kinds[1][their] = RENAMED if not alike[own, their] else MOVED if moved else NONE
                contested[0][own] = contested[1][their] = contested[0][own] | contested[1][their]
            rows = [
                np.column_stack([own, np.full(len(own), model), *more])
                for own, model, *more in zip((a, b), pair, kinds, contested, strict=True)
            ]
            drawn.append(np.concatenate(rows).astype(np.float32))
        marks = np.zeros((len(drawn), 2 * boxes.shape[2], MARKED), dtype=np.float32)
        marks[:, :, 5] = -1
        for row, found_there in zip(marks, drawn, strict=True):
            row[: len(found_there)] = found_there
        return marks

    def reported(self, boxes: Float32Array) -> BoolArray:
        """Which boxes, float32 (..., 6), reach the threshold; bool (...)."""
        return np.asarray((boxes[..., 4] >= self.threshold) & (boxes[..., 5] >= 0))

    def _parts(self, answers: Float32Array) -> Iterator[tuple[slice, Float32Array]]:
        """Boxes of some pictures, float32 (n, M, p, 6), so many that their pairs fit into the processor's cache."""
        boxes = answers.reshape(*answers.shape[:2], -1, VALUES)
        heard = (boxes[..., 4] > _FLOOR * self.threshold) & (boxes[..., 5] >= 0)
        # those that are nothing go behind the others, and as many as are in no picture are left out
        order = np.argsort(~heard, axis=2, kind="stable")[:, :, : max(1, int(heard.sum(axis=2).max(initial=0)))]
        boxes = np.take_along_axis(np.where(heard[..., None], boxes, _EMPTY), order[..., None], axis=2)
        step = max(1, _AT_ONCE // max(1, boxes.shape[2]) ** 2)
        for start in range(0, len(boxes), step):
            yield slice(start, min(start + step, len(boxes))), boxes[start : start + step]

    def _mapped(self, scores: Float32Array) -> Float32Array:
        """Scores such that the threshold is at 0.5: 0 at a tenth of it, 1 at 1, and straight lines between."""
        low = _FLOOR * self.threshold
        return np.interp(scores, (low, self.threshold, 1.0), (0.0, 0.5, 1.0)).astype(np.float32)

    def _word(self, boxes: Float32Array, classes: Float32Array) -> Int64Array:
        """int64 (...): the word for a class, float32 (...), in the size of boxes, float32 (..., >= 4)."""
        area = (boxes[..., 2] - boxes[..., 0]) * (boxes[..., 3] - boxes[..., 1])
        size = np.searchsorted(np.square(_SIDES), area, side="right")
        return (1 + _FORMS * (len(SIZES) * np.maximum(classes, 0) + size)).astype(np.int64)

    def _shift(self, iou: Float32Array, a: Float32Array, b: Float32Array) -> Float32Array:
        """How far b has moved from a, in [0, 1], more than 0.5 where that counts; of the IoU of boxes (..., 4)."""
        shift = np.interp(iou, (MATCHED, self.moved_below, 1.0), (1.0, 0.5, 0.0))
        if self.moved_pixels is not None:
            pixels = np.abs(a[..., :4] - b[..., :4]).max(axis=-1)
            shift = np.maximum(shift, np.minimum(pixels / (2 * self.moved_pixels), 1))
        return shift.astype(np.float32)

    def _faint(self, iou: Float32Array, boxes: Float32Array) -> Float32Array:
        """float32 (N, p): the best mapped score of unreported boxes (N, q, 6) in the place of others, by (N, p, q)."""
        sure = np.where(self.reported(boxes), np.float32(0), self._mapped(boxes[..., 4]))
        return np.asarray(((iou >= MATCHED) * sure[:, None]).max(axis=2, initial=0))

    def _sure(self, iou: Float32Array, boxes: Float32Array) -> Float32Array:
        """float32 (N, p): the mapped scores of boxes; of one that is not reported, the best of those in its place."""
        return np.where(self.reported(boxes), self._mapped(boxes[..., 4]), self._faint(iou, boxes))

    def _contests(self, a: Float32Array, b: Float32Array) -> _Contests:
        """What two models say of every object of N pictures, for their boxes, float32 (N, p, 6) and (N, q, 6)."""
        alike = a[:, :, None, 5] == b[:, None, :, 5]
        iou, iou_a, iou_b = overlaps(a, b), _among(a), _among(b)
        partner = match(iou, alike, self.reported(a), self.reported(b))
        paired, index = partner >= 0, np.maximum(partner, 0)
        there = np.take_along_axis(b, index[..., None], axis=1)  # what a's box is matched with
        shift = self._shift(np.take_along_axis(iou, index[..., None], axis=2)[..., 0], a, there)
        iou = np.where(alike, iou, 0)
        # of an object that a model does not report: the best that it nearly reports there
        faint_a, faint_b = self._faint(iou.swapaxes(1, 2), a), self._faint(iou, b)
        sure_a, sure_b = self._sure(iou_a, a), self._sure(iou_b, b)
        same = paired & (there[..., 5] == a[..., 5])
        taken, same_b = (
            ((partner[:, :, None] == np.arange(b.shape[1])) & each[:, :, None]).any(axis=1) for each in (paired, same)
        )
        twice_a = ((iou >= _AGAIN) & same_b[:, None]).any(axis=2) | ((iou_a >= _AGAIN) & same[:, None]).any(axis=2)
        twice_b = ((iou >= _AGAIN) & same[:, :, None]).any(axis=1) | ((iou_b >= _AGAIN) & same_b[:, None]).any(axis=2)
        twice_a &= ~paired
        word_a, word_b = self._word(a, a[..., 5]), self._word(b, b[..., 5])
        said_a, said_b = word_a + _TWICE * twice_a, word_b + _TWICE * twice_b
        sure_there = self._mapped(there[..., 4])
        moved = np.minimum(shift, np.minimum(sure_a, sure_there))  # no surer than the two boxes are
        first = [
            (said_a, np.where(paired, self._word(a, there[..., 5]), said_a)),
            (word_a, word_a + 1),
            (said_b, said_b),
        ]
        second = [(word_a * twice_a,) * 2, (np.zeros_like(word_a), word_a), (word_b * twice_b,) * 2]
        chance = [
            (_less(sure_a, np.where(twice_a, _TWICE_COUNTS, 1)), np.where(paired, sure_there, faint_b)),
            (np.ones_like(shift), _less(moved, _MOVED_COUNTS)),
            (faint_a, _less(sure_b, np.where(twice_b, _TWICE_COUNTS, 1))),
        ]
        valid = [a[..., 5] >= 0, same, (b[..., 5] >= 0) & ~taken]
        return _Contests(
            firsts=_joined(first),
            seconds=_joined(second),
            chances=_joined(chance),
            valid=np.concatenate(valid, axis=1),
            boxes=np.concatenate([a, a, b], axis=1)[..., :4],
            others=np.concatenate([there, there, b], axis=1)[..., :4],
        )

    def _said_there(self, boxes: Float32Array, own: _Contests) -> tuple[Int64Array, Int64Array, Float32Array]:
        """What a third model, boxes float32 (n, p, 6), says of chosen objects: words, other words and chances."""
        iou = overlaps(own.boxes[:, None], boxes)[:, 0]
        wanted = _plain(own.firsts[:, 0])
        words = self._word(own.boxes[:, None], boxes[..., 5])
        near, same = (iou >= MATCHED) & (boxes[..., 5] >= 0), words == wanted[:, None]
        # a box of the class that is reported, then any that is, then the best that nearly is
        rank = np.where(near, 2 * self.reported(boxes) + np.where(same, 1 + iou, iou / 2), -1)
        rank = np.where(near & ~self.reported(boxes), np.where(same, self._mapped(boxes[..., 4]), -1), rank)
        best = rank.argmax(axis=1)[:, None]
        has = np.take_along_axis(rank, best, axis=1)[:, 0] >= 0
        word = np.where(has, np.take_along_axis(words, best, axis=1)[:, 0], wanted)
        box = np.take_along_axis(boxes, best[..., None], axis=1)[:, 0]
        chance = np.where(has, self._mapped(box[:, 4]), 0).astype(np.float32)
        second = np.zeros_like(word)
        place = has & self.reported(box) & (own.kinds == MOVED) & (word == wanted)
        shift = self._shift(np.take_along_axis(iou, best, axis=1)[:, 0], own.boxes, box)
        word, second, chance = (np.where(place, *each) for each in ((word + 1, word), (word, second), (shift, chance)))
        return word, second, chance


_EMPTY = np.array([0, 0, 0, 0, 0, -1], dtype=np.float32)


@dataclass(frozen=True)
class _Contests:
    """What two models say of Q objects of each of N pictures, or of one object of each (then without the Q).

    Each says one of two words, the first with a chance and the second with the rest.

    Attributes:
        firsts, seconds: int64 (N, Q, 2), numbers of words.
        chances: float32 (N, Q, 2), of the first word.
        valid: bool (N, Q), whether there is such an object.
        boxes: float32 (N, Q, 4), where it is.
        others: float32 (N, Q, 4), where the second model has it, if both have it.
    """

    firsts: Int64Array
    seconds: Int64Array
    chances: Float32Array
    valid: BoolArray
    boxes: Float32Array
    others: Float32Array

    @property
    def labels(self) -> Int64Array:
        """int64 (N, Q, 2): the word that each says."""
        return np.where(self.chances > 0.5, self.firsts, self.seconds)

    @property
    def margins(self) -> Float32Array:
        """float32 (N, Q): how decided the less decided of the two is."""
        return np.abs(2 * self.chances - 1).min(axis=-1).astype(np.float32)

    @property
    def kinds(self) -> Int64Array:
        """int64 (N, Q): numbers of :data:`KINDS`."""
        one, other = np.moveaxis(self.labels, -1, 0)
        lost, gained = ((own == their + _TWICE) | (their == 0) for own, their in ((one, other), (other, one)))
        kinds = np.where(lost, LOST, np.where(gained, GAINED, np.where(other == one + 1, MOVED, RENAMED)))
        return np.where((one == other) | ~self.valid, NONE, kinds).astype(np.int64)

    @property
    def worth(self) -> Float32Array:
        """float32 (N, Q): how much it says that they differ; above 1: they do, and how clearly; 0: no object."""
        apart = np.abs(self.chances[..., 0] - self.chances[..., 1])
        moving = self.firsts[..., 1] == self.firsts[..., 0] + 1
        apart = np.where(moving, self.chances[..., 1], apart)
        worth = np.where(self.kinds != NONE, 1 + self.margins, np.minimum(apart, 1))
        return np.where(self.valid, np.maximum(worth, np.finfo(np.float32).tiny), 0).astype(np.float32)

    def chosen(self, rows: Int64Array, objects: Int64Array) -> _Contests:
        """One object of each of n pictures, both int64 (n,)."""
        return _Contests(
            firsts=self.firsts[rows, objects],
            seconds=self.seconds[rows, objects],
            chances=self.chances[rows, objects],
            valid=self.valid[rows, objects],
            boxes=self.boxes[rows, objects],
            others=self.others[rows, objects],
        )


def classes_of(words: Sequence[str]) -> tuple[str, ...]:
    """The classes that words of :attr:`Detection.words` are made of."""
    return tuple(word.partition(" ")[2] for word in words[1 :: _FORMS * len(SIZES)])


def _plain(words: Int64Array) -> Int64Array:
    """The same words, where objects are in their place and reported once."""
    return words - (words - 1) % _FORMS


def _less(chances: Float32Array, share: Any) -> Float32Array:
    """Chances of which those above a half are only a share as decided."""
    return np.where(chances > 0.5, 0.5 + share * (chances - 0.5), chances).astype(np.float32)


def _among(boxes: Float32Array) -> Float32Array:
    """The IoU of boxes, float32 (N, p, >= 6), with each other, float32 (N, p, p); 0 of two classes."""
    return np.where(boxes[:, :, None, 5] == boxes[:, None, :, 5], overlaps(boxes, boxes), 0)


def _joined(columns: Sequence[Sequence[NDArray[Any]]]) -> NDArray[Any]:
    return np.concatenate([np.stack(each, axis=-1) for each in columns], axis=1)


def _add(vectors: Float32Array, rows: Int64Array, first: Int64Array, second: Int64Array, chance: Float32Array) -> None:
    """Add two words with their chances to vectors, float32 (N, K)."""
    vectors[rows, first] += chance
    vectors[rows, second] += 1 - chance


def overlaps(a: Float32Array, b: Float32Array) -> Float32Array:
    """IoU of boxes, float32 (N, p, q), for float32 (N, p, >= 4) and (N, q, >= 4); 0 of boxes without area."""
    spans = (
        np.minimum(a[:, :, None, axis + 2], b[:, None, :, axis + 2])
        - np.maximum(a[:, :, None, axis], b[:, None, :, axis])
        for axis in (0, 1)
    )
    width, height = (np.maximum(each, 0) for each in spans)
    shared = width * height
    area_a, area_b = (np.maximum(each[..., 2:4] - each[..., :2], 0).prod(axis=-1) for each in (a, b))
    union = area_a[:, :, None] + area_b[:, None] - shared
    return np.divide(shared, union, out=np.zeros_like(shared), where=union > 0)


def match(iou: Float32Array, alike: BoolArray, has_a: BoolArray, has_b: BoolArray) -> Int64Array:
    """Match boxes one to one so that the IoU of all pairs is highest, where a pair of one class has 1 more.

    Args:
        iou: float32 (N, p, q); boxes that overlap by less than :data:`MATCHED` are no pair.
        alike: bool (N, p, q), whether two boxes have one class.
        has_a, has_b: bool (N, p) and (N, q), which boxes are matched at all.

    Returns:
        int64 (N, p), which of the q boxes each is matched with; -1: none.
    """
    from scipy.optimize import linear_sum_assignment  # slow to import, and the report imports this module

    able = (iou >= MATCHED) & has_a[:, :, None] & has_b[:, None]
    partner = np.where(able.any(axis=2), able.argmax(axis=2), -1) if able.shape[2] else np.full(able.shape[:2], -1)
    several = (able.sum(axis=2) > 1).any(axis=1) | (able.sum(axis=1) > 1).any(axis=1)
    for row in np.flatnonzero(several):
        own, their = np.flatnonzero(able[row].any(axis=1)), np.flatnonzero(able[row].any(axis=0))
        some = np.ix_(own, their)
        worth = np.where(able[row][some], iou[row][some] + alike[row][some], 0)
        left, right = linear_sum_assignment(worth, maximize=True)
        partner[row] = -1
        partner[row, own[left]] = np.where(worth[left, right] > 0, their[right], -1)
    return partner.astype(np.int64)
