"""How far each operator may go: as far as the jury still gives real images the names that it gave them unchanged."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

import numpy as np
import torch

from diffgen.data.split import DataSplit
from diffgen.events import Progress
from diffgen.features.jury import Recogniser
from diffgen.runs.artifacts import Artifact, read_tensors, unreadable, write_tensors
from diffgen.sampling import random_rows
from diffgen.side_by_side import SideBySide
from diffgen.sources.operators import OPERATORS, Axis, Operator, Range, Scene, Strengths
from diffgen.types import Int64Array

Ranges = Mapping[str, Mapping[str, Range]]  # operator -> strength -> range

KEPT = 0.95  # share of the images that keep their name at the end of a range
FORMAT = "diffgen-ranges-3"
_IMAGES = 200  # of up to _PIXELS each; of larger ones so many fewer, for operators see every pixel
_PIXELS = 64 * 64
_IMAGES_IF_LARGE = 60
_FEWEST = 40  # one image is to weigh no more than half of what may be lost
_HALVINGS = 4  # after a look at the widest: a range is known to a sixteenth of that
_PARTS = 4  # that the images are looked at in
_BYTES_OF_A_THREAD = 64 * 2**20  # of larger images operators are tried one after the other
_SEED = 0

Names = Callable[[torch.Tensor], Int64Array]


def prepare_ranges(
    split: DataSplit, scene: Scene, names: Sequence[str], recogniser: Recogniser, progress: Progress
) -> dict[str, dict[str, Range]] | None:
    """The ranges of operators for a data set, from the cache or found now.

    They are found on held-out real images that the jury knows: of those with a label the ones that it names so. A jury
    that can be relied on only where it is told the label changes its mind over less than a person would notice; with
    one no range is shorter than the usual one.

    Returns:
        Operator -> strength -> range; None where too few held-out images are known to the jury.
    """
    images = _known(split, recogniser)
    if len(images) < _FEWEST:
        return None

    def make(path: Path) -> dict[str, dict[str, Range]]:
        found = calibrated(
            images, scene, names, lambda pictures: recogniser.read(pictures).named, progress, recogniser.jury.device
        )
        ends = {f"{name}.{axis}": each for name, own in found.items() for axis, each in own.items()}
        values = {key: [each.low, each.neutral, each.high] for key, each in ends.items()}
        write_tensors(path, {key: torch.tensor(each, dtype=torch.float64) for key, each in values.items()})
        return found

    made_from = {
        "ranges": FORMAT,
        "data": split.data.digest,
        "held out": split.key,
        "jury": recogniser.jury.digest,
        # which of the held-out images it knows
        "sure from": [recogniser.threshold, recogniser.unaided],
        "auto-encoder": "" if scene.auto_encoder is None else scene.auto_encoder.digest,
        # how far each may go at most, which other versions may put elsewhere
        **({"grey": True} if scene.grey and scene.seeds.shape[1] > 1 else {}),
        "operators": {name: [axis.text(axis.widest) for axis in OPERATORS[name].axes] for name in names},
    }
    found = Artifact("filters", made_from).obtain(lambda path: _read(path, names), make, progress)
    return _no_shorter_than_usual(found, split.data.image_shape[1:]) if recogniser.needs_help else found


def _no_shorter_than_usual(ranges: dict[str, dict[str, Range]], sides: tuple[int, int]) -> dict[str, dict[str, Range]]:
    """Ranges for images of (H, W), each as long in either direction as it is usual, or longer."""
    usual = {name: OPERATORS[name].usual(sides) for name in ranges}
    return {
        name: {
            axis: Range(min(each.low, usual[name][axis].low), each.neutral, max(each.high, usual[name][axis].high))
            for axis, each in own.items()
        }
        for name, own in ranges.items()
    }


def calibrated(
    images: torch.Tensor,
    scene: Scene,
    names: Sequence[str],
    named: Names,
    progress: Progress,
    device: torch.device,
) -> dict[str, dict[str, Range]]:
    """For each operator the largest strengths at which 95 % of the images keep their name, each direction by itself.

    Args:
        images: uint8 (n, C, H, W).
        named: gives the name of each picture, int64 (n,) for uint8 (n, C, H, W); one depends on no other. On the
            processor it is asked by several threads.
        device: where names are given.
    """
    before = named(images)

    def found(name: str, progress: Progress) -> dict[str, Range]:
        progress.stop.check()
        return _ranges(OPERATORS[name], images, scene, named, before)

    with (
        progress.stage("Finding how far operators may go", total=len(names)) as task,
        SideBySide(device, progress, at_once=_bytes_at_once(images) <= _BYTES_OF_A_THREAD) as side,
    ):
        parts = {name: side.begin(partial(found, name)) for name in names}
        ranges = {}
        # the other threads begin with the first, and this one with the last
        for name in reversed(names):
            ranges[name] = parts[name]()
            task.advance()
    return {name: ranges[name] for name in names}


def _bytes_at_once(images: torch.Tensor) -> int:
    """What an operator makes of a part of the images, in float64."""
    return _part(images) * images[0].numel() * 8


def _part(images: torch.Tensor) -> int:
    return math.ceil(len(images) / _PARTS)


def _ranges(
    operator: Operator, images: torch.Tensor, scene: Scene, named: Names, before: Int64Array
) -> dict[str, Range]:
    """One operator's range for each of its strengths."""
    sides = (images.shape[2], images.shape[3])

    def kept(axis: Axis, strength: float) -> bool:
        strengths = probes(operator, axis, strength, len(images), len(scene.seeds))
        lost, size = 0, _part(images)
        # where too many of a part have lost their name the rest need not be drawn
        for start in range(0, len(images), size):
            some = slice(start, start + size)
            lost += int((named(operator.apply(images[some], scene, strengths[some])) != before[some]).sum())
            if (len(images) - lost) / len(images) < KEPT:
                return False
        return True

    ends = operator.widest(sides)
    return {axis.name: _longest(axis, ends[axis.name], partial(kept, axis)) for axis in operator.axes}


