"""Who is right about a contested region: what a mask, or else all models, say of that part of the original picture."""

from __future__ import annotations

import numpy as np

from diffgen.comparison.known_boxes import batches, named_by_boxes
from diffgen.features.jury import Reading
from diffgen.models.panel import Panel
from diffgen.origins import NO_SEED
from diffgen.runs.triggers import TriggerTable
from diffgen.sources.operators import moved_boxes
from diffgen.tasks.segmentation import Segmentation
from diffgen.types import NO_CLASS, BoolArray, Float32Array, ImageSet, Int64Array

_POINTS = 32  # a side, of the original picture, that are followed into the changed one
_DISPUTED = -1
KNOWN = 1  # how sure it is what a mask says


def named_by_origin(
    panel: Panel, data: ImageSet, leaves_out: bool, triggers: TriggerTable, rows: Int64Array
) -> Reading | None:
    """What is true of the contested things of some triggers, as far as their original pictures tell.

    Of a region it is the class that more than half of it has in the mask of the original picture; where nobody knows
    that, the one that all models give it there. How sure that is: ``KNOWN`` by a mask, 0 by the models.

    Args:
        panel: the models.
        data: the real images.
        leaves_out: whether objects of the real images have no known box.
        triggers: of a run.
        rows: int64 (n,), which of them are looked at.

    Returns:
        what is said of all triggers, of the others nothing; None: nothing can be.
    """
    task = panel.task
    if not isinstance(task, Segmentation):
        return named_by_boxes(panel, data, leaves_out, triggers, rows)
    named, sides = np.full(len(triggers), _DISPUTED, dtype=np.int64), data.image_shape[1:]
    seeds = np.full(len(triggers), NO_SEED) if triggers.seeds is None else triggers.seeds
    rows = rows[seeds[rows] != NO_SEED]
    points, agreed = _points(sides), dict[int, Int64Array]()
    row, column = _cells(points, task, sides)
    numbers, masks = _numbers(task, data), data.masks or (None,) * len(data)
    known = [seed for seed in np.unique(seeds[rows]).tolist() if masks[seed] is not None]
    pixels = tuple((points[:, [1, 0]] + 0.5).astype(np.int64).T)
    for some in batches(np.setdiff1d(seeds[rows], known)):
        maps = task.maps_of(panel.answers(data.images[some]))[:, :, row, column]
        alike = (maps == maps[:, :1]).all(axis=1)
        agreed.update(zip(some.tolist(), np.where(alike, maps[:, 0], _DISPUTED), strict=True))
    agreed.update((seed, numbers[mask[pixels]]) for seed in known if (mask := masks[seed]) is not None)
    for some in batches(rows):
        regions = task.regions(panel.answers(triggers.images_of(some))).regions
        for number, region in zip(some.tolist(), regions, strict=True):
            own = np.column_stack([points, agreed[int(seeds[number])]]).astype(np.float32)
            moved = moved_boxes(own, triggers.origin(number).recipe, sides)
            if moved is not None:
                named[number] = _said_of(region, moved, task, sides)
    recognised = named != _DISPUTED
    sure = np.where(recognised, np.where(np.isin(seeds, known), KNOWN, 0), -1)
    return Reading(np.maximum(named, 0), sure.astype(np.float32), recognised)


def known_cells(task: Segmentation, data: ImageSet, images: Int64Array) -> tuple[Int64Array | None, ...]:
    """The classes in the middle of each cell of a map, int64 (h, w), by the numbers of the task; None: nobody knows.

    They are of the images of some rows, int64 (n,).
    Cells of which nobody knows, and those of classes that the models have not, are below 0.
    """
    numbers = _numbers(task, data)
    rows, columns = (
        ((np.arange(cells) + 0.5) * side / cells).astype(np.int64)
        for cells, side in zip(task.sides, data.image_shape[1:], strict=True)
    )
    masks = [None if data.masks is None else data.masks[image] for image in images.tolist()]
    return tuple(None if mask is None else numbers[mask[rows[:, None], columns]] for mask in masks)


def _numbers(task: Segmentation, data: ImageSet) -> Int64Array:
    """int64 (256,): the task's number of each value of a mask; below 0 where it has none."""
    numbers = np.full(NO_CLASS + 1, _DISPUTED, dtype=np.int64)
    for value, name in enumerate((data.mask_names or task.classes)[:NO_CLASS]):
        numbers[value] = task.classes.index(name) if name in task.classes else _DISPUTED
    return numbers


def _points(sides: tuple[int, int]) -> Float32Array:
    """float32 (n, 4): boxes of a pixel around points that are spread over a picture."""
    down, across = ((np.arange(_POINTS) + 0.5) * side / _POINTS for side in sides)
    y, x = np.meshgrid(down, across, indexing="ij")
    middles = np.stack([x.ravel(), y.ravel()] * 2, axis=1)
    return (middles + np.array([-0.5, -0.5, 0.5, 0.5])).astype(np.float32)


def _cells(boxes: Float32Array, task: Segmentation, sides: tuple[int, int]) -> tuple[Int64Array, Int64Array]:
    """Rows and columns of the cells that the middles of boxes (n, >= 4) are in."""
    middles = (boxes[:, [1, 0]] + boxes[:, [3, 2]]) / 2 * np.array(task.sides) / np.array(sides)
    row, column = np.clip(middles, 0, np.array(task.sides) - 1).astype(np.int64).T
    return row, column


def _said_of(region: BoolArray, moved: Float32Array, task: Segmentation, sides: tuple[int, int]) -> int:
    """The class of more than half of the points that lie in a region, or -1."""
    inside = moved[region[_cells(moved, task, sides)], 4].astype(np.int64)
    votes = np.bincount(inside[inside != _DISPUTED], minlength=1)
    return int(votes.argmax()) if 2 * votes.max() > len(inside) else _DISPUTED
