"""Every condition of the gate: what is measured, in which words, and the rule that it is held to.

Why these rules: docs/decisions/011-the-gate.md, and 017-always-there.md for those that no limit asks for.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Literal

from diffgen.config.check import (
    GROSS_ACCURACY_DROP,
    GROSS_CLASS_ACCURACY_DROP,
    GROSS_DISAGREEMENT,
    GROSS_REGRESSION_FAULTS,
    GROSS_VARIATION_FAULTS,
    Limits,
)
from diffgen.gate import rules
from diffgen.gate.answers import Answers, only_one
from diffgen.gate.measurements import (
    AccuracyDrop,
    CalibrationRise,
    ClassDisagreement,
    ClassDrop,
    Measurement,
    Rate,
    Shift,
    Undecided,
    points,
)
from diffgen.gate.of_tasks import OF_BOXES, OF_MAPS
from diffgen.gate.rules import Condition, Criterion, Status
from diffgen.gate.values import GateValues
from diffgen.wording import count_of

_SEEN = 0.5  # share of the models' classes that have real images
_MIN_ACCEPTED = 0.05  # share of random pictures; below it what draws them, or a filter, is of no use
_ACCEPTED = "_accepted"


def _search(criterion: Criterion, values: GateValues, limits: Limits) -> Iterator[Condition]:
    status, sentence = Status.PASS, "The search came to its end."
    if values.search.problem:
        status, sentence = Status.ERROR, values.search.problem
    elif values.drawn == 0:
        status, sentence = Status.WARN, "The real images alone were asked about; nothing was searched for."
    elif values.accepted < _MIN_ACCEPTED * values.drawn:
        status = Status.WARN if values.accepted else Status.ERROR
        sentence = (
            f"The filters accept {values.accepted:,} of {values.drawn:,} random pictures, so that hardly anything that "
            "a search finds can count; look at the filters, or name another source of pictures."
        )
    yield Condition(criterion.name, status, "", sentence)


def _steady(criterion: Criterion, values: GateValues, limits: Limits) -> Iterator[Condition]:
    unsteady = values.steadiness.unsteady
    alike = ("Both models answer alike when they are asked twice.", *values.steadiness.batched)
    yield Condition(criterion.name, Status.ERROR if unsteady else Status.PASS, "", " ".join(unsteady or alike))


def _smells(criterion: Criterion, values: GateValues, limits: Limits) -> Iterator[Condition]:
    status, sentence = Status.PASS, "The candidate's answers to real images do not look worse made."
    if values.smells:
        status, sentence = Status.FAIL, " ".join(values.smells)
    elif values.base_smells:
        status = Status.WARN
        sentence = f"{' '.join(values.base_smells)} So limits on what the candidate gets wrong may say little."
    elif values.faint_smells:
        status = Status.WARN
        sentence = f"{' '.join(values.faint_smells)} It is not shown to be clearly worse than the base in that."
    yield Condition(criterion.name, status, "", sentence)


def _shown_smells(values: GateValues) -> tuple[str, str]:
    of_base = f", base {len(values.base_smells):,}" if values.base_smells else ""
    return f"{len(values.smells) + len(values.faint_smells):,}{of_base}", ""


def _unanswered(criterion: Criterion, values: GateValues, limits: Limits) -> Iterator[Condition]:
    if values.silences:
        silent: Undecided | None = values[criterion.name]
        status = Status.FAIL if silent is not None and silent.count else Status.WARN
        yield Condition(criterion.name, status, "", " ".join(values.silences))


def _classes(criterion: Criterion, values: GateValues, limits: Limits) -> Iterator[Condition]:
    """A warning where nothing can be said of most classes."""
    seen, of = values.classes or (0, 0)
    if seen < _SEEN * of:
        sentence = (
            f"The labelled real images show {seen:,} of {count_of(of, 'class', 'classes')}; nothing is said of the "
            "others."
        )
        yield Condition(criterion.name, Status.WARN, "", sentence)


def _outputs(criterion: Criterion, values: GateValues, limits: Limits) -> Iterator[Condition]:
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
        yield Condition(criterion.name, Status.FAIL if shifted else Status.WARN, "", " ".join(sentences))


def _shown_outputs(values: GateValues) -> tuple[str, str] | None:
    parts = [] if values.outputs[0] == values.outputs[1] else ["{}, now {}".format(*values.outputs)]
    if values.left_out[0] != values.left_out[1]:
        parts.append("one more in the " + ("base" if values.left_out[0] else "candidate"))
    return ("; ".join(parts), "") if parts else None


def _new_behaviours(criterion: Criterion, values: GateValues, limits: Limits) -> Iterator[Condition]:
    if limits.max_new_behaviours is not None:
        yield rules.new(criterion.name, len(values.new), values.search, limits.max_new_behaviours)


def _new_faults(criterion: Criterion, values: GateValues, limits: Limits) -> Iterator[Condition]:
    limit, which = limits.max_new_faults, " and in which only the candidate is wrong"
    if limit is not None and values.jury:
        yield rules.new(criterion.name, len(values.new_faults), values.search, limit, which)
    elif limit is not None:
        yield rules.missing(criterion.name, f"{limit:,}", "there is no jury that says who is wrong")


def _sure_disagreement(criterion: Criterion, values: GateValues, limits: Limits) -> Iterator[Condition]:
    if limits.max_disagreement is None:
        assert criterion.default is not None
        yield from rules.gross(criterion.name, values[criterion.name], criterion.default, "by default without labels")


def _class_disagreement(criterion: Criterion, values: GateValues, limits: Limits) -> Iterator[Condition]:
    """A class that the candidate has lost, or takes for another, where no labels say so.

    Who allows more disagreement on all images allows it on those of each class, too.
    """
    worst: ClassDisagreement | None = values[criterion.name]
    if worst is not None:
        limit = max(criterion.default or 0.0, limits.max_disagreement or 0.0)
        said = worst.words(limit) + (" by default without labels" if limit == criterion.default else "")
        what = f"The candidate calls more than {worst.words(limit)} of what the base is sure is {{name}} otherwise"
        yield rules.worst_class(criterion.name, worst, worst, limit, said, what)


def _shown_accuracy(values: GateValues) -> tuple[str, str] | None:
    drop: AccuracyDrop | None = values["accuracy_drop"]
    if drop is not None:
        return drop.text, drop.interval_text
    unlabelled = "not measured: no labels that the models know, so no limit on accuracy applies"
    return None if values["disagreement_real"] is None else (unlabelled, "")


def _class_accuracy(criterion: Criterion, values: GateValues, limits: Limits) -> Iterator[Condition]:
    name, limit = criterion.name, criterion.own_limit(limits)
    allowed = (criterion.default or 0.0) if limit is None else limit
    said = f"{points(allowed)} by default" if limit is None else points(allowed)
    drop: ClassDrop | None = values[name]
    if drop is not None:
        # also where another class is shown to have lost something, or what is allowed
        largest = values["largest_class_drop"] or drop
        yield rules.worst_class(name, drop, largest, allowed, said, f"Class {{name}} loses more than {points(allowed)}")
    elif limit is not None:
        yield rules.missing(name, said)


def _shown_class_accuracy(values: GateValues) -> tuple[str, str] | None:
    worst: ClassDrop | None = values["class_accuracy_drop"]
    largest: ClassDrop | None = values["largest_class_drop"]
    if worst is None:
        return None
    other = ""
    if largest is not None and largest.share > worst.share:
        other = f"; {points(largest.share)} of {count_of(largest.of, 'image')} of class {largest.name}"
    return worst.described(other), worst.interval_text


def _faults(criterion: Criterion, values: GateValues, limits: Limits) -> Iterator[Condition]:
    name, limit = criterion.name, criterion.own_limit(limits)
    faults: Rate | None = values[name]
    if limit is None:
        yield from rules.limited(criterion, values, limits)
    elif faults is None or faults.of == 0:
        yield rules.missing(name, f"{limit:,}")
    elif faults.count > limit:
        sentence = f"{count_of(faults.count, 'image')} where {limit:,} are allowed."
        yield Condition(name, Status.FAIL, f"{limit:,}", sentence)
    else:
        # the limit is on these very images, so that there is nothing to be unsure of
        sentence = f"{count_of(faults.count, 'image')}; {limit:,} allowed."
        yield Condition(name, Status.PASS, f"{limit:,}", sentence)


def _calibration(criterion: Criterion, values: GateValues, limits: Limits) -> Iterator[Condition]:
    if values.labels_alone == (False, True):
        sentence = (
            "All probabilities of the candidate are 0 or 1, as if it gave labels alone; those of the base are not."
        )
        yield Condition(criterion.name, Status.WARN, "", sentence)
    yield from rules.with_accuracy(criterion, values, limits)


def _shown_calibration(values: GateValues) -> tuple[str, str] | None:
    rise: CalibrationRise | None = values["calibration_rise"]
    if any(values.labels_alone):
        who = {(True, False): "the base gives", (False, True): "the candidate gives"}.get(
            values.labels_alone, "both give"
        )
        return f"not measured: {who} labels alone, all probabilities are 0 or 1", ""
    return None if rise is None else (rise.text, rise.interval_text)


def _shown_replay(values: GateValues) -> tuple[str, str] | None:
    replay = values.replay
    text = (
        f"{replay.pictures:,}: {replay.still:,} as before, {replay.changed:,} with other labels, "
        f"{replay.agree:,} agree now"
    )
    return (text, "") if replay.pictures else None


def _shown_known(values: GateValues) -> tuple[str, str] | None:
    met = sum(each.pictures > 0 for each in values.known)
    return (f"{len(values.known):,}, of which the search met {met:,}", "") if values.known else None


#: In the order of tables and reports.
CRITERIA = (
    Criterion("search", "search", rule=_search, show=lambda values: (f"{values.search.queries:,} queries", "")),
    Criterion(
        "steadiness",
        "numeric noise",
        rule=_steady,
        show=lambda values: (f"{values.steadiness.noise:.2g}, margin {values.steadiness.margin:.2g}", ""),
    ),
    Criterion("smells", "signs of wrong pre-processing", rule=_smells, show=_shown_smells),
    Criterion(
        "undecided_real",
        "real images on which only the candidate is undecided",
        Undecided,
        Answers.undecided,
        default=0.02,  # ties of the candidate alone less those of the base alone
    ),
    Criterion(
        "unanswered_real",
        "real images that only the candidate answers with NaN or infinity",
        Undecided,
        lambda answers: only_one(answers.silent) if answers.silent.any() else None,
        rule=_unanswered,
    ),
    Criterion(
        "background_real",
        "real images that are background to the candidate alone",
        Undecided,
        lambda answers: only_one(answers.background) if answers.leaves_out else None,
        default=0.02,
    ),
    Criterion(
        "classes",
        "classes that the labelled real images show",
        rule=_classes,
        show=lambda values: None if values.classes is None else ("{:,} of {:,}".format(*values.classes), ""),
    ),
    Criterion("outputs", "values that each model answers with", rule=_outputs, show=_shown_outputs),
    Criterion(
        "new_behaviours",
        "new behaviours",
        limit="max_new_behaviours",
        rule=_new_behaviours,
        show=lambda values: (f"{len(values.new):,} new, {len(values.behaviours) - len(values.new):,} known", ""),
    ),
    Criterion(
        "new_faults",
        "new behaviours in which only the candidate is wrong",
        needs="jury",
        limit="max_new_faults",
        rule=_new_faults,
        show=lambda values: (f"{len(values.new_faults):,}", "") if values.jury else None,
    ),
    Criterion(
        "disagreement_real",
        "disagreement on real images",
        Rate,
        Answers.disagreement,
        limit="max_disagreement",
        kept_to_accepted="disagreement on real images",
    ),
    Criterion(
        "disagreement_random",
        "disagreement on random valid pictures",
        Rate,
        Answers.disagreement,
        images="random",
        limit="max_disagreement",
        kept_to_accepted="disagreement on random valid pictures",
    ),
    Criterion(
        "sure_disagreement_real",
        "disagreement on real images that the base is sure of",
        Rate,
        Answers.sure_disagreement,
        needs="no labels",
        default=GROSS_DISAGREEMENT,
        rule=_sure_disagreement,
    ),
    Criterion(
        "class_disagreement_real",
        "of these, disagreement on the images of one class of the base",
        ClassDisagreement,
        Answers.class_disagreement,
        needs="no labels",
        default=GROSS_CLASS_ACCURACY_DROP,
        rule=_class_disagreement,
    ),
    Criterion(
        "top5_flips_real",
        "real images with a label outside the other's top five",
        Rate,
        Answers.top5_flips,
    ),
    Criterion(
        "top5_flips_random",
        "random valid pictures with a label outside the other's top five",
        Rate,
        Answers.top5_flips,
        images="random",
    ),
    *OF_BOXES,
    *OF_MAPS,
    Criterion(
        "accuracy_drop",
        "accuracy drop on real images",
        AccuracyDrop,
        Answers.accuracy_drop,
        needs="labels",
        limit="max_accuracy_drop",
        default=GROSS_ACCURACY_DROP,
        show=_shown_accuracy,
        kept_to_accepted="accuracy drop",
    ),
    Criterion(
        "class_accuracy_drop",
        "accuracy drop of the worst class, on real images",
        ClassDrop,
        lambda answers: answers.worst_classes[0],
        needs="labels",
        limit="max_class_accuracy_drop",
        default=GROSS_CLASS_ACCURACY_DROP,
        rule=_class_accuracy,
        show=_shown_class_accuracy,
    ),
    Criterion(
        "largest_class_drop",
        "",
        ClassDrop,
        lambda answers: answers.worst_classes[1],
        needs="labels",
    ),
    Criterion(
        "regression_faults",
        "regression faults on real images",
        Rate,
        Answers.faults,
        needs="labels",
        limit="max_regression_faults",
        default=GROSS_REGRESSION_FAULTS,
        rule=_faults,
    ),
    Criterion(
        "variation_faults",
        "varied real images that only the base gets right",
        Rate,
        Answers.faults,
        images="variations",
        needs="jury",
        limit="max_variation_faults",
        default=GROSS_VARIATION_FAULTS,
    ),
    Criterion(
        "calibration_rise",
        "rise of the calibration error on real images",
        CalibrationRise,
        Answers.calibration_rise,
        needs="labels",
        default=0.2,
        rule=_calibration,
        show=_shown_calibration,
    ),
    Criterion(
        "variation_drop",
        "accuracy drop on varied real images",
        AccuracyDrop,
        Answers.accuracy_drop,
        images="variations",
        default=0.03,
        rule=rules.with_accuracy,
    ),
    Criterion(
        "shift_real",
        "largest probability shift, real images",
        Shift,
        Answers.shift,
        limit="max_shift",
        rule=rules.shift,
    ),
    Criterion(
        "shift_random",
        "largest probability shift, random valid pictures",
        Shift,
        Answers.shift,
        images="random",
        limit="max_shift",
        rule=rules.shift,
    ),
    Criterion("replay", "pictures of the store", show=_shown_replay),
    Criterion("known_behaviours", "known behaviours", show=_shown_known),
)
#: Before anything is measured.
UNMEASURED: dict[str, Measurement | None] = dict.fromkeys(each.name for each in CRITERIA if each.kind)
#: What people are told that values and conditions are, by their names.
TITLES = {each.name: each.title for each in CRITERIA if each.title} | {
    f"{each.name}{_ACCEPTED}": f"{each.kept_to_accepted}, against what was accepted"
    for each in CRITERIA
    if each.kept_to_accepted
}
#: Conditions on what was accepted; see :mod:`diffgen.gate.ratchet`.
AGAINST_ACCEPTED = (*(name for name in TITLES if name.endswith(_ACCEPTED)), "known_behaviours")


def measured_on(images: Literal["real", "variations", "random"], answers: Answers) -> dict[str, Measurement | None]:
    """What is measured on these images, by name."""
    return {each.name: each.measured_on(answers) for each in CRITERIA if each.kind and each.images == images}


def evaluate(values: GateValues, limits: Limits) -> tuple[Condition, ...]:
    """Every condition that the limits ask for, after those that are always there.

    These are the search's own (it came to its end, and could find something), that the models answer alike twice, that
    the candidate does not smell of wrong pre-processing, and that it is not grossly worse than the base.

    A value above its limit fails. One that keeps it, but whose interval reaches above it, gives a warning: so few
    images cannot show that the limit is kept, and no number of them shows it of a limit of 0. No limit is therefore
    kept better by the same value than a larger one is.
    """
    return tuple(condition for each in CRITERIA for condition in each.rule(each, values, limits))


@dataclass(frozen=True)
class Row:
    """One value as text, with its 95 % interval or an empty text."""

    name: str
    value: str
    interval: str = ""

    @property
    def title(self) -> str:
        """What it is, for people."""
        return TITLES[self.name]


def table(values: GateValues, conditions: Iterable[str] = ()) -> tuple[Row, ...]:
    """Every value that there is, in the order of the tables.

    Args:
        values: of the check.
        conditions: their names; a value that is held against what was accepted has a line for that too.
    """
    rows = {each.name: Row(each.name, *shown) for each in CRITERIA if (shown := each.shown(values)) is not None}
    again = (name for name in conditions if name.endswith(_ACCEPTED) and name.removesuffix(_ACCEPTED) in rows)
    return *rows.values(), *(replace(rows[name.removesuffix(_ACCEPTED)], name=name) for name in again)
