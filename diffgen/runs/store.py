"""The regression store: pictures on which base and candidate may disagree, in a folder made for version control.

::

    store.json                     {"format": "diffgen-store-1", "image_shape": [1, 28, 28]}
    behaviours/A-7_B-9_1f0c52aa/   one folder for each accepted behaviour, named after its labels and its first picture
        behaviour.json             the two labels, their names, who accepted what from which run
        1f0c52aa....png            some pictures, named after the hash of their pixels

One folder a behaviour, so that two branches that accept different ones never touch the same file, and that a behaviour
is forgotten by removing its folder. PNG and JSON only, so that opening a stranger's store runs nothing.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from diffgen.errors import UserError
from diffgen.runs.files import make_folder, write_json, write_whole
from diffgen.types import UInt8Array

FORMAT = "diffgen-store-1"
_PICTURE = re.compile(r"[0-9a-f]{32}\.png")
_UNREADABLE = (OSError, ValueError, KeyError, TypeError, RecursionError, SyntaxError)


@dataclass(frozen=True)
class StoredBehaviour:
    """One accepted behaviour.

    Attributes:
        said: labels of base and candidate.
        names: of these labels.
        images: uint8 (n, C, H, W), n at least 1.
        about: where it comes from; JSON values.
    """

    said: tuple[int, int]
    names: tuple[str, str]
    images: UInt8Array
    about: dict[str, Any]


@dataclass(frozen=True)
class Store:
    """What a store holds; empty where there is none yet."""

    image_shape: tuple[int, int, int] | None = None
    behaviours: tuple[StoredBehaviour, ...] = ()


def picture_hash(image: UInt8Array) -> str:
    """32 hexadecimal digits: BLAKE2b of the bytes of uint8 (C, H, W), as the archive of a run has it."""
    return blake2b(np.ascontiguousarray(image).tobytes(), digest_size=16).hexdigest()


def read_store(path: Path) -> Store:
    """What is in a store; a folder that is missing, or where only other things are kept, is one that holds nothing.

    Raises:
        UserError: it is no folder, a newer diffgen made it, or it is damaged.
    """
    file = path / "store.json"
    if path.exists() and not path.is_dir():
        raise UserError(f"The store {path} is a file; name a folder with --store.")
    if not file.exists() and not (path / "behaviours").exists():
        return Store()
    try:
        about = json.loads(file.read_text(encoding="utf-8"))
        if about["format"] != FORMAT:
            raise UserError(f"The store {path} has the format {about['format']!r}; upgrade diffgen to read it.")
        channels, height, width = (int(each) for each in about["image_shape"])
        folders = sorted(each for each in (path / "behaviours").glob("A-*") if each.is_dir())
        shape = channels, height, width
        return Store(shape, tuple(_read_behaviour(each, shape) for each in folders))
    except UserError:
        raise
    except _UNREADABLE as error:
        raise UserError(f"The store {file} cannot be read ({error}); take it from version control again.") from error


def _read_behaviour(folder: Path, shape: tuple[int, int, int]) -> StoredBehaviour:
    try:
        about = json.loads((folder / "behaviour.json").read_text(encoding="utf-8"))
        said = int(about["said"][0]), int(about["said"][1])
        names = str(about["names"][0]), str(about["names"][1])
        images = [_read_picture(folder / name, shape) for name in about["pictures"] if _is_picture(name)]
        if not images:
            raise ValueError("it names no picture")
    except _UNREADABLE as error:
        raise UserError(
            f"The behaviour {folder} of the store cannot be read ({error}); take it from version control again, or "
            "remove the folder to forget it."
        ) from error
    return StoredBehaviour(said, names, np.stack(images), dict(about.get("about", {})))


def _is_picture(name: object) -> bool:
    if isinstance(name, str) and _PICTURE.fullmatch(name):
        return True
    raise ValueError(f"{name!r} is no name of a picture")


def _read_picture(file: Path, shape: tuple[int, int, int]) -> UInt8Array:
    with Image.open(file, formats=("PNG",)) as picture:
        if picture.mode != ("L" if shape[0] == 1 else "RGB") or picture.size != (shape[2], shape[1]):
            raise ValueError(f"{file.name} is no picture of {'x'.join(map(str, shape))}")
        pixels = np.asarray(picture)
    image = pixels[None] if shape[0] == 1 else np.ascontiguousarray(pixels.transpose(2, 0, 1))
    if picture_hash(image) != file.stem:
        raise ValueError(f"the pixels of {file.name} have changed")
    return image


def add_to_store(path: Path, behaviours: Sequence[StoredBehaviour]) -> int:
    """Put behaviours into a store, which is made when there is none; each appears whole or not at all.

    Returns:
        how many were added; one whose labels and first picture are there already is not added again.

    Raises:
        UserError: see :func:`read_store`; or the pictures have another shape than those in the store.
        RunError: the folder cannot be written.
    """
    store = read_store(path)
    if not behaviours:
        return 0
    channels, height, width = behaviours[0].images.shape[1:]
    check_shape(store, (channels, height, width), path)
    make_folder(path / "behaviours")
    if store.image_shape is None:
        write_json(path / "store.json", {"format": FORMAT, "image_shape": [channels, height, width]})
    added = 0
    for each in behaviours:
        hashes = [picture_hash(image) for image in each.images]
        folder = path / "behaviours" / f"A-{each.said[0]}_B-{each.said[1]}_{hashes[0][:8]}"
        if folder.exists():
            continue
        unfinished = folder.with_name(f".{folder.name}.unfinished")
        shutil.rmtree(unfinished, ignore_errors=True)
        make_folder(unfinished)
        try:
            for name, image in zip(hashes, each.images, strict=True):
                _write_picture(unfinished / f"{name}.png", image)
            about = {
                "said": list(each.said),
                "names": list(each.names),
                "pictures": [f"{name}.png" for name in hashes],
                "about": each.about,
            }
            write_json(unfinished / "behaviour.json", about)
            unfinished.rename(folder)
        finally:
            shutil.rmtree(unfinished, ignore_errors=True)
        added += 1
    return added


def check_shape(store: Store, shape: tuple[int, int, int], path: Path) -> None:
    """See that the pictures of a store have the shape of the data's.

    Raises:
        UserError: they have not.
    """
    if store.image_shape is not None and store.image_shape != shape:
        raise UserError(
            f"The store {path} holds pictures of {'x'.join(map(str, store.image_shape))}, but these are "
            f"{'x'.join(map(str, shape))}; name another store, or give the data that it was made with."
        )


def _write_picture(path: Path, image: UInt8Array) -> None:
    picture = Image.fromarray(image[0] if len(image) == 1 else np.ascontiguousarray(image.transpose(1, 2, 0)))
    write_whole(path, lambda temporary: picture.save(temporary, format="PNG", optimize=True))
