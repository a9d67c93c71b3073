"""pymoo's NSGA-II, generation by generation, on a moving second objective."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
from pymoo.algorithms.moo.nsga2 import NSGA2
from pymoo.core.evaluator import Evaluator
from pymoo.core.population import Population
from pymoo.core.termination import NoTermination

from diffgen.config import SearchConfig
from diffgen.errors import RunError
from diffgen.search.columns import column, set_columns
from diffgen.search.evaluator import BudgetExhausted
from diffgen.search.mating import LatentMating
from diffgen.search.niches import NicheSurvival
from diffgen.search.operators import HashDuplicateElimination, PriorSampling, ShellRepair
from diffgen.search.problem import MOST_CELLS, LatentProblem
from diffgen.search.survival import RescoringSurvival
from diffgen.search.variation import LatentCrossover, LatentMutation

Checkpoint = dict[str, Any]  # arrays and JSON values, never an object that must be pickled


class ColumnEvaluator(Evaluator):  # type: ignore[misc]
    """pymoo's evaluator; what the problem gives is written to the individuals column by column."""

    def _eval(self, problem: LatentProblem, pop: Population, evaluate_values_of: list[str], **kwargs: Any) -> None:
        out = problem.evaluate(
            column(pop, "X"), return_values_of=evaluate_values_of, return_as_dictionary=True, **kwargs
        )
        # there are no constraints
        set_columns(pop, {name: value for name, value in out.items() if name not in ("G", "H")})
        for individual in pop.tolist():
            individual.evaluated.update(evaluate_values_of)


class LatentNsga2(NSGA2):  # type: ignore[misc]
    """NSGA-II whose best ones are those of the first front; pymoo asks every individual for its constraints first."""

    def _set_optimum(self, **kwargs: Any) -> None:
        self.opt = self.pop[column(self.pop, "rank") == 0]


class Nsga2Search:
    """NSGA-II over latent vectors, stopped by the evaluator's budget, resumable after any generation.

    Args:
        problem: the two objectives.
        config: population and operators.
        seed: of sampling, mating and survival.
    """

    def __init__(self, problem: LatentProblem, config: SearchConfig, *, seed: int) -> None:
        self.problem = problem
        gene_probability = config.mutation_gene_probability
        repair = ShellRepair() if problem.normal else None
        crossover = LatentCrossover(
            probability=config.crossover_probability,
            gene_probability=config.crossover_gene_probability,
            eta=config.crossover_eta,
        )
        mutation = LatentMutation(
            probability=config.mutation_probability,
            gene_probability=1 / problem.box.n_var if gene_probability is None else gene_probability,
            class_probability=config.mutation_class_probability,
            eta=config.mutation_eta,
        )
        # every operator is made anew: pymoo's default instances are shared between algorithms
        self.algorithm = LatentNsga2(
            pop_size=config.population,
            sampling=PriorSampling(normal=problem.normal),
            mating=LatentMating(None, crossover, mutation, repair=repair),
            survival=_survival(config),
            repair=repair,
            eliminate_duplicates=HashDuplicateElimination(),
            evaluator=ColumnEvaluator(),
            output=None,
        )
        # NSGA2's constructor ignores a termination; the evaluator's budget ends the search
        self.algorithm.setup(problem, seed=seed, termination=NoTermination())

    def run(self, on_generation: Callable[[], None]) -> None:
        """Go on until the budget is used up; ``on_generation`` is called after every whole generation.

        Raises:
            RunError: no new individuals can be made any more, or a model failed.
        """
        evaluator = self.problem.evaluator
        while True:
            evaluator.generation = (self.algorithm.n_iter or 1) if self.algorithm.is_initialized else 1
            asked = evaluator.queries
            try:
                self.algorithm.next()
            except BudgetExhausted:
                return
            if evaluator.queries == asked:
                raise RunError(
                    "The search stands still: mating makes only latent vectors that the population holds already; "
                    "use a larger population or more mutation."
                )
            on_generation()

    def checkpoint(self) -> Checkpoint:
        """The state after a whole generation: arrays and JSON values only."""
        population, diversity = self.algorithm.pop, self.problem.diversity
        return {
            "X": population.get("X"),
            "F": population.get("F"),
            "rank": population.get("rank").astype(np.int64),
            "crowding": population.get("crowding").astype(np.float64),
            "archive_number": population.get("archive_number").astype(np.int64),
            "niche": population.get("niche").astype(np.int64),
            "images": self.problem.pictures(population.get("uid")),
            "representatives": diversity.representatives,
            "clustered": diversity.clustered,
            "next_generation": int(self.algorithm.n_iter),
            "random_state": self.algorithm.random_state.bit_generator.state,
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on from what :meth:`checkpoint` gave; the archive must be as it was then."""
        self.problem.diversity.restore(state["representatives"], clustered=state["clustered"])
        population = Population.new(X=state["X"], F=state["F"], rank=state["rank"], crowding=state["crowding"])
        population.set("uid", self.problem.keep(torch.from_numpy(state["images"])))
        for name in ("archive_number", "niche"):
            population.set(name, state[name])
        population.set("version", np.full(len(population), self.problem.diversity.version))
        for individual in population:
            individual.evaluated = {"F", "G", "H"}
        self.algorithm.pop = population
        self.algorithm.off = None
        self.algorithm.is_initialized = True
        self.algorithm.n_iter = state["next_generation"]
        self.algorithm.random_state.bit_generator.state = state["random_state"]


def _survival(config: SearchConfig) -> RescoringSurvival:
    if config.niches == "none":
        return RescoringSurvival()
    return NicheSurvival(cells=MOST_CELLS if config.niches == "behaviour" else 1)
