"""What a model says of real images with each of several pre-processings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import TypeAlias

import numpy as np
import scipy  # imports scipy.special when it is first asked for

from diffgen.comparison.classes import labels_lack_one
from diffgen.comparison.label_order import in_order, names_of_classes, order_of_labels, shifted
from diffgen.comparison.preflight import prepare_model
from diffgen.comparison.smells import FEW_RIGHT, at_chance
from diffgen.config import DEFAULT_PREPROCESSING, Preprocessing, replace, roles
from diffgen.config.budget import SMALL
from diffgen.data.resize import Size, size_text
from diffgen.errors import RunError, ServiceError, UserError
from diffgen.events import Progress
from diffgen.metrics.intervals import exact_interval, paired_difference_interval, simultaneous_paired_intervals
from diffgen.models import BlackBox
from diffgen.models.shapes import USUAL_SIZES
from diffgen.sampling import random_rows
from diffgen.types import BoolArray, Float32Array, ImageSet, Int64Array, UInt8Array
from diffgen.wording import percent

_IMAGES = 200  # that the model is asked about with a candidate, at most
_FIRST = 20  # with every candidate; then twice as many, and so on, with those that these do not show to be worse
PREPARED = 2  # that the model looks at again where all is decided

Plan: TypeAlias = tuple[str, Preprocessing]  # the name of a pre-processing, and what is said of it


@dataclass(frozen=True)
class Candidate:
    """One pre-processing and what the model says with it.

    Attributes:
        name: in words.
        preprocessing: as decided on real images; nothing in it is None.
        images: how many the model was asked about; fewer where these show that another candidate is better.
        accuracy: share of right answers, or None without labels.
        confidence: mean of the highest probability.
        entropy: mean entropy of the answers, from 0 (sure) to 1 (knows nothing).
        balance: entropy of how often each label is given, from 0 (always the same) to 1 (all equally often).
        boxes: of a detector, how many it reports in an image (scores from 0.25), on average; its accuracy is the mean
            average precision, its confidence the mean of the highest score, and entropy and balance are 0. Of maps the
            accuracy is the mean IoU with masks, and the other figures are 0.
    """

    name: str
    preprocessing: Preprocessing
    images: int
    accuracy: float | None
    confidence: float
    entropy: float
    balance: float
    boxes: float | None = None

    @property
    def evidence(self) -> float:
        """What candidates are ordered by: accuracy, or how sure and how varied the answers are."""
        return self.balance - self.entropy if self.accuracy is None else self.accuracy


@dataclass(frozen=True, eq=False)
class Tried:
    """A candidate, and what the model said of the first n images.

    Attributes:
        plan: what was tried.
        preprocessing: as decided on real images; nothing in it is None.
        probabilities: float32 (n, K).
        right: bool (n,), the images that the model names as their labels do, or None without labels.
    """

    plan: Plan
    preprocessing: Preprocessing
    probabilities: Float32Array
    right: BoolArray | None

    @cached_property
    def candidate(self) -> Candidate:
        """It in figures."""
        images, classes = self.probabilities.shape
        shares = np.bincount(self.probabilities.argmax(axis=1), minlength=classes) / images
        entropies = scipy.special.entr(self.probabilities.astype(np.float64)).sum(axis=1)
        return Candidate(
            name=self.plan[0],
            preprocessing=self.preprocessing,
            images=images,
            accuracy=None if self.right is None else float(self.right.mean()),
            confidence=float(self.probabilities.max(axis=1).mean(dtype=np.float64)),
            entropy=float(entropies.mean() / np.log(classes)),
            balance=float(scipy.special.entr(shares).sum() / np.log(classes)),
        )


class Trials:
    """Pre-processings of one model, tried on the same real images.

    With labels, a candidate that is surely worse than the best is asked about no more of them.

    Args:
        box: the model.
        data: real images; of many, 200 are asked about: random ones, equally many of each class.
        class_names: of the model's classes, or none.
        progress: is told how far it is.

    Attributes:
        tried: every candidate that the model takes, in the order in which they were tried.
        labelled: whether the labels tell what is right.
    """

    def __init__(self, box: BlackBox, data: ImageSet, class_names: Sequence[str], progress: Progress) -> None:
        self.tried: list[Tried] = []
        self.labelled = data.labels is not None
        self._box, self._data, self._names, self._progress = box, data, class_names, progress
        self._rows = _balanced(random_rows(len(data), len(data)), data.labels)[:_IMAGES]
        self._seen: set[Preprocessing] = set()
        self._first_error: UserError | None = None

    @property
    def images(self) -> UInt8Array:
        """uint8 (n, C, H, W): those that the model is asked about."""
        return self._data.images[self._rows]

    @property
    def best(self) -> list[Tried]:
        """The best, and after it those that the images do not tell from it."""
        first = max(self.tried, key=_evidence)
        return sorted((each for each in self.tried if alike(each, first)), key=_evidence, reverse=True)

    def add(self, plans: Sequence[Plan]) -> None:
        """Try some more.

        Raises:
            UserError: the model has taken the images in no way that was tried.
        """
        with self._progress.stage("Trying pre-processings", total=len(plans)) as task:
            for plan in plans:
                settled = plan[1].over(DEFAULT_PREPROCESSING)
                if settled not in self._seen:
                    self._seen.add(settled)
                    self.tried += self._begun(plan, _FIRST)
                task.advance()
        self._tell_apart()

    def leave_unknown_labels(self) -> None:
        """Judge the candidates without the labels, where these are not the model's classes.

        So it is where there are more of them than classes, or where they are few of its classes and guessing among
        them would be right more often than the model is in any way that was tried. Nobody knows which they are where
        the data name more or fewer classes, and no names tell.
        """
        if self._data.labels is None:
            return
        counts = [each.probabilities.shape[1] for each in self.tried]
        names, whose = self._names or tuple(map(str, range(min(counts)))), f"model {self._box.name}"
        if doubt := shifted(self._data, names, whose):
            self._judge_without(f"{doubt}; the labels are not used until --class-names FILE names the model's classes.")
            return
        present, classes = np.unique(self._data.labels), max(counts)
        best = max((float(each.right.mean()) for each in self.tried if each.right is not None), default=0.0)
        if int(present[-1]) < classes and (best >= 1 / len(present) or 2 * len(present) > classes):
            return
        self._judge_without(
            f"The labels of {self._data.source} are not used: they are not what {whose} with its {classes:,} classes "
            "says, however it is fed."
        )

    def _judge_without(self, why: str) -> None:
        self._progress.warn(why)
        self.labelled = False
        self.tried = [replace(each, right=None) for each in self.tried]
        self._tell_apart()

    def at_chance(self, tried: Tried) -> bool:
        """Whether a candidate is hardly right more often than by guessing; never without labels."""
        if tried.right is None or self._data.labels is None:
            return False
        known = self._data.labels[self._rows[: len(tried.right)]]
        return at_chance(int(tried.right.sum()), len(known), float(np.bincount(known).max() / len(known)))

    def _tell_apart(self) -> None:
        """Ask about more images until every candidate that may be the best was asked about all of them."""
        with self._progress.stage("Telling the best apart"):
            while True:
                if not self.tried:
                    raise self._first_error or UserError(
                        f"Model {self._box.name} gives no usable answers to these images, whatever their scale; check "
                        "that it is a classifier of such images."
                    )
                left = self.best if self.labelled else self.tried
                asked = [len(each.probabilities) for each in left]
                if min(asked) == len(self._rows):
                    return
                upto = len(self._rows) if len(left) == 1 else 2 * min(asked)
                for each, images in zip(list(left), asked, strict=True):
                    if images < upto:
                        place = self.tried.index(each)
                        self.tried[place : place + 1] = self._asked_more(each, upto)

    def _begun(self, plan: Plan, images: int) -> list[Tried]:
        """A candidate, and what is found out about it on the first images; nothing where the model fails on them."""
        box, rows = self._box, self._rows[:images]
        some = self._data.images[rows[: max(PREPARED, images // 4)]]  # which decide what its answers are
        try:
            box.set_preprocessing(plan[1].over(DEFAULT_PREPROCESSING))
            prepare_model(box, replace(self._data, images=some, labels=None, boxes=None, masks=None))
            labels, names = self._labels(), self._names or names_of_classes(box)
            if labels is not None and box.background_open and labels_lack_one(self._data, names):
                _settle_first(box, self._data.images[rows], labels[rows])
            return [self._asked(plan, rows)]
        except ServiceError:
            raise
        except (UserError, RunError) as error:  # the model does not take it, or overflows: no candidate
            if self._first_error is None and isinstance(error, UserError):
                self._first_error = error
            return []

    def _asked_more(self, tried: Tried, upto: int) -> list[Tried]:
        """The same candidate after more images; nothing where the model fails on them."""
        rows = self._rows[len(tried.probabilities) : upto]
        try:
            self._box.set_preprocessing(tried.preprocessing)
            prepare_model(self._box, replace(self._data.at(rows[:PREPARED]), labels=None))
            more = self._asked(tried.plan, rows)
        except ServiceError:
            raise
        except (UserError, RunError):  # perhaps the first images misled about what its answers are
            return self._begun(tried.plan, upto)
        right = None if tried.right is None or more.right is None else np.concatenate([tried.right, more.right])
        return [replace(tried, probabilities=np.concatenate([tried.probabilities, more.probabilities]), right=right)]

    def _asked(self, plan: Plan, rows: Int64Array) -> Tried:
        """What the model says of some images, as it is prepared now."""
        labels, probabilities = self._labels(), self._box.predict(self._data.images[rows])
        right = None
        if labels is not None and int(labels.max()) < probabilities.shape[1]:
            right = np.equal(probabilities.argmax(axis=1), labels[rows])
        return Tried(plan, self._box.preprocessing, probabilities, right)

    def _labels(self) -> Int64Array | None:
        """int64 (N,), in the order of the model's classes."""
        order = order_of_labels(self._data, self._names or names_of_classes(self._box))
        return in_order(self._data, order).labels if self.labelled else None


