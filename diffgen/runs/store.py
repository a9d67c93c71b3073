"""The regression store: pictures on which base and candidate may disagree, in a folder made for version control.

::

    store.json                     {"format": "diffgen-store-1", "image_shape": [1, 28, 28]}
    behaviours/A-7_B-9_1f0c52aa/   one folder for each accepted behaviour, named after its labels and its first picture
        behaviour.json             the two labels, their names, who accepted what from which run
        1f0c52aa....png            some pictures, named after the hash of their pixels
    accepted/5b1c....json          what an accepted check measured, named after the hash of its content
    lock                           while something is put into it

One folder a behaviour and one file an accepted check, so that two branches that accept different ones never touch the
same file, and that what was accepted is forgotten by removing it. PNG and JSON only, names made here alone, and nothing
is opened through a symbolic link, so that opening a stranger's store runs nothing and reads nothing else.
"""

from __future__ import annotations

import json
import re
import secrets
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from diffgen.errors import RunError, UserError
from diffgen.runs.files import write_json, write_whole
from diffgen.runs.lock import LOCK_NAME, RunLock
from diffgen.runs.opening import inside, read_text
from diffgen.runs.pictures import read_png
from diffgen.runs.schema import class_name, whole
from diffgen.types import UInt8Array

FORMAT = "diffgen-store-1"
_BEHAVIOUR = re.compile(r"A-\d{1,9}_B-\d{1,9}_[0-9a-f]{8}")
_UNFINISHED = re.compile(rf"\.{_BEHAVIOUR.pattern}\.[0-9a-f]{{16}}\.unfinished")
_PICTURE = re.compile(r"[0-9a-f]{32}\.png")
_ACCEPTED = re.compile(r"[0-9a-f]{32}\.json")
_LARGEST_LABEL = 10**9 - 1
_SIDE = whole(1, 10**6)
# what may lie in a folder that becomes a store: what 'diffgen train-gan' puts there, and what version control does
_BESIDE = re.compile(r"\.git.*|\.store\.json\..*\.tmp|README.*|.*\.(safetensors|journal|trials|unfinished)", re.DOTALL)
_PATIENCE = 60.0  # seconds; what is put in is there after a few
_UNREADABLE = (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError, SyntaxError)


@dataclass(frozen=True)
class StoredBehaviour:
    """One accepted behaviour.

    Attributes:
        said: labels of base and candidate.
        names: of these labels.
        images: uint8 (n, C, H, W), n at least 1.
        about: where it comes from; JSON values.

    Raises:
        ValueError: a value of another kind; a file may say anything.
    """

    said: tuple[int, int]
    names: tuple[str, str]
    images: UInt8Array
    about: dict[str, Any]

    def __post_init__(self) -> None:
        if not all(type(label) is int and 0 <= label <= _LARGEST_LABEL for label in self.said) or len(self.said) != 2:
            raise ValueError(f"{self.said!r} are no two labels")
        for name in self.names:
            class_name(name)
        if self.images.dtype != np.uint8 or self.images.ndim != 4 or self.images.size == 0:
            raise ValueError("it holds no pictures")
        if self.images.shape[1] not in (1, 3):
            raise ValueError(f"its pictures have {self.images.shape[1]} channels")

    @property
    def name(self) -> str:
        """That of its folder."""
        return f"A-{self.said[0]}_B-{self.said[1]}_{picture_hash(self.images[0])[:8]}"


@dataclass(frozen=True)
class Store:
    """What a store holds; empty where there is none yet.

    Attributes:
        image_shape: (C, H, W) of its pictures, or None.
        behaviours: by name.
        accepted: file -> what an accepted check measured, JSON values.
    """

    image_shape: tuple[int, int, int] | None = None
    behaviours: tuple[StoredBehaviour, ...] = ()
    accepted: tuple[tuple[Path, dict[str, Any]], ...] = ()


