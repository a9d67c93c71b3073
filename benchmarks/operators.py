"""What a generation of NSGA-II costs beside the networks: pymoo's own parts, ours on arrays, and ours on tensors.

    python -m benchmarks.operators
    python -m benchmarks.operators --device cuda --out benchmarks/results/operators-gpu.md

Latent vectors of 100 genes, half of the matings' genes crossed and a tenth mutated as in the preset ``default``,
objectives at random. Mating makes as many offspring as there are parents; survival halves parents and offspring, shared
out among 90 label pairs (pymoo knows no niches: its figure is that of rank and crowding alone). Milliseconds, medians:
of processor time where the device is the processor, else by the clock, until the device is done. What is left of a
search's time is in ``benchmarks.throughput``: ``--population 4096 --device cuda`` says how much the networks have.
"""

from __future__ import annotations

import argparse
import platform
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from pymoo.algorithms.moo.nsga2 import binary_tournament
from pymoo.core.mating import Mating
from pymoo.core.population import Population
from pymoo.core.problem import Problem
from pymoo.operators.selection.tournament import TournamentSelection
from pymoo.operators.survival.rank_and_crowding import RankAndCrowding
from pymoo.util.nds.non_dominated_sorting import NonDominatedSorting

from benchmarks.measured_search import Stopwatch, median
from diffgen.comparison.machine import resolve_device
from diffgen.config import SearchConfig
from diffgen.search.individuals import Individuals
from diffgen.search.mating import ArrayMating
from diffgen.search.niches import NicheSurvival
from diffgen.search.operators import SpaceCrossover, SpaceMutation, SpaceRepair
from diffgen.search.survival import crowding_distances
from diffgen.search.tensor_mating import TensorMating
from diffgen.search.tensor_survival import TensorSurvival
from diffgen.search.tensor_survival import crowding_distances as crowding_on_tensors
from diffgen.sources.draws import NumpyDraws
from diffgen.sources.space import Crossing, Mutating, NormalShell
from diffgen.sources.tensor_space import tensor_space

_GENES, _PAIRS = 100, 90
_TRIGGERS = 0.3  # share of the individuals
_THEIRS = 3  # rounds of pymoo's own parts, which take long
_CPU = torch.device("cpu")
Row = tuple[str, str, int, float]  # part, way, population, milliseconds


class Latent(Problem):  # type: ignore[misc]
    """Latent vectors of a generator with a normal prior; no objective moves."""

    def __init__(self, config: SearchConfig) -> None:
        self.space = NormalShell(_GENES, config.bound)
        super().__init__(n_var=_GENES, n_obj=2, xl=self.space.low, xu=self.space.high)

    def rescore(self, population: Individuals) -> None:
        """Nothing to do."""


