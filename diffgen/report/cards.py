"""What is written on and behind one picture; pictures as data URIs, and the limit on how many bytes one page holds."""

from __future__ import annotations

import base64
import io
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from diffgen.config import MAX_MODELS
from diffgen.report.data import FilterView, Picture
from diffgen.report.maps import MapsView, make_maps
from diffgen.report.tables import Side, named_sides
from diffgen.report.wording import figure, percent
from diffgen.runs.triggers import AGREED, BOTH, BOXES, LABEL, SEED
from diffgen.tasks.classification import listed, role_name
from diffgen.tasks.detection import KINDS, classes_of
from diffgen.tasks.kept_answers import spread_out
from diffgen.types import Float32Array, Int64Array, UInt8Array

#: With at most this many classes the table of a picture has all of them, else the highest ones and a chart of all.
ALL_ROWS = 12
TOP_ROWS = 8
_BOXES = 2  # axes of what is drawn, where it is boxes and no maps
#: Most bars of that chart.
MOST_BARS = 100
#: Longest edge that goes into the page exactly, as PNG.
LARGEST_EXACT = 96
#: Longest edge of larger pictures, which are shown as WebP, larger ones reduced (the run folder has them exactly).
LARGEST_EDGE = 224
_WEBP_QUALITY = 90  # a photograph of 224 pixels takes half of what a PNG takes that is reduced to 96


@dataclass(frozen=True)
class Share:
    """The probability that a model gives to a class.

    Attributes:
        role: "a", "b", ...
        share, text: as number for the bar and as text.
    """

    role: str
    share: float
    text: str
    says: bool


@dataclass(frozen=True)
class Row:
    """The probability of one class, or of several together, under each model."""

    name: str
    shares: tuple[Share, ...]


@dataclass(frozen=True)
class Spectrum:
    """All K probabilities as two SVG paths in a view box of bars x 200: A upwards from the middle, B downwards."""

    classes: int
    bars: int
    path_a: str
    path_b: str


@dataclass(frozen=True)
class ScoreLine:
    """One filter's score of a picture; ``passed`` is None when the filter's threshold is not known."""

    name: str
    value: str
    threshold: str
    passed: bool | None


@dataclass(frozen=True)
class MarkView:
    """A box that a model reports.

    Attributes:
        x, y, width, height: pixels of the picture.
        role: "a", "b", ...
        kind: what becomes of it between the two models, one of :data:`diffgen.tasks.detection.KINDS`.
        contested: it is what the picture is about.
    """

    x: float
    y: float
    width: float
    height: float
    role: str
    kind: str
    contested: bool
    text: str


def make_marks(marks: NDArray[Any] | None, names: tuple[str, ...]) -> tuple[MarkView, ...] | MapsView:
    """The boxes of a picture, those that are contested last, so that they lie above the others; or its maps.

    Args:
        marks: one of those of :meth:`diffgen.tasks.base.Task.marks`, or None.
    """
    if marks is not None and marks.ndim != _BOXES:
        return make_maps(marks, names)
    classes, views = classes_of(names), []
    for x1, y1, x2, y2, score, label, model, kind, contested in () if marks is None else marks.tolist():
        if not (0 <= label < len(classes) and 0 <= kind < len(KINDS) and 0 <= model < MAX_MODELS):
            continue
        role = role_name(int(model))
        text = f"{role}: {classes[int(label)]} {score:.2f}"
        x, y, width, height = (round(each, 1) for each in (x1, y1, x2 - x1, y2 - y1))
        views.append(MarkView(x, y, width, height, role.lower(), KINDS[int(kind)], bool(contested), text))
    return tuple(sorted(views, key=lambda each: (each.contested, each.kind != KINDS[0])))


def extent_of(image: UInt8Array) -> tuple[int, int]:
    """Width and height of uint8 (C, H, W)."""
    return image.shape[2], image.shape[1]


@dataclass(frozen=True)
class Card:
    """One picture as the page shows it.

    Attributes:
        bars: the probabilities of the predicted labels, A's first: one row for those that are the same.
        rows: all classes, or the highest ones; ``rest`` then sums up the others.
        verdict: who is right, for a real image with a known label, else empty.
        jury: what the jury says, in words, or empty.
        blame: who is wrong, or empty where the jury cannot name the picture.
        wrong: "a", "b", ..., for those that are.
        origin: how it was made, or empty.
        extent: width and height of the picture, in which these are measured.
    """

    source: str
    nearest: str | None
    caption: str
    alt: str
    title: str
    pair: str
    sides: tuple[Side, ...]
    bars: tuple[Row, ...]
    rows: tuple[Row, ...]
    rest: Row | None
    spectrum: Spectrum | None
    scores: tuple[ScoreLine, ...]
    true_name: str | None
    verdict: str
    rejected_by: str | None
    origin: str
    jury: str
    blame: str
    wrong: tuple[str, ...]
    marks: tuple[MarkView, ...] | MapsView
    extent: tuple[int, int]


