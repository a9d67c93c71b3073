"""The folders from which models and images may be picked, one folder at a time."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Literal, NamedTuple

from markupsafe import Markup

from diffgen.errors import UserError
from diffgen.ui.draw.parts import joined, note
from diffgen.ui.place import Place

MODELS = frozenset({".onnx", ".pt", ".pth", ".pt2", ".keras", ".h5", ".tflite", ".jit", ".ts", ".th", ".safetensors"})
DATA = frozenset({".zip", ".npz", ".parquet"})
_IDX = re.compile(r"images[-._]idx[34]", re.IGNORECASE)  # MNIST and its relatives
_NAMED = {"model": "add the model", "data": "take the images of"}
_MOST = 300  # names of one folder that are listed
_BUTTON = Markup('<li><button type="button" class="dg-entry dg-{}" data-pick="{}:{}" aria-label="{}">{}</button></li>')


class Pick(NamedTuple):
    """What was clicked: ``open`` a folder, add a ``model``, or take ``data``; and its path."""

    what: str
    path: str

    @classmethod
    def of(cls, text: str) -> Pick:
        """As the button says it."""
        what, _, path = text.partition(":")
        return cls(what, path)


def tree(place: Place, at: str, what: Literal["model", "data"]) -> Markup:
    """What can be picked in a folder, and the folders above and below it.

    Args:
        place: what may be read.
        at: the folder; empty: where the page starts.
        what: is picked, models or real images.

    Raises:
        UserError: there is no such folder, or it may not be read.
    """
    if not at and len(place.files) > 1:
        roots = joined(_folder(each, str(each), f"open the folder {each}") for each in place.files)
        return Markup('<ul class="dg-entries" aria-label="folders">{}</ul>').format(roots)
    folder = (Path(at) if at else place.files[0]).resolve()
    if not place.may_pick(folder) or not folder.is_dir():
        raise UserError(f"The folder {at} is not there, or not one that this page may read; open another.")
    above: list[Markup] = []
    if place.may_pick(folder.parent):
        above = [_folder(folder.parent, "..", "back to the folder above")]
    elif len(place.files) > 1:
        above = [_folder("", "..", "back to all folders")]
    entries = [*_entries(place, folder, what)]
    hidden = len(entries) - _MOST
    rest = note(f"{hidden:,} more are not listed; write the path of the one that you want.") if hidden > 0 else ""
    take = '<p><button type="button" class="dg-entry" data-pick="data:{}">Take the images of this folder</button></p>'
    return Markup('<p class="dg-at">{}</p><ul class="dg-entries" aria-label="in this folder">{}</ul>{}{}').format(
        folder,
        joined([*above, *entries[:_MOST]]),
        rest,
        Markup(take).format(folder) if what == "data" else "",
    )


def _folder(path: Path | str, text: str, name: str) -> Markup:
    return _BUTTON.format("folder", "open", path, name, text)


def _entries(place: Place, folder: Path, what: Literal["model", "data"]) -> Iterator[Markup]:
    """Folders first; nothing that is hidden, that leads elsewhere, or that is not picked here."""
    try:
        with os.scandir(folder) as found:
            names = sorted((each for each in found if not each.name.startswith(".")), key=lambda each: each.name)
    except OSError as error:
        raise UserError(f"The folder {folder} cannot be read ({error.strerror}); open another.") from error
    for each in names:
        if each.is_dir() and place.may_pick(Path(each.path).resolve()):
            yield _folder(each.path, f"{each.name}/", f"open the folder {each.name}")
    for each in names:
        suffix = Path(each.name).suffix.lower()
        fits = suffix in MODELS if what == "model" else suffix in DATA or _IDX.search(each.name) is not None
        if fits and each.is_file() and place.may_pick(Path(each.path).resolve()):
            yield _BUTTON.format("file", what, each.path, f"{_NAMED[what]} {each.name}", each.name)
