"""Checks what every image set must fulfil, whatever its source; nothing else in this folder repeats these rules."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from diffgen.errors import UserError
from diffgen.types import NO_CLASS, ImageSet, Int64Array, UInt8Array
from diffgen.wording import count_of

# Below this, neither a GAN nor a calibrated filter means anything.
MIN_IMAGES = 50
# Of what is kept in memory: 60,000 MNIST images are 45 MiB, 50,000 CIFAR-10 images 147 MiB.
MAX_BYTES = 4 * 2**30
# More than any public set of images has (ImageNet-21k: 21,841).
MAX_CLASSES = 32_768


def checked(images: Any, labels: Any, class_names: Any, source: str) -> ImageSet:
    """An image set that keeps every rule of :class:`diffgen.types.ImageSet`.

    Args:
        images: should be uint8 (N, C, H, W), N at least 50, C 1 or 3.
        labels: should be N whole numbers 0..K-1 of any integer type, or None.
        class_names: K names in label order, or None.

    Returns:
        An image set over the given pixels (copied only if they are not contiguous), labels as int64.

    Raises:
        UserError: a rule is broken; the message names the rule and says how to mend it.
    """
    _check_images(images, source)
    names = _checked_names(class_names, source)
    return ImageSet(
        images=_in_plain_order(images),
        labels=_checked_labels(labels, len(images), names, source),
        class_names=names,
        source=source,
    )


def _in_plain_order(images: UInt8Array) -> UInt8Array:
    """The same pixels, contiguous, with the strides that a new array has.

    numpy leaves open the stride of an axis of one, such as the channel of grey images; torch takes some of these
    strides for channels last, and convolutions then end in other last digits.
    """
    plain = images if images.flags.c_contiguous else np.ascontiguousarray(images)
    made = plain.reshape(-1).reshape(images.shape)
    return plain if plain.strides == made.strides else made


def check_size_in_memory(shape: tuple[int, ...], source: str) -> None:
    """Refuse pixels that would fill the memory, before they are read.

    Raises:
        UserError: uint8 values of this shape take more than ``MAX_BYTES``.
    """
    size = math.prod(shape)  # of Python integers, which cannot overflow
    if size > MAX_BYTES:
        raise UserError(
            f"The data set {source!r} of shape {shape} would take {size / 2**30:.0f} GiB of memory; "
            f"use at most {MAX_BYTES / 2**30:.0f} GiB, that is fewer or smaller images."
        )


def _check_images(images: Any, source: str) -> None:
    if not isinstance(images, np.ndarray):
        raise UserError(
            f"The images of {source!r} are a {type(images).__name__}, not a numpy array; "
            "give a numpy uint8 array of shape (N, C, H, W)."
        )
    if images.dtype != np.uint8:
        raise UserError(
            f"The images of {source!r} are {images.dtype}, not uint8; convert them to whole numbers 0..255, "
            "for values in 0..1 with (images * 255).round().astype('uint8')."
        )
    if images.ndim != 4:
        raise UserError(
            f"The images of {source!r} have shape {images.shape}, not (N, C, H, W); "
            "for grey images of shape (N, H, W) give images[:, None]."
        )
    if images.size == 0:
        raise UserError(f"The data set {source!r} is empty (shape {images.shape}); give at least {MIN_IMAGES} images.")
    if images.shape[1] not in (1, 3):
        hint = (
            "the channels seem to come last, so give images.transpose(0, 3, 1, 2)"
            if images.shape[3] in (1, 3)
            else "give grey (1) or RGB (3) images"
        )
        raise UserError(f"The images of {source!r} have {images.shape[1]} channels (shape {images.shape}); {hint}.")
    if len(images) < MIN_IMAGES:
        raise UserError(
            f"The data set {source!r} has only {len(images)} images; give at least {MIN_IMAGES}, better some thousands."
        )
    if not isinstance(images, np.memmap):
        check_size_in_memory(images.shape, source)


def _checked_names(class_names: Any, source: str) -> tuple[str, ...] | None:
    if class_names is None:
        return None
    names = tuple(class_names)
    for name in names:
        # Names end up in JSON, HTML and on the screen; control characters and broken encodings would too.
        if not isinstance(name, str) or not name.isprintable() or not name:
            raise UserError(f"The class name {name!r} of {source!r} is not printable text; rename the class.")
    return names


def _checked_labels(labels: Any, count: int, names: tuple[str, ...] | None, source: str) -> Int64Array | None:
    if labels is None:
        return None
    try:
        values = np.asarray(labels)
    except (TypeError, ValueError, RuntimeError) as error:  # ragged lists, tensors on another device
        raise UserError(
            f"The labels of {source!r} are not a list of whole numbers; give one for each image."
        ) from error
    if values.dtype.kind not in "iu":
        raise UserError(
            f"The labels of {source!r} are {values.dtype}, not whole numbers; give the class number of each image."
        )
    if values.ndim != 1:
        raise UserError(
            f"The labels of {source!r} have shape {values.shape}, not (N,); give one class number for each image, "
            "for one-hot labels labels.argmax(axis=1)."
        )
    if len(values) != count:
        raise UserError(
            f"The data set {source!r} has {count} images but {len(values)} labels; "
            "give one label for each image, in the same order."
        )
    lowest, highest = int(values.min()), int(values.max())
    if lowest < 0:
        raise UserError(f"The labels of {source!r} contain {lowest}; number the classes from 0.")
    classes = MAX_CLASSES if names is None else min(len(names), MAX_CLASSES)
    if highest >= classes:
        limit = f"{classes} names" if classes < MAX_CLASSES else f"room for {MAX_CLASSES} classes"
        raise UserError(
            f"The labels of {source!r} contain {highest}, but there are {limit}; "
            "number the classes from 0 without gaps."
        )
    return values.astype(np.int64, copy=False)


def check_classes(mask: UInt8Array, names: int, subject: str) -> None:
    """See that a mask holds no class beyond those that have names.

    Raises:
        UserError: it does; ``subject`` is what the sentence begins with.
    """
    numbers = np.unique(mask)
    beyond = numbers[(numbers >= names) & (numbers != NO_CLASS)]
    if len(beyond):
        raise UserError(
            f"{subject} has the class {beyond[0]}, and the {count_of(names, 'class', 'classes')} that have names are "
            f"numbered from 0; name them all, and write {NO_CLASS} where nobody knows."
        )
