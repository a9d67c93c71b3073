"""A blind label sheet: pictures in random order under names that say nothing of what a model answered."""

from __future__ import annotations

import base64
import csv
import hashlib
import io
import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil
from pathlib import Path
from statistics import NormalDist

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from diffgen.labels.reading import INVALID_WORD
from diffgen.runs.files import make_folder, write_text
from diffgen.runs.pictures import png_bytes
from diffgen.types import UInt8Array

_IN_TURN = "0123456789abcdefghijklmnopqrstuvwyz"  # for classes that are called by more than one character
_INVALID = "x-.,"  # the first that is no class's


def keys_of(class_names: Sequence[str]) -> tuple[tuple[str, ...], str]:
    """A key for each class as long as they last, and the one for a picture that shows none of them.

    A class that is called by one character has that key, so that nobody who types what is seen says something
    else. Two that differ in their case alone have none.

    Args:
        class_names: K names.

    Returns:
        K keys, lower case, empty for a class that is chosen by its name; and the key of "invalid".
    """
    names = [name.strip().lower() for name in class_names]
    counts = Counter(name for name in names if len(name) == 1)
    invalid = next((key for key in _INVALID if key not in counts), "")
    free = (key for key in _IN_TURN if key not in counts)
    keys = [("" if counts[name] > 1 else name) if name in counts else next(free, "") for name in names]
    return tuple(keys), invalid


def sample_size(population: int, *, confidence: float, margin: float) -> int:
    """Pictures to draw so that any share in the population is known within ``margin``, in the worst case of one half.

    Cochran's formula with the correction for a finite population (Cochran 1977, Sampling Techniques, section 4.4).

    Args:
        confidence: 0.95 for a 95 % interval; between 0 and 1.
        margin: half the width of the interval; 0.05 for 5 points either way; between 0 and 1.

    Example:
        >>> sample_size(10_000, confidence=0.95, margin=0.05)
        370
    """
    if population == 0:
        return 0
    z = NormalDist().inv_cdf((1 + confidence) / 2)
    unlimited = z * z * 0.25 / margin**2
    return min(population, ceil(unlimited / (1 + (unlimited - 1) / population)))


_WIDTH = 280


def render_page(ids: Sequence[str], images: UInt8Array, class_names: Sequence[str]) -> str:
    """The labelling page.

    Args:
        ids: N names of pictures.
        images: uint8 (N, C, H, W), shown in this order.
        class_names: K names in label order.

    Returns:
        a whole HTML document; write it as UTF-8.
    """
    environment = Environment(
        loader=PackageLoader("diffgen.labels", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    assert environment.loader is not None
    script, style = (environment.loader.get_source(environment, name)[0] for name in ("label.js", "label.css"))
    height, width = images.shape[2:]
    scale = max(1, _WIDTH // max(height, width))
    keys, invalid_key = keys_of(class_names)
    sheet = {
        "name": hashlib.sha256("".join(ids).encode()).hexdigest()[:16],
        "ids": list(ids),
        "pictures": [base64.b64encode(png_bytes(image)).decode("ascii") for image in images],
        "classes": [name.strip() for name in class_names],
        "keys": keys,
        "invalid": {"word": INVALID_WORD, "key": invalid_key},
    }
    # "<" could end the element that the values stand in
    values = json.dumps(sheet).replace("<", "\\u003c")
    policy = "sha256-" + base64.b64encode(hashlib.sha256(script.encode()).digest()).decode("ascii")
    return environment.get_template("label.html.j2").render(
        style=Markup(style),
        script=Markup(script),
        policy=policy,
        values=Markup(values),
        choices=list(zip(keys, class_names, strict=True)),
        by_name="" in keys,
        invalid_key=invalid_key,
        width=width * scale,
        height=height * scale,
        count=len(ids),
    )


CSV_NAME, PAGE_NAME, PICTURES = "labels.csv", "label.html", "pictures"
COLUMNS = ("id", "file", "label")
_ID_BYTES = 6


def image_id(digest: UInt8Array) -> str:
    """What a picture is called on a sheet, from its hash: ``t`` and 12 hexadecimal digits.

    The letter keeps spreadsheets from reading digits with an ``e`` among them as a number.
    """
    return "t" + digest[:_ID_BYTES].tobytes().hex()


@dataclass(frozen=True)
class Sheet:
    """What is to be labelled.

    Attributes:
        hashes: uint8 (N, 16).
        images: uint8 (N, C, H, W), in the order in which they are shown.
        class_names: K names in label order.
    """

    hashes: UInt8Array
    images: UInt8Array
    class_names: tuple[str, ...]

    @property
    def ids(self) -> tuple[str, ...]:
        """One for each picture."""
        return tuple(image_id(each) for each in self.hashes)


def write_sheet(folder: Path, sheet: Sheet) -> None:
    """Write labels.csv, label.html and pictures/. OSError if the disk is full or the folder cannot be written."""
    make_folder(folder / PICTURES)
    rows = []
    for identifier, image in zip(sheet.ids, sheet.images, strict=True):
        file = f"{PICTURES}/{identifier}.png"
        (folder / file).write_bytes(png_bytes(image))
        rows.append((identifier, file, ""))
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(COLUMNS)
    writer.writerows(rows)
    write_text(folder / CSV_NAME, text.getvalue())
    write_text(folder / PAGE_NAME, render_page(sheet.ids, sheet.images, sheet.class_names))
