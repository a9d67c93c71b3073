"""What was accepted may not become worse: the values of accepted checks as limits of a later one.

Why these rules, and how far apart two searches are: docs/decisions/018-severity.md.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from diffgen.gate.conditions import Condition, Status
from diffgen.gate.record import check_drop, check_rate
from diffgen.gate.values import AccuracyDrop, GateValues, KnownBehaviour, Rate
from diffgen.gate.wording import percent, points
from diffgen.metrics.intervals import clustered_interval
from diffgen.runs.schema import whole
from diffgen.wording import count_of

#: Pictures of one behaviour come in clumps, since a search goes on from what it found: this many are worth one that was
#: drawn on its own (Kish's design effect; measured, see the decision).
DESIGN_EFFECT = 5.0
#: By how much a probability may be shifted further on the pictures of a behaviour.
SHIFT_TOLERANCE = 0.1
_NAMED = 3
_BEHAVIOUR = re.compile(r"A-\d{1,9}_B-\d{1,9}_[0-9a-f]{8}")
_Counted = Rate | AccuracyDrop
_RATES = ("accuracy_drop", "disagreement_real", "disagreement_random")


@dataclass(frozen=True)
class Level:
    """How severe a behaviour of the store was when it was accepted; see :class:`diffgen.gate.values.KnownBehaviour`."""

    pictures: int
    shift: float


@dataclass(frozen=True)
class Acceptance:
    """The values of one check that someone accepted.

    Attributes:
        queries: of its search.
        real, random, accuracy: see :class:`diffgen.gate.values.GateValues`.
        behaviours: name in the store -> level.
    """

    queries: int
    real: Rate | None = None
    random: Rate | None = None
    accuracy: AccuracyDrop | None = None
    behaviours: Mapping[str, Level] = field(default_factory=dict)

    def as_dict(self) -> dict[str, Any]:
        """JSON values."""
        return {
            "queries": self.queries,
            "disagreement_real": None if self.real is None else asdict(self.real),
            "disagreement_random": None if self.random is None else asdict(self.random),
            "accuracy_drop": None if self.accuracy is None else asdict(self.accuracy),
            "behaviours": {name: asdict(level) for name, level in sorted(self.behaviours.items())},
        }

    @classmethod
    def read(cls, entry: Mapping[str, Any]) -> Acceptance:
        """What :meth:`as_dict` gave, which somebody may have changed since.

        Raises:
            KeyError, TypeError, ValueError, AttributeError: it is damaged.
        """
        return cls(
            queries=_count(entry["queries"]),
            real=_read_rate(entry["disagreement_real"]),
            random=_read_rate(entry["disagreement_random"]),
            accuracy=_read_drop(entry["accuracy_drop"]),
            behaviours={_name(name): _read_level(level) for name, level in entry["behaviours"].items()},
        )


def _name(name: object) -> str:
    if isinstance(name, str) and _BEHAVIOUR.fullmatch(name):
        return name
    raise ValueError(f"{name!r} is not the name of a behaviour")


def _count(value: object) -> int:
    whole()(value)
    assert isinstance(value, int)
    return value


def _read_rate(entry: Mapping[str, Any] | None) -> Rate | None:
    if entry is None:
        return None
    check_rate(entry)
    return Rate(entry["count"], entry["of"], undecided=entry["undecided"])


def _read_drop(entry: Mapping[str, Any] | None) -> AccuracyDrop | None:
    if entry is None:
        return None
    check_drop(entry)
    return AccuracyDrop(*(entry[name] for name in ("base_right", "candidate_right", "only_base", "of")))


def _read_level(entry: Mapping[str, Any]) -> Level:
    shift = entry["shift"]
    if not (isinstance(shift, float | int) and 0 <= shift <= 1):
        raise ValueError(f"{shift!r} is not a shift of a probability")
    return Level(_count(entry["pictures"]), float(shift))


def ratchet(values: GateValues, accepted: Sequence[Acceptance]) -> Iterator[Condition]:
    """A condition for each value that was accepted before; none where nothing was.

    Of several acceptances the one with the highest value counts, and not the one with the longest interval: who accepts
    a good candidate after a short search, or on few images, allows no more than before. A rate fails when its 95 %
    interval lies wholly above that of the accepted one: the same candidate, checked with another seed, draws other
    images and has another rate.
    """
    now: tuple[_Counted | None, ...] = (values.accuracy, values.real, values.random)
    for name, rate, allowed in zip(_RATES, now, _allowed_rates(accepted), strict=True):
        if rate is not None and rate.of and allowed is not None:
            yield _rate(f"{name}_accepted", rate, allowed)
    known = [(each, _worst(each, accepted)) for each in values.known]
    levels = [(each, level) for each, level in known if level is not None]
    if levels:
        yield _known(levels, values.search.queries)


def held_to(accepted: Sequence[Acceptance]) -> dict[str, str]:
    """What of each rate was accepted, and up to where its interval reaches: name of the value -> text."""
    allowed = zip(_RATES, _allowed_rates(accepted), strict=True)
    return {name: each.limit for name, each in allowed if each is not None}


@dataclass(frozen=True)
class _AllowedRate:
    """The highest of the rates that were accepted: its text, and the upper end of its interval."""

    limit: str
    most: float
    shown: Callable[[float], str]


def _allowed_rates(accepted: Sequence[Acceptance]) -> Iterator[_AllowedRate | None]:
    """For each of ``_RATES``; None where none was accepted."""
    yield _highest([each.accuracy for each in accepted], points)
    yield _highest([each.real for each in accepted], percent)
    yield _highest([each.random for each in accepted], percent)


def _highest(before: Sequence[_Counted | None], shown: Callable[[float], str]) -> _AllowedRate | None:
    accepted = [each for each in before if each is not None and each.of]
    if not accepted:
        return None
    # of equal ones the surest: the shortest interval
    worst = max(accepted, key=lambda each: (each.share, -each.interval[1]))
    # a candidate that is better than the base has no drop; one that is as good as the base is no worse than accepted
    most = max(0.0, worst.interval[1])
    return _AllowedRate(f"{shown(max(0.0, worst.share))} accepted, up to {shown(most)}", most, shown)


def _rate(name: str, now: _Counted, allowed: _AllowedRate) -> Condition:
    limit, most = allowed.limit, allowed.most
    if now.interval[0] > most:
        sentence = f"More than was accepted, even at the lower end of its interval: up to {allowed.shown(most)} was."
        return Condition(name, Status.FAIL, limit, sentence)
    if now.share > most:
        sentence = "More than was accepted, but on too few images to be sure of it."
        return Condition(name, Status.WARN, limit, sentence)
    return Condition(name, Status.PASS, limit, "No more than was accepted, as far as so many images can tell.")


@dataclass(frozen=True)
class _Allowed:
    """Of one behaviour: what was accepted, and the share of the queries that this may stand for."""

    pictures: int
    queries: int
    shift: float

    @property
    def most(self) -> float:
        """Upper end of the interval of the share of the queries."""
        return clustered_interval(self.pictures, self.queries, DESIGN_EFFECT)[1]


def _worst(behaviour: KnownBehaviour, accepted: Sequence[Acceptance]) -> _Allowed | None:
    found = [
        _Allowed(level.pictures, each.queries, level.shift)
        for each in accepted
        if (level := each.behaviours.get(behaviour.stored)) is not None
    ]
    if not found:
        return None
    worst = max(found, key=lambda each: (each.pictures / max(each.queries, 1), -each.most))
    return replace(worst, shift=max(each.shift for each in found))


def _known(levels: Sequence[tuple[KnownBehaviour, _Allowed]], queries: int) -> Condition:
    said = []
    for each, allowed in levels:
        worse = []
        if clustered_interval(each.pictures, queries, DESIGN_EFFECT)[0] > allowed.most:
            found = f"{count_of(each.pictures, 'picture')} in {queries:,} queries"
            worse.append(f"{found}, {allowed.pictures:,} in {allowed.queries:,} accepted")
        if each.shift > allowed.shift + SHIFT_TOLERANCE:
            worse.append(f"probability shift {each.shift:.2f}, {allowed.shift:.2f} accepted")
        if worse:
            said.append(f"base says {each.names[0]}, candidate says {each.names[1]}: {'; '.join(worse)}")
    name, limit = "known_behaviours", "as accepted"
    if not said:
        sentence = f"{count_of(len(levels), 'known behaviour')}, none more severe than accepted."
        return Condition(name, Status.PASS, limit, sentence)
    more = f", and {len(said) - _NAMED:,} more" if len(said) > _NAMED else ""
    sentence = f"{len(said):,} of {count_of(len(levels), 'known behaviour')} more severe than accepted: "
    return Condition(name, Status.FAIL, limit, f"{sentence}{', '.join(said[:_NAMED])}{more}.")
