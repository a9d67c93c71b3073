"""What was accepted may not become worse: the values of accepted checks as limits of a later one.

Why these rules, and how far apart two searches are: docs/decisions/018-severity.md.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from diffgen.gate.conditions import CRITERIA
from diffgen.gate.measurements import Share
from diffgen.gate.rules import Condition, Status
from diffgen.gate.values import GateValues, KnownBehaviour
from diffgen.metrics.intervals import clustered_interval
from diffgen.runs.schema import fields, names_to, number, or_none, table, whole
from diffgen.wording import count_of

#: Pictures of one behaviour come in clumps, since a search goes on from what it found: this many are worth one that was
#: drawn on its own (Kish's design effect; measured, see the decision).
DESIGN_EFFECT = 5.0
#: By how much a probability may be shifted further on the pictures of a behaviour.
SHIFT_TOLERANCE = 0.1
_NAMED = 3
_BEHAVIOUR = re.compile(r"A-\d{1,9}_B-\d{1,9}_[0-9a-f]{8}")
_KEPT: dict[str, type[Share]] = {
    each.name: each.kind
    for each in CRITERIA
    if each.kept_to_accepted and each.kind is not None and issubclass(each.kind, Share)
}


@dataclass(frozen=True)
class Level:
    """How severe a behaviour of the store was when it was accepted; see :class:`diffgen.gate.values.KnownBehaviour`."""

    pictures: int
    shift: float


@dataclass(frozen=True)
class Acceptance:
    """The values of one check that someone accepted.

    Attributes:
        measured: see :class:`diffgen.gate.values.GateValues`; those that later checks are held to.
        behaviours: name in the store -> level.
    """

    queries: int
    measured: Mapping[str, Share] = field(default_factory=dict)
    behaviours: Mapping[str, Level] = field(default_factory=dict)

    @classmethod
    def of(cls, values: GateValues, behaviours: Mapping[str, Level]) -> Acceptance:
        """What a check measured, and how severe the behaviours that it met are."""
        measured = {name: values[name] for name in _KEPT if values[name] is not None}
        return cls(values.search.queries, measured, behaviours)

    def as_dict(self) -> dict[str, Any]:
        """JSON values."""
        return {
            "queries": self.queries,
            **{name: asdict(self.measured[name]) if name in self.measured else None for name in _KEPT},
            "behaviours": {name: asdict(level) for name, level in sorted(self.behaviours.items())},
        }

    @classmethod
    def read(cls, entry: Mapping[str, Any]) -> Acceptance:
        """What :meth:`as_dict` gave, which somebody may have changed since.

        Raises:
            KeyError, TypeError, ValueError, AttributeError: it is damaged.
        """
        _check_accepted(entry)
        for name in entry["behaviours"]:
            if not _BEHAVIOUR.fullmatch(name):
                raise ValueError(f"{name!r} is not the name of a behaviour")
        return cls(
            queries=entry["queries"],
            measured={name: kind.read(entry[name]) for name, kind in _KEPT.items() if entry[name] is not None},
            behaviours={
                name: Level(level["pictures"], float(level["shift"])) for name, level in entry["behaviours"].items()
            },
        )


_check_accepted = fields(
    {
        "queries": whole(),
        **dict.fromkeys(_KEPT, or_none(table)),
        "behaviours": names_to(fields({"pictures": whole(), "shift": number(0, 1)})),
    }
)


def ratchet(values: GateValues, accepted: Sequence[Acceptance]) -> Iterator[Condition]:
    """A condition for each value that was accepted before; none where nothing was.

    Of several acceptances the one with the highest value counts, and not the one with the longest interval: who accepts
    a good candidate after a short search, or on few images, allows no more than before. A rate fails when its 95 %
    interval lies wholly above that of the accepted one: the same candidate, checked with another seed, draws other
    images and has another rate.
    """
    for name, allowed in _allowed_shares(accepted).items():
        now: Share | None = values[name]
        if now is not None and now.of:
            yield _share(f"{name}_accepted", now, allowed)
    known = [(each, _worst(each, accepted)) for each in values.known]
    levels = [(each, level) for each, level in known if level is not None]
    if levels:
        yield _known(levels, values.search.queries)


def held_to(accepted: Sequence[Acceptance]) -> dict[str, str]:
    """What of each rate was accepted, and up to where its interval reaches: name of the value -> text."""
    return {name: each.limit for name, each in _allowed_shares(accepted).items()}


@dataclass(frozen=True)
class _AllowedShare:
    """The highest of the shares that were accepted: its text, and the upper end of its interval."""

    limit: str
    most: float


def _allowed_shares(accepted: Sequence[Acceptance]) -> dict[str, _AllowedShare]:
    """By name; none of what was not accepted."""
    allowed = {}
    for name in _KEPT:
        before = [each.measured[name] for each in accepted if name in each.measured and each.measured[name].of]
        if before:
            # of equal ones the surest: the shortest interval
            worst = max(before, key=lambda each: (each.share, -each.interval[1]))
            # a candidate that is better than the base has no drop; one that is as good is no worse than accepted
            most = max(0.0, worst.interval[1])
            limit = f"{worst.words(max(0.0, worst.share))} accepted, up to {worst.words(most)}"
            allowed[name] = _AllowedShare(limit, most)
    return allowed


def _share(name: str, now: Share, allowed: _AllowedShare) -> Condition:
    limit, most = allowed.limit, allowed.most
    if now.interval[0] > most:
        sentence = f"More than was accepted, even at the lower end of its interval: up to {now.words(most)} was."
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
