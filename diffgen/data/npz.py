"""NumPy's ``.npz``: a zip of arrays, which name themselves. Arrays of Python objects are pickles and are never opened.

The arrays are read here and not by ``numpy.load``, which allocates whatever a header declares before it reads.
"""

from __future__ import annotations

import math
import warnings
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, Literal

import numpy as np

from diffgen.data.checks import MAX_BYTES, checked
from diffgen.data.decoded import Facts
from diffgen.data.file_tree import stamp_of
from diffgen.data.pixels import ArrayRows, channels_first, read_rows, read_values, to_grey_levels
from diffgen.data.reading import Reading, numbered
from diffgen.errors import UserError
from diffgen.events import Progress
from diffgen.sampling import LARGE_BYTES
from diffgen.types import ImageSet

# What the arrays are called, images and labels in pairs, by the split that is wished for. Keras writes x_test, MedMNIST
# test_images, numpy.savez(file, images, labels) arr_0 and arr_1.
_TEST_PAIRS = (("x_test", "y_test"), ("test_images", "test_labels"))
_PAIRS: dict[str | None, tuple[tuple[str, str], ...]] = {
    None: (("images", "labels"), ("x", "y"), *_TEST_PAIRS, ("data", "labels"), ("arr_0", "arr_1")),
    "test": _TEST_PAIRS,
    "train": (("x_train", "y_train"), ("train_images", "train_labels")),
}
_ANY_LABELS = ("labels", "y", "y_test", "arr_1")
_NAMES = "class_names"
# A longer header than numpy itself accepts would be one of its structured types.
_MAX_HEADER = 10_000


def looks_like_npz(path: Path) -> bool:
    """Whether a zip holds nothing but arrays, or is too damaged to tell and is called ``.npz``."""
    try:
        with zipfile.ZipFile(path) as archive:
            names = archive.namelist()
    except Exception:  # zipfile raises half a dozen types on damaged ones; reading it says what is wrong with it
        return path.suffix.lower() == ".npz"
    return bool(names) and all(name.endswith(".npy") for name in names)


def load_npz(path: Path, split: Literal["train", "test"] | None, reading: Reading) -> ImageSet:
    """Images, labels and class names from the arrays of an ``.npz``.

    Images are (N, H, W), (N, C, H, W) or (N, H, W, C) of values that :func:`~.pixels.to_grey_levels` understands.
    Labels are N numbers, also (N, 1), or N texts, which become the class names in the order of
    :func:`~.reading.sorted_names`. An array ``class_names`` of K texts names the classes.

    Raises:
        UserError: no images by a known name, damage, Python objects, or arrays that are larger than their file.
    """
    source, progress = reading.source, reading.progress
    try:
        archive = zipfile.ZipFile(path)
    except Exception as error:  # zipfile raises half a dozen types on damaged directories, struct.error among them
        raise UserError(f"The file {source!r} cannot be opened ({error}); it is damaged, so save it again.") from error
    with archive:
        members = {member.filename.removesuffix(".npy"): member for member in archive.filelist}
        images_name, labels_name = _choose(members, split, source)

        def read(name: str) -> np.ndarray[Any, Any]:
            return _read_member(archive, members[name], name, source, progress)

        labels = None if labels_name is None else read(labels_name)
        names = _texts(read(_NAMES), source) if _NAMES in members else None
        if labels is None:
            progress.detail(f"The file {source!r} holds no labels; the images are used without.")
        elif labels.dtype.kind in "US":
            labels, names = numbered(_texts(labels, source), names, source, progress)
        elif labels.ndim == 2 and labels.shape[1] == 1:
            labels = labels[:, 0]
        rows = _rows(archive, members[images_name], images_name, reading)
        if rows is not None:
            return read_rows(rows, Facts(labels, names), [stamp_of([path]), images_name, split], reading)
        images = channels_first(to_grey_levels(read(images_name), source, progress))
    return checked(images, labels, names, source)


def _rows(archive: zipfile.ZipFile, member: zipfile.ZipInfo, name: str, reading: Reading) -> ArrayRows | None:
    """An array that is too large for the memory, to be read row by row; None: it may be read at once.

    Raises:
        UserError: it cannot be read.
    """
    source = reading.source

    @contextmanager
    def opened() -> Iterator[IO[bytes]]:
        with _stream(archive, member, name, source) as (stream, *_):
            yield stream

    with _stream(archive, member, name, source) as (_, dtype, shape, column_wise):
        rows, size = ArrayRows(shape, dtype, opened, name), math.prod(shape) * dtype.itemsize
        if size > LARGE_BYTES:
            _check_file(size, shape, member, name, source)
        if not rows.is_large(reading) or (column_wise and size <= LARGE_BYTES):
            return None
        if column_wise:
            raise UserError(
                f"The array {name!r} in {source!r} is stored column by column, and too large to be turned round; save "
                "it again after numpy.ascontiguousarray."
            )
        return rows


