"""What a check measured, as text for tables: also what no limit was set for."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from diffgen.gate.values import AccuracyDrop, CalibrationRise, GateValues, Rate, Shift, Undecided
from diffgen.gate.wording import percent, points
from diffgen.wording import count_of

# the names that values and conditions have in results.json, and what people are told that they are
TITLES = {
    "search": "search",
    "steadiness": "numeric noise",
    "smells": "signs of wrong pre-processing",
    "undecided_real": "real images on which only the candidate is undecided",
    "unanswered_real": "real images that only the candidate answers with NaN or infinity",
    "background_real": "real images that are background to the candidate alone",
    "outputs": "values that each model answers with",
    "classes": "classes that the labelled real images show",
    "new_behaviours": "new behaviours",
    "disagreement_real": "disagreement on real images",
    "sure_disagreement_real": "disagreement on real images that the base is sure of",
    "class_disagreement_real": "of these, disagreement on the images of one class of the base",
    "disagreement_random": "disagreement on random valid pictures",
    "top5_flips_real": "real images with a label outside the other's top five",
    "top5_flips_random": "random valid pictures with a label outside the other's top five",
    "accuracy_drop": "accuracy drop on real images",
    "class_accuracy_drop": "accuracy drop of the worst class, on real images",
    "regression_faults": "regression faults on real images",
    "calibration_rise": "rise of the calibration error on real images",
    "variation_faults": "varied real images that only the base gets right",
    "variation_drop": "accuracy drop on varied real images",
    "new_faults": "new behaviours in which only the candidate is wrong",
    "shift_real": "largest probability shift, real images",
    "shift_random": "largest probability shift, random valid pictures",
    "replay": "pictures of the store",
    "accuracy_drop_accepted": "accuracy drop, against what was accepted",
    "disagreement_real_accepted": "disagreement on real images, against what was accepted",
    "disagreement_random_accepted": "disagreement on random valid pictures, against what was accepted",
    "known_behaviours": "known behaviours",
}
_ACCEPTED = "_accepted"
#: Conditions on what was accepted; see :mod:`diffgen.gate.ratchet`.
AGAINST_ACCEPTED = (
    "accuracy_drop_accepted",
    "disagreement_real_accepted",
    "disagreement_random_accepted",
    "known_behaviours",
)


@dataclass(frozen=True)
class Measured:
    """One value as text, with its 95 % interval or an empty text."""

    name: str
    value: str
    interval: str = ""

    @property
    def title(self) -> str:
        """What it is, for people."""
        return TITLES[self.name]


def measured(values: GateValues, conditions: Iterable[str] = ()) -> tuple[Measured, ...]:
    """Every value that there is, in the order of the tables.

    Args:
        values: of the check.
        conditions: their names; a value that is held against what was accepted has a line for that too.
    """
    rows = {each.name: each for each in _measured(values)}
    again = (name for name in conditions if name.endswith(_ACCEPTED) and name.removesuffix(_ACCEPTED) in rows)
    return *rows.values(), *(replace(rows[name.removesuffix(_ACCEPTED)], name=name) for name in again)


def _measured(values: GateValues) -> Iterator[Measured]:
    yield Measured("search", f"{values.search.queries:,} queries")
    steadiness = values.steadiness
    yield Measured("steadiness", f"{steadiness.noise:.2g}, margin {steadiness.margin:.2g}")
    of_base = f", base {len(values.base_smells):,}" if values.base_smells else ""
    yield Measured("smells", f"{len(values.smells) + len(values.faint_smells):,}{of_base}")
    yield from _undecided("undecided_real", values.undecided)
    yield from _undecided("unanswered_real", values.unanswered)
    yield from _undecided("background_real", values.background)
    if values.classes is not None:
        yield Measured("classes", "{:,} of {:,}".format(*values.classes))
    parts = [] if values.outputs[0] == values.outputs[1] else ["{}, now {}".format(*values.outputs)]
    if values.left_out[0] != values.left_out[1]:
        parts.append("one more in the " + ("base" if values.left_out[0] else "candidate"))
    if parts:
        yield Measured("outputs", "; ".join(parts))
    new = len(values.new)
    yield Measured("new_behaviours", f"{new:,} new, {len(values.behaviours) - new:,} known")
    if values.jury:
        yield Measured("new_faults", f"{len(values.new_faults):,}")
    yield from _rate("disagreement_real", values.real)
    yield from _rate("sure_disagreement_real", values.sure)
    if (lost := values.class_disagreement) is not None:
        low, high = lost.interval
        value = f"{percent(lost.share)} ({lost.only_base:,} of {lost.of:,} that the base calls {lost.name})"
        yield Measured("class_disagreement_real", value, f"{percent(max(0.0, low))} to {percent(high)}")
    yield from _rate("disagreement_random", values.random)
    yield from _rate("top5_flips_real", values.top5_real)
    yield from _rate("top5_flips_random", values.top5_random)
    yield from _drop("accuracy_drop", values.accuracy)
    if values.accuracy is None and values.real is not None:
        yield Measured("accuracy_drop", "not measured: no labels that the models know, so no limit on accuracy applies")
    worst = values.class_accuracy
    if worst is not None:
        which, other = f" of {count_of(worst.of, 'image')} of class {worst.name}", values.largest_class_drop
        if other is not None and other.share > worst.share:
            which += f"; {points(other.share)} of {count_of(other.of, 'image')} of class {other.name}"
        yield from _drop("class_accuracy_drop", worst, which)
    yield from _rate("regression_faults", values.faults)
    yield from _calibration(values.calibration, values.labels_alone)
    yield from _rate("variation_faults", values.variation_faults)
    yield from _drop("variation_drop", values.variations)
    yield from _shift("shift_real", values.shift_real)
    yield from _shift("shift_random", values.shift_random)
    replay = values.replay
    if replay.pictures:
        yield Measured(
            "replay",
            f"{replay.pictures:,}: {replay.still:,} as before, {replay.changed:,} with other labels, "
            f"{replay.agree:,} agree now",
        )
    if values.known:
        met = sum(each.pictures > 0 for each in values.known)
        yield Measured("known_behaviours", f"{len(values.known):,}, of which the search met {met:,}")


def _rate(name: str, rate: Rate | None) -> Iterator[Measured]:
    if rate is not None:
        low, high = rate.interval
        ties = f", {rate.undecided:,} of them undecided" if rate.undecided else ""
        value = f"{percent(rate.share)} ({rate.count:,} of {rate.of:,}{ties})"
        yield Measured(name, value, f"{percent(low)} to {percent(high)}")


def _undecided(name: str, rate: Undecided | None) -> Iterator[Measured]:
    if rate is None or rate.only_base is None:
        yield from _rate(name, rate)
    else:
        low, high = rate.interval
        value = f"{points(rate.share)} ({rate.count:,} of {rate.of:,}, only the base on {rate.only_base:,})"
        yield Measured(name, value, f"{low * 100:.2f} to {points(high)}")


def _drop(name: str, drop: AccuracyDrop | None, which: str = "") -> Iterator[Measured]:
    if drop is not None:
        low, high = drop.interval
        before, after = (percent(right / drop.of) for right in (drop.base_right, drop.candidate_right))
        value = f"{points(drop.share)} ({before}, now {after}{which})"
        yield Measured(name, value, f"{low * 100:.2f} to {points(high)}")


def _calibration(rise: CalibrationRise | None, labels_alone: tuple[bool, bool]) -> Iterator[Measured]:
    if any(labels_alone):
        who = {(True, False): "the base gives", (False, True): "the candidate gives"}.get(labels_alone, "both give")
        yield Measured("calibration_rise", f"not measured: {who} labels alone, all probabilities are 0 or 1")
    if rise is not None:
        low, high = rise.interval
        value = f"{points(rise.share)} ({percent(rise.base)}, now {percent(rise.candidate)})"
        yield Measured("calibration_rise", value, f"{low * 100:.2f} to {points(high)}")


def _shift(name: str, shift: Shift | None) -> Iterator[Measured]:
    if shift is not None:
        yield Measured(name, f"{shift.largest:.3g}")
