"""One function that reads an image set from whatever the user gave."""

from __future__ import annotations

import difflib
import os
import zipfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, cast

import numpy as np

from diffgen.data.checks import check_classes, checked
from diffgen.errors import UserError
from diffgen.events import Progress
from diffgen.runs.opening import open_regular
from diffgen.types import ImageSet, Int64Array, UInt8Array

if TYPE_CHECKING:
    from diffgen.config.images import ExifRule
    from diffgen.data.reading import Reading
    from diffgen.data.resize import Resizer

Split: TypeAlias = Literal["train", "test"]
Source: TypeAlias = (
    str | os.PathLike[str] | ImageSet | UInt8Array | tuple[UInt8Array, Int64Array | Sequence[int] | None]
)

WORDS: dict[str, Split | None] = {"digits": None, "digits:train": "train", "digits:test": "test"}
_TORCHVISION = "torchvision:"
_ZIP_END = 22  # bytes that a zip without a comment ends with
_ACCEPTED = (
    "a folder or zip with one folder of images for each class, a file like t10k-images-idx3-ubyte.gz or its folder, "
    "an .npz or .parquet file, 'torchvision:CIFAR10' (or another of its data sets), or 'digits'"
)


def load(
    source: Source,
    *,
    resize: int | tuple[int, int] | None = None,
    fit: Literal["crop", "pad", "stretch"] = "crop",
    skip_broken: bool = False,
    exif: ExifRule = "ignore",
    progress: Progress | None = None,
) -> ImageSet:
    """Read real images, with their labels when they are known.

    Args:
        source: one of

            * ``"digits"``, ``"digits:train"``, ``"digits:test"``: the 1,797 handwritten digits of scikit-learn, 28x28;
            * a folder with idx files (MNIST and its relatives), or the path of one such images file;
            * a folder with one folder of pictures for each class, or with pictures only, or a zip of either;
            * an ``.npz`` file with images and labels; see :func:`diffgen.data.npz.load_npz`;
            * a ``.parquet`` file with encoded pictures, or a folder of them, as Hugging Face's ``datasets`` writes;
            * ``"torchvision:CIFAR10"`` and others: fetched on first use; the test images unless ``:train`` is added;
            * a path with ``:train`` or ``:test`` added, for folders that hold both (without it ``test`` is taken,
              because a test set is what the models under test have not seen);
            * a numpy array uint8 (N, C, H, W), or a tuple of it and N labels;
            * an image set, which is checked and given back.

            A word goes before a folder of the same name; write ``./digits`` for the folder.
        resize: height and width in pixels, or the side of a square, that all images are brought to; None: they must
            have one size, and keep it.
        fit: how images of other proportions are brought to it; see :mod:`diffgen.data.resize`.
        skip_broken: leave out picture files that cannot be used, instead of refusing all.
        exif: "apply" turns pictures as their EXIF orientation says, "ignore" does not, as torchvision's ImageFolder.
        progress: is told how far the reading is, or None.

    Returns:
        At least 50 images uint8 (N, C, H, W) with C 1 or 3, labels int64 (N,) from 0 or None. Height and width are not
        checked here. The same source always gives the same images in the same order.

    Raises:
        UserError: the source cannot be used; the message says why and how to mend it.

    Example:
        >>> from diffgen.data import load
        >>> load("digits:test").images.shape
        (898, 1, 28, 28)
    """
    # Every source is imported where it is used, so that importing this package costs nothing.
    from diffgen.data.resize import Resizer

    resizer = Resizer(resize, fit)
    return load_with(source, resizer, skip_broken=skip_broken, exif=exif, progress=progress or Progress())


def load_with(
    source: Source, resizer: Resizer, *, skip_broken: bool = False, exif: ExifRule = "ignore", progress: Progress
) -> ImageSet:
    """As :func:`load`, with sizes as a resizer says; its ``size`` says afterwards what pictures were brought to.

    Where it only says what is usual, arrays keep the size that they have.

    Raises:
        UserError: see :func:`load`.
    """
    from diffgen.data.pixels import warn_of_one_shade
    from diffgen.data.reading import Reading
    from diffgen.data.resize import resized

    named = os.fsdecode(source) if isinstance(source, str | os.PathLike) else ""
    reading = Reading(named, resizer, skip_broken, exif, progress)
    images = _read(source, reading)
    warn_of_one_shade(images.images, images.source, progress)
    return resized(images, resizer, progress)


