"""Pictures that people took for valid or not: from the labels of a run, or from a file of such answers."""

from __future__ import annotations

import zipfile
import zlib
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from diffgen.errors import UserError
from diffgen.labels.store import INVALID, UNLABELLED, LabelStore
from diffgen.runs.folder import RunFolder
from diffgen.runs.opening import open_regular
from diffgen.types import UInt8Array


@dataclass(frozen=True)
class Answers:
    """What people said of N pictures.

    Attributes:
        images: uint8 (N, C, H, W).
        valid: bool (N,): somebody could name what they show.
    """

    images: UInt8Array
    valid: NDArray[np.bool_]

    @property
    def digest(self) -> str:
        """Tells these pictures and answers, in their order, from all others."""
        made = blake2b(repr(self.images.shape).encode(), digest_size=16)
        made.update(np.ascontiguousarray(self.images).data)
        made.update(np.ascontiguousarray(self.valid).data)
        return made.hexdigest()


def read_answers(path: Path, image_shape: tuple[int, ...]) -> Answers:
    """The answers of a run whose pictures people labelled (``diffgen label``), or of an .npz file.

    Args:
        path: a run folder; or a file with ``images``, uint8 (N, C, H, W), and ``valid``, bool (N,).
        image_shape: (C, H, W) that the pictures must have.

    Raises:
        UserError: it is neither, nobody labelled the run, or its pictures have another shape.
    """
    found = _of_run(path) if path.is_dir() else _of_file(path)
    if found.images.shape[1:] != tuple(image_shape):
        raise UserError(
            f"The pictures that {path} has answers about are {'x'.join(map(str, found.images.shape[1:]))} and the real "
            f"images {'x'.join(map(str, image_shape))}; give answers about pictures of that size."
        )
    return found


def _of_run(path: Path) -> Answers:
    folder = RunFolder.open(path)
    if not folder.has_arrays("labels"):
        raise UserError(
            f"Nobody has labelled pictures of the run {path}; do so with diffgen label {path}, or give another."
        )
    triggers = folder.read_triggers()
    try:
        labels, _ = LabelStore.from_arrays(folder.read_arrays("labels")).of(triggers.hashes, ("human",))
    except ValueError as error:
        raise UserError(
            f"The labels {folder.file('labels.npz')} cannot be read ({error}); import them again."
        ) from error
    rows = np.flatnonzero(labels != UNLABELLED)
    return Answers(np.asarray(triggers.images[rows]), np.asarray(labels[rows] != INVALID))


def _of_file(path: Path) -> Answers:
    try:
        with open_regular(path) as file, np.load(file, allow_pickle=False) as stored:
            images, valid = stored["images"], stored["valid"]
    except (OSError, ValueError, KeyError, EOFError, TypeError, zipfile.BadZipFile, zlib.error) as error:
        raise UserError(
            f"The answers {path} cannot be read ({error}); give a run folder whose pictures were labelled, or an .npz "
            "file with the arrays images and valid."
        ) from error
    if images.dtype != np.uint8 or images.ndim != 4 or valid.dtype != np.bool_ or valid.shape != (len(images),):
        raise UserError(
            f"The answers {path} hold {images.dtype} images of shape {images.shape} and {valid.dtype} answers of shape "
            f"{valid.shape}; give uint8 images (N, C, H, W) and as many booleans."
        )
    return Answers(images, valid)
