"""Folders in the format of MNIST: idx files, plain or compressed with gzip.

An idx file is two zero bytes, one byte for the type of the values, one for the number of axes, the length of each
axis as big-endian uint32, then the values (http://yann.lecun.com/exdb/mnist).
"""

from __future__ import annotations

import gzip
import math
import re
import struct
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, Literal, cast

import numpy as np

from diffgen.data.checks import check_size_in_memory, checked
from diffgen.data.decoded import Facts
from diffgen.data.file_tree import stamp_of
from diffgen.data.pixels import ArrayRows, channels_first, read_rows, read_values
from diffgen.data.reading import Reading
from diffgen.errors import UserError
from diffgen.events import Progress
from diffgen.types import ImageSet, UInt8Array

_IMAGES_NAME = re.compile(r"images([-._])idx[34]", re.IGNORECASE)
_LABELS_NAME = re.compile(r"labels[-._]idx1", re.IGNORECASE)
_TEST_NAME = re.compile(r"t10k|test", re.IGNORECASE)
_TRAIN_NAME = re.compile(r"train", re.IGNORECASE)
_VALUE_TYPES = {0x08: "uint8", 0x09: "int8", 0x0B: "int16", 0x0C: "int32", 0x0D: "float32", 0x0E: "float64"}
_UINT8 = 0x08
_GZIP = b"\x1f\x8b"


def looks_like_idx(path: Path) -> bool:
    """Whether a file is meant to be an idx file, by its name or else by its first four bytes (after decompression)."""
    if _IMAGES_NAME.search(path.name) or _LABELS_NAME.search(path.name):
        return True
    try:
        with path.open("rb") as file, _decompressed(file) as stream:
            start = stream.read(4)
    except (OSError, EOFError, zlib.error):  # whatever it is, it is not idx; the caller says what is accepted
        return False
    return len(start) == 4 and start[:2] == b"\0\0" and start[2] in _VALUE_TYPES and start[3] in (1, 3, 4)


def find_images_file(folder: Path, split: Literal["train", "test"] | None, source: str) -> Path | None:
    """The images file of a folder, or None if it is not a folder of idx files.

    Without ``split`` the test images are preferred: they are what the models under test have not been trained on.
    The layout of torchvision (``MNIST/raw``) is found from each of its folders.

    Raises:
        UserError: several files fit, or none has the wished split, or the folder cannot be listed.
    """
    try:
        folders = [folder, folder / "raw", *sorted(folder.glob("*/raw"))]
        found = next((files for files in map(_images_files, folders[:2]) if files), None)
        found = found or [file for nested in folders[2:] for file in _images_files(nested)]
    except OSError as error:
        raise UserError(f"The folder {source!r} cannot be read ({error.strerror}); check its permissions.") from error
    if not found:
        return None
    test = [file for file in found if _TEST_NAME.search(file.name)]
    train = [file for file in found if _TRAIN_NAME.search(file.name) and file not in test]
    chosen = {"test": test, "train": train, None: test or train or found}[split]
    names = ", ".join(file.relative_to(folder).as_posix() for file in found)
    if not chosen:
        raise UserError(f"The folder {source!r} holds no {split} images, only {names}; leave out ':{split}'.")
    if len(chosen) > 1:
        raise UserError(f"The folder {source!r} holds several files of images ({names}); give the path of one of them.")
    return chosen[0]


def load_idx(images_file: Path, reading: Reading) -> ImageSet:
    """Images from an idx file, with the labels of its sibling (``images-idx3`` -> ``labels-idx1``) if there is one.

    Three axes are grey images (N, H, W); four are (N, C, H, W) or (N, H, W, C).

    Raises:
        UserError: a file is damaged, or images and labels do not fit together.
    """
    source, progress = reading.source, reading.progress
    if _LABELS_NAME.search(images_file.name):
        raise UserError(f"The file {source!r} holds labels; give the path of its images file, or of the folder.")
    labels_file = _labels_file_of(images_file)
    rows = _rows(images_file)
    large = rows.is_large(reading)
    pixels = None if large else read_idx(images_file, axes=(3, 4), progress=progress)
    labels = None if labels_file is None else read_idx(labels_file, axes=(1,), progress=progress)
    if labels is None:
        progress.detail(f"No labels file lies beside {images_file.name}; the images are used without labels.")
    if pixels is None:
        files = [images_file] if labels_file is None else [images_file, labels_file]
        return read_rows(rows, Facts(labels), [stamp_of(files)], reading)
    return checked(channels_first(pixels), labels, None, source)


def _rows(path: Path) -> ArrayRows:
    """The images of a file, to be read row by row. UserError as :func:`read_idx`, before the values are read."""

    @contextmanager
    def opened() -> Iterator[BinaryIO]:
        with _stream(path, (3, 4)) as (stream, _):
            yield stream

    with _stream(path, (3, 4)) as (stream, shape):
        held = path.stat().st_size - stream.tell()
        if not _is_gzip(path) and held < math.prod(shape):
            raise _wrong_length(path, shape, held)
        return ArrayRows(shape, np.dtype(np.uint8), opened, path.name)