@contextmanager
def _stream(
    archive: zipfile.ZipFile, member: zipfile.ZipInfo, name: str, source: str
) -> Iterator[tuple[IO[bytes], np.dtype[Any], tuple[int, ...], bool]]:
    """An open array behind its header, and what that says: type, shape, and whether the first index runs fastest.

    Raises:
        UserError: whatever goes wrong within the block because the file is damaged.
    """
    if member.flag_bits & 0x1:
        raise UserError(f"The array {name!r} in {source!r} is encrypted; save the file again without a password.")
    # zipfile decompresses deflate in bounded pieces, but bzip2 and LZMA at one go, whatever size comes out.
    if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise UserError(
            f"The array {name!r} in {source!r} is compressed with method {member.compress_type}; save it again with "
            "numpy.savez or numpy.savez_compressed."
        )
    try:
        with archive.open(member) as stream:
            dtype, shape, column_wise = _read_header(stream)
            if dtype.hasobject:
                raise UserError(
                    f"The array {name!r} in {source!r} holds Python objects, which only a pickle can keep; "
                    "save plain numbers or texts."
                )
            yield stream, dtype, shape, column_wise
    except UserError:
        raise
    except Exception as error:  # damage shows itself as BadZipFile, zlib.error, EOFError, ValueError, TypeError, ...
        # what numpy says after a colon is the file's own content
        reason = (str(error) or type(error).__name__).partition("\n")[0].partition(":")[0]
        raise UserError(
            f"The array {name!r} in {source!r} cannot be read ({reason}); the file is damaged, so save it again."
        ) from error


def _choose(members: dict[str, Any], split: str | None, source: str) -> tuple[str, str | None]:
    """Names of the images and of their labels."""
    for images, labels in _PAIRS[split]:
        if images in members:
            others = () if split is not None else (name for name in _ANY_LABELS if name != images)
            return images, next((name for name in (labels, *others) if name in members), None)
    known = " | ".join(images for images, _ in _PAIRS[split])
    labelled = " | ".join(dict.fromkeys(labels for _, labels in _PAIRS[split]))
    found = ", ".join(repr(name) for name in sorted(members)[:8]) or "nothing"
    raise UserError(
        f"The file {source!r} holds no {'' if split is None else f'{split} '}images by a known name, only {found}; "
        f"save the images as {known} and the labels as {labelled}."
    )


def _texts(values: np.ndarray[Any, Any], source: str) -> tuple[str, ...]:
    if values.dtype.kind not in "US" or values.ndim != 1:
        raise UserError(
            f"The class names of {source!r} are {values.dtype} of shape {values.shape}, not a list of texts; save them "
            "with np.array(['cat', 'dog'])."
        )
    try:
        return tuple(text.decode() if isinstance(text, bytes) else str(text) for text in values.tolist())
    except (ValueError, SystemError) as error:  # bytes that are no UTF-8, code points beyond Unicode's last
        raise UserError(f"The class names of {source!r} cannot be read as text; save them as str.") from error


def _read_member(
    archive: zipfile.ZipFile, member: zipfile.ZipInfo, name: str, source: str, progress: Progress
) -> np.ndarray[Any, Any]:
    with _stream(archive, member, name, source) as (stream, dtype, shape, column_wise):
        size = math.prod(shape) * dtype.itemsize
        if size > MAX_BYTES:
            raise UserError(
                f"The array {name!r} in {source!r} of shape {shape} would take {size / 2**30:.0f} GiB of memory; use "
                f"at most {MAX_BYTES // 2**30} GiB, that is uint8 values, or fewer or smaller images."
            )
        _check_file(size, shape, member, name, source)
        values = read_values(stream, size, name, progress)
        if len(values) == size:
            flat = np.frombuffer(values, dtype=dtype) if values else np.empty(0, dtype=dtype)
            return flat.reshape(shape[::-1]).T if column_wise else flat.reshape(shape)
    raise UserError(
        f"The array {name!r} in {source!r} is not as long as its header says ({size} bytes for shape {shape}); "
        "the file is damaged, so save it again."
    )


def _read_header(stream: IO[bytes]) -> tuple[np.dtype[Any], tuple[int, ...], bool]:
    """Type, shape and whether the first index runs fastest, as the header declares them."""
    version = np.lib.format.read_magic(stream)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of headers that Python 2 wrote, which are read all the same
        if version == (1, 0):
            shape, column_wise, dtype = np.lib.format.read_array_header_1_0(stream, max_header_size=_MAX_HEADER)
        elif version == (2, 0):
            shape, column_wise, dtype = np.lib.format.read_array_header_2_0(stream, max_header_size=_MAX_HEADER)
        else:
            raise ValueError(f"version {version} of the format is not for plain numbers")
    if any(length < 0 for length in shape):
        raise ValueError(f"its header declares the shape {shape}")
    return dtype, shape, column_wise


def _check_file(size: int, shape: tuple[int, ...], member: zipfile.ZipInfo, name: str, source: str) -> None:
    if size > member.file_size:
        raise UserError(
            f"The array {name!r} in {source!r} declares the shape {shape} but holds only {member.file_size} bytes; "
            "the file is damaged, so save it again."
        )
