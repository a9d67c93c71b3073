"""What a model says of real images with each of several pre-processings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from diffgen.comparison.classes import classes_of
from diffgen.comparison.label_order import in_order, names_of_classes, names_tell, order_of_labels
from diffgen.comparison.preflight import prepare_model
from diffgen.config import DEFAULT_PREPROCESSING, Preprocessing, replace
from diffgen.errors import RunError, ServiceError, UserError
from diffgen.events import Progress
from diffgen.metrics.intervals import exact_interval, paired_difference_interval
from diffgen.models import BlackBox
from diffgen.types import BoolArray, ImageSet, Int64Array, UInt8Array

_FEWEST_CLASSES = 2


@dataclass(frozen=True)
class Candidate:
    """One pre-processing and what the model says with it.

    Attributes:
        name: in words.
        preprocessing: as decided on real images; nothing in it is None.
        accuracy: share of right answers, or None without labels.
        confidence: mean of the highest probability.
        entropy: mean entropy of the answers, from 0 (sure) to 1 (knows nothing).
        balance: entropy of how often each label is given, from 0 (always the same) to 1 (all equally often).
    """

    name: str
    preprocessing: Preprocessing
    accuracy: float | None
    confidence: float
    entropy: float
    balance: float

    @property
    def evidence(self) -> float:
        """What candidates are ordered by: accuracy, or how sure and how varied the answers are."""
        return self.balance - self.entropy if self.accuracy is None else self.accuracy


@dataclass(frozen=True, eq=False)
class Tried:
    """A candidate, and what else was seen of it.

    Attributes:
        candidate: in figures.
        right: bool (N,), the images that the model names as their labels do, or None without labels.
        classes: how many it answers with.
    """

    candidate: Candidate
    right: BoolArray | None
    classes: int


def try_all(
    box: BlackBox,
    plans: Sequence[tuple[str, Preprocessing]],
    known: ImageSet,
    class_names: Sequence[str],
    progress: Progress,
) -> list[Tried]:
    """Every candidate that the model takes, in the order in which they were tried."""
    found: list[Tried] = []
    seen: set[Preprocessing] = set()
    first_error: UserError | None = None
    with progress.stage("Trying pre-processings", total=len(plans)) as task:
        for name, preprocessing in plans:
            settled = preprocessing.over(DEFAULT_PREPROCESSING)
            if settled not in seen:
                seen.add(settled)
                try:
                    found.append(_judged(box, name, settled, known, class_names))
                except ServiceError:
                    raise
                except (UserError, RunError) as error:  # the model does not take it, or overflows: no candidate
                    if first_error is None and isinstance(error, UserError):
                        first_error = error
            task.advance()
    if not found:
        raise first_error or UserError(
            f"Model {box.name} gives no usable answers to these images, whatever their scale; check that it is a "
            "classifier of such images."
        )
    return found


def without_unknown_labels(tried: list[Tried], known: ImageSet, box: BlackBox, progress: Progress) -> list[Tried]:
    """The candidates judged without the labels, where these are not the model's classes.

    So it is where there are more labels than classes, or where they are few of its classes and guessing among them
    would be right more often than the model is in any way that was tried.
    """
    if known.labels is None:
        return tried
    present, classes = np.unique(known.labels), max(each.classes for each in tried)
    best = max((each.candidate.accuracy for each in tried if each.candidate.accuracy is not None), default=0.0)
    if int(present[-1]) < classes and (best >= 1 / len(present) or 2 * len(present) > classes):
        return tried
    progress.warn(
        f"The labels of {known.source} are not used: they are not what model {box.name} with its {classes:,} classes "
        "says, however it is fed."
    )
    return [Tried(replace(each.candidate, accuracy=None), None, each.classes) for each in tried]


def _judged(
    box: BlackBox, name: str, preprocessing: Preprocessing, known: ImageSet, class_names: Sequence[str]
) -> Tried:
    box.set_preprocessing(preprocessing)
    prepare_model(box, known)
    names = class_names or names_of_classes(box)
    labels = in_order(known, order_of_labels(known, names)).labels
    one_more = classes_of(known) == box.num_classes - 1 >= _FEWEST_CLASSES
    if labels is not None and one_more and box.background_open and not names_tell(known, names):
        _settle_first(box, known.images, labels)
    probabilities = torch.from_numpy(box.predict(known.images)).double()
    classes = probabilities.shape[1]
    answers = probabilities.argmax(dim=1)
    right = answers.numpy() == labels if labels is not None and int(labels.max()) < classes else None
    shares = torch.bincount(answers, minlength=classes).double() / len(answers)
    full = float(np.log(classes))
    candidate = Candidate(
        name=name,
        preprocessing=box.preprocessing,
        accuracy=None if right is None else float(right.mean()),
        confidence=float(probabilities.amax(dim=1).mean()),
        entropy=float(torch.special.entr(probabilities).sum(dim=1).mean()) / full,
        balance=float(torch.special.entr(shares).sum()) / full,
    )
    return Tried(candidate, right, classes)


def _settle_first(box: BlackBox, images: UInt8Array, labels: Int64Array) -> None:
    """Leave out the first of the values, for the background, where labels of one class less then fit better."""
    with_it = box.predict(images).argmax(axis=1) == labels
    box.set_background("first")
    without = box.predict(images).argmax(axis=1) == labels
    better, worse = int((without & ~with_it).sum()), int((with_it & ~without).sum())
    if better == 0 or exact_interval(better, better + worse)[0] <= 1 / 2:
        box.set_background("none")


def alike(tried: Tried, best: Tried) -> bool:
    """Whether the labelled images leave it open which of the two is better."""
    if tried.right is None or best.right is None:
        return tried.candidate.evidence == best.candidate.evidence
    only_best, only_tried = int((best.right & ~tried.right).sum()), int((tried.right & ~best.right).sum())
    return paired_difference_interval(only_best, only_tried, len(best.right))[0] <= 0
