"""How a detector, or a model that gives maps, wants to be fed: several ways, against boxes or masks that are known."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from diffgen.comparison.known_maps import known_cells
from diffgen.comparison.preprocessings import Candidate, Plan
from diffgen.config import Preprocessing, replace
from diffgen.errors import RunError, ServiceError, UserError
from diffgen.events import Progress
from diffgen.gate.average_precision import mean_average_precision
from diffgen.gate.maps import against_masks, mean_iou
from diffgen.models import BlackBox
from diffgen.models.detections import SCORE, as_boxes
from diffgen.sampling import random_rows
from diffgen.tasks.segmentation import Segmentation, map_sides
from diffgen.types import Float32Array, ImageSet

_IMAGES = 40  # random ones that the model is asked about with each candidate
_REPORTED = 0.25  # score of a box that counts, where nobody knows what is there; the default of Ultralytics
_COLOURS = 3  # channels
_LOW = 2.5  # percent
_IMAGENET = ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))


@dataclass(frozen=True)
class Fed:
    """What was found out.

    Attributes:
        candidates: the best first; where no boxes are known, in the order in which they were tried.
        alike: how many of the first cannot be told apart from the best by so many images.
        chosen: of these the one that was tried first.
        now: the candidate that a comparison takes when nothing else is said.
        words: the head, and who suppresses what overlaps.
    """

    candidates: tuple[Candidate, ...]
    alike: int
    chosen: Candidate
    now: Candidate
    words: str


def feed_detector(
    box: BlackBox, data: ImageSet, given: list[Plan], said: Preprocessing, names: tuple[str, ...], progress: Progress
) -> Fed:
    """Try a prepared detector, or model that gives maps, in several ways: fitting, order of the channels, and scale.

    Args:
        box: prepared; it is prepared otherwise afterwards.
        data: real images; of a detector better with boxes, of another with masks.
        given: what somebody says of it: a sidecar, the file; tried first.
        said: is not varied.
        names: of the model's classes, or none.

    Raises:
        UserError: the model takes the images in no way that was tried, or gives maps and no masks tell which is right.
    """
    truth = data.boxes if box.detects else data.masks
    known = np.array([number for number, each in enumerate(truth or ()) if each is not None], dtype=np.int64)
    labelled = len(known) > 0
    if not (box.detects or labelled):
        raise _without_masks(box)
    rows = known if labelled else np.arange(len(data))
    some = data.at(np.sort(rows[random_rows(len(rows), min(_IMAGES, len(rows)))]))
    usual = replace(box.preprocessing, layout=None, background=None)
    plans = [*given, ("as its makers do it", usual), *_plans(box, usual, data.image_shape)]
    tried: list[tuple[str, Preprocessing, Float32Array]] = []
    first: UserError | None = None
    with progress.stage("Trying pre-processings", total=len(plans)) as task:
        for name, plan in plans:
            try:
                box.set_preprocessing(said.over(plan))
                box.prepare(some.images)
                if box.preprocessing not in [settled for _, settled, _ in tried]:
                    tried.append((name, box.preprocessing, box.predict(some.images)))
            except ServiceError:
                raise
            except (UserError, RunError) as error:  # the model does not take it, or overflows: no candidate
                first = first or (error if isinstance(error, UserError) else None)
            task.advance()
    if not tried:
        raise first or UserError(f"Model {box.name} gives no usable answers for these images, however it is fed.")
    words = box.answers_with
    found = [answers for _, _, answers in tried]
    if box.detects:
        precision, lowest = _precision(box, [as_boxes(each) for each in found], some, names, progress)
    else:
        precision, lowest = _fit_with_masks(box, found, some, names)
    candidates = [
        Candidate(
            name=name,
            preprocessing=settled,
            images=len(some),
            accuracy=None if precision is None else float(precision[place]),
            confidence=float(as_boxes(answers)[:, 0, SCORE].mean()) if box.detects else 0.0,
            entropy=0.0,
            balance=0.0,
            boxes=float((as_boxes(answers)[..., SCORE] >= _REPORTED).sum(axis=1).mean()) if box.detects else None,
        )
        for place, (name, settled, answers) in enumerate(tried)
    ]
    if precision is None or lowest is None:
        return Fed(tuple(candidates), len(candidates), candidates[0], candidates[0], words)
    equals = [each for each, low in zip(candidates, lowest, strict=True) if low <= 0]
    others = [each for each in candidates if each not in equals]
    ordered = [*sorted(equals, key=_worth), *sorted(others, key=_worth)]
    return Fed(tuple(ordered), len(equals), equals[0], candidates[0], words)


def _worth(candidate: Candidate) -> float:
    return -(candidate.accuracy or 0.0)


def _plans(box: BlackBox, usual: Preprocessing, shape: tuple[int, int, int]) -> Iterator[Plan]:
    """Names and pre-processings, the most usual first."""
    size = box.input_size or shape[1:]
    same = size[0] * shape[2] == size[1] * shape[1]
    for fitting in ("stretch",) if same else ("letterbox", "stretch", "letterbox-top-left"):
        for channels in ("rgb", "bgr") if shape[0] == _COLOURS else (usual.channels,):
            for scale, mean, std in (("0..1", (), ()), ("0..255", (), ()), ("0..1", *_IMAGENET)):
                if mean and shape[0] != _COLOURS:
                    continue
                words = f"{'' if same else f'{fitting}, '}{scale}{', ImageNet mean and std' if mean else ''}"
                plan = replace(usual, **{"fitting": fitting, "channels": channels, "scale": scale})
                turned = slice(None, None, -1 if channels == "bgr" else 1)
                plan = replace(plan, mean=mean[turned], std=std[turned])
                yield f"{words}{', BGR' if channels == 'bgr' else ''}", plan


def _precision(
    box: BlackBox, answers: list[Float32Array], some: ImageSet, names: tuple[str, ...], progress: Progress
) -> tuple[Float32Array | None, Float32Array | None]:
    """mAP with each candidate, and by how much the best is surely better; None where it cannot be known."""
    if some.boxes is None:
        return None, None
    own, theirs = names or box.class_names, some.class_names or ()
    places = np.array([own.index(name) if name in own else -1 for name in theirs] or [0], dtype=np.float32)
    if not own:  # numbers alone: taken for those of the data
        places = np.arange(max(len(theirs), 1), dtype=np.float32)
    if (places < 0).all():
        progress.warn(
            f"The boxes of {some.source} are not used, since none of its classes is called as one of model {box.name}; "
            "name the model's classes with --class-names FILE."
        )
        return None, None
    truth = []
    for each in some.boxes:
        assert each is not None
        rows = each.copy()
        rows[:, 4] = places[each[:, 4].astype(np.int64)]
        truth.append(rows[rows[:, 4] >= 0])
    means, drawn = mean_average_precision(np.stack(answers, axis=1), truth)
    if np.isnan(means).any():
        return None, None
    best = int(means.argmax())
    return means.astype(np.float32), np.percentile(drawn[:, [best]] - drawn, _LOW, axis=0).astype(np.float32)


def _fit_with_masks(
    box: BlackBox, answers: list[Float32Array], some: ImageSet, names: tuple[str, ...]
) -> tuple[Float32Array, Float32Array]:
    """Mean IoU with each candidate, and by how much the best is surely better.

    Raises:
        UserError: no mask tells what is where, in classes of the model.
    """
    count = 1 + int(max(each.max() for each in answers))
    own = names or box.class_names or some.mask_names or ()
    own = (*own, *map(str, range(len(own), count)))
    task = Segmentation(own, map_sides((some.image_shape[1], some.image_shape[2])))
    counts = against_masks(
        task.maps_of(np.stack(answers, axis=1)), known_cells(task, some, np.arange(len(some))), len(own)
    )
    if len(counts) == 0:
        raise _without_masks(box)
    means = mean_iou(counts)
    best = int(means[0].argmax())
    lowest = np.percentile(means[1:, [best]] - means[1:], _LOW, axis=0)
    return means[0].astype(np.float32), lowest.astype(np.float32)


def _without_masks(box: BlackBox) -> UserError:
    return UserError(
        f"Model {box.name} gives maps of classes, and without masks of these nothing tells in which way it is to "
        "be fed; give data with masks, or say it with --size, --scale, --mean and --std, or in a file beside it."
    )
