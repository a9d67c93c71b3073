"""A blind label sheet: pictures in random order under names that say nothing of what a model answered."""

from __future__ import annotations

import csv
import io
from dataclasses import dataclass
from pathlib import Path

from diffgen.labels.page import render_page
from diffgen.runs.files import make_folder, write_text
from diffgen.runs.pictures import png_bytes
from diffgen.types import UInt8Array

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
    """Write labels.csv, label.html and pictures/ into a folder.

    Raises:
        OSError: the disk is full or the folder cannot be written.
    """
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
