"""Pictures in one folder for each class (``cat/0001.png``), or all in one folder without labels; also in a zip."""

from __future__ import annotations

import hashlib
import os
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Literal

import numpy as np

from diffgen.data.annotations import find_annotations
from diffgen.data.boxed import load_boxed
from diffgen.data.decoded import Facts
from diffgen.data.file_tree import SPLIT_NAMES, FileTree, Parts
from diffgen.data.picture_file import SUFFIXES, begins_as_picture, decode
from diffgen.data.picture_stack import Pictures, read_pictures
from diffgen.data.reading import PictureNotes, Reading, say_order, some, sorted_names
from diffgen.errors import UserError
from diffgen.types import ImageSet, Int64Array, UInt8Array

# What lies beside pictures everywhere, often one for each of them, and is not looked at: texts, tables, Thumbs.db.
_COMPANIONS = frozenset(
    {".txt", ".md", ".html", ".pdf", ".log", ".csv", ".tsv", ".json", ".jsonl", ".xml", ".yaml", ".yml", ".toml"}
    | {".ini", ".db", "README", "LICENSE"}
)
_TABLES = (".csv", ".tsv")  # may well say what the pictures show


@dataclass(frozen=True)
class Arrangement:
    """Which pictures of a tree make up the data set, in order.

    Attributes:
        paths: below the root, by class and name.
        labels: one for each path, or None.
        class_names: names of the class folders in label order, or None.
        inner: folders within class folders that pictures lie in.
        left_out: files among them that are no pictures.
    """

    paths: tuple[Parts, ...]
    labels: tuple[int, ...] | None
    class_names: tuple[str, ...] | None
    inner: tuple[Parts, ...] = ()
    left_out: tuple[Parts, ...] = ()


def load_tree(tree: FileTree, split: Literal["train", "test"] | None, reading: Reading) -> ImageSet:
    """The pictures of a folder or a zip.

    See :func:`arrange` for the layouts, :func:`~.picture_file.decode` for modes and
    :func:`~.picture_stack.read_pictures` for sizes and colours.

    Raises:
        UserError: no pictures, an unclear layout, damaged pictures, or pictures of different sizes.
    """
    source, progress = reading.source, reading.progress
    annotations = find_annotations(tree, pictures_of(tree), split, source)
    if annotations is not None:
        return load_boxed(tree, annotations, reading)
    found = arrange(tree, split, source)
    if found.class_names is not None:
        say_order(found.class_names, f"The class folders of {source!r}", progress)
    if found.inner:
        progress.say(
            f"{'Folders' if len(found.inner) > 1 else 'A folder'} within class folders of {source!r} "
            f"({some(['/'.join(folder) for folder in found.inner])}) count as part of their class."
        )
    tables = ["/".join(path) for path in found.left_out if _suffix(path[-1]) in _TABLES]
    if found.labels is None and tables:
        progress.warn(
            f"The pictures of {source!r} have no labels, since tables beside pictures ({some(tables)}) are not read; "
            "put the pictures into one folder for each class, or give an .npz or .parquet file with labels."
        )
    strange = ["/".join(path) for path in found.left_out if not _is_companion(path[-1])]
    if strange:
        progress.warn(
            f"{len(strange):,} of the {len(found.left_out) + len(found.paths):,} files of {source!r} are no images of "
            f"a kind that is read ({_suffixes()}) and are left out: {some(strange)}."
        )
    labels: Int64Array | None = None if found.labels is None else np.array(found.labels, dtype=np.int64)

    def each(notes: PictureNotes) -> Iterator[tuple[str, Callable[[], UInt8Array]]]:
        for path in found.paths:
            yield "/".join(path), partial(_decoded, tree, path, source, notes)

    kept = np.arange(len(found.paths))

    def facts(rows: Int64Array) -> Facts:
        nonlocal kept
        kept = rows
        return Facts(None if labels is None else labels[rows], found.class_names)

    def made_from() -> list[object]:
        names = "\n".join("/".join(path) for path in found.paths).encode(errors="surrogateescape")
        return [tree.stamp(found.paths), hashlib.sha256(names).hexdigest(), found.class_names]

    made = read_pictures(Pictures(len(found.paths), each, facts, made_from), reading)
    # which ones of a large set were broken when it was decoded, the cache does not say
    return made if len(kept) != len(made) else replace(made, names=tuple("/".join(found.paths[row]) for row in kept))


