"""Takes images that the caller holds as numpy arrays, or as an image set."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from diffgen.data.checks import checked
from diffgen.errors import UserError
from diffgen.types import ImageSet

_SOURCE = "in-memory array"


def from_image_set(given: ImageSet) -> ImageSet:
    """The same object, once it is known to keep the rules; labels of another integer type are made int64.

    Raises:
        UserError: it breaks a rule of :func:`diffgen.data.checks.checked`.
    """
    made = checked(given.images, given.labels, given.class_names, given.source)
    unchanged = made.images is given.images and made.labels is given.labels and made.class_names is given.class_names
    return given if unchanged else replace(made, names=given.names)


def from_arrays(images: Any, labels: Any = None) -> ImageSet:
    """An image set that owns a copy of the arrays, so that its digest stays true when the caller goes on using them.

    Args:
        images: numpy uint8 (N, C, H, W).
        labels: N whole numbers, or None.

    Raises:
        UserError: the arrays break a rule of :func:`diffgen.data.checks.checked`.
    """
    made = checked(images, labels, None, _SOURCE)
    copied = None if made.labels is None else made.labels.copy()
    return ImageSet(images=np.array(made.images, order="C"), labels=copied, class_names=None, source=_SOURCE)


def from_tuple(pair: tuple[Any, ...]) -> ImageSet:
    """As :func:`from_arrays`, from ``(images, labels)``.

    Raises:
        UserError: the tuple has not two members, or the arrays break a rule.
    """
    if len(pair) != 2:
        raise UserError(f"The data are a tuple of {len(pair)}; give (images, labels), or the images alone.")
    return from_arrays(*pair)
