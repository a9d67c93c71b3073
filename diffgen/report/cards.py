"""What is written on and behind one picture."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from diffgen.report.data import FilterView, Picture
from diffgen.report.many import Side, named_sides
from diffgen.report.wording import figure, percent
from diffgen.runs.triggers import BOTH, LABEL
from diffgen.tasks.classification import listed, role_name
from diffgen.tasks.kept_answers import spread_out
from diffgen.types import Float32Array, Int64Array

#: With at most this many classes the table of a picture has all of them, else the highest ones and a chart of all.
ALL_ROWS = 12
TOP_ROWS = 8
#: Most bars of that chart.
MOST_BARS = 100


@dataclass(frozen=True)
class Share:
    """The probability that a model after A and B gives to a class.

    Attributes:
        role: "c", "d", ...
        share, text: as number for the bar and as text.
        says: whether it is the highest.
    """

    role: str
    share: float
    text: str
    says: bool


@dataclass(frozen=True)
class Row:
    """The probability of one class under A and under B, as number for the bar and as text; ``others``: under C, ..."""

    name: str
    a: float
    b: float
    text_a: str
    text_b: str
    says_a: bool
    says_b: bool
    others: tuple[Share, ...] = ()


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
class Card:
    """One picture as the page shows it.

    Attributes:
        others: what the models after A and B say: (role, name) of each.
        sides: who says what, by groups, of three models or more.
        bars: the probabilities of the predicted labels, A's first: one row for those that are the same.
        rows: all classes, or the highest ones; ``rest`` then sums up the others.
        verdict: who is right, for a real image with a known label, else empty.
        jury: what the jury says, in words, or empty.
        blame: who is wrong, or empty where the jury cannot name the picture.
        wrong: "a", "b", ..., for those that are.
        origin: how it was made, or empty.
    """

    source: str
    nearest: str | None
    caption: str
    alt: str
    title: str
    pair: str
    name_a: str
    name_b: str
    others: tuple[tuple[str, str], ...]
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
    label_a, label_b, *more = picture.labels
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
    jury, blame = _jury(picture, names), _blame(picture)
    lines += [each for each in (jury, blame) if each]
    lines += [f"{line.name} {line.value}" for line in scores]
    return Card(
        source=source,
        nearest=nearest,
        caption=caption,
        alt=f"{caption}: {says}",
        title="\n".join(lines),
        pair=f"{label_a}-{label_b}",
        name_a=names[label_a],
        name_b=names[label_b],
        others=tuple((role_name(index), names[label]) for index, label in enumerate(more, start=2)),
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
    )


def _row(index: int, names: tuple[str, ...], probabilities: Float32Array, labels: tuple[int, ...]) -> Row:
    a, b = float(probabilities[0, index]), float(probabilities[1, index])
    others = _others(probabilities[2:, index], [label == index for label in labels[2:]])
    return Row(
        names[index], round(a, 3), round(b, 3), _exact(a), _exact(b), labels[0] == index, labels[1] == index, others
    )


def _others(shares: Float32Array, says: list[bool]) -> tuple[Share, ...]:
    return tuple(
        Share(role_name(index).lower(), round(share, 3), _exact(share), said)
        for index, (share, said) in enumerate(zip(shares.tolist(), says, strict=True), start=2)
    )


def _exact(probability: float) -> str:
    """In a column of many small values "0.0%" is easier to read than "<0.1%"."""
    return "0.0%" if probability < 0.0005 else percent(probability)


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
    a, b = float(left[0]), float(left[1])
    more = _others(left[2:], [False] * len(left[2:]))
    name = f"{classes - len(shown):,} other classes"
    rest = Row(name, round(a, 3), round(b, 3), _exact(a), _exact(b), False, False, more)
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
    if said.rests_on == LABEL:
        return f"known label: {name} (the jury agrees)"
    if said.rests_on == BOTH:
        return f"label and jury: {name} (sure)"
    return f"the jury: {name} ({'sure' if said.recognised else 'not sure'})"


def _blame(picture: Picture) -> str:
    wrong = [role_name(index) for index in picture.wrong]
    if not wrong:
        return ""
    if len(wrong) == len(picture.labels):
        return "both are wrong" if len(wrong) == 2 else "all are wrong"
    return f"{listed(wrong)} are wrong" if len(wrong) > 1 else f"{wrong[0]} is wrong"
