"""Explains the models by operator: how often each is right, and how often they disagree, as an operator gets stronger.

The real images are a random sample and nothing is searched for, so that the curves are of the models, and not of what a
search went after.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch

from diffgen.comparison.plan import Prepared
from diffgen.config.plain import settings_among
from diffgen.runs.figures import BY_JURY, BY_LABEL, BY_NOBODY, OperatorCurves
from diffgen.sampling import random_rows
from diffgen.sources.calibration import probes
from diffgen.sources.operators import OPERATORS, Axis
from diffgen.sources.seeds import SeedsSettings, SeedsSource
from diffgen.tasks.classification import disagree
from diffgen.types import Int64Array, UInt8Array

_MOST, _FEWEST = 200, 20  # real images; fewer say nothing
_STEPS = (3, 2, 1)  # strengths a direction, the first number of them that leaves enough images for each


@dataclass(frozen=True)
class _Point:
    operator: str
    axis: Axis
    strength: float


def write_operator_curves(prepared: Prepared, queries: int) -> None:
    """Write operators.npz, where pictures are made from real images and the models may be asked about more of them.

    Args:
        queries: that the search asked; of these a share may be asked once more.
    """
    source = prepared.source.source
    share = settings_among(SeedsSettings, prepared.config.source.families).explain
    if not isinstance(source, SeedsSource) or share == 0:
        return
    points, count = _plan(source, int(share * queries))
    if not points:
        return  # the jury lets no operator go anywhere
    images, wanted, judged_by = _sample(prepared, count)
    needed = len(points) * len(images)
    missing = _missing(points, count, images, [model.answers.images_left for model in prepared.models])
    if missing is not None:
        prepared.progress.say(f"Operators have no curves: {missing}.")
        return
    accuracy, apart = [], []
    with prepared.progress.stage("Asking how each operator changes the answers", total=len(points)) as task:
        for point in points:
            operator = OPERATORS[point.operator]
            strengths = probes(operator, point.axis, point.strength, len(images), len(source.scene.seeds))
            made = operator.apply(torch.from_numpy(images), source.scene, strengths).numpy()
            answers = np.stack([model.predict(made) for model in prepared.models], axis=1)
            right = answers.argmax(axis=2) == wanted[:, None]
            accuracy.append(np.where(judged_by == BY_NOBODY, np.nan, right.mean(axis=0)))
            apart.append(disagree(torch.from_numpy(answers), prepared.real.summary.margin).float().mean().item())
            task.advance()
    curves = OperatorCurves(
        operators=np.array([each.operator for each in points], dtype=np.bytes_),
        names=np.array([each.axis.name for each in points], dtype=np.bytes_),
        units=np.array([each.axis.unit.strip() for each in points], dtype=np.bytes_),
        strengths=np.array([each.strength for each in points]),
        accuracy=np.array(accuracy, dtype=np.float32),
        disagreement=np.array(apart, dtype=np.float32),
        images=len(images),
        judged_by=judged_by,
    )
    prepared.folder.write_arrays("operators", curves.as_arrays())
    prepared.progress.say(
        f"Explained by operator: the models were asked about {needed:,} more pictures, {len(images):,} random real "
        f"images under {len(source.operators)} operators."
    )


def _missing(points: list[_Point], count: int, images: UInt8Array, left: list[int | None]) -> str | None:
    """Why there can be no curves, and what would mend it; None where there can.

    Args:
        count: real images that the budget leaves room for at each.
        images: the real images that would be shown.
        left: for each model how many pictures it may still be asked about; None for any number.
    """
    if count < _FEWEST:
        return (
            f"they take {len(points) * _FEWEST:,} pictures after the search, more than source.seeds.explain leaves of "
            "its queries; a larger --budget or share makes room"
        )
    if len(images) < _FEWEST:
        return f"they take {_FEWEST} real images of which it is known what they show, and there are {len(images)}"
    if any(each is not None and each < len(points) * len(images) for each in left):
        return f"they take {len(points) * len(images):,} more pictures; a larger --query-budget makes room"
    return None


def _plan(source: SeedsSource, pictures: int) -> tuple[list[_Point], int]:
    """The strengths, and how many real images may be asked about at each where so many pictures may be in all."""
    plans = [list(_points(source, steps)) for steps in _STEPS]
    if not plans[0]:
        return [], 0  # the jury lets no operator go anywhere
    chosen = next((each for each in plans if pictures // len(each) >= _FEWEST), plans[-1])
    return chosen, min(_MOST, pictures // len(chosen))


def _points(source: SeedsSource, steps: int) -> Iterator[_Point]:
    """Strengths from one end of every range to the other, what changes nothing among them."""
    for name, ranges in source.ranges.items():
        for axis in OPERATORS[name].axes:
            own = ranges[axis.name]
            ways = [end for end in (own.low, own.high) if end != own.neutral]
            values = {own.neutral + step / steps * (end - own.neutral) for end in ways for step in range(steps + 1)}
            if ways:
                for strength in sorted({float(round(value)) if axis.whole else value for value in values}):
                    yield _Point(name, axis, strength)


def _sample(prepared: Prepared, count: int) -> tuple[UInt8Array, Int64Array, str]:
    """Random real images, what they show, and who says so."""
    data, jury = prepared.images, prepared.recogniser
    rows = random_rows(len(data), max(count, 0))
    images = data.images[rows]
    if data.labels is not None:
        return images, data.labels[rows], BY_LABEL
    if jury is None or len(images) == 0:
        return images, np.full(len(images), -1, dtype=np.int64), BY_NOBODY
    reading = jury.read(torch.from_numpy(images))
    return images[reading.recognised], reading.named[reading.recognised], BY_JURY
