"""What a condition of the gate is, and how a value is held against a limit."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Literal

from diffgen.config import Limits
from diffgen.gate.answers import Answers
from diffgen.gate.measurements import ClassDrop, Measurement, Share, percent
from diffgen.gate.values import GateValues, SearchState
from diffgen.wording import count_of

_MOST_IMAGES = 1000  # times as many; whoever needs more has a value that lies at its limit


class Status(StrEnum):
    """How a condition, or a whole check, came out."""

    PASS = "PASS"
    WARN = "WARN"
    FAIL = "FAIL"
    ERROR = "ERROR"


_SEVERITY = (Status.PASS, Status.WARN, Status.FAIL, Status.ERROR)
EXIT_CODES = {Status.PASS: 0, Status.WARN: 0, Status.FAIL: 1, Status.ERROR: 3}


@dataclass(frozen=True)
class Condition:
    """A limit on one value, and what came of it.

    Attributes:
        name: of the value; see :data:`diffgen.gate.conditions.CRITERIA`.
        limit: as text, or empty for a condition without a number.
    """

    name: str
    status: Status
    limit: str
    sentence: str


#: The conditions on one value: from its criterion, what was measured, and the limits.
Rule = Callable[["Criterion", GateValues, Limits], Iterator[Condition]]


def overall(conditions: tuple[Condition, ...]) -> Status:
    """The worst of them; ERROR for none."""
    return max((each.status for each in conditions), key=_SEVERITY.index, default=Status.ERROR)


def missing(
    name: str, limit: str, why: str = "the check ended before that, or there was no such image to ask about"
) -> Condition:
    """A limit on what was not measured."""
    return Condition(name, Status.ERROR, limit, f"Not measured: {why}.")


def limited(criterion: Criterion, values: GateValues, limits: Limits) -> Iterator[Condition]:
    """The value itself may not be above the limit that a user set; else as :func:`gross`, where there is a default."""
    if criterion.kind is None:
        return
    value, limit = values[criterion.name], criterion.own_limit(limits)
    if limit is not None and (value is None or value.of == 0):
        if criterion.images != "random" or values.draws:
            assert issubclass(criterion.kind, Share)
            yield missing(criterion.name, criterion.kind.words(limit))
    elif limit is not None:
        yield _held(criterion.name, value, limit, value.words(limit), broken=value.share > limit)
    elif criterion.default is not None:
        yield from gross(criterion.name, value, criterion.default)


def with_accuracy(criterion: Criterion, values: GateValues, limits: Limits) -> Iterator[Condition]:
    """A default on what falls with the accuracy: who allows more of that on the real images means this, too."""
    usual, allowed = criterion.default or 0.0, limits.max_accuracy_drop or 0.0
    by = "as the accuracy on the real images" if allowed > usual else "by default"
    yield from gross(criterion.name, values[criterion.name], max(usual, allowed), by)


def shift(criterion: Criterion, values: GateValues, limits: Limits) -> Iterator[Condition]:
    """No probability may change by more than the limit that a user set."""
    value, limit = values[criterion.name], criterion.own_limit(limits)
    if limit is None:
        return
    if value is not None and value.of:
        status = Status.FAIL if value.largest > limit else Status.PASS
        sentence = (
            f"With 95 % confidence at most {percent(value.beyond)} of such images are shifted by more than "
            f"{value.text}."
        )
        yield Condition(criterion.name, status, f"{limit:g}", sentence)
    elif criterion.images != "random" or values.draws:
        yield missing(criterion.name, f"{limit:g}")


def gross(name: str, value: Share | None, limit: float, by: str = "by default") -> Iterator[Condition]:
    """A limit that nobody set on this value: what breaks it must be shown, so that few images fail nobody by chance."""
    if value is not None and value.of:
        yield _held(name, value, limit, f"{value.words(limit)} {by}", broken=value.interval[0] > limit)


def _held(name: str, value: Share, limit: float, said: str, *, broken: bool) -> Condition:
    """FAIL where the limit is broken; WARN where the images are too few to show that it is kept."""
    low, high = value.interval
    shown = value.words(limit)
    if broken:
        also = ", also at the lower end of the interval" if low > limit else ""
        return Condition(name, Status.FAIL, said, f"More than {shown}{also}.")
    if high <= limit:
        return Condition(name, Status.PASS, said, "Kept, also at the upper end of the interval.")
    if value.share > limit:
        sentence = f"More than {shown} on these {count_of(value.of, *value.noun)}, but they are too few to show it"
    else:
        sentence = (
            f"Kept on these {count_of(value.of, *value.noun)}, but they are too few to show that it is kept in "
            f"general: it may be up to {value.words(high)}"
        )
    return Condition(name, Status.WARN, said, f"{sentence}{_more_images(value, limit)}.")


def _more_images(value: Share, limit: float, of_what: str = "") -> str:
    """How many more images would decide, if these had the same shares; empty where no thousand times as many would."""

    def decide(of: int) -> bool:
        low, high = value.interval_on(of)
        return low > limit or high <= limit

    few = many = value.of
    while not decide(many):
        few, many = many, 2 * many
        if many > _MOST_IMAGES * value.of:
            return ""
    while many - few > max(1, few // 50):
        middle = (few + many) // 2
        few, many = (few, middle) if decide(middle) else (middle, many)
    more = many - value.of
    unit = 10 ** max(0, len(str(more)) - 2)  # two digits of it
    return f"; about {count_of(-(-more // unit) * unit, 'more image')}{of_what} would decide"


def worst_class(name: str, shown: ClassDrop, largest: ClassDrop, limit: float, said: str, what: str) -> Condition:
    """What breaks it must be shown, whoever set it: of many classes with few images the worst always looks bad.

    Args:
        shown, largest: see :func:`diffgen.gate.answers.worst_classes`.
        limit: of the loss, 0..1.
        what: a sentence about a class that is above it, with a place for its ``name``.
    """
    if shown.interval[0] > limit:
        sentence = f"{what.format(name=shown.name)}, also at the lower end of the interval."
        return Condition(name, Status.FAIL, said, sentence)
    if largest.share > limit:
        sentence = (
            f"{what.format(name=largest.name)} on {count_of(largest.of, 'image')}, but they are too few to show it of "
            f"one of {largest.classes:,} classes{_more_images(largest, limit, ' of it')}."
        )
        return Condition(name, Status.WARN, said, sentence)
    return Condition(name, Status.PASS, said, "No class is shown to be above it.")


def new(name: str, count: int, search: SearchState, limit: int, which: str = "") -> Condition:
    """On ``count`` behaviours that the store does not know."""
    allowed, which = f"{limit:,}", f"that the store does not know{which}"
    if count > limit:
        # what was found stays found, also when the search broke off afterwards
        sentence = f"{count_of(count, 'behaviour')} {which}; {allowed} allowed."
        return Condition(name, Status.FAIL, allowed, sentence)
    if search.problem:
        sentence = "The search did not come to its end, so behaviours may have been missed."
        return Condition(name, Status.ERROR, allowed, sentence)
    return Condition(name, Status.PASS, allowed, f"{search.queries:,} queries found {count or 'none'} {which}.")


@dataclass(frozen=True)
class Criterion:
    """One thing that a check measures, and what it is held to.

    Attributes:
        title: what it is, for people; empty for what is told in the line of another.
        kind: the kind of the measurement; None for what is counted otherwise.
        measure: the measurement; None where it cannot be had.
        images: on which images it is measured.
        needs: without which nothing is measured. A check with a limit on it is refused where it is missing.
        limit: the field of :class:`diffgen.config.Limits` that a user sets, or empty.
        default: what it may be where no limit is set; None: anything.
        rule: the conditions that come of it; none where there is neither limit nor default.
        show: value and interval as text, or None for nothing to tell; by default those of the measurement.
        kept_to_accepted: its title where it may not become worse than what the store has accepted; empty: it may.
    """

    name: str
    title: str = ""
    kind: type[Measurement] | None = None
    measure: Callable[[Answers], Measurement | None] | None = None
    images: Literal["real", "variations", "random"] = "real"
    needs: Literal["", "labels", "no labels", "jury"] = ""
    limit: str = ""
    default: float | None = None
    rule: Rule = limited
    show: Callable[[GateValues], tuple[str, str] | None] | None = None
    kept_to_accepted: str = ""

    def own_limit(self, limits: Limits) -> Any:
        """The limit that a user set, or None."""
        return getattr(limits, self.limit) if self.limit else None

    def measured_on(self, answers: Answers) -> Measurement | None:
        """The measurement, where the images have what it needs."""
        # boxes and maps have limits of their own
        known = any(each is not None for each in (answers.labels, answers.boxes, answers.maps))
        if (
            self.measure is None
            or (self.needs == "no labels" and known)
            or (self.needs == "labels" and answers.labels is None)
        ):
            return None
        return self.measure(answers)

    def shown(self, values: GateValues) -> tuple[str, str] | None:
        """Value and interval as text; None where there is nothing to tell."""
        if self.show is not None:
            return self.show(values)
        measurement: Measurement | None = values[self.name]
        return None if measurement is None or not self.title else (measurement.text, measurement.interval_text)