def measure(population: int, rounds: int, device: torch.device) -> list[Row]:
    """Every part in every way."""
    config = SearchConfig(population=population)
    problem, rng = Latent(config), np.random.default_rng(0)
    X = problem.space.repair(problem.space.sample(2 * population, NumpyDraws(rng)))
    divergence = 1.4 * rng.random(2 * population) + (rng.random(2 * population) < _TRIGGERS)
    F = -np.column_stack([divergence, rng.random(2 * population) ** 2])
    niche = np.where(divergence < 1, -1, rng.integers(_PAIRS, size=2 * population))
    both = {"X": X, "F": F, "niche": niche}
    crossover = SpaceCrossover(
        config.crossover_probability, Crossing(config.crossover_gene_probability, config.crossover_eta)
    )
    mutation = SpaceMutation(
        config.mutation_probability, Mutating(config.mutation_gene_probability, 0.0, config.mutation_eta)
    )
    rows: list[Row] = []

    def timed(part: str, way: str, function: Callable[[], object], on: torch.device = _CPU) -> None:
        function()
        costs = []
        for _ in range(min(rounds, _THEIRS) if way == "pymoo" else rounds):
            with Stopwatch(device) as watch:
                function()
            costs.append(watch.cost.cpu if on.type == device.type == "cpu" else watch.cost.wall)
        rows.append((part, way, population, 1000 * median(costs)))

    def survivors(survival: Any, among: Individuals) -> Individuals:
        kept: Individuals = survival.do(problem, among, n_survive=population, random_state=rng)
        return kept

    here, there = (
        Individuals({name: torch.tensor(values, device=place) for name, values in both.items()})
        for place in (_CPU, device)
    )

    theirs = Population.new(X=X, F=F)
    for each in theirs:
        each.evaluated = {"F", "G", "H"}
    timed("survival", "pymoo", lambda: RankAndCrowding().do(problem, theirs, n_survive=population, random_state=rng))
    timed("survival", "arrays", lambda: survivors(NicheSurvival(), here))
    timed("survival", "tensors", lambda: survivors(TensorSurvival(cells=1), there), device)
    rank = NonDominatedSorting().do(F, return_rank=True)[1]
    order = np.argsort(rank, kind="stable")
    F_there, rank_there = torch.tensor(F, device=device), torch.tensor(rank, device=device)
    timed("of which fronts (all)", "arrays", lambda: NonDominatedSorting().do(F, return_rank=True))
    timed("of which crowding", "arrays", lambda: crowding_distances(F[order], rank[order]))
    timed("of which crowding", "tensors", lambda: crowding_on_tensors(F_there, rank_there), device)

    selection = TournamentSelection(func_comp=binary_tournament)
    mating = Mating(selection, crossover, mutation, repair=SpaceRepair())
    parents = RankAndCrowding().do(problem, theirs, n_survive=population, random_state=rng)
    algorithm = SimpleNamespace(tournament_type="comp_by_dom_and_crowding", random_state=rng)
    timed("mating", "pymoo", lambda: mating.do(problem, parents, population, algorithm=algorithm, random_state=rng))
    on_arrays = survivors(NicheSurvival(), here)
    timed(
        "mating",
        "arrays",
        lambda: ArrayMating(crossover, mutation).do(problem, on_arrays, population, random_state=rng),
    )
    space = tensor_space(problem.space, device)
    assert space is not None
    on_tensors, made_by = (
        survivors(TensorSurvival(cells=1), there),
        TensorMating(space, crossover, mutation, device=device),
    )
    timed("mating", "tensors", lambda: made_by.do(problem, on_tensors, population, random_state=rng), device)
    genes = torch.tensor(X[:population], device=device)
    timed("genes to the processor and back", "arrays", lambda: torch.tensor(genes.cpu().numpy()).to(device))
    return rows


def table(rows: list[Row], populations: list[int]) -> str:
    """As Markdown: a line for each part and way, a column for each population."""
    found = {(part, way, count): cost for part, way, count, cost in rows}
    lines = ["| part | way | " + " | ".join(f"{count:,}" for count in populations) + " |"]
    lines.append("|---|---|" + "---:|" * len(populations))
    for part, way in dict.fromkeys((part, way) for part, way, _, _ in rows):
        costs = " | ".join(f"{found[part, way, count]:.2f}" for count in populations)
        lines.append(f"| {part} | {way} | {costs} |")
    return "\n".join(lines)


def main() -> None:
    """Measure, print, and write the page where one is asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--populations", type=int, nargs="+", default=[500, 4096])
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--threads", type=int, default=1, help="of torch on the processor")
    parser.add_argument("--out", type=Path, help="file for the table")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    device = resolve_device(arguments.device)
    rows = [row for count in arguments.populations for row in measure(count, arguments.rounds, device)]
    kind = torch.cuda.get_device_name(device) if device.type == "cuda" else f"{platform.machine()} processor"
    text = f"Milliseconds; {kind}, torch {torch.__version__}.\n\n{table(rows, arguments.populations)}\n"
    print(text)
    if arguments.out is not None:
        arguments.out.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