def picture_hash(image: UInt8Array) -> str:
    """32 hexadecimal digits: BLAKE2b of the bytes of uint8 (C, H, W), as the archive of a run has it."""
    return blake2b(np.ascontiguousarray(image).tobytes(), digest_size=16).hexdigest()


def read_store(path: Path) -> Store:
    """What is in a store; a folder that is missing, empty or has a GAN in it is one that holds nothing.

    Raises:
        UserError: it is no folder, other things lie there, a newer diffgen made it, or it is damaged.
    """
    try:
        is_file = path.exists() and not path.is_dir()
    except OSError as error:
        raise UserError(
            f"The store {path} cannot be looked at ({error.strerror}); name another with --store."
        ) from error
    if is_file:
        raise UserError(f"The store {path} is a file; name a folder with --store.")
    file, behaviours, accepted = (inside(path, name) for name in ("store.json", "behaviours", "accepted"))
    if not any(each.exists() for each in (file, behaviours, accepted)):
        _check_nothing_else(path)
        return Store()
    try:
        about = json.loads(read_text(file, links=False))
        if about["format"] != FORMAT:
            raise UserError(f"The store {path} has the format {about['format']!r}; upgrade diffgen to read it.")
        channels, height, width = about["image_shape"]
        for side in (channels, height, width):
            _SIDE(side)
        if channels not in (1, 3):
            raise ValueError(f"its pictures have {channels} channels")
        names = [each.name for each in behaviours.iterdir()] if behaviours.exists() else []
        values = [each.name for each in accepted.iterdir()] if accepted.exists() else []
    except UserError:
        raise
    except _UNREADABLE as error:
        raise UserError(f"The store {file} cannot be read ({error}); take it from version control again.") from error
    shape = channels, height, width
    folders = [inside(path, "behaviours", name) for name in sorted(names) if _BEHAVIOUR.fullmatch(name)]
    return Store(
        shape,
        tuple(_read_behaviour(each, shape) for each in folders if each.is_dir()),
        tuple(_read_accepted(inside(path, "accepted", name)) for name in sorted(values) if _ACCEPTED.fullmatch(name)),
    )


def _check_nothing_else(path: Path) -> None:
    if not path.exists():
        return
    try:
        names = sorted(each.name for each in path.iterdir())
    except OSError as error:
        raise UserError(f"The store {path} cannot be read ({error.strerror}); see who owns it.") from error
    pages = {f"{name.removesuffix('.safetensors')}.html" for name in names if name.endswith(".safetensors")}
    just_made = {"store.json", "behaviours", "accepted"}  # by another process, since it was looked for
    known = {LOCK_NAME, *pages, *just_made}
    others = [name for name in names if name not in known and not _BESIDE.fullmatch(name)]
    if others:
        more = f" and {len(others) - 1:,} more" if len(others) > 1 else ""
        raise UserError(
            f"The folder {path} is not a store, and other things are in it ({others[0]}{more}); name a store, or a new "
            "or empty folder, with --store."
        )


def _read_behaviour(folder: Path, shape: tuple[int, int, int]) -> StoredBehaviour:
    try:
        about = json.loads(read_text(inside(folder, "behaviour.json"), links=False))
        images = [_read_picture(folder, name, shape) for name in about["pictures"]]
        if not images:
            raise ValueError("it names no picture")
        (a, b), names = about["said"], about["names"]
        origin = dict(about["about"])
        return StoredBehaviour((a, b), (names[0], names[1]), np.stack(images), origin)
    except _UNREADABLE as error:
        raise UserError(
            f"The behaviour {folder} of the store cannot be read ({error}); take it from version control again, or "
            "remove the folder to forget it."
        ) from error


def _read_picture(folder: Path, name: object, shape: tuple[int, int, int]) -> UInt8Array:
    if not (isinstance(name, str) and _PICTURE.fullmatch(name)):
        raise ValueError(f"{name!r} is no name of a picture")
    try:
        image = read_png(folder / name, shape)
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from error
    if f"{picture_hash(image)}.png" != name:
        raise ValueError(f"the pixels of {name} have changed")
    return image


