"""Which pictures go into the page: bounded in number and bytes, and fair to rare behaviours."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from diffgen.errors import UserError
from diffgen.report import wording
from diffgen.report.cards import LARGEST_EXACT, Card, MarkView, PictureBudget, extent_of, make_card, make_marks
from diffgen.report.data import BehaviourGroup, CauseView, Picture, ReportData
from diffgen.report.maps import MapsView
from diffgen.report.tables import Side, named_sides
from diffgen.tasks.classification import who_is_wrong
from diffgen.types import UInt8Array

# Bytes of data URIs in each part of the page, about 2 MB together: a report can be mailed and opens on a phone.
GALLERY_BYTES = 1_400_000
_FOR_NEAREST = 1 / 5  # of the bytes of a part that has nearest real images
REAL_BYTES = 200_000
REJECTED_BYTES = 200_000
SAMPLE_BYTES = 200_000
SHRUNK_BYTES = 200_000
#: Most pictures in each part; markup and probabilities of one picture take about 2.5 kB.
GALLERY_PICTURES = 240
REAL_PICTURES = 32
REJECTED_PICTURES = 24
SAMPLE_PICTURES = 64
SHRUNK_PAIRS = 24
#: Most behaviours in the strip below the headline.
GLANCE_PICTURES = 10
#: Behaviours that are open from the start; the others are one click away.
OPEN_GROUPS = 24
#: Pictures that so many behaviours, of all verdicts together, get before the others get any.
OPEN_PICTURES = 5


@dataclass(frozen=True)
class GroupView:
    """One behaviour with the pictures that are shown of it; ``sides``: who says what."""

    anchor: str
    labels: tuple[int, ...]
    sides: tuple[Side, ...]
    cell: int
    count: int
    cards: tuple[Card, ...]
    made_by: str = ""


@dataclass(frozen=True)
class PartView:
    """The behaviours of one verdict.

    Attributes:
        verdict: see :func:`diffgen.tasks.classification.by_verdict`; empty for what the jury cannot name, or where
            there was none.
        title: the verdict in words; empty where there was no jury.
        pictures: how many distinct triggers there are, shown or not.
        folded: is one click away: nobody is wrong on them.
    """

    verdict: str
    title: str
    pictures: int
    behaviours: int
    groups: tuple[GroupView, ...]
    folded: bool = False

    @property
    def open(self) -> tuple[GroupView, ...]:
        """The most frequent behaviours."""
        return self.groups[:OPEN_GROUPS]

    @property
    def rarer(self) -> tuple[GroupView, ...]:
        """The others, one click away."""
        return self.groups[OPEN_GROUPS:]

    @property
    def shown(self) -> int:
        """How many pictures are on the page."""
        return sum(len(group.cards) for group in self.groups)

    @property
    def hidden(self) -> int:
        """How many behaviours are without a picture on the page."""
        return max(0, self.behaviours - len(self.groups))


@dataclass(frozen=True)
class Gallery:
    """The behaviours of the page."""

    parts: tuple[PartView, ...]
    pictures: int
    nearest: int  # pictures with the nearest real image

    @property
    def groups(self) -> tuple[GroupView, ...]:
        """Those of all parts."""
        return tuple(group for part in self.parts for group in part.groups)

    @property
    def hidden(self) -> int:
        """How many behaviours are without a picture on the page."""
        return sum(part.hidden for part in self.parts)

    @property
    def first_of_pair(self) -> dict[str, str]:
        """Label pair "a-b" -> anchor of its most frequent behaviour."""
        anchors: dict[str, str] = {}
        for group in self.groups:
            anchors.setdefault("-".join(map(str, group.labels[:2])), group.anchor)
        return anchors


def make_gallery(data: ReportData) -> Gallery:
    """The pictures of the behaviours.

    The most frequent behaviours get several pictures, equally many of every verdict, then every other behaviour gets
    one, then all get more in turn until the limit: a behaviour that was found once is in the page too. What the jury
    cannot name comes after that. Nearest real images are added last.
    """
    order = [(index, picture) for _, index, picture in sorted(_turns(data.groups), key=lambda turn: turn[:2])]
    order = order[:GALLERY_PICTURES]
    shown = _with_nearest([picture for _, picture in order], PictureBudget(GALLERY_BYTES))
    cards: list[list[Card]] = [[] for _ in data.groups]
    for (index, picture), (source, nearest) in zip(order, shown, strict=False):
        cards[index].append(_card(data, picture, source, nearest, "trigger"))
    views: dict[str, list[GroupView]] = {}
    for number, (group, own) in enumerate(zip(data.groups, cards, strict=True), start=1):
        if own:
            views.setdefault(group.verdict, []).append(_group_view(group, number, tuple(own), data.class_names))
    return Gallery(
        tuple(_part(data, verdict, tuple(own)) for verdict, own in views.items()),
        pictures=len(shown),
        nearest=sum(nearest is not None for _, nearest in shown),
    )


def _part(data: ReportData, verdict: str, groups: tuple[GroupView, ...]) -> PartView:
    found = data.results
    if found.faults is None or found.recognised_distinct_triggers is None:
        return PartView(verdict, "", data.headline_count, found.behaviours, groups)
    if verdict:
        title = wording.capitalised(who_is_wrong(verdict, len(data.model_names)))
        counts = found.faults[verdict]
        return PartView(verdict, title, counts["pictures"], counts["behaviours"], groups)
    left = found.distinct_valid_triggers - found.recognised_distinct_triggers
    title = "Where nobody says who is right" if found.jury is None else "What the jury cannot name"
    return PartView(verdict, title, left, len(groups), groups, folded=True)


def _turns(groups: tuple[BehaviourGroup, ...]) -> Iterator[tuple[tuple[int, int], int, Picture]]:
    """Every picture with its place in the order: (round, number within its behaviour), then its behaviour."""
    places: dict[str, int] = {}
    judged = any(group.verdict for group in groups)
    first = OPEN_GROUPS // max(1, len({group.verdict for group in groups if group.verdict}))
    for index, group in enumerate(groups):
        place = places[group.verdict] = places.get(group.verdict, -1) + 1
        later = 3 if judged and not group.verdict else 0
        for turn, picture in enumerate(group.pictures):
            if place < first and turn < OPEN_PICTURES:
                yield (later, turn), index, picture
            else:
                yield (later + (1 if turn == 0 else 2), turn), index, picture


def make_cards(data: ReportData, pictures: tuple[Picture, ...], kind: str, most: int, limit: int) -> tuple[Card, ...]:
    """Cards of single pictures, at most ``most`` of them within ``limit`` bytes; ``kind`` as in ``make_card``."""
    chosen = pictures[:most]
    shown = _with_nearest(list(chosen), PictureBudget(limit))
    return tuple(
        _card(data, picture, source, nearest, kind) for picture, (source, nearest) in zip(chosen, shown, strict=False)
    )


@dataclass(frozen=True)
class PairView:
    """A shrunk trigger on the page; the pictures are data URIs.

    Attributes:
        times: by how much the difference is amplified in its picture.
    """

    number: int
    start: str
    agreeing: str
    trigger: str
    difference: str
    times: int
    agree_name: str
    sides: tuple[Side, ...]
    rms: float
    before: float
    agreeing_marks: tuple[MarkView, ...] | MapsView
    trigger_marks: tuple[MarkView, ...] | MapsView
    extent: tuple[int, int]


def make_pairs(data: ReportData) -> tuple[PairView, ...]:
    """Pairs of pictures on both sides of the border, the closest first, as many as fit."""
    budget = PictureBudget(SHRUNK_BYTES)
    views = []
    for pair in sorted(data.shrunk, key=lambda each: each.difference)[:SHRUNK_PAIRS]:
        change, times = amplified_difference(pair.agreeing.image, pair.trigger.image)
        uris = [budget.take(each) for each in (pair.start.image, pair.agreeing.image, pair.trigger.image, change)]
        if None in uris:
            break
        start, agreeing, trigger, difference = (str(uri) for uri in uris)
        names = data.class_names
        views.append(
            PairView(
                number=pair.trigger.identifier,
                start=start,
                agreeing=agreeing,
                trigger=trigger,
                difference=difference,
                times=times,
                agree_name=names[pair.agreeing.labels[0]],
                sides=named_sides(pair.trigger.labels, names),
                rms=pair.difference,
                before=pair.before,
                agreeing_marks=make_marks(pair.agreeing.marks, names),
                trigger_marks=make_marks(pair.trigger.marks, names),
                extent=extent_of(pair.trigger.image),
            )
        )
    return tuple(views)


@dataclass(frozen=True)
class SeenView:
    """One picture as either model sees it, as data URIs; and what is said of it, by name.

    Attributes:
        says: the model in which the fault was imitated, the other one, and the first one with the fault.
    """

    plain: str
    changed: str
    says: tuple[str, ...]


def make_seen(cause: CauseView | None, names: Sequence[str]) -> tuple[SeenView, ...]:
    """The pictures on which a cause shows, as many as fit."""
    budget, views = PictureBudget(SHRUNK_BYTES), []
    if cause is not None and ((cause.said < 0) | (cause.said >= len(names))).any():
        raise UserError("The cause.npz of the run names classes that the models lack; remove it, and explain the run.")
    for *pictures, said in () if cause is None else zip(cause.plain, cause.changed, cause.said.tolist(), strict=True):
        plain, changed = (budget.take(each) for each in pictures)
        if plain is not None and changed is not None:
            views.append(SeenView(plain, changed, tuple(names[label] for label in said)))
    return tuple(views)


def amplified_difference(before: UInt8Array, after: UInt8Array) -> tuple[UInt8Array, int]:
    """A picture of a change: grey where nothing changes, lighter and darker where ``after`` is.

    Args:
        before, after: uint8 (C, H, W).

    Returns:
        uint8 (C, H, W), and the whole number that the change was multiplied with so that it can be seen.
    """
    change = after.astype(np.int64) - before.astype(np.int64)
    times = max(1, 127 // max(1, int(np.abs(change).max(initial=0))))
    return np.clip(128 + times * change, 0, 255).astype(np.uint8), times


def make_samples(images: UInt8Array) -> tuple[str, ...]:
    """Data URIs of the generator's random pictures, ``uint8 (N, C, H, W)``."""
    budget = PictureBudget(SAMPLE_BYTES)
    uris = (budget.take(image) for image in images[:SAMPLE_PICTURES])
    return tuple(uri for uri in uris if uri is not None)


def _with_nearest(pictures: list[Picture], budget: PictureBudget) -> list[tuple[str, str | None]]:
    """Data URIs of the pictures that fit, and of as many of their nearest real images, which are shown small."""
    leave = int(_FOR_NEAREST * budget.left) if any(each.nearest_real is not None for each in pictures) else 0
    sources = []
    for picture in pictures:
        source = budget.take(picture.image, leave=leave)
        if source is None:
            break
        sources.append(source)
    nearest = [
        None if picture.nearest_real is None else budget.take(picture.nearest_real, largest=LARGEST_EXACT)
        for picture in pictures[: len(sources)]
    ]
    return list(zip(sources, nearest, strict=True))


def _card(data: ReportData, picture: Picture, source: str, nearest: str | None, kind: str) -> Card:
    return make_card(picture, source=source, nearest=nearest, kind=kind, names=data.class_names, filters=data.filters)


def _group_view(group: BehaviourGroup, number: int, cards: tuple[Card, ...], names: tuple[str, ...]) -> GroupView:
    return GroupView(
        anchor=f"behaviour-{number}",
        labels=group.labels,
        sides=named_sides(group.labels, names),
        cell=group.cell,
        count=group.count,
        cards=cards,
        made_by=group.made_by,
    )
