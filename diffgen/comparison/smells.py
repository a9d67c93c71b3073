"""What in the models' answers to real images wrong pre-processing, or another order of classes, would explain."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from diffgen.comparison.classes import background_smell
from diffgen.config import roles
from diffgen.data.resize import size_text
from diffgen.metrics.intervals import exact_interval
from diffgen.models import BlackBox
from diffgen.tasks.classification import listed
from diffgen.types import ImageSet, Int64Array

FEW_RIGHT = 0.5  # share of labelled images
_ONE_LABEL = 0.6  # share of images with the most frequent label, of three classes or more
_GUESSES = 2  # times as often as who always names the most frequent class: no more is hardly better than guessing
_POOR = 2 / 3  # share of right answers; who has more and still guesses has images of hardly more than one class
_KEPT = 0.75  # of another model's share of sound answers; a model with less has clearly fewer
_ALL_ONE_LABEL, _NOT_ALL = 0.99, 0.9  # of two classes: such a share, where labels or another model give at most that


@dataclass(frozen=True)
class Smell:
    """Something in a model's answers that wrong pre-processing would explain, or how far the answers are from it.

    Attributes:
        kind: "accuracy", "one label", or "background".
        sentence: what it is, and of which model; empty where the answers do not look so.
        sound: images whose answer does not look so: it is right, another than the most frequent label, or a class.
    """

    kind: str
    sentence: str
    sound: int
    of: int


def shown_worse(smell: Smell, other: Smell) -> bool:
    """Whether one model has clearly fewer sound answers than another one, by both 95 % intervals.

    A threshold alone would tell 49.9 % from 50.1 %, and would call alike what one model does to 61 % of the images and
    the other to all of them.
    """
    return exact_interval(smell.sound, smell.of)[1] < _KEPT * exact_interval(other.sound, other.of)[0]


def at_chance(right: int, of: int, guessed: float) -> bool:
    """Whether a model is hardly right more often than one that names the most frequent class for all images.

    Args:
        of: labelled images.
        guessed: share of the most frequent class among them.
    """
    low, high = exact_interval(right, of)
    # of two classes as often as by guessing is half of the images, or more
    return (right < FEW_RIGHT * of and right <= _GUESSES * guessed * of) or (low <= guessed and high < _POOR)


def smells_of(model: BlackBox, role: str, data: ImageSet, labels: Int64Array, index: int) -> tuple[Smell, ...]:
    """What would be explained by wrong pre-processing of one model, the column ``index`` of int64 (N, M) labels.

    Returns:
        One of each kind that can be looked for: "accuracy" only with labels.
    """
    said, of = labels[:, index], len(labels)
    fed = (
        f"diffgen hands it {str(model.preprocessing.layout).upper()} images scaled to {model.preprocessing.scale}"
        f"{' with mean and std' if model.preprocessing.mean else ', no mean or std'}{_size_of(model, data)}; "
        "'diffgen inspect MODEL --data D' finds out what it wants"
    )
    found = []
    if data.labels is not None:
        right = int((said == data.labels).sum())
        sentence = (
            f"Model {role} ({model.name}) is right on only {right / of:.1%} of the labelled images; its pre-processing "
            f"or its order of classes probably differs ({fed})."
        )
        found.append(Smell("accuracy", sentence if right < FEW_RIGHT * of else "", right, of))
    counts = np.bincount(said, minlength=model.num_classes)
    share, most = counts.max() / of, int(counts.argmax())
    usual = 0.0 if data.labels is None else np.bincount(data.labels).max() / of
    if model.num_classes > 2:
        one_label = share > max(_ONE_LABEL, 2 * usual)
    else:
        # one of two labels may be rare in the data: only labels or another model can tell
        others = [labels[:, other] for other in range(labels.shape[1]) if other != index]
        others += [] if data.labels is None else [data.labels]
        one_label = share > _ALL_ONE_LABEL and any((other == most).mean() < _NOT_ALL for other in others)
    unknown = "" if data.labels is not None else ", or the images are of none of its classes"
    sentence = (
        f"Model {role} ({model.name}) gives one and the same label to {share:.0%} of the images; its pre-processing "
        f"probably differs ({fed}){unknown}."
    )
    found.append(Smell("one label", sentence if one_label else "", of - int(counts.max()), of))
    found.append(Smell("background", *background_smell(model, role, data)))
    return tuple(found)


def doubts(
    models: Sequence[BlackBox], labels: Int64Array, accuracy: tuple[float, ...] | None, smells: Sequence[Smell]
) -> list[str]:
    """Sentences about figures that wrong pre-processing, or another order of classes, would explain."""
    found = []
    first = models[0].class_names
    for role, model in zip(roles(models)[1:], models[1:], strict=True):
        if first != model.class_names and sorted(first) == sorted(model.class_names) and not model.class_order:
            option = "--label-map" if len(models) == 2 else f"--{role.lower()}-label-map"
            found.append(
                f"The models name the same classes in another order; map those of {role} onto those of A with "
                f"{option}, in which every name stands for itself."
            )
    if len(models) == 2 and _one_file(*models):
        found.append(
            f"Models A and B ({models[0].name}, {models[1].name}) are one file, fed alike, so that they cannot "
            "disagree; name the other model, unless this is a trial."
        )
    found += [each.sentence for each in smells if each.sentence]
    agreement = float((labels == labels[:, :1]).all(axis=1).mean())
    if not found and agreement < 0.5:
        found.append(
            f"The models agree on only {agreement:.1%} of the real images; the pre-processing or the order of classes "
            f"of one of them probably differs{_open_sizes(models)}."
        )
    if not found and accuracy is not None and max(accuracy) - min(accuracy) > 0.15:
        worse = roles(models)[accuracy.index(min(accuracy))]
        found.append(
            f"Model {worse} is {100 * (max(accuracy) - min(accuracy)):.0f} points less accurate than the "
            f"{'other' if len(models) == 2 else 'best'}; if {'both' if len(models) == 2 else 'all'} were said to be "
            "equally good, its pre-processing probably differs."
        )
    return found


def _size_of(model: BlackBox, data: ImageSet) -> str:
    """What size a model is handed that declares none; the end of a list."""
    if not model.size_open:
        return ""
    return f", of {size_text(data.image_shape[1:])} pixels as the data has them (--size names another size)"


def _open_sizes(models: Sequence[BlackBox]) -> str:
    """Which models get images of the data's size because they declare none; the end of a sentence."""
    open_ones = [role for role, model in zip(roles(models), models, strict=True) if model.size_open]
    if not open_ones:
        return ""
    one = len(open_ones) == 1
    return (
        f"; {listed(open_ones)} {'declares' if one else 'declare'} no size and {'gets' if one else 'get'} that of the "
        "data: name what it was made for with --size"
    )


def _one_file(a: BlackBox, b: BlackBox) -> bool:
    """Whether two models are one: whoever names a file twice by mistake would never find anything."""
    fed = a.preprocessing == b.preprocessing and a.class_order == b.class_order
    return fed and a.digest is not None and a.digest == b.digest
