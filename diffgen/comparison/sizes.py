"""What size a model is handed that declares none: that of the data, or another one with which it is surely better."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from diffgen.comparison.smells import FEW_RIGHT
from diffgen.config import Preprocessing, replace, roles
from diffgen.data.resize import Size, size_text
from diffgen.errors import RunError, UserError
from diffgen.events import Progress
from diffgen.metrics.intervals import simultaneous_paired_intervals
from diffgen.models import BlackBox
from diffgen.models.answer_table import AnswerTable
from diffgen.models.shapes import USUAL_SIZES
from diffgen.sampling import random_rows
from diffgen.types import BoolArray, ImageSet, Int64Array, UInt8Array
from diffgen.wording import percent

_ASKED, _PREPARED = 200, 64  # random real images


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
    rows = random_rows(len(data), _ASKED)
    images, known = data.images[rows], None if data.labels is None else data.labels[rows]
    for role, model in asked.items():
        if not model.size_open or model.url is not None or isinstance(model, AnswerTable):
            continue
        if known is None and first is not None:
            known = asked[first].predict(images).argmax(axis=1)
        if known is None:
            return
        before, own = model.preprocessing, (images.shape[2], images.shape[3])
        at_own = np.equal(model.predict(images).argmax(axis=1), known)
        usual = [(side, side) for side in USUAL_SIZES] if at_own.mean() < FEW_RIGHT else []
        sizes = [size for size in dict.fromkeys((*declared, *usual)) if size != own]
        if not sizes:
            continue
        others = {}
        for size in sizes:
            right = _right_with(model, replace(before, size=size), images, known)
            if right is not None and (size in declared or right.mean() >= FEW_RIGHT):
                others[size] = right
        best = _surely_best(at_own, others)
        model.set_preprocessing(replace(before, size=best))
        model.prepare(images)
        if best is not None:
            what = "is right on" if data.labels is not None else f"agrees with model {first} on"
            source = f"as model {declared[best]} declares" if best in declared else "one of the usual sizes"
            progress.warn(
                f"Model {role} ({model.name}) declares no size and is handed images of {size_text(best)}, {source}: so "
                f"it {what} {percent(others[best].mean())} of {len(rows):,} real images, and with {size_text(own)} on "
                f"{percent(at_own.mean())}; if it was made for another size, say so with --{role.lower()}-size."
            )


def _right_with(
    model: BlackBox, preprocessing: Preprocessing, images: UInt8Array, known: Int64Array
) -> BoolArray | None:
    """Which images a model answers as known with other pre-processing, or None: it does not take that."""
    model.set_preprocessing(preprocessing)
    try:
        model.prepare(images[:_PREPARED])
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
