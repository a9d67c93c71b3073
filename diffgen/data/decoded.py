"""Image sets whose decoded pictures pass a limit: decoded once into the cache, mapped from there ever after."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from diffgen.data.checks import checked
from diffgen.data.mapped import ImageMap, map_images
from diffgen.data.piles import OTHER_NAME
from diffgen.errors import RunError, UserError
from diffgen.events import Progress
from diffgen.runs.artifacts import Artifact, read_tensors, unreadable, write_tensors
from diffgen.runs.cache import ENVIRONMENT, cache_folder
from diffgen.runs.files import remove_temporaries, write_whole
from diffgen.types import ImageSet, Int64Array, labels_digest, pixels_digest

FORMAT = 2
KIND = "images"


@dataclass(frozen=True)
class Facts:
    """What is known of a set besides its pixels.

    Attributes:
        labels: int64 (N,), or None.
        class_names: K names in label order, or None.
        said: sentences about what was done to the pictures, for whoever uses them again.
        warned: such sentences that are warnings.
    """

    labels: Any = None
    class_names: Sequence[str] | None = None
    said: tuple[str, ...] = ()
    warned: tuple[str, ...] = ()

    def tell(self, progress: Progress) -> None:
        """Say the sentences."""
        for sentence in self.said:
            progress.say(sentence)
        for sentence in self.warned:
            progress.warn(sentence)


def decoded_once(
    source: str,
    made_from: Sequence[Any],
    fill: Callable[[Path], tuple[tuple[int, ...], Facts]],
    progress: Progress,
    *,
    expected: int,
) -> ImageSet:
    """An image set from the cache, decoded now where it is not there.

    Args:
        source: what messages call it.
        made_from: JSON values that decide about its pixels and labels.
        fill: writes the pixels into a file, by :class:`diffgen.data.mapped.ImageFile`; returns (N, C, H, W) and what
            else there is.
        progress: is told where it lies and how large it is.
        expected: bytes that the pixels will take at most.

    Raises:
        UserError: the disk of the cache is full, or what ``fill`` raises; nothing half-written is left.
    """
    artifact = Artifact(KIND, {"format": FORMAT, "made from": list(made_from)})

    def make(path: Path) -> ImageSet:
        pixels = path.with_suffix(".npy")
        remove_temporaries(path.parent, re.compile(re.escape(pixels.name)))
        for left in path.parent.glob(f".{pixels.name}.*{OTHER_NAME}"):
            left.unlink(missing_ok=True)
        _check_room(path.parent, expected, source)
        progress.say(
            f"The images of {source!r} are decoded once, into {pixels}, where they take up to "
            f"{expected / 2**30:.1f} GiB."
        )
        found: list[tuple[tuple[int, ...], Facts]] = []
        try:
            write_whole(pixels, lambda temporary: found.append(fill(temporary)))
            shape, facts = found[0]
            facts.tell(progress)
            _write_facts(path, pixels, shape, facts, source)
        except RunError as error:
            pixels.unlink(missing_ok=True)
            raise UserError(
                f"The images of {source!r} do not fit into the cache {cache_folder()} ({error.__cause__ or error}); "
                f"{_mend()}."
            ) from error
        except BaseException:
            pixels.unlink(missing_ok=True)
            raise
        return _read(path, source)

    def load(path: Path) -> ImageSet:
        images = _read(path, source)
        size, pixels = images.images.nbytes / 2**30, path.with_suffix(".npy")
        progress.say(f"{len(images):,} images of {source!r}, decoded before: {pixels} ({size:.1f} GiB).")
        header = read_tensors(path)[0]
        Facts(said=header["said"], warned=header["warned"]).tell(progress)
        return images

    return artifact.obtain(load, make, progress)


def in_memory_if_small(found: ImageSet, limit: int) -> ImageSet:
    """Images that take no more than ``limit`` bytes, now that they are decoded, in memory; others as they are."""
    if found.images.nbytes > limit:
        return found
    return ImageSet(np.array(found.images), found.labels, found.class_names, found.source)


def _check_room(folder: Path, needed: int, source: str) -> None:
    free = shutil.disk_usage(folder).free
    if free < needed:
        raise UserError(
            f"The images of {source!r} take {needed / 2**30:.1f} GiB when they are decoded, but the disk of the cache "
            f"{cache_folder()} has {free / 2**30:.1f} GiB left; {_mend()}."
        )


def _mend() -> str:
    return (
        f"free some space (diffgen doctor --cache-limit SIZE), name another folder in {ENVIRONMENT}, or bring the "
        "images to fewer pixels with --resize"
    )


def _write_facts(path: Path, pixels: Path, shape: tuple[int, ...], facts: Facts, source: str) -> None:
    images = checked(map_images(pixels, shape), facts.labels, facts.class_names, source)
    labels = images.labels
    header = {
        "shape": list(shape),
        "class_names": None if images.class_names is None else list(images.class_names),
        "said": list(facts.said),
        "warned": list(facts.warned),
        "digests": {labels_digest(each): pixels_digest(images.images, each) for each in (None, labels)},
    }
    write_tensors(path, {} if labels is None else {"labels": torch.from_numpy(labels)}, header)


def _read(path: Path, source: str) -> ImageSet:
    """The set of a file that :func:`_write_facts` wrote.

    Raises:
        UserError: it, or the file of the pixels, is damaged or missing.
    """
    try:
        header, tensors = read_tensors(path)
        images: ImageMap = map_images(path.with_suffix(".npy"), tuple(header["shape"]))
        labels: Int64Array | None = tensors["labels"].numpy().astype(np.int64) if "labels" in tensors else None
        images.digests = dict(header["digests"])
        return checked(images, labels, header["class_names"], source)
    except (OSError, ValueError, KeyError, TypeError, UserError) as error:
        raise unreadable("The decoded images", path, error, "they are decoded again") from error
