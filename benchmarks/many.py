"""Several models at once against every two of them, with equally many answers.

    python -m benchmarks.many DATA OUT MODEL MODEL MODEL ... [--queries 6000] [--staged] [--quick]

One search of all M models asks for queries x M answers; each of the M (M - 1) / 2 searches of two models gets so many
queries that all of them together ask for as many. What is counted is the same for both: label pair of two models x
cell, among the pictures that the jury recognises, distinct within a search, summed over the pairs of models; a picture
of the joint search counts for every two models that differ on it. With --staged also the same joint search that asks
in stages, once with as many queries and once with about as many answers. Processor seconds are those of the search and
of everything around it.
"""

from __future__ import annotations

import argparse
import time
from itertools import combinations
from pathlib import Path

from benchmarks.quick import add_quick, trained_as_asked
from diffgen.config import Budget, CompareConfig, replace, roles
from diffgen.runs.folder import RunFolder
from diffgen.workflows.compare import compare


def met(run: str, pair: tuple[int, int]) -> set[tuple[int, ...]]:
    """What two models of a run say, and the cell, of the distinct recognised pictures that they differ on."""
    triggers = RunFolder.open(run).read_judged()
    kept = triggers[triggers.recognised_distinct]
    rows = kept.labels[:, pair[0]] != kept.labels[:, pair[1]]
    labels = kept.labels[rows][:, list(pair)]
    return {(*said, cell) for said, cell in zip(labels.tolist(), kept.known.cells[rows].tolist(), strict=True)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data")
    parser.add_argument("out", type=Path)
    parser.add_argument("models", nargs="+", metavar="MODEL")
    parser.add_argument("--queries", type=int, default=6000, help="of the joint search")
    parser.add_argument("--staged", action="store_true")
    parser.add_argument("--seed", type=int, default=1)
    add_quick(parser)
    arguments = parser.parse_args()
    models = arguments.models
    pairs = list(combinations(range(len(models)), 2))
    answers = arguments.queries * len(models)
    each = max(1, answers // (2 * len(pairs)))

    def search(name: str, which: tuple[int, ...], queries: int, *, staged: bool = False) -> tuple[str, float, int]:
        config = CompareConfig(budget=Budget(queries=queries), seed=arguments.seed, device="cpu")
        config = trained_as_asked(replace(config, ask="staged" if staged else "all"), quick=arguments.quick)
        before = time.process_time()
        found = compare(
            *(models[number] for number in which),
            data=arguments.data,
            config=config,
            output=arguments.out / name,
            force=True,
        )
        spared = 0 if found.many is None else found.many.spared
        return found.run, time.process_time() - before, queries * len(which) - spared

    rows = []
    whole = tuple(range(len(models)))

    def joint(name: str, queries: int, *, staged: bool) -> int:
        run, seconds, asked = search(name.replace(", ", "-").replace(" ", "-"), whole, queries, staged=staged)
        rows.append((name, asked, seconds, [len(met(run, pair)) for pair in pairs]))
        return asked

    joint("at once", arguments.queries, staged=False)
    if arguments.staged:
        asked = joint("at once, in stages", arguments.queries, staged=True)
        joint("in stages, as many answers", round(arguments.queries * answers / asked), staged=True)
    counts, total, spent = [], 0.0, 0
    for pair in pairs:
        run, seconds, asked = search("-".join(map(str, pair)), pair, each)
        counts.append(len(met(run, (0, 1))))
        total, spent = total + seconds, spent + asked
    rows.append((f"{len(pairs)} searches of two", spent, total, counts))
    letters = roles(models)
    heads = " | ".join(f"{letters[one]}, {letters[other]}" for one, other in pairs)
    print(f"| search | answers | processor seconds | behaviours, summed | of the pairs' | {heads} |")
    print("|---|---:|---:|---:|---:|" + "---:|" * len(pairs))
    base = max(1, sum(rows[-1][3]))
    for name, asked, seconds, found in rows:
        share = f"{sum(found) / base:.2f}"
        print(f"| {name} | {asked:,} | {seconds:.0f} | {sum(found):,} | {share} | {' | '.join(map(str, found))} |")


if __name__ == "__main__":
    main()
