"""Who is right about a contested object: boxes that are known of the original picture, moved along with the change."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from diffgen.data.boxes import KEPT, area
from diffgen.features.jury import Reading
from diffgen.models.panel import Panel
from diffgen.origins import NO_SEED
from diffgen.runs.triggers import TriggerTable
from diffgen.sources.operators import moved_boxes
from diffgen.tasks.detection import MARK_CLASS, MARK_KIND, MARK_MODEL, MATCHED, NONE, UNKNOWN, Detection, overlaps
from diffgen.types import Float32Array, ImageSet, Int64Array

_AT_ONCE = 256  # pictures
_NO_BOXES = np.empty((0, 5), dtype=np.float32)


def truth_of(task: Detection, data: ImageSet) -> tuple[Float32Array | None, ...] | None:
    """The known boxes of real images, float32 (n, 5), classes by the numbers of the task; None: none are known.

    Objects of classes that the models have not are left out: nobody is to find them.
    """
    if data.boxes is None:
        return None
    names = data.class_names or task.classes
    places = np.array([task.classes.index(name) if name in task.classes else UNKNOWN for name in names])
    found = []
    for each in data.boxes:
        if each is not None:
            each = each.copy()
            each[:, 4] = places[each[:, 4].astype(np.int64)]
            each = each[each[:, 4] >= 0]
        found.append(each)
    return tuple(found)


def named_by_boxes(
    panel: Panel, data: ImageSet, leaves_out: bool, triggers: TriggerTable, rows: Int64Array
) -> Reading | None:
    """What is true of the contested objects of some triggers.

    Known boxes of the real image that a trigger was made from say it; where none are known, those boxes that all models
    report in that image. Boxes that they do not agree on there leave it open. Where the data leaves objects out, what
    has no box may be one, and nobody says. None: the models are no detectors of two.
    Otherwise as :func:`diffgen.comparison.known_maps.named_by_origin`.
    """
    task = panel.task
    if not isinstance(task, Detection) or len(panel.boxes) != 2:
        return None
    named, truth = np.full(len(triggers), UNKNOWN, dtype=np.int64), truth_of(task, data)
    seeds = np.full(len(triggers), NO_SEED) if triggers.seeds is None else triggers.seeds
    rows = rows[seeds[rows] != NO_SEED]
    unknown = [seed for seed in np.unique(seeds[rows]).tolist() if truth is None or truth[seed] is None]
    agreed = dict[int, _Boxes]()
    for some in batches(np.array(unknown, dtype=np.int64)):
        marks = task.marks(panel.answers(data.images[some]))
        agreed.update(zip(some.tolist(), map(_agreed, marks), strict=True))
    for some in batches(rows):
        images = triggers.images_of(some)
        moved = [_moved(triggers, row, truth, agreed, images.shape[2:]) for row in some.tolist()]
        known = np.array([each is not None for each in moved])
        answers = panel.answers(images)
        found = task.differences(answers)
        there = [(_NO_BOXES, _NO_BOXES, _NO_BOXES) if each is None else each for each in moved]
        true = task.true_words(answers, found, [each[0] for each in there], [each[1] for each in there])
        shown = np.array([_inside(place, each[2]) for place, each in zip(found.boxes, there, strict=True)])
        # beside what is left of the original picture nobody knows what is there
        nothing_is_sure = shown & (np.isin(seeds[some], unknown) | (not leaves_out))
        named[some] = np.where(known & ((true != 0) | nothing_is_sure), true, UNKNOWN)
    recognised = named != UNKNOWN
    return Reading(np.maximum(named, 0), np.where(recognised, 0, -1).astype(np.float32), recognised)


def beside_known(task: Detection, answers: Float32Array, known: Sequence[Float32Array]) -> tuple[int, int]:
    """How many boxes of some pictures two detectors both report where none is known, and how many they both report.

    Args:
        task: of the detectors.
        answers: float32 (N, 2, P * 6), as for :meth:`Detection.differences`.
        known: of each picture all boxes of the data, float32 (n, 5).
    """
    agreed = [_agreed(marks)[0] for marks in task.marks(answers)]
    pairs = zip(agreed, known, strict=True)
    beside = [overlaps(own[None], each[None])[0].max(axis=1, initial=0) < MATCHED for own, each in pairs]
    return sum(int(each.sum()) for each in beside), sum(map(len, beside))


def moved_truth(task: Detection, data: ImageSet, triggers: TriggerTable) -> list[Float32Array | None]:
    """The known boxes of each trigger where its recipe has brought them, float32 (n, 5); None: nobody knows them.

    Args:
        task: numbers the classes.
        data: the real images.
        triggers: of a run on them.
    """
    truth, sides = truth_of(task, data), data.image_shape[1:]
    origins = [triggers.origin(row) for row in range(len(triggers))]
    return [
        None
        if truth is None or origin.seed in (None, NO_SEED)
        else moved_boxes(truth[origin.seed], origin.recipe, (sides[0], sides[1]))
        for origin in origins
    ]


_Boxes = tuple[Float32Array, Float32Array]  # those that are there, and those that may be


def _moved(
    triggers: TriggerTable,
    row: int,
    truth: Sequence[Float32Array | None] | None,
    agreed: Mapping[int, _Boxes],
    sides: tuple[int, int],
) -> tuple[Float32Array, Float32Array, Float32Array] | None:
    """The boxes of a trigger's original picture where its recipe has brought them, and that picture's own; or None.

    What is left of an object of which most has left the picture may be reported or not.
    """
    origin = triggers.origin(row)
    assert origin.seed is not None
    given = None if truth is None else truth[origin.seed]
    known, disputed = agreed[origin.seed] if given is None else (given, given[:0])
    whole = np.array([[0, 0, sides[1], sides[0], 0]], dtype=np.float32)
    moved = [moved_boxes(each, origin.recipe, sides) for each in (known, disputed, whole)]
    there = [each for each in (*moved, moved_boxes(known, origin.recipe, sides, kept=0)) if each is not None]
    return (there[0], np.concatenate([there[1], there[3]]), there[2]) if len(there) > len(moved) else None


def _inside(place: Float32Array, extent: Float32Array) -> bool:
    """Whether most of a box, float32 (4,), lies within one of float32 (n, 5), n 0 or 1."""
    if len(extent) == 0:
        return False
    both = np.concatenate([np.maximum(place[:2], extent[0, :2]), np.minimum(place[2:], extent[0, 2:4])])
    return bool(area(both[None])[0] >= KEPT * area(place[None])[0])


def batches(rows: Int64Array) -> Sequence[Int64Array]:
    """Rows, so many at once as pictures are asked about."""
    return [rows[start : start + _AT_ONCE] for start in range(0, len(rows), _AT_ONCE)]


def _agreed(marks: Float32Array) -> tuple[Float32Array, Float32Array]:
    """Of the boxes of two models in a picture, float32 (Q, 9): those that both report, and all others, (n, 5) each."""
    there = marks[marks[:, MARK_CLASS] >= 0]
    corners = there[:, [0, 1, 2, 3, MARK_CLASS]]
    both = there[:, MARK_KIND] == NONE
    return corners[both & (there[:, MARK_MODEL] == 0)], corners[~both]