def make_card(
    picture: Picture,
    *,
    source: str,
    nearest: str | None,
    kind: str,
    names: tuple[str, ...],
    filters: tuple[FilterView, ...],
) -> Card:
    """Everything the page says about ``picture``; ``kind`` is "trigger", "real image" or "rejected trigger"."""
    kept = None if picture.classes is None else picture.classes[None]
    whole = spread_out(picture.probabilities[None], kept, len(names))[0]
    probabilities = np.clip(np.nan_to_num(whole.astype(np.float32)), 0, 1)
    shown, rest = _shown_rows(names, probabilities, picture.labels)
    caption = f"{kind} {picture.identifier}"
    says = ", ".join(
        f"{role_name(index)} says {names[label]} ({percent(float(probabilities[index, label]), 0)})"
        for index, label in enumerate(picture.labels)
    )
    true_name = None if picture.true_label is None else names[picture.true_label]
    scores = _score_lines(picture.scores, filters)
    lines = [caption]
    if true_name is not None:
        lines.append(f"true label {true_name}")
    if picture.origin:
        lines.append(picture.origin)
    jury, blame = _jury(picture, names), picture.blame
    lines += [each for each in (jury, blame) if each]
    lines += [f"{line.name} {line.value}" for line in scores]
    return Card(
        source=source,
        nearest=nearest,
        caption=caption,
        alt=f"{caption}: {says}",
        title="\n".join(lines),
        pair="-".join(map(str, picture.labels[:2])),
        sides=named_sides(picture.labels, names),
        bars=tuple(_row(index, names, probabilities, picture.labels) for index in dict.fromkeys(picture.labels)),
        rows=shown,
        rest=rest,
        spectrum=_spectrum(probabilities) if rest is not None else None,
        scores=scores,
        true_name=true_name,
        verdict=_verdict(picture),
        rejected_by=picture.rejected_by,
        origin=picture.origin,
        jury=jury,
        blame=blame,
        wrong=tuple(role_name(index).lower() for index in picture.wrong),
        marks=make_marks(picture.marks, names),
        extent=extent_of(picture.image),
    )


def _row(index: int, names: tuple[str, ...], probabilities: Float32Array, labels: tuple[int, ...]) -> Row:
    return Row(names[index], _shares(probabilities[:, index], [label == index for label in labels]))


def _shares(shares: Float32Array, says: list[bool]) -> tuple[Share, ...]:
    return tuple(
        # in a column of many small values "0.0%" is easier to read than "<0.1%"
        Share(role_name(index).lower(), round(share, 3), "0.0%" if share < 0.0005 else percent(share), said)
        for index, (share, said) in enumerate(zip(shares.tolist(), says, strict=True))
    )


def _shown_rows(
    names: tuple[str, ...], probabilities: Float32Array, labels: tuple[int, ...]
) -> tuple[tuple[Row, ...], Row | None]:
    classes = len(names)
    if classes <= ALL_ROWS:
        return tuple(_row(index, names, probabilities, labels) for index in range(classes)), None
    order: Int64Array = np.argsort(-probabilities.max(axis=0), kind="stable")
    shown = {*order[:TOP_ROWS].tolist(), *labels}
    others = np.ones(classes, dtype=np.bool_)
    others[list(shown)] = False
    left = np.clip(probabilities[:, others].sum(axis=1), 0, 1)
    rest = Row(f"{classes - len(shown):,} other classes", _shares(left, [False] * len(left)))
    return tuple(_row(index, names, probabilities, labels) for index in order.tolist() if index in shown), rest


def _spectrum(probabilities: Float32Array) -> Spectrum:
    classes = probabilities.shape[1]
    if classes > MOST_BARS:
        # neighbours share a bar, which is as high as the highest of them: a path for each class would be long
        places = np.arange(MOST_BARS) * classes // MOST_BARS
        probabilities = np.maximum.reduceat(probabilities, places, axis=1)
    # Drawn up to the highest probability: with many classes all of them may be low.
    heights = np.rint(100 * probabilities / max(float(probabilities.max(initial=0)), 1e-6)).astype(int)

    def path(model: int, up: str, down: str) -> str:
        return "".join(f"M{i} 100v{up}{height}h.9v{down}{height}z" for i, height in enumerate(heights[model]) if height)

    return Spectrum(classes, probabilities.shape[1], path(0, "-", ""), path(1, "", "-"))


