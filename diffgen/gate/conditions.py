"""Limits on what a check measured, and whether each is kept.

Why these rules: docs/decisions/011-the-gate.md, and 017-always-there.md for those that no limit asks for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum

from diffgen.config import (
    GROSS_ACCURACY_DROP,
    GROSS_BACKGROUND,
    GROSS_CALIBRATION_RISE,
    GROSS_CLASS_ACCURACY_DROP,
    GROSS_DISAGREEMENT,
    GROSS_REGRESSION_FAULTS,
    GROSS_UNDECIDED,
    GROSS_VARIATION_DROP,
    GROSS_VARIATION_FAULTS,
    Limits,
)
from diffgen.gate.values import AccuracyDrop, CalibrationRise, ClassDrop, GateValues, Rate, Shift
from diffgen.gate.wording import percent, points
from diffgen.wording import count_of


class Status(StrEnum):
    """How a condition, or a whole check, came out."""

    PASS = "PASS"
    WARN = "WARN"
    FAIL = "FAIL"
    ERROR = "ERROR"


_SEEN = 0.5  # share of the models' classes that have real images
_MIN_ACCEPTED = 0.05  # share of random pictures; below it what draws them, or a filter, is of no use
_MOST_IMAGES = 1000  # times as many; whoever needs more has a value that lies at its limit
_SEVERITY = (Status.PASS, Status.WARN, Status.FAIL, Status.ERROR)
EXIT_CODES = {Status.PASS: 0, Status.WARN: 0, Status.FAIL: 1, Status.ERROR: 3}


@dataclass(frozen=True)
class Condition:
    """A limit on one value, and what came of it.

    Attributes:
        name: of the value; see :mod:`diffgen.gate.measured`.
        status: how it came out.
        limit: as text, or empty for a condition without a number.
        sentence: why it came out as it did.
    """

    name: str
    status: Status
    limit: str
    sentence: str


def evaluate(values: GateValues, limits: Limits) -> tuple[Condition, ...]:
    """Every condition that the limits ask for, after those that are always there.

    These are the search's own (it came to its end, and could find something), that the models answer alike twice, that
    the candidate does not smell of wrong pre-processing, and that it is not grossly worse than the base.

    A value above its limit fails. One that keeps it, but whose interval reaches above it, gives a warning: so few
    images cannot show that the limit is kept, and no number of them shows it of a limit of 0. No limit is therefore
    kept better by the same value than a larger one is.
    """
    return tuple(_conditions(values, limits))


def overall(conditions: tuple[Condition, ...]) -> Status:
    """The worst of them; ERROR for none."""
    return max((each.status for each in conditions), key=_SEVERITY.index, default=Status.ERROR)


def _conditions(values: GateValues, limits: Limits) -> Iterator[Condition]:
    yield _search(values)
    yield _steady(values)
    yield _smells(values)
    yield from _gross("undecided_real", values.undecided, GROSS_UNDECIDED, points)
    if values.silences:
        only_candidate = 0 if values.unanswered is None else values.unanswered.count
        yield Condition(
            "unanswered_real", Status.FAIL if only_candidate else Status.WARN, "", " ".join(values.silences)
        )
    yield from _gross("background_real", values.background, GROSS_BACKGROUND, points)
    yield from _classes(values)
    yield from _outputs(values, limits)
    if limits.max_new_behaviours is not None:
        yield _new("new_behaviours", len(values.new), values, limits.max_new_behaviours)
    if limits.max_new_faults is not None and values.jury:
        yield _new("new_faults", len(values.new_faults), values, limits.max_new_faults)
    elif limits.max_new_faults is not None:
        yield _missing("new_faults", f"{limits.max_new_faults:,}", "there is no jury that says who is wrong")
    # a technique that asks about the real images alone draws no random picture
    draws = values.drawn > 0 or bool(values.search.problem)
    if limits.max_disagreement is not None:
        yield _rate("disagreement_real", values.real, limits.max_disagreement, percent)
        if draws:
            yield _rate("disagreement_random", values.random, limits.max_disagreement, percent)
    else:
        yield from _gross(
            "sure_disagreement_real", values.sure, GROSS_DISAGREEMENT, percent, by="by default without labels"
        )
    yield from _class_disagreement(values.class_disagreement, limits.max_disagreement)
    if limits.max_accuracy_drop is not None:
        yield _rate("accuracy_drop", values.accuracy, limits.max_accuracy_drop, points)
    else:
        yield from _gross("accuracy_drop", values.accuracy, GROSS_ACCURACY_DROP, points)
    yield from _class_accuracy(values, limits.max_class_accuracy_drop)
    if limits.max_regression_faults is not None:
        yield _faults(values.faults, limits.max_regression_faults)
    else:
        yield from _gross("regression_faults", values.faults, GROSS_REGRESSION_FAULTS, percent)
    if limits.max_variation_faults is not None:
        yield _rate("variation_faults", values.variation_faults, limits.max_variation_faults, percent)
    else:
        yield from _gross("variation_faults", values.variation_faults, GROSS_VARIATION_FAULTS, percent)
    if values.labels_alone == (False, True):
        sentence = (
            "All probabilities of the candidate are 0 or 1, as if it gave labels alone; those of the base are not."
        )
        yield Condition("calibration_rise", Status.WARN, "", sentence)
    yield from _with_accuracy("calibration_rise", values.calibration, GROSS_CALIBRATION_RISE, limits)
    yield from _with_accuracy("variation_drop", values.variations, GROSS_VARIATION_DROP, limits)
    if limits.max_shift is not None:
        yield _shift("shift_real", values.shift_real, limits.max_shift)
        if draws:
            yield _shift("shift_random", values.shift_random, limits.max_shift)


def _search(values: GateValues) -> Condition:
    if values.search.problem:
        return Condition("search", Status.ERROR, "", values.search.problem)
    if values.drawn == 0:
        return Condition("search", Status.WARN, "", "The real images alone were asked about; nothing was searched for.")
    if values.accepted >= _MIN_ACCEPTED * values.drawn and values.accepted:
        return Condition("search", Status.PASS, "", "The search came to its end.")
    sentence = (
        f"The filters accept {values.accepted:,} of {values.drawn:,} random pictures, so that hardly anything that a "
        "search finds can count; look at the filters, or name another source of pictures."
    )
    return Condition("search", Status.WARN if values.accepted else Status.ERROR, "", sentence)


def _steady(values: GateValues) -> Condition:
    if values.steadiness.unsteady:
        return Condition("steadiness", Status.ERROR, "", " ".join(values.steadiness.unsteady))
    alike = ("Both models answer alike when they are asked twice.", *values.steadiness.batched)
    return Condition("steadiness", Status.PASS, "", " ".join(alike))


def _classes(values: GateValues) -> Iterator[Condition]:
    """A warning where nothing can be said of most classes."""
    if values.classes is None:
        return
    seen, of = values.classes
    if seen < _SEEN * of:
        sentence = (
            f"The labelled real images show {seen:,} of {count_of(of, 'class', 'classes')}; nothing is said of the "
            "others."
        )
        yield Condition("classes", Status.WARN, "", sentence)


def _outputs(values: GateValues, limits: Limits) -> Iterator[Condition]:
    """A warning where whatever reads the candidate's answers gets something else; who limits the shift allows none."""
    base, candidate = values.outputs
    sentences = []
    if base != candidate:
        sentences.append(
            f"The base answers with {base}, the candidate with {candidate}; they are compared as probabilities, but "
            "what reads its answers elsewhere gets other numbers."
        )
    if values.left_out[0] != values.left_out[1]:
        more, than = ("base", "candidate") if values.left_out[0] else ("candidate", "base")
        sentences.append(
            f"The {more} answers with one value more than the {than}, which is taken for the background and left out; "
            "what reads its answers elsewhere must know of it."
        )
    if sentences:
        shifted = base != candidate and limits.max_shift is not None
        yield Condition("outputs", Status.FAIL if shifted else Status.WARN, "", " ".join(sentences))


