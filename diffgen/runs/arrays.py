"""Files of arrays (.npz) without pickles, read with a bound on what they unpack to; and what those of a run must be.

They are looked at as if an enemy had written them. What not every run has may be missing; what is there must be of its
kind.
"""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any

import numpy as np

from diffgen.config import MAX_MODELS
from diffgen.runs.files import write_whole
from diffgen.runs.opening import open_regular
from diffgen.runs.schema import MAX_CLASSES, fields, flag, number, one_of, rows, text, whole
from diffgen.tasks.detection import MARKED

_JSON_MEMBER = "json"
_SUFFIX = ".npy"
_MAX_MEMBERS = 1_000
# A file may unpack to this many bytes, or to this many times its own length, whichever is more: arrays of equal values
# shrink a thousandfold but are short, whole run folders hardly shrink at all.
_ALWAYS_ALLOWED = 256 * 2**20
_LARGEST_RATIO = 100


def write_arrays(path: Path, arrays: Mapping[str, Any], *, compress: bool = False, keep_as: Path | None = None) -> None:
    """Write an .npz of arrays; values that are no arrays go in together as JSON, never as a pickle.

    ``keep_as``: see :func:`diffgen.runs.files.write_whole`.

    Raises:
        ValueError: an array holds Python objects.
        RunError: the disk is full or the folder cannot be written.
    """
    members = _as_members(arrays)

    def write(temporary: Path) -> None:
        with temporary.open("wb") as file:
            save = np.savez_compressed if compress else np.savez
            save(file, **members)

    write_whole(path, write, keep_as=keep_as)


def packed(arrays: Mapping[str, Any]) -> bytes:
    """The content of the file that :func:`write_arrays` would write. ValueError if an array holds Python objects."""
    file = io.BytesIO()
    np.savez(file, **_as_members(arrays))
    return file.getvalue()


def unpacked(content: bytes) -> dict[str, Any]:
    """What :func:`packed` was given; as careful as :func:`read_arrays`.

    Raises:
        ValueError: truncated, damaged, another kind of content, or it would unpack to too much.
    """
    return _read(io.BytesIO(content), len(content), only=None, unread=None)


def _as_members(arrays: Mapping[str, Any]) -> dict[str, Any]:
    """The arrays of a file; values that are no arrays go in together as JSON."""
    plain = {name: value for name, value in arrays.items() if not isinstance(value, np.ndarray)}
    members: dict[str, Any] = {name: value for name, value in arrays.items() if isinstance(value, np.ndarray)}
    for name, array in members.items():
        if array.dtype.hasobject:
            raise ValueError(f"the array {name!r} holds Python objects, which only a pickle could keep")
    if plain:
        members[_JSON_MEMBER] = np.frombuffer(json.dumps(plain).encode(), dtype=np.uint8)
    return members


def read_arrays(path: Path, *, only: str | None = None, unread: str | None = None) -> dict[str, Any]:
    """What :func:`write_arrays` wrote; nothing is followed, run or unpacked beyond the bound.

    Args:
        only: one array, and nothing else is read; it must be there.
        unread: an array of which only type and shape are read: zeros, of no memory, stand in its place.

    Raises:
        OSError: missing, a symbolic link, no regular file, or the disk fails.
        ValueError: truncated, damaged, another kind of file, or it would unpack to too much.
    """
    with open_regular(path, links=False) as file:
        return _read(file, path.lstat().st_size, only=only, unread=unread)


def _read(file: IO[bytes], size: int, *, only: str | None, unread: str | None) -> dict[str, Any]:
    try:
        with zipfile.ZipFile(file) as archive:
            members = _members(archive, size)
            if only is not None:
                members = {only: members[only]}
            values: dict[str, Any] = {
                name: _array(archive, member, read=name != unread) for name, member in members.items()
            }
        if _JSON_MEMBER in values:
            values.update(json.loads(values.pop(_JSON_MEMBER).tobytes()))
    except OSError:
        raise
    except zipfile.BadZipFile as error:
        raise ValueError(str(error).replace("Bad CRC-32 for", "the checksum is wrong of")) from error
    except Exception as error:
        # damage shows itself as zlib.error, NotImplementedError, RuntimeError, ... after where it hit the zip
        raise ValueError(str(error) or type(error).__name__) from error
    return values


