"""The few types that every part of diffgen speaks.

Images at every border are ``uint8 (N, C, H, W)``: numpy arrays in the public API and in files, torch tensors inside
the program. This module imports neither torch nor any other heavy package.
"""

from __future__ import annotations

import hashlib
import math
import os
from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import torch

BoolArray = NDArray[np.bool_]
UInt8Array = NDArray[np.uint8]
Int64Array = NDArray[np.int64]
Float32Array = NDArray[np.float32]

NO_CLASS = 255  # in a mask: nobody knows what the pixel shows
_HASHED = 2**26  # bytes handed to SHA-256 at once


@dataclass(frozen=True)
class Result:
    """Figures that the function of a verb gives."""

    def as_dict(self) -> dict[str, Any]:
        """JSON values."""
        return asdict(self)


@dataclass(frozen=True)
class ImageSet:
    """Real images, with labels when they are known.

    Attributes:
        images: uint8 (N, C, H, W), values 0..255, C is 1 or 3.
        labels: int64 (N,) with values 0..K-1, or None.
        class_names: K names in the order of labels, or of the classes of boxes, or None.
        source: where the images came from, as the user wrote it.
        names: N names of files below the source, or None: they are in none of their own.
        boxes: of the objects in each image, float32 (n, 5): x1, y1, x2, y2 in its pixels, within it, and the class;
            None for an image of which nobody knows. None: nobody knows of any.
        masks: the class of each pixel, uint8 (H, W), ``NO_CLASS`` where nobody knows it; None as with boxes.
        mask_names: names of these classes, or None: they are numbered as the models' own.
    """

    images: UInt8Array
    labels: Int64Array | None
    class_names: tuple[str, ...] | None
    source: str
    names: tuple[str, ...] | None = None
    boxes: tuple[Float32Array | None, ...] | None = None
    masks: tuple[UInt8Array | None, ...] | None = None
    mask_names: tuple[str, ...] | None = None

    def __len__(self) -> int:
        return len(self.images)

    @property
    def image_shape(self) -> tuple[int, int, int]:
        """(C, H, W) of one image."""
        _, channels, height, width = self.images.shape
        return channels, height, width

    @cached_property
    def digest(self) -> str:
        """SHA-256 over pixels and what is known, as 64 hexadecimal digits: the key of what is cached for it."""
        digest = pixels_digest(self.images, self.labels)
        for known in (self.boxes, self.masks):
            if known is not None:
                sha = hashlib.sha256(digest.encode())
                for each in known:
                    sha.update(b"?" if each is None else np.ascontiguousarray(each).tobytes() + b"!")
                digest = sha.hexdigest()
        return digest

    def at(self, rows: Int64Array | BoolArray) -> ImageSet:
        """The images of some rows, given by their numbers or one yes or no for each, and what is known of them."""
        rows = np.arange(len(self))[rows]
        boxes, masks = (
            None if known is None else tuple(known[row] for row in rows.tolist()) for known in (self.boxes, self.masks)
        )
        return replace(
            self,
            images=self.images[rows],
            labels=None if self.labels is None else self.labels[rows],
            names=None if self.names is None else tuple(self.names[row] for row in rows.tolist()),
            boxes=boxes,
            masks=masks,
        )


def labels_digest(labels: Int64Array | None) -> str:
    """SHA-256 over labels; empty for none."""
    return "" if labels is None else hashlib.sha256(np.ascontiguousarray(labels, dtype=np.int64).data).hexdigest()


def pixels_digest(images: UInt8Array, labels: Int64Array | None) -> str:
    """SHA-256 over shape, pixels and labels, as 64 hexadecimal digits.

    Images are read batch by batch, and not at all where they have an attribute ``digests`` that knows it: by
    :func:`labels_digest`.
    """
    known: str | None = getattr(images, "digests", {}).get(labels_digest(labels))
    if known is not None:
        return known
    sha = hashlib.sha256(repr((images.shape, labels is None)).encode())
    rows = max(1, _HASHED // max(1, math.prod(images.shape[1:])))
    for start in range(0, len(images), rows):
        sha.update(np.ascontiguousarray(images[start : start + rows]).data)
    if labels is not None:
        sha.update(np.ascontiguousarray(labels, dtype=np.int64).data)
    return sha.hexdigest()


@runtime_checkable
class Scorer(Protocol):
    """Says how real an image looks."""

    def score(self, images: torch.Tensor) -> torch.Tensor:
        """Realism of each image.

        Args:
            images: uint8 (N, C, H, W).

        Returns:
            float32 (N,), higher is more real; no fixed range.
        """
        ...


def several(given: Any) -> tuple[Any, ...]:
    """What was given in place of a list: all of it, or the one thing, such as a path, a number or a function."""
    one = isinstance(given, str | bytes | os.PathLike) or callable(given) or not isinstance(given, Iterable)
    return (given,) if one else tuple(given)