def _smells(values: GateValues) -> Condition:
    if values.smells:
        return Condition("smells", Status.FAIL, "", " ".join(values.smells))
    if values.base_smells:
        sentence = f"{' '.join(values.base_smells)} So limits on what the candidate gets wrong may say little."
        return Condition("smells", Status.WARN, "", sentence)
    if values.faint_smells:
        sentence = f"{' '.join(values.faint_smells)} It is not shown to be clearly worse than the base in that."
        return Condition("smells", Status.WARN, "", sentence)
    return Condition("smells", Status.PASS, "", "The candidate's answers to real images do not look worse made.")


def _gross(
    name: str,
    rate: Rate | AccuracyDrop | CalibrationRise | None,
    limit: float,
    shown: Callable[[float], str],
    *,
    by: str = "by default",
) -> Iterator[Condition]:
    """A limit that nobody set on this value: what breaks it must be shown, so that few images fail nobody by chance."""
    if rate is not None and rate.of:
        yield _held(name, rate, limit, shown, f"{shown(limit)} {by}", broken=rate.interval[0] > limit)


def _held(
    name: str,
    rate: Rate | AccuracyDrop | CalibrationRise,
    limit: float,
    shown: Callable[[float], str],
    said: str,
    *,
    broken: bool,
) -> Condition:
    """FAIL where the limit is broken; WARN where the images are too few to show that it is kept."""
    low, high = rate.interval
    if broken:
        also = ", also at the lower end of the interval" if low > limit else ""
        return Condition(name, Status.FAIL, said, f"More than {shown(limit)}{also}.")
    if high <= limit:
        return Condition(name, Status.PASS, said, "Kept, also at the upper end of the interval.")
    if rate.share > limit:
        sentence = f"More than {shown(limit)} on these {count_of(rate.of, 'image')}, but they are too few to show it"
    else:
        sentence = (
            f"Kept on these {count_of(rate.of, 'image')}, but they are too few to show that it is kept in general: it "
            f"may be up to {shown(high)}"
        )
    return Condition(name, Status.WARN, said, f"{sentence}{_more_images(rate, limit)}.")


