"""Pictures in one folder for each class (``cat/0001.png``), or all in one folder without labels; also in a zip."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np

from diffgen.data.checks import check_size_in_memory, checked
from diffgen.data.file_tree import FileTree, Parts, folder_tree, zip_tree
from diffgen.data.picture_file import SUFFIXES, decode
from diffgen.errors import UserError
from diffgen.types import ImageSet, Int64Array, Progress, UInt8Array

# Names of folders that divide a data set, the better one first.
_SPLIT_FOLDERS = {
    "test": ("test", "testing", "val", "valid", "validation"),
    "train": ("train", "training"),
}


@dataclass(frozen=True)
class Arrangement:
    """Which pictures of a tree make up the data set, in order.

    Attributes:
        paths: below the root, by class and name.
        labels: one for each path, or None.
        class_names: names of the class folders in label order, or None.
    """

    paths: tuple[Parts, ...]
    labels: tuple[int, ...] | None
    class_names: tuple[str, ...] | None


def load_folder(folder: Path, split: Literal["train", "test"] | None, source: str, progress: Progress) -> ImageSet:
    """The pictures below a folder; see :func:`arrange` for the layouts and :func:`~.picture_file.decode` for modes.

    If all pictures are grey there is one channel, otherwise three; colours are never reduced to grey.

    Raises:
        UserError: no pictures, an unclear layout, a damaged picture, or pictures of different sizes.
    """
    return _load_tree(folder_tree(folder, source), split, source, progress)


def load_zip(path: Path, split: Literal["train", "test"] | None, source: str, progress: Progress) -> ImageSet:
    """As :func:`load_folder` for a zip of such a folder, which is read without being extracted.

    Raises:
        UserError: as for a folder, and for a damaged or suspicious zip.
    """
    with zip_tree(path, source) as tree:
        return _load_tree(tree, split, source, progress)


def arrange(tree: FileTree, split: Literal["train", "test"] | None, source: str) -> Arrangement:
    """Find the class folders of a tree.

    Single folders around everything are stepped over. Of folders ``train`` and ``test`` that divide everything one is
    chosen, ``test`` unless ``split`` says otherwise. What remains is either ``class/picture`` or pictures only.
    Classes are numbered in the order of their names, by value if all names are numbers, alphabetically otherwise. A
    class folder without any file keeps its number. A single class folder cannot be told from a folder of
    pictures and gives no labels.

    Raises:
        UserError: no pictures, no such split, or pictures at different depths.
    """
    files = [parts for parts in tree.files if os.path.splitext(parts[-1])[1].lower() in SUFFIXES]
    if not files:
        raise _no_pictures(tree, source)
    root: Parts = ()
    wanted: str | None = split
    divided = False
    while all(len(path) > len(root) + 1 for path in files):
        tops = {path[len(root)] for path in files}
        if not divided and (folder := _split_folder(tops, wanted, source)) is not None:
            divided, wanted = True, None
        elif len(tops) == 1:
            folder = tops.pop()
        else:
            break
        root = (*root, folder)
        files = [path for path in files if path[: len(root)] == root]
    if wanted is not None:
        raise UserError(f"The data set {source!r} has no folder {wanted!r}; leave out ':{wanted}'.")
    if all(len(path) == len(root) + 1 for path in files):
        return Arrangement(paths=tuple(files), labels=None, class_names=None)
    _check_depth(files, len(root), source)
    names = _sorted_names({path[len(root)] for path in files} | _empty_folders(tree, root, files, source))
    label_of = {name: label for label, name in enumerate(names)}
    files.sort(key=lambda path: (label_of[path[len(root)]], path))
    return Arrangement(paths=tuple(files), labels=tuple(label_of[path[len(root)]] for path in files), class_names=names)


def _load_tree(tree: FileTree, split: Literal["train", "test"] | None, source: str, progress: Progress) -> ImageSet:
    found = arrange(tree, split, source)
    if found.class_names is not None and list(found.class_names) != sorted(found.class_names):
        progress.say(
            f"The class folders of {source!r} are numbered by value, 2 before 10; a model that was trained on "
            "torchvision's ImageFolder, which sorts them as text, numbers its classes otherwise."
        )
    labels: Int64Array | None = None if found.labels is None else np.array(found.labels, dtype=np.int64)
    return checked(_read_pictures(tree, found.paths, source, progress), labels, found.class_names, source)


def _read_pictures(tree: FileTree, paths: tuple[Parts, ...], source: str, progress: Progress) -> UInt8Array:
    """uint8 (N, C, H, W) in the order of ``paths``."""

    pictures: list[UInt8Array] = []
    # One after the other: for pictures as small as these, threads were not faster.
    with progress.task("Reading images", total=len(paths)) as task:
        for path in paths:
            picture = decode(tree.read(path), "/".join(path), source)
            if not pictures:
                check_size_in_memory((len(paths), 3, *picture.shape[:2]), source)
            elif picture.shape[:2] != pictures[0].shape[:2]:
                raise UserError(
                    f"The images of {source!r} differ in size, {'/'.join(paths[0])!r} has {_size(pictures[0])} and "
                    f"{'/'.join(path)!r} has {_size(picture)} pixels; scale all of them to one size."
                )
            pictures.append(picture)
            task.advance()
    return _stacked(pictures, source, progress)


def _stacked(pictures: list[UInt8Array], source: str, progress: Progress) -> UInt8Array:
    coloured = sum(picture.ndim == 3 for picture in pictures)
    if 0 < coloured < len(pictures):
        progress.warn(
            f"{len(pictures) - coloured} of the {len(pictures)} images of {source!r} are grey; "
            "they are read as colour images like the others."
        )
    height, width = pictures[0].shape[:2]
    stacked = np.empty((len(pictures), 3 if coloured else 1, height, width), dtype=np.uint8)
    for position, picture in enumerate(pictures):
        # grey levels spread over all channels
        stacked[position] = picture if picture.ndim == 2 else picture.transpose(2, 0, 1)
    return stacked


def _size(picture: UInt8Array) -> str:
    return f"{picture.shape[1]}x{picture.shape[0]}"


def _split_folder(tops: set[str], wanted: str | None, source: str) -> str | None:
    """The folder to take if ``tops`` divide a data set, None if they do not."""
    known = [name for names in _SPLIT_FOLDERS.values() for name in names]
    by_lower = {top.lower(): top for top in sorted(tops)}
    if not set(by_lower) <= set(known):
        return None
    accepted = known if wanted is None else _SPLIT_FOLDERS[wanted]
    chosen = next((by_lower[name] for name in accepted if name in by_lower), None)
    if chosen is None:
        raise UserError(
            f"The data set {source!r} has no folder {wanted!r}, only {', '.join(sorted(tops))}; leave out ':{wanted}'."
        )
    return chosen


def _empty_folders(tree: FileTree, root: Parts, files: list[Parts], source: str) -> set[str]:
    """Class folders without any file. One with files but no picture may be a class or not, so the user must say."""
    depth = len(root)
    beside = {folder[depth] for folder in tree.folders if len(folder) > depth and folder[:depth] == root}
    filled = {path[depth] for path in tree.files if len(path) > depth + 1 and path[:depth] == root}
    pictured = {path[depth] for path in files}
    unclear = sorted(filled - pictured)
    if unclear:
        raise UserError(
            f"The folder {unclear[0]!r} beside the class folders of {source!r} holds files but no image "
            f"({_suffixes()}); move it away if it is not a class."
        )
    return beside - filled


def _check_depth(files: list[Parts], depth: int, source: str) -> None:
    for path in files:
        if len(path) == depth + 1:
            raise UserError(
                f"The image {'/'.join(path)!r} in {source!r} lies beside the class folders; move it into one, or away."
            )
        if len(path) > depth + 2:
            raise UserError(
                f"The image {'/'.join(path)!r} in {source!r} lies too deep; arrange the images as class/name.png, "
                "or give the folder that holds the class folders."
            )


def _sorted_names(names: Iterable[str]) -> tuple[str, ...]:
    known = list(names)
    if all(name.isascii() and name.isdecimal() for name in known):
        # by value without int(), which refuses very long numbers
        return tuple(sorted(known, key=lambda name: (len(name.lstrip("0")), name.lstrip("0"), name)))
    return tuple(sorted(known))


def _no_pictures(tree: FileTree, source: str) -> UserError:
    zips = [parts[-1] for parts in tree.files if len(parts) == 1 and parts[0].lower().endswith(".zip")]
    if zips:
        return UserError(f"No images lie in {source!r}, but the zip {zips[0]!r}; give the path of the zip itself.")
    if not tree.files:
        return UserError(f"Nothing lies in {source!r}; give a folder or a zip with images ({_suffixes()}).")
    suffixes = Counter(os.path.splitext(parts[-1])[1] or parts[-1] for parts in tree.files)
    return UserError(
        f"No images ({_suffixes()}) lie in {source!r}, mostly {suffixes.most_common(1)[0][0]!r} files; "
        "give a folder or a zip with images, or a folder with files like t10k-images-idx3-ubyte.gz."
    )


def _suffixes() -> str:
    return ", ".join(sorted(suffix.removeprefix(".") for suffix in SUFFIXES))
