"""Operators with explicit strengths: ways to change real images so that their labels stay."""

from collections.abc import Sequence

import numpy as np

from diffgen.data.boxes import KEPT, area
from diffgen.origins import Step
from diffgen.sources.operators import geometry, learned, levels, texture
from diffgen.sources.operators.base import STRENGTHS as STRENGTHS
from diffgen.sources.operators.base import Axis as Axis
from diffgen.sources.operators.base import ImageRows as ImageRows
from diffgen.sources.operators.base import Operator as Operator
from diffgen.sources.operators.base import Range as Range
from diffgen.sources.operators.base import Scene as Scene
from diffgen.sources.operators.base import Strengths as Strengths
from diffgen.sources.operators.base import is_grey as is_grey
from diffgen.sources.operators.base import step_of as step_of
from diffgen.types import Float32Array

OPERATORS: dict[str, Operator] = {
    **geometry.OPERATORS,
    **levels.OPERATORS,
    **texture.OPERATORS,
    **learned.OPERATORS,
}


def moved_boxes(
    boxes: Float32Array | None, recipe: Sequence[Step], sides: tuple[int, int], kept: float = KEPT
) -> Float32Array | None:
    """Where the objects of an image are once operators have changed it.

    A box becomes the one that encloses what was in it. It is cut off at the sides of the image, and left out where
    less than ``kept`` of it is left in the image, all steps taken together. What a mirrored edge shows a second time
    has no box.

    Args:
        boxes: float32 (n, 5), x1, y1, x2, y2 in pixels of the image, class; or None: nobody knows them.
        recipe: the operators with their strengths, in order.
        sides: height and width of the image.
        kept: share of its area.

    Returns:
        float32 (m, 5), or None: nobody knows, also where an operator draws the image anew (with the auto-encoder), or
        is not diffgen's own.
    """
    if boxes is None or any(step.operator not in OPERATORS or OPERATORS[step.operator].learned for step in recipe):
        return None
    corners, classes, left = boxes[:, :4].astype(np.float64), boxes[:, 4:], np.ones(len(boxes))
    for step in recipe:
        moves = OPERATORS[step.operator].moves
        if moves is None or len(corners) == 0:
            continue
        moved = moves(corners, sides, dict(step.strengths))
        cut = moved.clip(0, np.array([sides[1], sides[0]] * 2))
        whole = area(moved)
        left = left * np.divide(area(cut), whole, out=np.zeros(len(cut)), where=whole > 0)
        there = left >= kept
        corners, classes, left = cut[there], classes[there], left[there]
    return np.concatenate([corners.astype(np.float32), classes], axis=1)


def usual_operators(channels: int, *, grey: bool = False) -> tuple[str, ...]:
    """Names of the operators that images of so many channels are changed by where none are named.

    Images whose channels are all alike (``grey``) are treated as those that have one.

    Those that ask an auto-encoder cost a good part of a search's time, and the auto-encoder; in as many queries a
    search finds hardly more with them (docs/decisions/033).
    """
    return tuple(
        name
        for name, each in OPERATORS.items()
        if each.fits(channels, grey=grey) and not each.learned and not (each.photographic and (grey or channels == 1))
    )
