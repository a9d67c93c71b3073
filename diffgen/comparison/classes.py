"""Which classes models and data have in common: values for a background, and labels that the models do not know."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod

import numpy as np
from numpy.typing import NDArray

from diffgen.comparison.label_order import namer, names_of_classes, names_tell, shifted
from diffgen.config import CompareConfig, roles
from diffgen.config.budget import SMALL
from diffgen.errors import UserError
from diffgen.events import Progress
from diffgen.metrics.intervals import exact_interval
from diffgen.models import BlackBox
from diffgen.models.class_names import Background
from diffgen.sampling import random_rows
from diffgen.tasks.classification import listed
from diffgen.types import ImageSet, Int64Array, UInt8Array

_ASKED = 200, 64  # random real images that are asked about: of small ones, and of large ones
_IMAGENET = 1000  # classes; of TensorFlow's nets for them the first value is for the background
_FEWEST_CLASSES = 2
_FEW_LABELS = 0.5  # share of the models' classes; with more of them the data is taken for the models' own
_BACKGROUND_WINS = 0.01  # share of real images; what is surely the answer to more of them is a class
_STRAYS_NAMED = 3
LABELS_NOT_USED = (
    "The data's labels are not the models' classes and are not used: nothing says which model is right, and limits on "
    "accuracy do not apply."
)
NO_JURY_WITHOUT_LABELS = "No jury: the data's labels are not the models' classes; nothing says who is wrong."


def settle_background(models: Sequence[BlackBox], data: ImageSet, progress: Progress) -> None:
    """Find out which models have a value for the background, where nobody has said so. They must be prepared.

    That is a model with one value more than another one has classes, or than the data has. Which value it is, the
    images show: on them it then agrees with the other model, or with the labels. A value whose name says that it is for
    the background stays where the data has images of that class.

    Raises:
        UserError: the numbers of classes differ, for another reason or for one that cannot be found out.
    """
    if data.labels is not None and all(model.values == classes_of(data) for model in models):
        for model in models:
            if model.background_named:
                model.set_background("none")
    fewest = min(model.num_classes for model in models)
    larger = [model for model in models if model.num_classes > fewest]
    if any(model.num_classes != fewest + 1 or not model.background_open for model in larger):
        _refuse_numbers(models)
    if larger and classes_of(data) > fewest:
        _refuse_numbers(models)  # the data has images of every class that the larger one answers with
    images, labels = _sample(data)
    if larger:
        other = next(model for model in models if model.num_classes == fewest)
        known = other.predict(images).argmax(axis=1)
        for model in larger:
            _settle(model, images, known, f"model {other.name}", progress)
    elif labels is not None and labels_lack_one(data, names_of_classes(namer(models))):
        _settle_by_labels(models, images, labels, progress)


def labels_lack_one(data: ImageSet, names: Sequence[str]) -> bool:
    """Whether labels have one class less than there are names, and it may be the background that they lack.

    Where names tell the classes, it is one without images: leaving out another would shift all before it. So it may be
    where folders are numbered in the order of their names; but TensorFlow's nets for ImageNet have a background.
    """
    if data.labels is None or not classes_of(data) == len(names) - 1 >= _FEWEST_CLASSES or names_tell(data, names):
        return False
    return len(names) == _IMAGENET + 1 or not shifted(data, names, "")


def _settle_by_labels(models: Sequence[BlackBox], images: UInt8Array, labels: Int64Array, progress: Progress) -> None:
    """Models with one value more than the labels have classes; one that the labels fit tells of all of them."""
    found = {model: _fits_without(model, images, labels) for model in models if model.background_open}
    # with the last value left out, labels and classes would be what they are without
    if "first" in found.values():
        for model, where in found.items():
            if where == "none":
                _take(model, "first", "so it is in a model with as many, which the labels then fit", images, progress)
            else:
                _take(model, where, "the labels then fit", images, progress)
    if any(model.num_classes != models[0].num_classes for model in models):
        _refuse_numbers(models)


def classes_of(data: ImageSet) -> int:
    """How many classes the data names, or has labels for."""
    labels = np.empty(0, np.int64) if data.labels is None else data.labels
    return len(data.class_names) if data.class_names else int(labels.max(initial=-1)) + 1


def _settle(model: BlackBox, images: UInt8Array, known: Int64Array, whose: str, progress: Progress) -> None:
    values = model.num_classes
    found = _fits_without(model, images, known)
    if found != "none":
        _take(model, found, f"it then agrees with {whose}", images, progress)
    elif values == _IMAGENET + 1:
        _take(model, "first", "so it is in TensorFlow's nets for ImageNet", images, progress)
    else:
        raise UserError(
            f"Model {model.name} answers with {values:,} classes, one more than {whose}, and the real images do not "
            "show whether one is for the background; give models with the same classes, or say with --background "
            "first (or last) which value it is."
        )


def _fits_without(model: BlackBox, images: UInt8Array, known: Int64Array) -> Background:
    """Which of two ways a model agrees with known labels: without its first value, or without its last one.

    Args:
        model: prepared, with all its values; it has all of them again when this returns.
        images, known: what it is asked about, and labels of one class less.

    Returns:
        "first", "last", or "none": the images do not show it.
    """
    said: dict[Background, NDArray[np.bool_]] = {}
    sides: tuple[Background, Background] = ("first", "last")
    for where in sides:
        model.set_background(where)
        said[where] = model.predict(images).argmax(axis=1) == known
    model.set_background("none")
    only_first = int((said["first"] & ~said["last"]).sum())
    only_last = int((said["last"] & ~said["first"]).sum())
    most = max(only_first, only_last)
    if most == 0 or exact_interval(most, only_first + only_last)[0] <= 1 / 2:
        return "none"
    return "first" if only_first > only_last else "last"


def _take(model: BlackBox, where: Background, why: str, images: UInt8Array, progress: Progress) -> None:
    model.set_background(where)
    wins = model.answers_background(images)
    if _too_often(wins):
        raise UserError(
            f"Model {model.name} answers with {model.num_classes + 1:,} values for {model.num_classes:,} classes, and "
            f"the {where} one, which would be taken for the background and left out, is its answer to "
            f"{wins.mean():.0%} of the real images; give models with the same classes, or say --background {where} if "
            "it is the background."
        )
    progress.say(
        f"Model {model.name} answers with {model.num_classes + 1:,} values for {model.num_classes:,} classes: the "
        f"{where} one is taken for the background and left out, since {why}; if it is not, say so with --background."
    )


def background_smell(model: BlackBox, role: str, data: ImageSet) -> tuple[str, int, int]:
    """What there is to say of a model that gives the background for an answer to real images.

    Returns:
        A sentence or nothing; how many of some random images it answers with a class; and how many those are.
    """
    wins = model.answers_background(_sample(data)[0])
    sentence = (
        f"Model {role} ({model.name}) answers {wins.mean():.0%} of the real images with the value for the background, "
        "which is left out, so that its second-best answer counts; its pre-processing probably differs, or the value "
        "stands for a class."
    )
    return sentence if _too_often(wins) else "", int((~wins).sum()), len(wins)


def _too_often(wins: NDArray[np.bool_]) -> bool:
    """Whether what is the answer to some of the real images, bool (N,), is a class."""
    return exact_interval(int(wins.sum()), len(wins))[0] > _BACKGROUND_WINS


def several_labels(models: Sequence[BlackBox]) -> tuple[str, ...]:
    """A sentence about each model that gives an image several labels, where one is compared."""
    return tuple(
        f"Model {role} ({model.name}) gives values near 1 to several classes of one image, as where a picture has "
        "several labels, and diffgen compares the class with the highest value; give a model that gives each image one "
        "label, or say with --outputs scores that the highest value alone counts."
        for role, model in zip(roles(models), models, strict=True)
        if model.several_labels
    )


def background_remarks(models: Sequence[BlackBox]) -> tuple[str, ...]:
    """A sentence about each model of whose values one is left out."""
    return tuple(
        f"Model {role} ({model.name}) answers with {model.num_classes + 1:,} values; the "
        f"{model.preprocessing.background} one, for the background, is left out."
        for role, model in zip(roles(models), models, strict=True)
        if model.preprocessing.background in ("first", "last")
    )


def _refuse_numbers(models: Sequence[BlackBox]) -> None:
    if len(models) > 2:
        _refuse_numbers_of_many(models)
    a = models[0]
    role, b = next((role, b) for role, b in zip(roles(models), models, strict=True) if b.num_classes != a.num_classes)
    raise UserError(
        f"Model A ({a.name}) answers with {a.num_classes} classes but model {role} ({b.name}) with "
        f"{b.num_classes}; give models with the same classes."
    )


def _refuse_numbers_of_many(models: Sequence[BlackBox]) -> None:
    """Which of many models have other classes than the most."""
    groups: dict[int, list[str]] = {}
    for role, model in zip(roles(models), models, strict=True):
        groups.setdefault(model.num_classes, []).append(f"{role} ({model.name})")
    most, *others = sorted(groups.items(), key=lambda group: -len(group[1]))
    told = "; ".join(f"{listed(names)} with {count:,}" for count, names in others)
    raise UserError(
        f"{listed(most[1])} answer{'s' if len(most[1]) == 1 else ''} with {most[0]:,} classes, but {told}; leave out "
        "what has other classes, or give models whose classes differ in their order alone (--b-label-map maps those "
        "of B onto A's, and so on)."
    )


# -- labels of the data ----------------------------------------------------------------------------------------------


def with_known_labels(
    models: Sequence[BlackBox], data: ImageSet, config: CompareConfig, progress: Progress
) -> tuple[ImageSet, CompareConfig]:
    """The real images without labels that are not the models' classes, and the settings that say which it is.

    Nobody guesses where the data name more or fewer classes than the models have, and no names tell which they are.
    Labels are not the models' when there are more of them than classes, and no model is right where there are not; or
    when they are few of the models' classes, the models hardly ever say any of these, and none of them is right more
    often than guessing among them would be.

    Args:
        models: prepared, with equally many classes.
        config: says of ``data_labels`` whether to use them, to ignore them, or to find out.

    Raises:
        UserError: the data name another number of classes, which nobody has said to use or to ignore; or there are more
            labels than classes, and they are to be used, or a model is right on the others.
    """
    if data.labels is None:
        return data, config
    if config.data_labels == "auto":
        if doubt := shifted(data, names_of_classes(namer(models)), "the models"):
            raise UserError(
                f"{doubt}; name the models' classes with --class-names FILE, or say --data-labels ignore to go without "
                "labels."
            )
        why = _why_not_known(models, data)
        if why:
            progress.warn(
                f"The labels of {data.source} are not used, since {why}; so nobody can be named wrong, and limits on "
                "accuracy do not apply. If they are the models' classes, say --data-labels use and look at the "
                "pre-processing."
            )
        config = replace(config, data_labels="ignore" if why else "use")
    if config.data_labels == "ignore":
        return without_labels(data), config
    classes = models[0].num_classes
    if int(data.labels.max()) >= classes:
        raise UserError(
            f"The data {data.source} has the label {int(data.labels.max())} but the models answer with only "
            f"{classes} classes (0 to {classes - 1}); give the data that the models were made for."
        )
    return data, config


def without_labels(data: ImageSet) -> ImageSet:
    """The same images, of which nobody says what they show."""
    return replace(data, labels=None, class_names=None)


def _why_not_known(models: Sequence[BlackBox], data: ImageSet) -> str:
    """Why the labels of the data are not the models' classes, or nothing."""
    assert data.labels is not None
    classes, present = models[0].num_classes, np.unique(data.labels)
    if int(present[-1]) >= classes:
        _refuse_strays(models, data)
        return f"it has the label {int(present[-1])} and the models only answer with 0 to {classes - 1}"
    if len(present) > _FEW_LABELS * classes:
        return ""
    images, labels = _sample(data)
    assert labels is not None
    for model in models:
        said = model.predict(images).argmax(axis=1)
        guessing = 1 / len(present)
        if np.isin(said, present).mean() >= _FEW_LABELS or (said == labels).mean() >= guessing:
            return ""
    return f"its {len(present):,} labels are not what the models with their {classes:,} classes say"


