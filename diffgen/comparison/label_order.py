"""Which class of the models each class of the data is: by its name, since folders are numbered in their own order."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np

from diffgen.config import replace
from diffgen.errors import UserError
from diffgen.events import Progress
from diffgen.models import BlackBox
from diffgen.types import ImageSet

_BETWEEN_WORDS = re.compile(r"[\s_-]+")


def namer(models: Sequence[BlackBox], mapped: Sequence[bool] = ()) -> BlackBox:
    """The model whose names tell which class is which: the first that has some and is not to be mapped onto another.

    Args:
        mapped: which of them have a label map; empty: none.
    """
    own = [not (at < len(mapped) and mapped[at]) for at in range(len(models))]
    return next((model for model, counts in zip(models, own, strict=True) if model.class_names and counts), models[0])


def names_of_classes(model: BlackBox) -> tuple[str, ...]:
    """What a prepared model calls its K classes; their numbers where it has no names."""
    return model.class_names or tuple(map(str, range(model.num_classes)))


def order_of_labels(data: ImageSet, names: Sequence[str]) -> tuple[int, ...]:
    """The number that each class of the data has among ``names``, or nothing: the labels stay as they are.

    A name is looked for as it stands, then whatever its case and what stands between its words. Where classes have
    names in words, or none but their numbers, folders that are called by numbers are these numbers if one is 0 and some
    are missing: a class without a picture leaves no folder behind, and without a 0 they may begin with 1.

    Args:
        data: real images; classes without names, and images without labels, stay as they are.
        names: of the K classes, in their order; "0", "1", ... where they have none.
    """
    found = _places(data, names)
    return () if found == tuple(range(len(found))) else found


def names_tell(data: ImageSet, names: Sequence[str]) -> bool:
    """Whether names tell which class each label of the data is, in whatever order; see :func:`order_of_labels`."""
    return bool(_places(data, names))


def shifted(data: ImageSet, names: Sequence[str], whose: str) -> str:
    """Why the numbers of the labels are probably wrong: the data name more or fewer classes, and nothing tells which.

    Args:
        data: real images, whose labels are not in another order yet.
        names: of the K classes; see :func:`order_of_labels`.
        whose: these are, as in "model b".

    Returns:
        A sentence without its end, or nothing. Classes that are called 0, 1, 2, ... have these numbers.
    """
    own = data.class_names or ()
    counted = [int(name) for name in own if name.isdecimal()] == list(range(len(own)))
    if data.labels is None or len(own) in (0, len(names)) or counted or names_tell(data, names):
        return ""
    few = len(own) < len(names)
    return (
        f"The data {data.source} name {len(own):,} classes and not the {len(names):,} of {whose}: probably "
        f"{'a class has no folder' if few else 'a folder is no class of these'}, which shifts the labels of all "
        "classes behind it"
    )


def _places(data: ImageSet, names: Sequence[str]) -> tuple[int, ...]:
    return () if data.labels is None else places_of(data.class_names or (), names)


def places_of(own: Sequence[str], names: Sequence[str]) -> tuple[int, ...]:
    """The place of each of some classes' names among others, or nothing where one is unknown or two could be meant."""
    if not own:
        return ()
    counted = tuple(names) == tuple(map(str, range(len(names))))
    if all(name.isdecimal() for name in own) and (counted or not any(name.isdecimal() for name in names)):
        return _numbers(own, len(names))
    found = _each_among(own, names)
    return found if -1 not in found and len(set(found)) == len(own) else ()


def _numbers(own: Sequence[str], classes: int) -> tuple[int, ...]:
    numbers = tuple(map(int, own))
    gap = 0 in numbers and len(set(numbers)) == len(own) <= max(numbers) < classes
    return numbers if gap else ()  # without one, whoever counts them comes to the same


def _each_among(own: Sequence[str], names: Sequence[str]) -> tuple[int, ...]:
    """Where each name stands among others; -1: nowhere, or more than once."""
    exact, folded = _numbered(names), _numbered([_folded(name) for name in names])
    return tuple(exact.get(name, folded.get(_folded(name), -1)) for name in own)


def _numbered(names: Sequence[str]) -> dict[str, int]:
    """The place of each name; -1 for one that stands there more than once."""
    found: dict[str, int] = {}
    for place, name in enumerate(names):
        found[name] = -1 if name in found else place
    return found


def in_order(data: ImageSet, order: Sequence[int]) -> ImageSet:
    """The data with ``order[i]`` in place of the label ``i``, and without its names, which have the old order.

    With an empty order it stays as it is.

    Raises:
        UserError: the order is shorter than the labels are many.
    """
    if not order or data.labels is None:
        return data
    if int(data.labels.max(initial=-1)) >= len(order):
        raise UserError(f"The run's order of classes does not cover those of {data.source}; the run folder is damaged.")
    return replace(data, labels=np.asarray(order, dtype=np.int64)[data.labels], class_names=None)


def announce_order(data: ImageSet, order: Sequence[int], names: Sequence[str], whose: str, progress: Progress) -> None:
    """Say that labels are put into another order of classes, or that names do not tell whether they are in it.

    Args:
        order: of their labels, as :func:`order_of_labels` found it.
        names: of the classes in that order, or none.
        whose: order that is, as in "model b".
    """
    own = data.class_names
    if order and own:
        first = next(label for label, place in enumerate(order) if label != place)
        progress.say(
            f"The classes of {data.source} are counted as {whose} does, by their names: {own[first]!r} is "
            f"class {order[first]} there, and not {first}."
        )
    elif own and names and not names_tell(data, names):
        strange = [name for name, place in zip(own, _each_among(own, names), strict=True) if place < 0]
        if 0 < len(strange) < len(own):
            progress.warn(
                f"The data {data.source} and {whose} call some classes otherwise ({strange[0]!r} is none of "
                "the latter's names, or several), so that labels are taken in the order of the data's own names; give "
                "both the same names where that is another order."
            )


def _folded(name: str) -> str:
    return _BETWEEN_WORDS.sub(" ", name).strip().casefold()
