"""Which folder is a sweep's own, and what each of its comparisons was begun with."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from pathlib import Path
from typing import Any

from diffgen.config import to_dict
from diffgen.errors import UserError
from diffgen.models.loading import file_digest, file_sha256
from diffgen.models.sidecar import sidecar_path
from diffgen.runs.files import write_json
from diffgen.runs.opening import inside, read_text
from diffgen.workflows.sweep_plan import Cell

_MARK = "sweep.json"
_BYTES = 16  # of a digest
_SMALL = 2**29  # bytes of the images up to which they are read, in seconds
_WRITTEN = ("table.csv", "report.html", "manifest.json", _MARK)  # a run folder has some of these, too
_LONGEST = 2**28  # bytes; of a sweep of 100,000 comparisons it has some 60 million


@dataclass(frozen=True)
class Begun:
    """What a sweep's folder was begun with.

    Attributes:
        digests: of its comparisons, by their names.
        files: of each comparison, by its name, digests of what lay at the places of its models and data, by these.
    """

    digests: dict[str, str] = field(default_factory=dict)
    files: dict[str, dict[str, str]] = field(default_factory=dict)


def place_of(folder: Path, cell: Cell) -> Path:
    """The run folder of a comparison in the folder of its sweep.

    Raises:
        UserError: a link is on the way: the sweep may come from a stranger.
    """
    return inside(folder, "runs", cell.name)


def begun_with(folder: Path) -> Begun:
    """What the mark in a folder says; nothing for a folder that is to be made.

    Raises:
        UserError: something is there that no sweep made, and that one would replace.
    """
    try:
        about = json.loads(read_text(folder / _MARK, longest=_LONGEST, links=False))
        digests, files = _texts(about["diffgen_sweep"]), about.get("files", {})
        if any(isinstance(each, str) for each in files.values()):
            files = dict.fromkeys(digests, files)  # a version that kept them of the whole sweep wrote it
        return Begun(digests, {str(name): _texts(each) for name, each in files.items()})
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        there = next((name for name in _WRITTEN if os.path.lexists(folder / name)), None)
        if there is not None:
            raise UserError(
                f"The output {folder} of the sweep holds {there}, which no sweep wrote; name another folder as output."
            ) from error
    return Begun()


def _texts(values: dict[Any, Any]) -> dict[str, str]:
    return {str(name): str(digest) for name, digest in values.items()}


def mark(folder: Path, cells: Sequence[Cell]) -> None:
    """Mark a folder as that of a sweep, with what its comparisons are made of.

    Raises:
        UserError: it is no folder for it, or one of these comparisons was begun with something else.
        RunError: the disk is full.
    """
    known, digests = begun_with(folder), {each.name: digest_of(each) for each in cells}
    now: dict[str, str] = {}
    files = dict(known.files)
    for cell in cells:
        run, places = place_of(folder, cell), list(_places(cell))
        now.update({place: digest(Path(place)) for place, digest in places if place not in now})
        before, files[cell.name] = files.get(cell.name, {}), {place: now[place] for place, _ in places}
        if not os.path.lexists(run):
            continue
        changed = [place for place, _ in places if before.get(place, now[place]) != now[place]]
        if changed or known.digests.get(cell.name) != digests[cell.name]:
            what = f"another {changed[0]}" if changed else "other models, data or settings"
            raise UserError(
                f"The comparison {run} was begun with {what} than the sweep has now; remove that folder to begin it "
                "again, or name another folder as output."
            )
    write_json(folder / _MARK, {"diffgen_sweep": {**known.digests, **digests}, "files": files})


def digest_of(cell: Cell) -> str:
    """Of everything that makes a comparison: files by their places, and all settings."""
    made_of = [cell.models, cell.data, to_dict(cell.config())]
    return blake2b(json.dumps(made_of, sort_keys=True, default=str).encode(), digest_size=_BYTES).hexdigest()


def _places(cell: Cell) -> Iterator[tuple[str, Callable[[Path], str]]]:
    """What a comparison is made of, and what digests each; an address or a data set of a package has no place."""
    yield from ((place, _of_model) for place in cell.models if os.path.isfile(place))
    whole, _, _ = cell.data.rpartition(":")  # as in mnist:test
    yield from [(place, _of_data) for place in (cell.data, whole) if place and os.path.exists(place)][:1]


def _of_model(place: Path) -> str:
    """As a run keeps it, external weights of ONNX included, and what its sidecar says of it."""
    beside = sidecar_path(place)
    try:
        return file_digest(place) + (file_sha256(beside) if beside.is_file() else "")
    except UserError:
        return ""  # no model: its comparisons fail, and the table says why


def _of_data(place: Path) -> str:
    """Of a file, or of a folder with all files in it; where they are large, of names and sizes alone."""
    files = [place] if place.is_file() else sorted(each for each in place.rglob("*") if each.is_file())
    sizes = [each.stat().st_size for each in files]
    small = sum(sizes) <= _SMALL
    listed = [
        (str(each.relative_to(place)), size, file_sha256(each) if small else "")
        for each, size in zip(files, sizes, strict=True)
    ]
    return blake2b(json.dumps(listed).encode(), digest_size=_BYTES).hexdigest()
