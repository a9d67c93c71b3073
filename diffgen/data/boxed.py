"""A set of pictures with boxes or masks, in one size; these follow their picture."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial

import numpy as np

from diffgen.data.annotations import Annotated, Annotations
from diffgen.data.boxes import area
from diffgen.data.checks import check_classes
from diffgen.data.decoded import Facts
from diffgen.data.file_tree import FileTree
from diffgen.data.picture_file import decode, decode_mask, size_of
from diffgen.data.picture_stack import Pictures, read_pictures
from diffgen.data.reading import PictureNotes, Reading
from diffgen.data.resize import Size, size_text
from diffgen.errors import UserError
from diffgen.types import Float32Array, ImageSet, Int64Array, UInt8Array


def load_boxed(tree: FileTree, found: Annotations, reading: Reading) -> ImageSet:
    """The pictures that annotations are about, with their boxes and masks.

    Raises:
        UserError: see :func:`~.picture_stack.read_pictures`; an annotation that cannot be read makes its picture a
            broken one, and so does one of a picture of another size.
    """
    source, progress, entries = reading.source, reading.progress, found.pictures
    if reading.resizer.usual is not None:
        reading.resizer.usual = replace(reading.resizer.usual, whole=True)
    sizes: dict[int, Size] = {}
    turned = set[int]()

    def decoded(row: int, notes: PictureNotes) -> UInt8Array:
        each, name = entries[row], "/".join(entries[row].picture)
        if each.fault is not None:
            raise each.fault
        picture = decode(tree.read(each.picture), name, source, notes)
        sizes[row] = size = (picture.shape[0], picture.shape[1])
        if each.size is not None and each.size != size:
            if each.size != size[::-1]:
                raise UserError(
                    f"The boxes of {name!r} in {source!r} belong to a picture of {size_text(each.size)}, but it has "
                    f"{size_text(size)} pixels; put pictures and annotations together that belong together."
                )
            turned.add(row)
        if each.mask is not None:
            masked(each, size)
        return picture

    def masked(each: Annotated, size: Size) -> UInt8Array:
        assert each.mask is not None
        name = "/".join(each.mask)
        mask = decode_mask(tree.read(each.mask), name, source)
        if mask.shape != size:
            raise UserError(
                f"The mask {name!r} in {source!r} has {size_text(mask.shape)} pixels, and its picture "
                f"{size_text(size)}; put masks and pictures together that belong together."
            )
        if found.mask_names:
            check_classes(mask, len(found.mask_names), f"The mask {name!r} in {source!r}")
        return mask

    def calls(notes: PictureNotes) -> Iterator[tuple[str, Callable[[], UInt8Array]]]:
        for row, each in enumerate(entries):
            yield "/".join(each.picture), partial(decoded, row, notes)

    kept: Int64Array = np.arange(len(entries))

    def facts(rows: Int64Array) -> Facts:
        nonlocal kept
        kept = rows
        return Facts()

    def made_from() -> list[object]:
        names = "\n".join("/".join(each.picture) for each in entries).encode(errors="surrogateescape")
        return [tree.stamp([each.picture for each in entries]), hashlib.sha256(names).hexdigest(), "with boxes"]

    made = read_pictures(Pictures(len(entries), calls, facts, made_from), reading)
    if len(kept) != len(made):
        raise UserError(
            f"Some images of {source!r} were left out as broken when they were decoded into the cache, so that nobody "
            "knows which boxes belong to the others; repair or remove the broken ones."
        )
    if turned:
        progress.warn(
            f"The boxes of {len(turned):,} of the {len(made):,} images of {source!r} belong to pictures that lie on "
            "their side, as their EXIF orientation may say; try --exif "
            f"{'ignore' if reading.exif == 'apply' else 'apply'}."
        )
    placed = _Placed(found.names, reading)
    boxes, masks = list[Float32Array | None](), list[UInt8Array | None]()
    for row in kept.tolist():
        each = entries[row]
        if row not in sizes and (each.boxes is not None or each.mask is not None):  # it was decoded before
            sizes[row] = size_of(tree.read(each.picture), upright=reading.exif == "apply")
        boxes.append(None if each.boxes is None else placed(each, sizes[row]))
        masks.append(None if each.mask is None else reading.resizer.mask(masked(each, sizes[row])))
    names = tuple("/".join(entries[row].picture) for row in kept)
    made = replace(made, names=names)
    if any(each is not None for each in masks):
        _tell_of_masks(masks, found, reading)
        made = replace(made, masks=tuple(masks), mask_names=found.mask_names or None)
    if any(each is not None for each in boxes) or made.masks is None:
        placed.tell(boxes, found)
        made = replace(made, boxes=tuple(boxes), class_names=found.names or None)
    return made


def _tell_of_masks(masks: list[UInt8Array | None], found: Annotations, reading: Reading) -> None:
    unknown = sum(each is None for each in masks)
    named = _classes(len(found.mask_names)) if found.mask_names else "classes that have the models' own numbers"
    reading.progress.say(
        f"Masks of {named} for {len(masks) - unknown:,} images of {reading.source!r}"
        + (f"; of {unknown:,} images nobody knows what is there" if unknown else "")
        + "."
    )


class _Placed:
    """Boxes in the pixels of pictures that were brought to a size, and what was done to them on the way."""

    def __init__(self, names: tuple[str, ...], reading: Reading) -> None:
        self._number = {name: number for number, name in enumerate(names)}
        self._reading = reading
        self._cut = self._outside = self._lost = 0

    def __call__(self, each: Annotated, size: Size) -> Float32Array:
        """float32 (n, 5) of a picture that had a size, height and width."""
        corners = np.asarray(each.boxes, dtype=np.float64).reshape(-1, 4)
        if each.shares:
            corners = corners * np.array([size[1], size[0]] * 2)
        numbers = [self._number[name] for name in each.classes]
        boxes = np.concatenate([corners, np.array(numbers, dtype=np.float64).reshape(-1, 1)], axis=1).astype(np.float32)
        inside = boxes.copy()
        inside[:, 0:4:2] = boxes[:, 0:4:2].clip(0, size[1])
        inside[:, 1:4:2] = boxes[:, 1:4:2].clip(0, size[0])
        there = area(inside) > 0
        # shares in a text have six digits or so
        self._cut += int((np.abs(inside - boxes).max(axis=1, initial=0) > 1)[there].sum())
        self._outside += int((~there).sum())
        found = self._reading.resizer.boxes(inside[there], size)
        self._lost += int(there.sum()) - len(found)
        return found

    def tell(self, boxes: list[Float32Array | None], found: Annotations) -> None:
        """Say what there is, and what was done."""
        source, progress = self._reading.source, self._reading.progress
        known = [each for each in boxes if each is not None]
        empty, unknown = sum(len(each) == 0 for each in known), len(boxes) - len(known)
        progress.say(
            f"{sum(map(len, known)):,} boxes of {_classes(len(found.names))} in {len(known):,} images of {source!r} "
            f"({found.kind})"
            + (f", {empty:,} of them without any object" if empty else "")
            + (f"; of {unknown:,} images nobody knows what is there" if unknown else "")
            + "."
        )
        for remark in found.remarks:
            progress.warn(remark)
        if self._cut:
            progress.warn(f"{self._cut:,} boxes of {source!r} reach beyond their picture and are cut off at its sides.")
        if self._outside:
            progress.warn(
                f"{self._outside:,} boxes of {source!r} are empty or lie beside their picture and are left out."
            )
        if self._lost:
            progress.warn(
                f"{self._lost:,} boxes of {source!r} are left out, since less than half of them is in what is kept of "
                "their picture; keep all of it with --fit pad, or stretch it."
            )


def _classes(number: int) -> str:
    return "one class" if number == 1 else f"{number:,} classes"