def is_word(source: object) -> bool:
    """Whether a source is a name that diffgen gives meaning to, and no path."""
    return isinstance(source, str) and (source in WORDS or source.startswith(_TORCHVISION))


def check_there(source: str) -> None:
    """See that there is something by a source's name, whatever is in it. UserError if not; see :func:`load`."""
    if source.startswith(_TORCHVISION):
        from diffgen.data.torchvision_sets import named_set

        named_set(source)
    elif source not in WORDS:
        _path_and_split(source)


def _read(source: Source, reading: Reading) -> ImageSet:
    """The images of a source; of sources whose pictures may differ in size, in the size that is asked for."""
    if isinstance(source, ImageSet):
        return from_image_set(source)
    if isinstance(source, np.ndarray):
        return from_arrays(source)
    if isinstance(source, tuple):
        if len(source) != 2:
            raise UserError(f"The data are a tuple of {len(source)}; give (images, labels), or the images alone.")
        return from_arrays(*source)
    if isinstance(source, str) and source in WORDS:
        from diffgen.data.digits import load_digits

        return load_digits(WORDS[source], source)
    if isinstance(source, str) and source.startswith(_TORCHVISION):
        from diffgen.data.torchvision_sets import load_torchvision

        return load_torchvision(source, reading.progress)
    if isinstance(source, str | os.PathLike):
        path, split = _path_and_split(reading.source)
        if path.is_dir():
            return _load_folder(path, split, reading)
        if not path.is_file():
            raise UserError(f"The data set {reading.source!r} is neither a file nor a folder; give {_ACCEPTED}.")
        return _load_file(path, split, reading)
    raise UserError(f"A {type(source).__name__} is not a source of images; give {_ACCEPTED}, or a numpy array.")


def _load_folder(path: Path, split: Split | None, reading: Reading) -> ImageSet:
    from diffgen.data.file_tree import folder_tree
    from diffgen.data.idx import find_images_file, load_idx
    from diffgen.data.image_folder import load_tree
    from diffgen.data.parquet import find_parquet_files, load_parquet

    source = reading.source
    images_file = find_images_file(path, split, source)
    if images_file is not None:
        return load_idx(images_file, reading)
    tree = folder_tree(path, source)
    tables = find_parquet_files(tree, split, source)
    if tables:
        return load_parquet([path.joinpath(*parts) for parts in tables], reading)
    return load_tree(tree, split, reading)


def _load_file(path: Path, split: Split | None, reading: Reading) -> ImageSet:
    source = reading.source
    try:
        with open_regular(path) as file:
            head = file.read(6)
    except OSError as error:
        raise UserError(f"The file {source!r} cannot be read ({error.strerror}); check its permissions.") from error
    # a zip that was cut off has lost the end by which zipfile knows it, but not its beginning
    if head[:4] in (b"PK\x03\x04", b"PK\x05\x06") or _ends_as_a_zip(path):
        from diffgen.data.npz import load_npz, looks_like_npz

        if looks_like_npz(path):
            return load_npz(path, split, reading)
        from diffgen.data.file_tree import zip_tree
        from diffgen.data.image_folder import load_tree

        with zip_tree(path, source) as tree:
            return load_tree(tree, split, reading)
    from diffgen.data.idx import load_idx, looks_like_idx
    from diffgen.data.parquet import MAGIC, load_parquet

    is_table = head.startswith(MAGIC)
    is_idx = not is_table and looks_like_idx(path)
    if split is not None and (is_table or is_idx):
        raise UserError(f"The file {str(path)!r} is not divided; leave out ':{split}'.")
    if is_table:
        return load_parquet([path], reading)
    if is_idx:
        return load_idx(path, reading)
    if head == b"\x93NUMPY":
        raise UserError(
            f"The file {source!r} holds a single array; save images and labels together with "
            "numpy.savez('data.npz', images=images, labels=labels)."
        )
    raise UserError(f"The file {source!r} is of no known kind; give {_ACCEPTED}.")