def _longest(axis: Axis, widest: Range, kept: Callable[[float], bool]) -> Range:
    """The longest range whose ends keep enough names."""
    low, high = (
        end if end == widest.neutral else _farthest(axis, widest.neutral, end, kept)
        for end in (widest.low, widest.high)
    )
    return Range(low, widest.neutral, high)


def probes(operator: Operator, axis: Axis, strength: float, count: int, seeds: int) -> Strengths:
    """Strengths of an operator for several images, with one axis as given and the others neutral.

    Each image has a pattern and another image of its own, always the same ones.
    """
    neutral = {each.name: each.usual.neutral for each in operator.axes}
    rng = np.random.default_rng(_SEED)
    patterns, others = rng.integers(1_000_000, size=count), rng.integers(seeds, size=count)
    return [
        {
            **neutral,
            axis.name: strength,
            **({"seed": int(pattern)} if operator.patterned else {}),
            **({"other": int(other)} if operator.towards else {}),
        }
        for pattern, other in zip(patterns, others, strict=True)
    ]


def _farthest(axis: Axis, neutral: float, end: float, kept: Callable[[float], bool]) -> float:
    """The strength between neutral and the end that lies farthest out and keeps enough names, by bisection."""

    def at(share: float) -> float:
        value = neutral + share * (end - neutral)
        # towards neutral: no farther than what was tried
        return float(int(value)) if axis.whole else value

    if kept(at(1)):
        return at(1)
    inside, outside = 0.0, 1.0
    for _ in range(_HALVINGS):
        middle = (inside + outside) / 2
        if kept(at(middle)):
            inside = middle
        else:
            outside = middle
    return at(inside)


def image_count(height: int, width: int) -> int:
    """How many images of this size ranges are found on, at most."""
    return max(_IMAGES_IF_LARGE, min(_IMAGES, _IMAGES * _PIXELS // (height * width)))


def _known(split: DataSplit, recogniser: Recogniser) -> torch.Tensor:
    """uint8 (n, C, H, W): held-out images that the jury recognises, and names as their label says where it is known."""
    rows, count = split.rows[1], image_count(*split.data.image_shape[1:])
    rows = rows[torch.from_numpy(random_rows(len(rows), 2 * count))]
    real = split.data.images
    mapped = isinstance(real, np.memmap)
    images = torch.from_numpy(real[rows.numpy()]) if mapped else torch.from_numpy(real)[rows]
    labels = None if split.data.labels is None else split.data.labels[rows.numpy()]
    reading = recogniser.read(images, labels)
    return images[torch.from_numpy(reading.recognised)][:count]


def _read(path: Path, names: Sequence[str]) -> dict[str, dict[str, Range]]:
    try:
        stored = read_tensors(path)[1]
        return {
            name: {axis.name: Range(*stored[f"{name}.{axis.name}"].tolist()) for axis in OPERATORS[name].axes}
            for name in names
        }
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise unreadable("The file of the operators' ranges", path, error) from error
