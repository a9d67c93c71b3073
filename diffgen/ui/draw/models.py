"""What a model is, and what real images look like, before anything is started with them."""

from __future__ import annotations

import math

import numpy as np
from markupsafe import Markup

from diffgen import api
from diffgen.config import is_address
from diffgen.tasks.classification import role_name
from diffgen.types import UInt8Array
from diffgen.ui.draw.parts import badge, inline, joined, note
from diffgen.wording import percent

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
