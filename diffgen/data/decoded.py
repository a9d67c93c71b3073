"""Images that are too many for the memory: decoded once into a file in the cache, mapped from there ever after."""

from __future__ import annotations

import contextlib
import math
import mmap
import os
import re
import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, BinaryIO

import numpy as np
import torch

from diffgen.data.checks import checked
from diffgen.errors import RunError, UserError
from diffgen.events import Progress
from diffgen.runs.artifacts import Artifact, read_tensors, unreadable, write_tensors
from diffgen.runs.cache import ENVIRONMENT, cache_folder
from diffgen.runs.files import remove_temporaries, write_whole
from diffgen.types import ImageSet, Int64Array, UInt8Array, labels_digest, pixels_digest

# -- the file: a plain .npy, uint8 (N, C, H, W), so that other programs can read it too ------------------------------

_MAGIC = b"\x93NUMPY\x01\x00"
_HEADER = 128  # bytes, whatever stands in it: it is written again when the number of images is known
_LET_GO = 128 * 2**20  # bytes that were looked at, after which the system is told that they are not needed


class ImageMap(np.memmap):
    """A read-only map of images, uint8 (N, C, H, W), whose pages do not stay in the memory of the process.

    What is looked at counts as memory of the process until the system wants it back, so that one pass over all images
    would look as if all of them had been loaded. Every so often the pages are let go; arrays that share memory with the
    map stay valid, they are read from the disk's cache again.

    Attributes:
        digests: what :func:`diffgen.types.pixels_digest` gives, by :func:`diffgen.types.labels_digest` of the labels: a
            pass over all pixels, which is not made at every start.
    """

    digests: Mapping[str, str] = MappingProxyType({})
    _looked_at = 0

    def __getitem__(self, rows: Any) -> Any:
        found = np.asarray(super().__getitem__(rows))
        self._looked_at += found.nbytes
        if self._looked_at > _LET_GO:
            self.let_go()
        return found

    def let_go(self) -> None:
        """Tell the system that the pages are not needed for now."""
        self._looked_at = 0
        pages = self._mmap  # type: ignore[attr-defined]
        if pages is not None and hasattr(pages, "madvise") and hasattr(mmap, "MADV_DONTNEED"):
            pages.madvise(mmap.MADV_DONTNEED)


def map_images(path: Path, shape: tuple[int, ...]) -> ImageMap:
    """The images of a file that :class:`ImageFile` wrote, which counts as in use until the map is gone.

    Args:
        shape: (N, C, H, W), as it is known from elsewhere.

    Raises:
        OSError: it is missing or cannot be read.
        ValueError: it does not hold images of this shape.
    """
    with path.open("rb") as file:
        if file.read(_HEADER) != _header(shape):
            raise ValueError(f"it holds no images of shape {shape}")
        if os.fstat(file.fileno()).st_size != _HEADER + math.prod(shape):
            raise ValueError("it is cut off")
        _hold(file)
        return ImageMap(file, dtype=np.uint8, mode="r", offset=_HEADER, shape=shape)


def _hold(file: BinaryIO) -> None:
    """Say that a file is in use, as long as it is open or mapped (:func:`diffgen.runs.cache.is_mapped`).

    A map keeps the file open that it was made from.
    """
    if sys.platform != "win32":
        import fcntl

        with contextlib.suppress(OSError):  # a file system without locks: nobody can say then what is in use
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)


class ImageFile:
    """Writes images one after the other.

    Args:
        path: the file, which is made anew.
        shape: (C, H, W) of each.
    """

    def __init__(self, path: Path, shape: tuple[int, int, int]) -> None:
        self.path, self.shape, self.count = path, shape, 0
        self._file = path.open("wb")
        self._file.write(bytes(_HEADER))

    def add(self, images: UInt8Array) -> None:
        """Write images, uint8 (n, C, H, W). OSError if the disk is full."""
        assert images.shape[1:] == self.shape
        self._file.write(np.ascontiguousarray(images).data)
        self.count += len(images)

    def finish(self) -> None:
        """Say how many there are; nothing can be added afterwards."""
        self._file.seek(0)
        self._file.write(_header((self.count, *self.shape)))
        self._file.close()

    def close(self) -> None:
        """Leave it as it is."""
        self._file.close()


def _header(shape: tuple[int, ...]) -> bytes:
    """The beginning of a ``.npy`` file of format 1.0: what it holds, filled up with blanks."""
    text = f"{{'descr': '|u1', 'fortran_order': False, 'shape': {tuple(map(int, shape))!r}, }}".encode()
    room = _HEADER - len(_MAGIC) - 2
    return _MAGIC + room.to_bytes(2, "little") + text.ljust(room - 1) + b"\n"


OTHER_NAME = ".again"  # at the end of a file's name, while it is written once more
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
        made_from: JSON values that decide about its pixels and labels.
        fill: writes the pixels into a file, by :class:`diffgen.data.decoded.ImageFile`; returns (N, C, H, W) and what
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
