"""Sheets for eyes: pictures that reports lead with, without labels, their key, and what a person typed against it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image, ImageDraw

from benchmarks.judge import Judge
from benchmarks.recognised_cells import jury_names, jury_says
from benchmarks.recognised_pairs import Pair
from diffgen.runs.files import write_json, write_whole
from diffgen.runs.folder import RunFolder
from diffgen.types import UInt8Array

PICTURES, SHEETS, _COLUMNS = 100, 2, 10
_SIDE, _GAP, _MARGIN = 112, 6, 28
_NOT_NAMED = ("", "-", "?")


@dataclass(frozen=True)
class Entry:
    """What is known of one picture of a sheet.

    Attributes:
        run, trigger: the run folder, and the number of the trigger in it.
        jury: what the run's jury says, or None: it had none.
    """

    run: str
    trigger: int
    models: tuple[str, ...]
    jury: str | None
    judge: str
    judge_recognises: bool


def draw_sheets(runs: Sequence[Path], judge: Judge, pair: Pair, folder: Path) -> list[str]:
    """Draw the sheets of a pair and their keys; says what was written.

    Drawn from all runs together, at random: distinct valid triggers, where the run has a jury those alone that it
    recognises, which a report shows first.
    """
    images, entries = pool(runs, judge, pair)
    order = np.random.default_rng(0).permutation(len(entries))[: PICTURES * SHEETS]
    folder.mkdir(parents=True, exist_ok=True)
    told = [f"{pair.name}: {len(order)} of {len(entries)} pictures of {len(runs)} runs"]
    for number in range(SHEETS):
        rows = order[number * PICTURES : (number + 1) * PICTURES]
        if len(rows) == 0:
            break
        sheet, key = folder / f"{pair.name}-{number + 1}.png", folder / f"{pair.name}-{number + 1}.key.json"
        names = _names(pair, entries)
        picture = draw(images[rows], names)
        write_whole(sheet, partial(picture.save, format="png"))
        write_json(key, {"class_names": names, "pictures": [asdict(entries[row]) for row in rows]})
        told += [f"{sheet}", f"{key}"]
    return told


def pool(runs: Sequence[Path], judge: Judge, pair: Pair) -> tuple[UInt8Array, list[Entry]]:
    """All pictures that reports lead with, uint8 (N, C, H, W), and what is known of them."""
    pictures, entries = [np.empty((0, *pair.images().image_shape), dtype=np.uint8)], []
    for run in runs:
        if not (run / "results.json").is_file():
            continue
        folder = RunFolder.open(run)
        table, names = folder.read_judged(), pair.class_names or folder.results()["class_names"]
        says = jury_says(table)
        triggers = table[table.distinct if says is None else table.distinct & says]
        if len(triggers) == 0:
            continue
        jury = jury_names(triggers)
        sure, named = (each.tolist() for each in judge.verdict(torch.from_numpy(triggers.images)))
        pictures.append(triggers.images)
        for row, number in enumerate(triggers.numbers.tolist()):
            entries.append(
                Entry(
                    run=str(run),
                    trigger=number,
                    models=tuple(names[label] for label in triggers.labels[row]),
                    jury=None if jury is None else names[int(jury[row])],
                    judge=names[named[row]],
                    judge_recognises=sure[row],
                )
            )
    return np.concatenate(pictures), entries


def _names(pair: Pair, entries: Sequence[Entry]) -> list[str]:
    """What a person may type."""
    return sorted(set(pair.class_names) or {name for each in entries for name in (*each.models, each.judge)})


def draw(images: UInt8Array, names: Sequence[str]) -> Image.Image:
    """Rows and columns of ten, numbered, enlarged.

    Args:
        images: uint8 (N, C, H, W).
        names: of the classes, which are written above.
    """
    rows = -(-len(images) // _COLUMNS)
    step = _SIDE + _GAP
    sheet = Image.new("RGB", (_MARGIN + _COLUMNS * step, 2 * _MARGIN + rows * step), "white")
    pen = ImageDraw.Draw(sheet)
    pen.text((_MARGIN, 6), "picture = 10 * row + column; names: " + ", ".join(names), fill="black")
    for column in range(_COLUMNS):
        pen.text((_MARGIN + column * step + _SIDE // 2, _MARGIN + 8), str(column), fill="black")
    for number, image in enumerate(images):
        row, column = divmod(number, _COLUMNS)
        top, left = 2 * _MARGIN + row * step, _MARGIN + column * step
        if column == 0:
            pen.text((8, top + _SIDE // 2), str(row), fill="black")
        picture = Image.fromarray(image[0] if len(image) == 1 else image.transpose(1, 2, 0)).convert("RGB")
        way = Image.Resampling.NEAREST if len(image) == 1 else Image.Resampling.BICUBIC
        sheet.paste(picture.resize((_SIDE, _SIDE), way), (left, top))
    return sheet


def count_names(names: Path, key: Path) -> str:
    """The share of pictures that a person named, and how often the name is the jury's, the judge's and a model's.

    Args:
        names: a line for each picture in its order: a class name, its beginning where it is of one class alone, or
            ``-`` for a picture that cannot be named.
        key: what :func:`draw_sheets` wrote.

    Raises:
        SystemExit: the lines are not as many as the pictures, or a name is of no class.
    """
    known = json.loads(key.read_text(encoding="utf-8"))
    typed = [line.strip().lower() for line in names.read_text(encoding="utf-8").splitlines()]
    pictures: list[dict[str, Any]] = known["pictures"]
    if len(typed) != len(pictures):
        raise SystemExit(
            f"{names} has {len(typed)} lines, and the sheet {len(pictures)} pictures; give a line to each."
        )
    given = [None if each in _NOT_NAMED else _class_of(each, known["class_names"]) for each in typed]
    named = [(name, picture) for name, picture in zip(given, pictures, strict=True) if name is not None]
    lines = [f"named: {_share(len(named), len(pictures))}"]
    for who in ("jury", "judge"):
        asked = [(name, picture[who]) for name, picture in named if picture[who] is not None]
        if asked:
            same = sum(name == other for name, other in asked)
            lines.append(
                f"the {who}'s name: {_share(same, len(asked))} of those named, of all {same / len(pictures):.0%}"
            )
    right = [sum(name == picture["models"][model] for name, picture in named) for model in (0, 1)]
    lines += [f"{role}'s name: {_share(count, len(named))}" for role, count in zip("AB", right, strict=True)]
    sure = [picture["judge_recognises"] for picture in pictures]
    lines.append(f"the judge recognises: {_share(sum(sure), len(pictures))}")
    return "\n".join(lines)


def _class_of(typed: str, names: Sequence[str]) -> str:
    lower = {name.lower(): name for name in names}
    found = [typed] if typed in lower else [name for name in lower if name.startswith(typed)]
    if len(found) != 1:
        raise SystemExit(f"'{typed}' is no class; there are {', '.join(names)}.")
    return lower[found[0]]


def _share(part: int, whole: int) -> str:
    return f"{part} of {whole} ({part / whole:.0%})" if whole else "none"