def _balanced(rows: Int64Array, labels: Int64Array | None) -> Int64Array:
    """The rows in another order: first one of each class, then another one of each, and so on."""
    if labels is None:
        return rows
    by_class = np.argsort(labels[rows], kind="stable")
    classes = labels[rows][by_class]
    turn = np.empty(len(rows), dtype=np.int64)
    turn[by_class] = np.arange(len(rows)) - np.searchsorted(classes, classes)
    return rows[np.argsort(turn, kind="stable")]


def _evidence(tried: Tried) -> float:
    return tried.candidate.evidence


def _settle_first(box: BlackBox, images: UInt8Array, labels: Int64Array) -> None:
    """Leave out the first of the values, for the background, where labels of one class less then fit better."""
    with_it = box.predict(images).argmax(axis=1) == labels
    box.set_background("first")
    without = box.predict(images).argmax(axis=1) == labels
    better, worse = int((without & ~with_it).sum()), int((with_it & ~without).sum())
    if better == 0 or exact_interval(better, better + worse)[0] <= 1 / 2:
        box.set_background("none")


def alike(tried: Tried, best: Tried) -> bool:
    """Whether the labelled images that the model was asked about with both leave it open which of the two is better."""
    if tried.right is None or best.right is None:
        return _evidence(tried) == _evidence(best)
    one, other = tried.right[: len(best.right)], best.right[: len(tried.right)]
    return paired_difference_interval(int((other & ~one).sum()), int((one & ~other).sum()), len(one))[0] <= 0