def _members(archive: zipfile.ZipFile, size: int) -> dict[str, zipfile.ZipInfo]:
    """Name -> member, once there are not too many of them and what they say of their length is bounded."""
    found = archive.infolist()
    if len(found) > _MAX_MEMBERS:
        raise ValueError(f"it has {len(found):,} members")
    allowed = max(_ALWAYS_ALLOWED, _LARGEST_RATIO * size)
    if sum(member.file_size for member in found) > allowed:
        raise ValueError(f"it would unpack to more than {allowed:,} bytes")
    members = {}
    for member in found:
        # bzip2 and LZMA are unpacked at one go, whatever comes out
        if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise ValueError(f"{member.filename!r} is compressed with method {member.compress_type}")
        name = member.filename.removesuffix(_SUFFIX)
        if name in members or name == member.filename:
            raise ValueError(f"{member.filename!r} is there twice or no array")
        members[name] = member
    return members


def _array(archive: zipfile.ZipFile, member: zipfile.ZipInfo, *, read: bool) -> np.ndarray[Any, Any]:
    """One array, of exactly the length that the member has; without being ``read`` only its type and shape."""
    with archive.open(member) as stream:
        shape, fortran, kind = _header(stream)
        if kind.hasobject:
            raise ValueError("it holds Python objects; allow_pickle is never set")
        left = member.file_size - stream.tell()
        count = 1
        for side in shape:
            count *= side
        if count * kind.itemsize > left:
            raise ValueError(f"{member.filename!r} is shorter than its header says")
        if not read:
            return np.broadcast_to(np.zeros((), dtype=kind), shape)
        # more than the header says is read too: only at the end of a member its checksum is compared
        content = stream.read(left + 1)
        if len(content) != count * kind.itemsize:
            raise ValueError(f"{member.filename!r} is not as long as its header says")
    flat = np.frombuffer(bytearray(content), dtype=kind, count=count)
    return flat.reshape(shape[::-1]).transpose() if fortran else flat.reshape(shape)


def _header(stream: Any) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    version = np.lib.format.read_magic(stream)
    read: Any = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}.get(version)
    if read is None:
        raise ValueError(f"it has version {version} of the format of arrays")
    shape, fortran, kind = read(stream)
    if any(side < 0 for side in shape):
        raise ValueError(f"it has the shape {shape}")
    return shape, fortran, kind


# -- what the arrays of a run must be ---------------------------------------------------------------------------------

