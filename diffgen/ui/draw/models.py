"""What a model is, and what real images look like, before anything is started with them."""

from __future__ import annotations

import math

import numpy as np
from markupsafe import Markup

from diffgen import api
from diffgen.tasks.classification import role_name
from diffgen.types import UInt8Array
from diffgen.ui.draw.parts import badge, inline, joined
from diffgen.wording import percent

_COLUMNS = 10
_CLASSES = 12  # of which the counts are drawn


def inspected(index: int, found: api.Inspection) -> Markup:
    """One model in a card: what it is, what it takes, and how well it does."""
    best = found.chosen
    sure = f"mean confidence {percent(best.confidence, 0)}"
    how = sure if best.accuracy is None else f"{percent(best.accuracy)} right"
    channels, height, width = found.takes[0] if found.takes else found.image_shape
    facts = [
        found.format,
        "takes " + "\N{MULTIPLICATION SIGN}".join(map(str, (channels, height, width))),
        f"{found.classes:,} classes",
        f"{how} on {found.images:,} images",
        f"fed as: {best.name}",
    ]
    guess = [] if found.alike == 1 else [f"{found.alike} ways of feeding it do as well"]
    return Markup(
        '<div class="dg-model"><span class="dg-role dg-role-{}">{}</span><div><b>{}</b> {}<ul>{}</ul></div></div>'
    ).format(
        index % 8,
        role_name(index),
        found.model,
        badge("good") if best.accuracy is None or best.accuracy > 0.5 else badge("nearly useless on these images"),
        joined(Markup("<li>{}</li>").format(each) for each in [*facts, *guess]),
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
