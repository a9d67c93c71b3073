"""One sheet with the worst behaviours of each pair that benchmarks/gate.py has checked.

    python -m benchmarks.gate_sheet OUT SHEET.png [--seconds 300] [--count 10]

OUT is that of benchmarks.gate. A row for each pair: of its new behaviours those with the largest change of a
probability, each by the picture on which it is largest, and below it what base and candidate say and the change.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image, ImageDraw

from diffgen.runs.folder import RunFolder
from diffgen.types import UInt8Array

_SIDE, _GAP, _TEXT = 64, 8, 28
_COLUMN, _ROW, _TITLE = _SIDE + 22, _SIDE + _TEXT + _GAP, 18


def worst(folder: RunFolder, count: int) -> list[tuple[UInt8Array, dict[str, Any]]]:
    """A picture, uint8 (C, H, W), and the entry in results.json of each of the worst new behaviours."""
    stored, found, start = folder.read_arrays("check"), [], 0
    for each in folder.results()["check"]["behaviours"]:
        rows = slice(start, start + len(each["triggers"]))
        start = rows.stop
        answers = stored["probabilities"][rows]
        shift = np.abs(answers[:, 0] - answers[:, 1]).max(axis=1)
        if each["new"]:
            found.append((stored["images"][rows][shift.argmax()], each))
    return found[:count]


def draw(rows: list[tuple[str, list[tuple[UInt8Array, dict[str, Any]]]]], count: int) -> Image.Image:
    """The sheet."""
    sheet = Image.new("RGB", (_GAP + count * _COLUMN, len(rows) * (_TITLE + _ROW)), "white")
    pen = ImageDraw.Draw(sheet)
    for row, (title, entries) in enumerate(rows):
        top = row * (_TITLE + _ROW)
        pen.text((_GAP, top + 3), title, fill="black")
        for column, (image, each) in enumerate(entries):
            left = _GAP + column * _COLUMN
            picture = Image.fromarray(image[0] if len(image) == 1 else image.transpose(1, 2, 0)).convert("RGB")
            sheet.paste(picture.resize((_SIDE, _SIDE), Image.Resampling.NEAREST), (left, top + _TITLE))
            a, b = each["names"]
            pen.text((left, top + _TITLE + _SIDE + 1), f"{a}, {b}\n{each['shift']:.2f}", fill="black", spacing=1)
    return sheet


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("sheet", type=Path)
    parser.add_argument("--seconds", type=float, default=300.0)
    parser.add_argument("--count", type=int, default=10)
    arguments = parser.parse_args()
    record = json.loads((arguments.out / "gate.json").read_text())["pairs"]
    rows = [
        (
            f"{name}: {entry['behaviours']:,} behaviours",
            worst(RunFolder.open(arguments.out / entry["run"]), arguments.count),
        )
        for name, entry in record.items()
        if name.endswith(f", {arguments.seconds:g} s") and "run" in entry
    ]
    draw(rows, arguments.count).quantize(64).save(arguments.sheet, optimize=True)


if __name__ == "__main__":
    main()