_IMAGES, _PROBABILITIES = ("u1", 4), ("f", 3)
_ROWS, _NUMBERS = ("i", 1), ("f", 1)
_TEXTS = ("S", 1)
_MARKS, _MAPS = ("f", 3), ("i", 4)  # boxes, or maps
_LONGEST_RECIPE = 10_000  # bytes
_LAST_OF_ASCII = 127
# name -> kind of the numbers and number of axes
_ARRAYS: dict[str, dict[str, tuple[str, int]]] = {
    "part": {
        "images": _IMAGES,
        "probabilities": _PROBABILITIES,
        "query": _ROWS,
        "generation": _ROWS,
        "seeds": _ROWS,
        "recipes": _TEXTS,
        "divergence": _NUMBERS,
        "diversity": _NUMBERS,
        "hashes": ("u1", 2),
        "genes": ("f", 2),
        "classes": ("i", 2),
    },
    "verdicts": {
        "scores": ("f", 2),
        "rejected_by": _ROWS,
        "confirmed": _ROWS,
        "cells": _ROWS,
        "near_duplicate_of": _ROWS,
        "seed_labels": _ROWS,
        "seed_differs": ("b", 1),
        "named": _ROWS,
        "certainty": _NUMBERS,
        "recognised": ("b", 1),
    },
    "report": {
        "shown": _ROWS,
        "rejected": _ROWS,
        "nearest_real": _IMAGES,
        "shown_scores": ("f", 2),
        "held_out_scores": ("f", 2),
        "samples": _IMAGES,
        "real_rows": _ROWS,
        "real_images": _IMAGES,
        "real_probabilities": _PROBABILITIES,
        "real_labels": _ROWS,
        "marks": _MARKS,
        "real_marks": _MARKS,
    },
    "shrunk": {
        "numbers": _ROWS,
        "agreeing": _IMAGES,
        "agreeing_latents": ("f", 2),
        "agreeing_probabilities": _PROBABILITIES,
        "triggers": _IMAGES,
        "trigger_latents": ("f", 2),
        "trigger_probabilities": _PROBABILITIES,
        "agreeing_marks": _MARKS,
        "trigger_marks": _MARKS,
        "before": _NUMBERS,
        "difference": _NUMBERS,
    },
    "operators": {
        "operators": _TEXTS,
        "names": _TEXTS,
        "units": _TEXTS,
        "strengths": _NUMBERS,
        "accuracy": ("f", 2),
        "disagreement": _NUMBERS,
    },
    "check": {"images": _IMAGES, "probabilities": _PROBABILITIES, "classes": ("i", 2), "marks": _MARKS},
    "labels": {"hashes": ("u1", 2), "labels": _ROWS},
    "rank": {"hashes": ("u1", 2), "said": ("i", 2), "guessed": ("f", 2), "chance": _NUMBERS},
    "probe": {"rows": _ROWS, "labels": ("i", 2), "probabilities": ("f", 2)},
    "selection": {"shown": _ROWS, "rows": _ROWS},
    "cause": {"plain": _IMAGES, "changed": _IMAGES, "said": ("i", 2)},
}
# arrays of numbers of triggers
_OF_TRIGGERS = {"report": ("shown", "rejected"), "shrunk": ("numbers",), "selection": ("shown", "rows")}
_MAY_BE_MISSING = {"diversity", "scores", "shown_scores", "accuracy"}  # NaN stands for what was not asked
_MAY_BE_MISSING_VERDICTS = ("seed_labels", "seed_differs", "named", "certainty", "recognised")
_FAULTS = 9  # of a pipeline
_CONFIRMATIONS = 2  # the highest number that says how a trigger was confirmed


def check_arrays(name: str, arrays: Mapping[str, Any], *, triggers: int | None = None) -> None:
    """See that arrays of a run are of their kinds, and that what counts triggers counts ``triggers`` of them.

    Args:
        name: "part", "verdicts", "report", "operators", "shrunk", "check", "labels", "rank", "probe", "selection" or
            "cause".
        arrays: by name, with JSON values among them.
        triggers: how many the run has, or None: not known.

    Raises:
        ValueError: they are not.
    """
    for key, (kind, axes) in _ARRAYS.get(name, {}).items():
        if key in arrays:
            _check_kind(key, arrays[key], kind, axes)
    if triggers is not None:
        for key in _OF_TRIGGERS.get(name, ()):
            numbers = arrays.get(key)
            if numbers is not None and len(numbers) and not (numbers.min() >= 0 and numbers.max() < triggers):
                raise ValueError(f"{key}: it names triggers that the run does not have")
        if name == "verdicts" and "confirmed" in arrays:
            _check_verdicts(arrays, triggers)
    if name == "operators":
        _check_curves(arrays)
    if "classes" in arrays and name in ("part", "check"):
        _check_kept(arrays["classes"], arrays["probabilities"])
    if name == "cause":
        words = {"verdict": text, "options": text, "advice": rows(text, most=_FAULTS)}
        fields({**words, "named": flag, "role": one_of(("A", "B"))})(arrays["about"])
        if not len(arrays["plain"]) == len(arrays["changed"]) == len(arrays["said"]) or arrays["said"].shape[1] != 3:
            raise ValueError("said: its arrays differ in length")
    if name in ("selection", "labels") and not isinstance(arrays.get("about", {}), dict):
        raise ValueError("about: it is no table")
    if name == "rank":
        _check_rank(arrays)


