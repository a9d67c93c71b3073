"""The verdict of a check as a report shows it."""

from __future__ import annotations

from dataclasses import dataclass

from diffgen.report.data.pictures import Picture


@dataclass(frozen=True)
class ConditionView:
    """One row of the table of a check: a value, and what its limit came to.

    Attributes:
        status: PASS, WARN, FAIL or ERROR; empty where no limit was set.
        value, interval, limit: as text; the last two may be empty.
        sentence: why; empty where no limit was set.
    """

    name: str
    title: str
    status: str
    value: str
    interval: str
    limit: str
    sentence: str


@dataclass(frozen=True)
class GateBehaviour:
    """One behaviour that a check met.

    Attributes:
        names: what base and candidate say.
        count: distinct pictures.
        new: the store does not know it.
        shift: largest change of a probability on any of them.
        replayed: it was met on pictures of the store and not by the search.
        pictures: some of them; ``identifier`` is the number of the trigger, -1 for one of the store.
        faults: on how many of them the jury says that the base is right and the candidate wrong.
    """

    said: tuple[int, int]
    names: tuple[str, str]
    cell: int
    count: int
    new: bool
    shift: float
    replayed: bool
    pictures: tuple[Picture, ...] = ()
    faults: int = 0


@dataclass(frozen=True)
class GateView:
    """What a check came to.

    Attributes:
        status: the worst of the conditions.
        rows: the conditions, and the values without a limit.
        behaviours: new ones first, of these the candidate's faults first, then the one with the largest shift.
        fails_on_behaviours: whether the new ones are more than are allowed.
        fails_on_faults: whether the new ones in which the candidate is wrong are.
        store: its folder, or empty.
        created: ISO 8601.
        verdicts: who is wrong on what the search found, one sentence each; without a jury, why nobody says so.
    """

    run: str
    status: str
    base: str
    candidate: str
    data_name: str
    rows: tuple[ConditionView, ...]
    behaviours: tuple[GateBehaviour, ...]
    fails_on_behaviours: bool
    store: str
    created: str
    version: str
    seconds: float
    verdicts: tuple[str, ...] = ()
    fails_on_faults: bool = False

    def breaks(self, behaviour: GateBehaviour) -> bool:
        """Whether a behaviour is one of those that are more than are allowed."""
        return behaviour.new and (self.fails_on_behaviours or (self.fails_on_faults and behaviour.faults > 0))

    @property
    def new(self) -> tuple[GateBehaviour, ...]:
        """Those that the store does not know."""
        return tuple(each for each in self.behaviours if each.new)

    @property
    def conditions(self) -> tuple[ConditionView, ...]:
        """The rows that have a status."""
        return tuple(each for each in self.rows if each.status)