def _path_and_split(source: str) -> tuple[Path, Split | None]:
    whole = os.path.expanduser(source)
    if source and os.path.exists(whole):
        return Path(whole), None
    before, colon, after = source.rpartition(":")
    folder = os.path.expanduser(before)
    if colon and before and os.path.exists(folder):
        if after not in ("train", "test"):
            raise UserError(f"The {after!r} in {source!r} is not known; write ':train' or ':test' after a path.")
        return Path(folder), cast(Split, after)
    raise _not_found(source)


def _not_found(source: str) -> UserError:
    if not source.strip():
        return UserError(f"The name of the data set is empty; give {_ACCEPTED}.")
    folder, name = os.path.split(os.path.expanduser(source))
    try:
        beside = os.listdir(folder or ".")
    except (OSError, ValueError):  # there is no such folder either, so it has nothing to suggest
        beside = []
    near = difflib.get_close_matches(source.lower(), WORDS, n=1) or _published(source)
    near = near or [os.path.join(folder, match) for match in difflib.get_close_matches(name, beside, n=1)]
    hint = f"did you mean {near[0]!r}?" if near else f"give {_ACCEPTED}."
    return UserError(f"No file or folder {source!r} was found, and no data set has that name; {hint}")


def _published(source: str) -> list[str]:
    """The data set of torchvision that was called by its bare name: ``cifar10``, ``Fashion-MNIST``."""
    from diffgen.data.torchvision_sets import KNOWN

    wanted = source.lower().replace("-", "").replace("_", "")
    return [_TORCHVISION + name for name in KNOWN if name.lower().replace("-", "") == wanted]


def _ends_as_a_zip(path: Path) -> bool:
    try:
        if zipfile.is_zipfile(path):
            return True
        with path.open("rb") as file:
            file.seek(-min(_ZIP_END, path.stat().st_size), os.SEEK_END)
            return file.read(4) == b"PK\x05\x06"
    # the damaged end of one part of several; newer releases of Python only say no to it
    except zipfile.BadZipFile:
        return True
    except OSError:  # who reads the file says why it cannot be read
        return False


# -- images that the caller holds ------------------------------------------------------------------------------------

_SOURCE = "in-memory array"


def from_image_set(given: ImageSet) -> ImageSet:
    """The same object, once it is known to keep the rules; labels of another integer type are made int64.

    Raises:
        UserError: it breaks a rule of :func:`diffgen.data.checks.checked`.
    """
    made = checked(given.images, given.labels, given.class_names, given.source)
    _check_boxes(given)
    _check_masks(given)
    unchanged = made.images is given.images and made.labels is given.labels and made.class_names is given.class_names
    return (
        given
        if unchanged
        else replace(made, names=given.names, boxes=given.boxes, masks=given.masks, mask_names=given.mask_names)
    )


def _check_boxes(given: ImageSet) -> None:
    for number, each in enumerate(given.boxes or ()):
        fits = each is None or (each.dtype == np.float32 and each.shape[1:] == (5,) and bool(np.isfinite(each).all()))
        if not fits or len(given.boxes or ()) != len(given):
            raise UserError(
                f"The boxes of image {number} of {given.source!r} are no float32 (n, 5) array of x1, y1, x2, y2 and "
                f"class, or there are not as many as {len(given)} images; give one array for each, or None."
            )


def _check_masks(given: ImageSet) -> None:
    sides, names = given.image_shape[1:], given.mask_names
    for number, each in enumerate(given.masks or ()):
        fits = each is None or (each.dtype == np.uint8 and each.shape == sides)
        if not fits or len(given.masks or ()) != len(given):
            raise UserError(
                f"The mask of image {number} of {given.source!r} is no uint8 array of {sides}, or there are not as "
                f"many as {len(given)} images; give one array for each, or None."
            )
        if each is not None and names is not None:
            check_classes(each, len(names), f"The mask of image {number} of {given.source!r}")


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
