"""What can be chosen for a run, as HTML: the folders from which models and images are picked, and what these are."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np
from markupsafe import Markup

from diffgen import api
from diffgen.config import is_address
from diffgen.errors import UserError
from diffgen.tasks.classification import role_name
from diffgen.types import UInt8Array
from diffgen.ui.pieces import badge, inline, joined, note
from diffgen.ui.place import Place
from diffgen.wording import percent

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


_FEW_RIGHT = 0.5  # share of labelled images
_COLUMNS = 10
_CLASSES = 12  # of which the counts are drawn


def inspected(index: int, found: api.Inspection) -> Markup:
    """One model in a card: what it is, what it takes, how well it does as it is fed, and how it does best."""
    best, now = found.chosen, found.now
    channels, height, width = found.takes[0] if found.takes else found.image_shape
    facts = [
        found.format,
        "takes " + "\N{MULTIPLICATION SIGN}".join(map(str, (channels, height, width))),
        f"{found.classes:,} classes",
    ]
    useless = best.accuracy is not None and best.accuracy <= _FEW_RIGHT
    status, feed = "good", Markup("")
    if now is best:
        facts += [f"{_how(best.accuracy, best.confidence)} on {found.images:,} images", f"fed as: {best.name}"]
        facts += [] if found.alike == 1 else [f"{found.alike} ways of feeding it do as well"]
    else:
        if best.accuracy is not None or now is None:
            status = "fed wrongly"
        as_now = "it takes no such images" if now is None else _how(now.accuracy, now.confidence)
        facts.append(f"as it is fed now: {as_now}")
        facts.append(f"fed as {best.name}: {_how(best.accuracy, best.confidence)} on {found.images:,} images")
        feed = Markup("") if useless else _feed(index, found)
    return Markup(
        '<div class="dg-model"><span class="dg-role dg-role-{}">{}</span><div><b>{}</b> {}<ul>{}</ul>{}</div></div>'
    ).format(
        index % 8,
        role_name(index),
        found.model,
        badge("nearly useless on these images" if useless else status),
        joined(Markup("<li>{}</li>").format(each) for each in facts),
        feed,
    )


def _how(accuracy: float | None, confidence: float) -> str:
    return f"mean confidence {percent(confidence, 0)}" if accuracy is None else f"{percent(accuracy)} right"


def _feed(index: int, found: api.Inspection) -> Markup:
    """The button that writes the best way of feeding into the model's sidecar."""
    if found.path is None or is_address(found.path):
        return Markup("<p>A server has no file beside it: 'diffgen inspect' in a terminal names the options.</p>")
    return Markup(
        '<p><button type="button" class="dg-entry" data-pick="{}" aria-label="feed {} like this: {}" title="written '
        'into {}.toml beside the model, which every run reads">Feed it like this</button></p>'
    ).format(found.path, role_name(index), found.chosen.name, found.path)


def doubted(index: int, found: api.Inspection) -> Markup:
    """That a model is hardly right more often than by guessing as it is fed, before a search with it."""
    now, best = found.now, found.chosen
    assert now is not None
    remedy = "however it is fed, it is right on few of them; these may be images of other classes."
    if best is not now and best.accuracy is not None and best.accuracy > _FEW_RIGHT:
        remedy = f"fed as {best.name}, it is {percent(best.accuracy)} right: its card says how to feed it so."
    return note(
        f"{role_name(index)} ({found.model}) is {_how(now.accuracy, now.confidence)} on {found.images:,} images as it "
        f"is fed now, hardly more often than by guessing, so that what a search finds says little of it; {remedy}",
        "bad",
    )


def previewed(found: api.Preview) -> Markup:
    """A contact sheet as one picture, and how many images of each class there are."""
    channels, height, width = found.shape
    colours = "grey" if channels == 1 else "colour"
    scale = max(1, round(56 / max(height, width)))
    classes = Markup("")
    if found.per_class:
        names = found.class_names or tuple(map(str, range(len(found.per_class))))
        shown = list(zip(names, found.per_class, strict=True))
        most = max(count for _, count in shown) or 1
        classes = joined(
            Markup(
                '<li><span>{}</span><span class="dg-bar-track"><span class="dg-bar-fill dg-role-0" style="width:{}%">'
                "</span></span><span>{}</span></li>"
            ).format(name, round(100 * count / most), f"{count:,}")
            for name, count in shown[:_CLASSES]
        )
        rest = len(shown) - _CLASSES
        more = Markup("<li>{} more classes</li>").format(f"{rest:,}") if rest > 0 else Markup("")
        classes = Markup('<ul class="dg-counts">{}{}</ul>').format(classes, more)
    sheet = contact_sheet(found.images)
    size = f"{height}\N{MULTIPLICATION SIGN}{width}"
    return Markup(
        '<div class="dg-preview"><p><b>{}</b> images, {} {}, {}</p>'
        '<img class="dg-sheet" src="{}" alt="contact sheet of {} of the images" style="width:{}px">{}</div>'
    ).format(
        f"{found.count:,}",
        size,
        colours,
        "labelled" if found.labels is not None else "without labels",
        inline(sheet),
        len(found.images),
        sheet.shape[2] * scale,
        classes,
    )


def contact_sheet(images: UInt8Array) -> UInt8Array:
    """uint8 (C, H, W): pictures in rows, two pixels apart, for uint8 (N, C, h, w)."""
    count, channels, height, width = images.shape
    rows = max(1, math.ceil(count / _COLUMNS))
    sheet = np.full((channels, rows * (height + 2) - 2, _COLUMNS * (width + 2) - 2), 128, dtype=np.uint8)
    for at, image in enumerate(images):
        top, left = (at // _COLUMNS) * (height + 2), (at % _COLUMNS) * (width + 2)
        sheet[:, top : top + height, left : left + width] = image
    return sheet