def _check_rank(arrays: Mapping[str, Any]) -> None:
    models = arrays["said"].shape[1]
    fields({"images": whole(1), "disagreements": whole(1), "guessed": rows(number(0), least=models, most=models)})(
        arrays["about"]
    )
    if len({len(arrays[key]) for key in _ARRAYS["rank"]}) > 1 or arrays["guessed"].shape[1] != models:
        raise ValueError("said: its arrays differ in length")
    if not ((arrays["chance"] > 0) & (arrays["chance"] <= 1)).all():
        raise ValueError("chance: it holds numbers that are none")


def _check_kind(key: str, array: Any, kind: str, axes: int) -> None:
    if (kind, axes) == _MARKS and isinstance(array, np.ndarray) and array.ndim == _MAPS[1]:
        kind, axes = _MAPS
    if not isinstance(array, np.ndarray) or array.ndim != axes:
        raise ValueError(f"{key}: it is not of {axes} axes")
    found = array.dtype
    fits = found == np.uint8 if kind == "u1" else found.kind in ("iu" if kind == "i" else kind)
    if not fits or not found.isnative:
        raise ValueError(f"{key}: it holds numbers of type {found}")
    if (kind, axes) == _IMAGES and (array.shape[1] not in (1, 3) or 0 in array.shape[2:]) and len(array):
        raise ValueError(f"{key}: it holds no images but shape {array.shape}")
    if key.endswith("marks"):
        if array.ndim == 3 and array.shape[2] != MARKED:
            raise ValueError(f"{key}: it holds no boxes but shape {array.shape}")
    elif (kind, axes) == _PROBABILITIES and not 2 <= array.shape[1] <= MAX_MODELS and len(array):
        raise ValueError(f"{key}: it is of {array.shape[1]} models")
    if kind == "S" and found.itemsize > _LONGEST_RECIPE:
        raise ValueError(f"{key}: it holds texts that are too long")
    if kind == "S" and np.frombuffer(array.tobytes(), np.uint8).max(initial=0) > _LAST_OF_ASCII:
        raise ValueError(f"{key}: it holds letters that no recipe has")
    if kind == "f":
        known = array[~np.isnan(array)] if key in _MAY_BE_MISSING else array
        if not np.isfinite(known).all() and key not in ("held_out_scores", *_MAY_BE_MISSING):
            raise ValueError(f"{key}: it holds numbers that are not finite")


def _check_kept(classes: Any, probabilities: Any) -> None:
    if (len(classes), classes.shape[1]) != (len(probabilities), probabilities.shape[2]):
        raise ValueError("classes: they are not those of the probabilities")
    if classes.size and not (classes[:, 0].min() >= 0 and classes[:, -1].max() < MAX_CLASSES):
        raise ValueError("classes: it holds numbers that no class has")
    if not (np.diff(classes, axis=1) > 0).all():
        raise ValueError("classes: they do not ascend")


def _check_curves(arrays: Mapping[str, Any]) -> None:
    if len({len(arrays[key]) for key in _ARRAYS["operators"]}) > 1:
        raise ValueError("its curves differ in length")
    fields({"images": whole(1), "judged_by": one_of(("label", "jury", "nobody"))})(arrays["about"])


def _check_verdicts(arrays: Mapping[str, Any], triggers: int) -> None:
    optional = [key for key in _MAY_BE_MISSING_VERDICTS if key in arrays]
    for key in ("scores", "rejected_by", "confirmed", "cells", "near_duplicate_of", *optional):
        if len(arrays[key]) != triggers:
            raise ValueError(f"{key}: it is of {len(arrays[key]):,} triggers, not of {triggers:,}")
    rejected, confirmed = arrays["rejected_by"], arrays["confirmed"]
    if triggers and not (rejected.min() >= -1 and rejected.max() < max(arrays["scores"].shape[1], 1)):
        raise ValueError("rejected_by: it names filters that the run does not have")
    if triggers and not (confirmed.min() >= 0 and confirmed.max() <= _CONFIRMATIONS):
        raise ValueError("confirmed: it holds numbers that mean nothing")
    jury = [key for key in ("named", "certainty", "recognised") if key in arrays]
    if len(jury) not in (0, 3):
        raise ValueError(f"{jury[0]}: what else the jury said is missing")