def _decoded(tree: FileTree, path: Parts, source: str, notes: PictureNotes) -> UInt8Array:
    return decode(tree.read(path), "/".join(path), source, notes)


def arrange(tree: FileTree, split: Literal["train", "test"] | None, source: str) -> Arrangement:
    """Find the class folders of a tree.

    Single folders around everything are stepped over. Of folders ``train`` and ``test`` that divide everything one is
    chosen, ``test`` unless ``split`` says otherwise. What remains is pictures only, or a folder for each class, in
    which pictures may lie at any depth, as for torchvision's ImageFolder.
    Classes are numbered in the order of their names, by value if all names are numbers, alphabetically otherwise. A
    class folder without any file keeps its number. A single class folder cannot be told from a folder of
    pictures and gives no labels.

    Raises:
        UserError: no pictures, no such split, or pictures beside class folders.
    """
    files = pictures_of(tree)
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
        return Arrangement(paths=tuple(files), labels=None, class_names=None, left_out=_others(tree, root, files))
    beside = next((path for path in files if len(path) == len(root) + 1), None)
    if beside is not None:
        raise UserError(
            f"The image {'/'.join(beside)!r} in {source!r} lies beside the class folders; move it into one, or away."
        )
    names = sorted_names({path[len(root)] for path in files} | _empty_folders(tree, root, files, source))
    label_of = {name: label for label, name in enumerate(names)}
    files.sort(key=lambda path: (label_of[path[len(root)]], path))
    labels = tuple(label_of[path[len(root)]] for path in files)
    inner = tuple(sorted({path[:-1] for path in files if len(path) > len(root) + 2}))
    return Arrangement(tuple(files), labels, names, inner, _others(tree, root, files))


def pictures_of(tree: FileTree) -> list[Parts]:
    """The files of a tree that are called like a picture, or begin like one and are not called like a text; sorted."""
    return [parts for parts in tree.files if _suffix(parts[-1]) in SUFFIXES or _looks_like_picture(tree, parts)]


def _looks_like_picture(tree: FileTree, parts: Parts) -> bool:
    return not _is_companion(parts[-1]) and begins_as_picture(tree.head(parts))


def _others(tree: FileTree, root: Parts, pictures: list[Parts]) -> tuple[Parts, ...]:
    """The files below a root that are no pictures."""
    known = set(pictures)
    return tuple(parts for parts in tree.files if parts[: len(root)] == root and parts not in known)


def _is_companion(name: str) -> bool:
    return _suffix(name) in _COMPANIONS or name.upper() in _COMPANIONS


def _suffix(name: str) -> str:
    return os.path.splitext(name)[1].lower()


def _split_folder(tops: set[str], wanted: str | None, source: str) -> str | None:
    """The folder to take if ``tops`` divide a data set, None if they do not."""
    known = [name for names in SPLIT_NAMES.values() for name in names]
    by_lower = {top.lower(): top for top in sorted(tops)}
    if not set(by_lower) <= set(known):
        return None
    accepted = known if wanted is None else SPLIT_NAMES[wanted]
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


def _no_pictures(tree: FileTree, source: str) -> UserError:
    zips = [parts[-1] for parts in tree.files if len(parts) == 1 and parts[0].lower().endswith(".zip")]
    if zips:
        return UserError(f"No images lie in {source!r}, but the zip {zips[0]!r}; give the path of the zip itself.")
    if not tree.files:
        return UserError(f"There are no images in {source!r}; give a folder or a zip with images ({_suffixes()}).")
    suffixes = Counter(_suffix(parts[-1]) or parts[-1] for parts in tree.files)
    return UserError(
        f"No images ({_suffixes()}) lie in {source!r}, mostly {suffixes.most_common(1)[0][0]!r} files; "
        "give a folder or a zip with images, or a folder with files like t10k-images-idx3-ubyte.gz."
    )


def _suffixes() -> str:
    return ", ".join(sorted(suffix.removeprefix(".") for suffix in SUFFIXES))
