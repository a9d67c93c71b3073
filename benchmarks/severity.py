"""How far apart two searches of the same two models are: in how many pictures they find of a known behaviour.

    python -m benchmarks.severity DATA RUN RUN [RUN ...]

DATA are the real images of the runs; the runs are folders of ``diffgen compare`` on one pair of models with different
seeds and one budget. For each ordered pair of them the first is accepted, and the second held against it: nothing may
fail, since the candidate is the same. Figures: docs/decisions/018-severity.md.
"""

from __future__ import annotations

import argparse
from itertools import permutations

import numpy as np
import torch

from benchmarks.known_behaviours import distinct_valid, encoded, rows_of
from diffgen.config import CheckConfig
from diffgen.data import load
from diffgen.features import cells as cell_store
from diffgen.features.cells import Cells
from diffgen.gate.known import nearest_known, spread_out
from diffgen.gate.ratchet import Acceptance, Level, ratchet
from diffgen.gate.values import GateValues, KnownBehaviour, SearchState
from diffgen.runs.folder import RunFolder
from diffgen.types import Int64Array


def dispersion(runs: list[str], cells: Cells, least: float = 2.0) -> tuple[int, float, float]:
    """Behaviours with a mean of at least so many pictures; variance over mean of their counts: mean and largest."""
    counts: dict[tuple[int, ...], Int64Array] = {}
    for index, run in enumerate(runs):
        images, said = distinct_valid(run)
        keys, found = np.unique(np.column_stack([said, cells.assign(images)]), axis=0, return_counts=True)
        for key, count in zip(map(tuple, keys.tolist()), found, strict=True):
            counts.setdefault(key, np.zeros(len(runs), dtype=np.int64))[index] = count
    table = np.stack(list(counts.values()))
    table = table[table.mean(axis=1) >= least]
    ratio = table.var(axis=1, ddof=1) / table.mean(axis=1)
    return len(table), float(ratio.mean()), float(np.quantile(ratio, 0.95))


def check_again(accepted: str, checked: str, cells: Cells, reach: float) -> tuple[int, int, str]:
    """Behaviours of the first run, pictures of the second that are known, and what the condition says."""
    config = CheckConfig()
    images, said = distinct_valid(accepted)
    features = encoded(cells, images)
    stored, owners, levels = [], [], {}
    for index, rows in enumerate(rows_of(said, cells.assign(images))):
        chosen = rows[spread_out(features[rows], config.pictures)]
        stored.append(chosen)
        owners += [index] * len(chosen)
        levels[f"A-0_B-1_{index:08x}"] = Level(len(rows), 0.0)
    kept = np.concatenate(stored)
    found, found_said = distinct_valid(checked)
    distance, nearest = nearest_known(encoded(cells, found), found_said, features[kept], said[kept])
    met = np.bincount(np.asarray(owners)[nearest[distance <= reach]], minlength=len(levels))
    queries = [int(RunFolder.open(run).results()["queries"]) for run in (accepted, checked)]
    values = GateValues(
        search=SearchState(queries[1]),
        known=tuple(KnownBehaviour(name, ("0", "1"), int(n), 0.0) for name, n in zip(levels, met, strict=True)),
    )
    condition = next(ratchet(values, (Acceptance(queries[0], behaviours=levels),)))
    return len(levels), int(met.sum()), f"{condition.status}: {condition.sentence}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data")
    parser.add_argument("runs", nargs="+", metavar="RUN")
    arguments = parser.parse_args()
    data = load(arguments.data)
    cells = cell_store.prepare(data)
    real = cells.encoder.encode(torch.from_numpy(data.images)).cpu()
    reach = CheckConfig().reach * float(torch.cdist(real, cells.centroids).min(1).values.median())
    behaviours, mean, high = dispersion(arguments.runs, cells)
    print(
        f"{behaviours} behaviours with 2 pictures or more: variance over mean {mean:.1f}, 95 % of them below {high:.1f}"
    )
    for accepted, checked in permutations(arguments.runs, 2):
        stored, met, said = check_again(accepted, checked, cells, reach)
        print(f"{accepted} -> {checked}: {stored} behaviours, {met} known pictures; {said}")


if __name__ == "__main__":
    main()