def _refuse_strays(models: Sequence[BlackBox], data: ImageSet) -> None:
    """Refuse data that only some images keep from being the models' own: all labels would be lost for these."""
    assert data.labels is not None
    classes = models[0].num_classes
    known = np.flatnonzero(data.labels < classes)
    if len(known) == 0:
        return
    rows = known[random_rows(len(known), _many_of(data))]
    right = max(int((model.predict(data.images[rows]).argmax(axis=1) == data.labels[rows]).sum()) for model in models)
    if exact_interval(right, len(rows))[0] <= 1 / classes:
        return
    strange = list(map(str, np.unique(data.labels[data.labels >= classes]).tolist()))
    shown = listed(strange) if len(strange) <= _STRAYS_NAMED else f"{', '.join(strange[:_STRAYS_NAMED])} and more"
    raise UserError(
        f"Of the {len(data):,} images in {data.source}, {len(data) - len(known):,} have labels ({shown}) that are none "
        f"of the models' {classes:,} classes, and on the others a model is right; leave those images out, or say "
        "--data-labels ignore to go without any labels (then nobody can be named wrong)."
    )


def _many_of(data: ImageSet) -> int:
    return _ASKED[prod(data.image_shape) > SMALL]


def _sample(data: ImageSet) -> tuple[UInt8Array, Int64Array | None]:
    """Some random real images with their labels."""
    rows = random_rows(len(data), _many_of(data))
    return data.images[rows], None if data.labels is None else data.labels[rows]