def read_idx(path: Path, *, axes: tuple[int, ...], progress: Progress | None = None) -> UInt8Array:
    """The values of one idx file.

    Args:
        path: the file, plain or gzip (told by its content).
        axes: accepted numbers of axes.
        progress: told about every MiB that was read.

    Returns:
        uint8, with as many axes as the file declares.

    Raises:
        UserError: unreadable, not idx, values that are not uint8, or more or fewer bytes than declared.
    """
    with _stream(path, axes) as (stream, shape):
        check_size_in_memory(shape, str(path))
        values = read_values(stream, math.prod(shape), path.name, progress or Progress())
    if len(values) != math.prod(shape):
        raise _wrong_length(path, shape, len(values))
    return np.frombuffer(values, dtype=np.uint8).reshape(shape)


@contextmanager
def _stream(path: Path, axes: tuple[int, ...]) -> Iterator[tuple[BinaryIO, tuple[int, ...]]]:
    """An open file behind its header, and the shape that this declares.

    Raises:
        UserError: whatever goes wrong within the block because the file is damaged.
    """
    try:
        with path.open("rb") as file, _decompressed(file) as stream:
            yield stream, _read_header(stream, axes, path)
    except (EOFError, zlib.error, gzip.BadGzipFile, ValueError) as error:
        raise UserError(f"The file {str(path)!r} is damaged or cut off ({error}); fetch it again.") from error
    except OSError as error:
        raise UserError(f"The file {str(path)!r} cannot be read ({error.strerror}); check its permissions.") from error


def _is_gzip(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(2) == _GZIP


def _decompressed(file: BinaryIO) -> BinaryIO:
    start = file.read(2)
    file.seek(0)
    return cast(BinaryIO, gzip.GzipFile(fileobj=file)) if start == _GZIP else file


def _read_header(stream: BinaryIO, axes: tuple[int, ...], path: Path) -> tuple[int, ...]:
    magic = stream.read(4)
    if len(magic) < 4 or magic[:2] != b"\0\0" or magic[2] not in _VALUE_TYPES:
        raise UserError(f"The file {str(path)!r} is not an idx file (it begins with {magic.hex()!r}); fetch it again.")
    if magic[2] != _UINT8:
        raise UserError(f"The file {str(path)!r} holds {_VALUE_TYPES[magic[2]]} values; write it again as uint8.")
    if magic[3] not in axes:
        wanted = " or ".join(map(str, axes))
        raise UserError(f"The file {str(path)!r} has {magic[3]} axes where {wanted} are needed; give the right file.")
    lengths = stream.read(4 * magic[3])
    if len(lengths) < 4 * magic[3]:
        raise UserError(f"The file {str(path)!r} is cut off in its header; fetch it again.")
    shape: tuple[int, ...] = struct.unpack(f">{magic[3]}I", lengths)
    if 0 in shape:
        raise UserError(f"The file {str(path)!r} is empty, it declares {_times(shape)} values; fetch it again.")
    return shape


def _wrong_length(path: Path, shape: tuple[int, ...], held: int) -> UserError:
    short = held < math.prod(shape)
    fault, least = ("is cut off", "") if short else ("is longer than it says", "at least ")
    return UserError(
        f"The file {str(path)!r} {fault}: it declares {_times(shape)} values and holds {least}{held} bytes; fetch it "
        "again."
    )


def _times(shape: tuple[int, ...]) -> str:
    return " x ".join(map(str, shape))


def _images_files(folder: Path) -> list[Path]:
    """Images files of one folder; of a plain and a compressed copy the plain one."""
    if not folder.is_dir():
        return []
    by_name: dict[str, Path] = {}
    for file in sorted(folder.iterdir(), reverse=True):  # the plain name sorts before the one with .gz, so it stays
        if _IMAGES_NAME.search(file.name) and file.is_file() and not file.name.startswith("."):
            by_name[_plain_name(file.name)] = file
    return sorted(by_name.values())


def _labels_file_of(images_file: Path) -> Path | None:
    if not _IMAGES_NAME.search(images_file.name):
        return None
    wanted = _plain_name(_IMAGES_NAME.sub(r"labels\1idx1", images_file.name))
    try:
        siblings = sorted(images_file.parent.iterdir())
    except OSError as error:
        raise UserError(
            f"The folder {str(images_file.parent)!r} cannot be read ({error.strerror}); check its permissions."
        ) from error
    return next((file for file in siblings if _plain_name(file.name) == wanted and file.is_file()), None)


def _plain_name(name: str) -> str:
    """Same for ``t10k-images-idx3-ubyte``, ``t10k-images.idx3-ubyte`` and their ``.gz``: all of them are about."""
    return re.sub(r"[._]", "-", name.lower().removesuffix(".gz"))
