"""The most frequent label pairs as a list, in place of a matrix that nobody could read."""

from __future__ import annotations

from dataclasses import dataclass

from diffgen.report.wording import number, percent
from diffgen.tasks.label_pairs import LabelPairs
from diffgen.wording import count_of

#: Most pairs on the page; results.json has all.
MOST_PAIRS = 300


@dataclass(frozen=True)
class PairRow:
    """One label pair: what A and B say, how often, and that as a share of the most frequent one's, 0..1."""

    pair: str
    name_a: str
    name_b: str
    count: str
    share: float
    title: str


@dataclass(frozen=True)
class PairList:
    """The rows that are listed, and what is not; ``total`` pictures in ``pairs`` label pairs are there in all."""

    rows: tuple[PairRow, ...]
    total: int
    pairs: int
    rest: str


def pair_list(found: LabelPairs, names: tuple[str, ...], what: str) -> PairList:
    """The most frequent of the label pairs; ``what`` is the noun of their counts, in the plural."""
    shown = found.by_frequency()[:MOST_PAIRS]
    pairs, counts = found.pairs[shown].tolist(), found.counts[shown].tolist()
    left = len(found) - len(shown)
    rest = f"{count_of(left, 'rarer pair')} with {number(found.total - sum(counts))} {what} not listed here"
    return PairList(
        rows=tuple(
            PairRow(
                pair=f"{a}-{b}",
                name_a=names[a],
                name_b=names[b],
                count=number(count),
                share=round(count / counts[0], 3),
                title=f"{number(count)} {what} ({percent(count / found.total)})",
            )
            for (a, b), count in zip(pairs, counts, strict=True)
        ),
        total=found.total,
        pairs=len(found),
        rest=f"{rest}; results.json has all." if left else "",
    )