def _more_images(rate: Rate | AccuracyDrop | CalibrationRise, limit: float, of_what: str = "") -> str:
    """How many more images would decide, if these had the same shares; empty where no thousand times as many would."""
    if isinstance(rate, CalibrationRise):
        return ""

    def decide(of: int) -> bool:
        low, high = rate.interval_on(of)
        return low > limit or high <= limit

    few = many = rate.of
    while not decide(many):
        few, many = many, 2 * many
        if many > _MOST_IMAGES * rate.of:
            return ""
    while many - few > max(1, few // 50):
        middle = (few + many) // 2
        few, many = (few, middle) if decide(middle) else (middle, many)
    more = many - rate.of
    unit = 10 ** max(0, len(str(more)) - 2)  # two digits of it
    return f"; about {count_of(-(-more // unit) * unit, 'more image')}{of_what} would decide"


def _with_accuracy(
    name: str, drop: AccuracyDrop | CalibrationRise | None, usual: float, limits: Limits
) -> Iterator[Condition]:
    """A default on what falls with the accuracy: who allows more of that on the real images means this, too."""
    own = limits.max_accuracy_drop
    if own is not None and own > usual:
        yield from _gross(name, drop, own, points, by="as the accuracy on the real images")
    else:
        yield from _gross(name, drop, usual, points)


def _class_disagreement(worst: ClassDrop | None, allowed: float | None) -> Iterator[Condition]:
    """A class that the candidate has lost, or takes for another, where no labels say so.

    Who allows more disagreement on all images allows it on those of each class, too.
    """
    if worst is not None:
        limit = max(GROSS_CLASS_ACCURACY_DROP, allowed or 0.0)
        said = percent(limit) + (" by default without labels" if limit == GROSS_CLASS_ACCURACY_DROP else "")
        what = f"The candidate calls more than {percent(limit)} of what the base is sure is {{name}} otherwise"
        yield _worst_class("class_disagreement_real", worst, worst, limit, said, what)


def _class_accuracy(values: GateValues, limit: float | None) -> Iterator[Condition]:
    name, allowed = "class_accuracy_drop", GROSS_CLASS_ACCURACY_DROP if limit is None else limit
    said = f"{points(allowed)} by default" if limit is None else points(allowed)
    drop = values.class_accuracy
    if drop is not None:
        # also where another class is shown to have lost something, or what is allowed
        unshown = drop if values.largest_class_drop is None else values.largest_class_drop
        yield _worst_class(name, drop, unshown, allowed, said, f"Class {{name}} loses more than {points(allowed)}")
    elif limit is not None:
        yield _missing(name, said)


def _worst_class(name: str, shown: ClassDrop, largest: ClassDrop, limit: float, said: str, what: str) -> Condition:
    """What breaks it must be shown, whoever set it: of many classes with few images the worst always looks bad."""
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


def _new(name: str, new: int, values: GateValues, limit: int) -> Condition:
    """On behaviours that the store does not know."""
    allowed = f"{limit:,}"
    which = "that the store does not know"
    if name == "new_faults":
        which += " and in which only the candidate is wrong"
    if new > limit:
        # what was found stays found, also when the search broke off afterwards
        sentence = f"{count_of(new, 'behaviour')} {which}; {allowed} allowed."
        return Condition(name, Status.FAIL, allowed, sentence)
    if values.search.problem:
        sentence = "The search did not come to its end, so behaviours may have been missed."
        return Condition(name, Status.ERROR, allowed, sentence)
    sentence = f"{values.search.queries:,} queries found {new or 'none'} {which}."
    return Condition(name, Status.PASS, allowed, sentence)


def _rate(name: str, rate: Rate | AccuracyDrop | None, limit: float, shown: Callable[[float], str]) -> Condition:
    if rate is None or rate.of == 0:
        return _missing(name, shown(limit))
    return _held(name, rate, limit, shown, shown(limit), broken=rate.share > limit)


def _faults(faults: Rate | None, limit: int) -> Condition:
    name, allowed = "regression_faults", f"{limit:,}"
    if faults is None or faults.of == 0:
        return _missing(name, allowed)
    if faults.count > limit:
        return Condition(name, Status.FAIL, allowed, f"{count_of(faults.count, 'image')} where {allowed} are allowed.")
    # the limit is on these very images, so that there is nothing to be unsure of
    return Condition(name, Status.PASS, allowed, f"{count_of(faults.count, 'image')}; {allowed} allowed.")


def _shift(name: str, shift: Shift | None, limit: float) -> Condition:
    if shift is None or shift.of == 0:
        return _missing(name, f"{limit:g}")
    status = Status.FAIL if shift.largest > limit else Status.PASS
    sentence = (
        f"With 95 % confidence at most {percent(shift.beyond)} of such images are shifted by more than "
        f"{shift.largest:.3g}."
    )
    return Condition(name, status, f"{limit:g}", sentence)


def _missing(
    name: str, limit: str, why: str = "the check ended before that, or there was no such image to ask about"
) -> Condition:
    return Condition(name, Status.ERROR, limit, f"Not measured: {why}.")
