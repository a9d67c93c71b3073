"""Which class of the models each class of the data is: by its name, since folders are numbered in their own order."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np

from diffgen.config import replace
from diffgen.events import Progress
from diffgen.models import BlackBox
from diffgen.types import ImageSet

_BETWEEN_WORDS = re.compile(r"[\W_]+")


def names_of_classes(model: BlackBox) -> tuple[str, ...]:
    """What a prepared model calls its K classes; their numbers where it has no names."""
    return model.class_names or tuple(map(str, range(model.num_classes)))


def order_of_labels(data: ImageSet, names: Sequence[str]) -> tuple[int, ...]:
    """The number that each class of the data has among ``names``, or nothing: the labels stay as they are.

    Names in words are the same whatever their case and what stands between the words. Folders that are called by
    numbers are those numbers where one is 0 and some are missing: a class without a picture leaves no folder behind.

    Args:
        data: real images; classes without names, and images without labels, stay as they are.
        names: of the K classes, in their order.
    """
    own = data.class_names
    if data.labels is None or not own or tuple(own) == tuple(names):
        return ()
    if all(name.isdecimal() for name in own):
        numbers = tuple(map(int, own))
        fits = 0 in numbers and len(set(numbers)) == len(own) < len(names) and max(numbers) < len(names)
        return numbers if fits and numbers != tuple(range(len(own))) else ()
    places = {_folded(name): place for place, name in enumerate(names)}
    found = tuple(places.get(_folded(name), -1) for name in own)
    if -1 in found or len(set(found)) < len(own) or len(places) < len(names):
        return ()
    return () if found == tuple(range(len(own))) else found


def in_order(data: ImageSet, order: Sequence[int]) -> ImageSet:
    """The data with ``order[i]`` in place of the label ``i``, and without its names, which have the old order.

    With an empty order it stays as it is.
    """
    if not order or data.labels is None:
        return data
    return replace(data, labels=np.asarray(order, dtype=np.int64)[data.labels], class_names=None)


def announce_order(data: ImageSet, order: Sequence[int], model: BlackBox, progress: Progress) -> None:
    """Say that labels are put into the order of a model's classes, or that names do not tell whether they are in it."""
    own, names = data.class_names, names_of_classes(model)
    if order and own:
        first = next(label for label, place in enumerate(order) if label != place)
        progress.say(
            f"The classes of {data.source} are counted as model {model.name} does, by their names: {own[first]!r} is "
            f"its class {order[first]}, and not {first}."
        )
    elif data.labels is not None and own and model.class_names and not all(name.isdecimal() for name in own):
        known = {_folded(name) for name in names}
        strange = [name for name in own if _folded(name) not in known]
        if 0 < len(strange) < len(own):
            progress.warn(
                f"The data {data.source} and model {model.name} call some classes otherwise ({strange[0]!r} is none of "
                "the model's names), so that labels are taken in the order of the data's own names; give both the same "
                "names where that is another order."
            )


def _folded(name: str) -> str:
    return _BETWEEN_WORDS.sub(" ", name).strip().casefold()