# -- the size of a model that declares none: that of the data, or another one with which it is surely better ---------

_ASKED, _PREPARED = (200, 64), (64, 16)  # random real images: of small ones, and of large ones


def settle_sizes(models: Sequence[BlackBox], data: ImageSet, progress: Progress) -> None:
    """Hand each model whose size is open what real images show it to want.

    Tried are the sizes that other models declare and, where the model looks wrong, the usual ones. The labels say what
    is right; without them it is what the first model says that declares its size. A model of a server is not asked.

    Args:
        models: prepared, their classes in one order; they are so again when this returns.
        data: real images; the labels are the models' classes.
        progress: is warned of each size that is taken.
    """
    asked = dict(zip(roles(models), models, strict=True))
    declared = {size: role for role, model in reversed(asked.items()) if (size := model.input_size) is not None}
    first = next((role for role, model in asked.items() if model.input_size is not None), None)
    large = prod(data.image_shape) > SMALL
    rows = random_rows(len(data), _ASKED[large])
    images, known = data.images[rows], None if data.labels is None else data.labels[rows]
    open_ones = {
        role: model for role, model in asked.items() if model.size_open and model.url is None and not model.is_table
    }
    if open_ones and known is None and first is not None:
        known = asked[first].predict(images).argmax(axis=1)
    if not open_ones or known is None:
        return
    with progress.stage("Seeing which size suits the models", total=len(open_ones)) as task:
        for role, model in open_ones.items():
            before, own = model.preprocessing, (images.shape[2], images.shape[3])
            at_own = np.equal(model.predict(images).argmax(axis=1), known)
            usual = [(side, side) for side in USUAL_SIZES] if at_own.mean() < FEW_RIGHT else []
            sizes = [size for size in dict.fromkeys((*declared, *usual)) if size != own]
            if not sizes:
                task.advance()
                continue
            others = {}
            for size in sizes:
                right = _right_with(model, replace(before, size=size), images, known, _PREPARED[large])
                if right is not None and (size in declared or right.mean() >= FEW_RIGHT):
                    others[size] = right
            best = _surely_best(at_own, others)
            model.set_preprocessing(replace(before, size=best))
            model.prepare(images)
            if best is not None:
                what = "is right on" if data.labels is not None else f"agrees with model {first} on"
                source = f"as model {declared[best]} declares" if best in declared else "one of the usual sizes"
                progress.warn(
                    f"Model {role} ({model.name}) declares no size and is handed images of {size_text(best)}, "
                    f"{source}: so it {what} {percent(others[best].mean())} of {len(rows):,} real images, and with "
                    f"{size_text(own)} on {percent(at_own.mean())}; if it was made for another size, say so with "
                    f"--{role.lower()}-size."
                )
            task.advance()


def _right_with(
    model: BlackBox, preprocessing: Preprocessing, images: UInt8Array, known: Int64Array, prepared: int
) -> BoolArray | None:
    """Which images a model answers as known with other pre-processing, or None: it does not take that."""
    try:
        # of what it does not take one image tells as much, and no other sizes of a batch are tried
        for count in (1, prepared):
            model.set_preprocessing(preprocessing)
            model.prepare(images[:count])
        return np.equal(model.predict(images).argmax(axis=1), known)
    except (UserError, RunError):
        return None


def _surely_best(at_own: BoolArray, others: dict[Size, BoolArray]) -> Size | None:
    """The size with which most images are right, where that is surely more than with the images' own."""
    if not others:
        return None
    best = max(others, key=lambda size: others[size].mean())  # of equal ones the first
    only_best, only_own = (np.array([np.sum(each)]) for each in (others[best] & ~at_own, at_own & ~others[best]))
    low, _ = simultaneous_paired_intervals(only_best, only_own, np.array([len(at_own)]), among=len(others))
    return best if low[0] > 0 else None