def _read_accepted(file: Path) -> tuple[Path, dict[str, Any]]:
    try:
        return file, dict(json.loads(read_text(file, links=False)))
    except _UNREADABLE as error:
        raise unreadable_values(file, error) from error


def unreadable_values(file: Path, error: Exception) -> UserError:
    """What to say of a file of accepted values that is damaged."""
    return UserError(
        f"The accepted values {file} cannot be read ({error}); take the file from version control again, or remove it "
        "to forget them."
    )


def add_to_store(
    path: Path,
    behaviours: Sequence[StoredBehaviour],
    accepted: Mapping[str, Any] | None = None,
    *,
    image_shape: tuple[int, int, int] | None = None,
) -> int:
    """Put behaviours into a store, which is made when there is none; each appears whole or not at all.

    Processes that do so at the same time wait for each other.

    Args:
        accepted: what the accepted check measured, JSON values, or None.
        image_shape: (C, H, W) of the pictures; needed where there are no behaviours.

    Returns:
        how many were added; one whose labels and first picture are there already is not added again.

    Raises:
        UserError: see :func:`read_store`; the pictures have another shape than those in the store; or another process
            has put something in for a minute.
        RunError: the folder cannot be written.
    """
    read_store(path)  # before anything is made
    if not behaviours and accepted is None:
        return 0
    if behaviours:
        channels, height, width = behaviours[0].images.shape[1:]
        image_shape = channels, height, width
    assert image_shape is not None
    with RunLock(path, what="store", option="--store", patience=_PATIENCE):
        store = read_store(path)
        check_shape(store, image_shape, path)
        try:
            return _add(path, store, behaviours, accepted, image_shape)
        except (OSError, RunError) as error:
            cause = error if isinstance(error, OSError) else error.__cause__
            reason = getattr(cause, "strerror", None) or error
            raise RunError(
                f"The store {path} cannot be written ({reason}); see who owns it and whether there is space, and "
                "accept the run again."
            ) from error


def _add(
    path: Path,
    store: Store,
    behaviours: Sequence[StoredBehaviour],
    accepted: Mapping[str, Any] | None,
    shape: tuple[int, int, int],
) -> int:
    if store.image_shape is None:
        write_json(path / "store.json", {"format": FORMAT, "image_shape": list(shape)})
    place = inside(path, "behaviours")
    place.mkdir(exist_ok=True)
    for left in place.iterdir():  # of a killed process: nobody else has the lock
        if _UNFINISHED.fullmatch(left.name) and not left.is_symlink():
            shutil.rmtree(left)
    added = 0
    for each in behaviours:
        folder = inside(path, "behaviours", each.name)
        if folder.exists():
            continue
        unfinished = place / f".{each.name}.{secrets.token_hex(8)}.unfinished"
        unfinished.mkdir()
        try:
            hashes = [picture_hash(image) for image in each.images]
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
    # last, since it speaks of the behaviours
    if accepted is not None:
        inside(path, "accepted").mkdir(exist_ok=True)
        name = blake2b(json.dumps(accepted, sort_keys=True).encode(), digest_size=16).hexdigest()
        write_json(inside(path, "accepted", f"{name}.json"), accepted)
    return added


def check_shape(store: Store, shape: tuple[int, int, int], path: Path) -> None:
    """See that the pictures of a store have the shape of the data's, or raise UserError."""
    if store.image_shape is not None and store.image_shape != shape:
        raise UserError(
            f"The store {path} holds pictures of {'x'.join(map(str, store.image_shape))}, but these are "
            f"{'x'.join(map(str, shape))}; name another store, or give the data that it was made with."
        )


def _write_picture(path: Path, image: UInt8Array) -> None:
    picture = Image.fromarray(image[0] if len(image) == 1 else np.ascontiguousarray(image.transpose(1, 2, 0)))
    write_whole(path, lambda temporary: picture.save(temporary, format="PNG", optimize=True))
