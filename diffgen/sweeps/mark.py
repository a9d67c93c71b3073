"""Which folder is a sweep's own, and what each of its comparisons was begun with."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from hashlib import blake2b
from pathlib import Path

from diffgen.config import to_dict
from diffgen.errors import UserError
from diffgen.runs.files import write_json
from diffgen.runs.opening import read_text
from diffgen.sweeps.plan import Cell

RUNS = "runs"
_MARK = "sweep.json"
_WRITTEN = ("table.csv", "report.html", "manifest.json", _MARK)  # a run folder has some of these, too
_LONGEST = 2**26  # bytes; of a sweep of 100,000 comparisons it has 12 million


def begun_with(folder: Path) -> dict[str, str]:
    """The digests of the comparisons of a sweep's folder by their names; none for a folder that is to be made.

    Raises:
        UserError: something is there that no sweep made, and that one would replace.
    """
    try:
        about = json.loads(read_text(folder / _MARK, longest=_LONGEST, links=False))
        return {str(name): str(digest) for name, digest in about["diffgen_sweep"].items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        there = next((name for name in _WRITTEN if os.path.lexists(folder / name)), None)
        if there is not None:
            raise UserError(
                f"The output {folder} of the sweep holds {there}, which no sweep wrote; name another folder as output."
            ) from error
    return {}


def mark(folder: Path, cells: Sequence[Cell]) -> None:
    """Mark a folder as that of a sweep, with what its comparisons are made of.

    Raises:
        UserError: it is no folder for it, or one of these comparisons was begun with something else.
        RunError: the disk is full.
    """
    known, digests = begun_with(folder), {each.name: digest_of(each) for each in cells}
    for name, digest in digests.items():
        run = folder / RUNS / name
        if known.get(name) != digest and os.path.lexists(run):
            raise UserError(
                f"The comparison {run} was begun with other models, data or settings than the sweep has now; remove "
                "that folder to begin it again, or name another folder as output."
            )
    write_json(folder / _MARK, {"diffgen_sweep": {**known, **digests}})


def digest_of(cell: Cell) -> str:
    """Of everything that makes a comparison: files by their places, and all settings."""
    made_of = [cell.models, cell.data, to_dict(cell.config())]
    return blake2b(json.dumps(made_of, sort_keys=True, default=str).encode(), digest_size=16).hexdigest()