def _score_lines(scores: dict[str, float], filters: tuple[FilterView, ...]) -> tuple[ScoreLine, ...]:
    thresholds = {view.name: view.threshold for view in filters}
    lines = []
    for name, score in scores.items():
        threshold = thresholds.get(name)
        lines.append(
            ScoreLine(
                name=name,
                value=figure(score),
                threshold="" if threshold is None else figure(threshold),
                passed=None if threshold is None else bool(score >= threshold),
            )
        )
    return tuple(lines)


def _verdict(picture: Picture) -> str:
    if picture.true_label is None:
        return ""
    right = [role_name(index) for index, label in enumerate(picture.labels) if label == picture.true_label]
    if not right:
        return "both wrong" if len(picture.labels) == 2 else "all wrong"
    return f"{listed(right) if len(right) > 1 else right[0]} right"


def _jury(picture: Picture, names: tuple[str, ...]) -> str:
    """``the jury: 4 (sure)``, or ``known label: 4 (the jury agrees)``."""
    said = picture.jury
    if said is None:
        return ""
    if said.instead_of is not None:
        return f"the jury: {names[said.named]} (but made from {names[said.instead_of]})"
    name = names[said.named]
    if said.rests_on == BOXES:
        return f"known boxes: {name}"
    if said.rests_on in (SEED, AGREED):
        return f"made from: {name}{' (known label)' if said.rests_on == SEED else ' (all models say so)'}"
    if said.rests_on == LABEL:
        return f"known label: {name} (the jury agrees)"
    if said.rests_on == BOTH:
        return f"label and jury: {name} (sure)"
    return f"the jury: {name} ({'sure' if said.recognised else 'not sure'})"


# -- bytes ------------------------------------------------------------------------------------------------------------


def encoded(image: UInt8Array, largest: int = LARGEST_EDGE) -> tuple[str, bytes]:
    """``uint8 (C, H, W)`` with one or three channels as a file: what it is ("png" or "webp"), and its bytes.

    Args:
        image: exact up to ``LARGEST_EXACT``.

    Raises:
        ValueError: the array is not such an image.
    """
    if image.dtype != np.uint8 or image.ndim != 3 or image.shape[0] not in (1, 3):
        raise ValueError(f"an image for the report is uint8 (1 or 3, H, W), not {image.dtype} {image.shape}")
    pixels = image[0] if image.shape[0] == 1 else np.moveaxis(image, 0, 2)
    picture = Image.fromarray(np.ascontiguousarray(pixels))
    buffer = io.BytesIO()
    if max(picture.size) <= LARGEST_EXACT:
        picture.save(buffer, format="PNG", optimize=True)
        return "png", buffer.getvalue()
    if max(picture.size) > largest:
        picture.thumbnail((largest, largest), Image.Resampling.BOX)
    picture.save(buffer, format="WEBP", quality=_WEBP_QUALITY)
    return "webp", buffer.getvalue()


def data_uri(image: UInt8Array, largest: int = LARGEST_EDGE) -> str:
    """``uint8 (C, H, W)`` as ``data:image/png;base64,...`` or ``data:image/webp;base64,...``; see :func:`encoded`."""
    kind, content = encoded(image, largest)
    return f"data:image/{kind};base64," + base64.b64encode(content).decode("ascii")


def display_size(image: UInt8Array, target: int) -> tuple[int, int]:
    """Width and height in CSS pixels close to ``target``.

    Small pictures get a whole multiple of their size, so that every pixel of theirs is equally large on the screen.
    """
    _, height, width = image.shape
    longest = max(height, width)
    scale = max(1, round(target / longest)) if longest <= target else target / longest
    return max(1, round(width * scale)), max(1, round(height * scale))


class PictureBudget:
    """Hands out data URIs until ``limit`` bytes are used up; what comes later gets None."""

    def __init__(self, limit: int) -> None:
        self.left = limit

    def take(self, image: UInt8Array, *, leave: int = 0, largest: int = LARGEST_EDGE) -> str | None:
        """The data URI of ``image``, or None when it no longer fits and leaves ``leave`` bytes for other pictures."""
        uri = data_uri(image, largest)
        if len(uri) > self.left - leave:
            # Everything after the first picture that does not fit is left out too: a page that skips large pictures
            # and shows small ones would not be a fair sample.
            self.left = min(self.left, leave)
            return None
        self.left -= len(uri)
        return uri
