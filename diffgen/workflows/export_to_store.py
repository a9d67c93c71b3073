"""Copies a finished run to an object store: report, figures and parts."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from diffgen.errors import UserError
from diffgen.events import Listener, Progress, StopToken
from diffgen.runs.creation import ANSWERS, FOLDERS, OWN, own_files
from diffgen.runs.folder import RunFolder
from diffgen.runs.results import read_finished
from diffgen.runs.stores import is_url, send, store_folder

_LEFT_OUT = ("checkpoint", *ANSWERS.values())  # of no use to who reads, and answers are their owner's own


@dataclass(frozen=True)
class StoredRun:
    """What was sent.

    Attributes:
        run: the run folder.
        url: its copy.
        files: how many.
    """

    run: str
    url: str
    files: int

    def as_dict(self) -> dict[str, Any]:
        """JSON values."""
        return asdict(self)


def export_to_store(
    run: str | Path,
    url: str,
    *,
    force: bool = False,
    events: Listener | None = None,
    stop: StopToken | None = None,
) -> StoredRun:
    """Copy a finished run to ``URL/NAME``, without what only a resumed search needs; fetched again it is a run.

    Args:
        run: the run folder.
        url: of a place in a store, such as ``s3://bucket/runs`` (``pip install diffgen[storage]``, and the store's own
            package).
        force: replace an earlier copy.
        events, stop: told what happens, and what ends it; see :mod:`diffgen.events`.

    Raises:
        UserError: no finished run there, or a link in it; the store does not answer, or something is there already.
        RunError: the store fails on the way.
    """
    if not is_url(url):
        raise UserError(
            f"The place {url} is no URL; name one such as s3://bucket/runs, or copy the folder {run} itself."
        )
    progress, folder = Progress(events, stop), RunFolder.open(run)
    read_finished(folder)
    names = [name for name in OWN if not name.startswith(_LEFT_OUT) and folder.file(name).is_file()]
    for name, pattern in FOLDERS.items():
        if (place := folder.file(name)).is_dir():
            names += [f"{name}/{each.name}" for each in own_files(place, pattern)]
    for name in names:
        folder.file(*name.split("/"))  # no link, as a stranger may have put it, sends what lies elsewhere
    target = store_folder(f"{url.rstrip('/')}/{folder.path.absolute().name}", kind="run", force=force, option="--to")
    send(folder.path, sorted(names), target, progress)
    return StoredRun(str(folder.path), target.url, len(names))
