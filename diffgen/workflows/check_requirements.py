"""What a check refuses before anything is measured: limits that nothing can be measured for, and a store of others."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from diffgen.comparison.classes import several_labels
from diffgen.comparison.jury import PreparedJury
from diffgen.comparison.preflight import RealAnswers
from diffgen.comparison.results import class_names
from diffgen.comparison.smells import at_chance
from diffgen.config import CheckConfig, CompareConfig, roles
from diffgen.errors import UserError
from diffgen.gate.conditions import CRITERIA
from diffgen.gate.measurements import percent
from diffgen.metrics.intervals import exact_interval
from diffgen.models import BlackBox
from diffgen.models.panel import panel_of
from diffgen.runs.store import Store, check_shape
from diffgen.types import ImageSet


def _limits_that_need(what: str, config: CheckConfig) -> list[str]:
    """The options of the limits that are set and cannot be measured without labels, jury or variations."""
    needy = [each for each in CRITERIA if what in (each.needs, each.images)]
    return [f"--{each.limit.replace('_', '-')}" for each in needy if each.own_limit(config.limits) is not None]


def check_labels(check: CheckConfig, images: ImageSet, config: CompareConfig) -> None:
    """See that the images have labels where a limit needs them, and that no labels are left out unasked.

    Args:
        images: without labels where these are not used.
        config: what was found out of ``check.compare``.

    Raises:
        UserError: they have none, or theirs are not used.
    """
    for option in _limits_that_need("labels", check) if images.labels is None else ():
        if config.data_labels == "ignore":
            raise UserError(
                f"{option} needs labels, and those of the data {images.source} are not used; leave it out, or "
                "say --data-labels use if they are the models' classes."
            )
        raise UserError(
            f"{option} needs labels, and the data {images.source} have none; give labelled images or leave it out."
        )
    if config.data_labels == "ignore" != check.compare.data_labels:
        raise UserError(
            f"The labels of the data {images.source} are not the models' classes, and without labels no accuracy is "
            "checked; give labels of the models' classes, say --data-labels use if they are, or --data-labels ignore "
            "to check without any."
        )


def check_variations(config: CheckConfig) -> None:
    """See that there are variations where a limit is on them, or raise UserError."""
    for option in _limits_that_need("variations", config) if config.variations == 0 else ():
        raise UserError(f"{option} needs variations, but --variations is 0; leave one of them out.")


def check_base(images: ImageSet, real: RealAnswers) -> None:
    """See that labelled images show a base that is right more often than by guessing.

    Both models are often fed alike: where that is wrong for both, a candidate is no worse than such a base.

    Args:
        images: without labels where these are not used.

    Raises:
        UserError: the base hardly is, or says one label of most images.
    """
    if images.labels is None or real.summary.accuracy is None:
        return
    found = {each.kind: each.sentence for each in real.smells[0] if each.sentence}
    right = next(each for each in real.smells[0] if each.kind == "accuracy")
    guessed = float(np.bincount(images.labels).max() / right.of)
    poor = "accuracy" in found or exact_interval(right.sound, right.of)[0] <= guessed
    if at_chance(right.sound, right.of, guessed) or (poor and "one label" in found):
        why = found.get("accuracy") or (
            f"The base is right on {percent(right.sound / right.of)} of the labelled images, hardly more than the "
            f"{percent(guessed)} of one that names the most frequent class for all."
        )
        raise UserError(
            f"{why.removesuffix('.')}, and no candidate can be checked against such a base; mend that, or say "
            "--data-labels ignore to check without labels."
        )


def check_outputs(models: Sequence[BlackBox]) -> None:
    """See that each model gives an image one label, and that of two detectors of one kind both count classes alike.

    Among several labels the highest value says little. From which number classes are counted is part of what is
    deployed, so that no check takes it from the answers where it makes two models alike that are not.

    Raises:
        UserError: one gives several, or counts otherwise, and nobody has said so.
    """
    for sentence in several_labels(models):
        raise UserError(sentence)
    heads = {model.preprocessing.head for model in models if model.detects}
    later = {
        role: model
        for role, model in zip(roles(models), models, strict=True)
        if model.detects and model.preprocessing.background == "first"
    }
    if len(heads) == len(later) == 1:
        ((role, model),) = later.items()
        if not model.background_said:
            raise UserError(
                f"Model {role} ({model.name}) counts its classes from 1, as its answers show, and the other from 0, so "
                "that what reads both alike takes each object for one of the next class; if they are not read alike, "
                f"add --{role.lower()}-background first."
            )


def check_tables(config: CheckConfig, store: Store, models: Sequence[BlackBox]) -> None:
    """See that a table of answers is asked about no image that it does not list, or raise UserError."""
    varied = config.variations and panel_of(models) is None  # of detectors no variations are made
    if any(model.is_table for model in models) and (varied or store.behaviours):
        raise UserError(
            "A table of answers lists neither variations of the real images nor what the store holds; add "
            "--variations 0 and leave --store out, or give the model itself."
        )


def check_store(store: Store, place: Path, models: Sequence[BlackBox], images: ImageSet) -> None:
    """See that a store, which has behaviours, is of such images and such classes, or raise UserError."""
    check_shape(store, images.image_shape, place)
    largest = max(max(each.said) for each in store.behaviours)
    if largest >= models[0].num_classes:
        raise UserError(
            f"The store {place} has the label {largest}, but the models answer with {models[0].num_classes} "
            "classes; name the store that was made for such models."
        )
    names = class_names(models, images)
    for each in store.behaviours:
        now = tuple(names[label] for label in each.said)
        if now != each.names and not any(name.isdecimal() for name in (*now, *each.names)):
            raise UserError(
                f"The store {place} calls two classes {', '.join(each.names)}, but here they are "
                f"{', '.join(now)}; name the store that was made for these classes."
            )


def check_jury(config: CheckConfig, jury: PreparedJury) -> None:
    """See that there is a jury where a limit needs one, or raise UserError."""
    for option in _limits_that_need("jury", config) if jury.recogniser is None else ():
        raise UserError(
            f"{option} needs a jury that says who is wrong, and there is none ({jury.reason}); give more images, "
            "labels or --jury, or leave it out."
        )
