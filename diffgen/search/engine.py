"""pymoo's NSGA-II, generation by generation, on a moving second objective: asked for offspring, told what they are."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
from pymoo.algorithms.moo.nsga2 import NSGA2
from pymoo.core.population import Population
from pymoo.core.termination import NoTermination

from diffgen.config import SearchConfig
from diffgen.errors import RunError
from diffgen.search.bandit import Bandit
from diffgen.search.columns import Column, column, new_population, set_columns
from diffgen.search.mating import ArrayMating
from diffgen.search.niches import NicheSurvival
from diffgen.search.operators import (
    HashDuplicateElimination,
    SpaceCrossover,
    SpaceMutation,
    SpaceRepair,
    SpaceSampling,
)
from diffgen.search.problem import MAX_CELLS, GeneProblem
from diffgen.search.proposal import Answers, Proposal
from diffgen.search.shares import SharedMating, SharedSampling, Shares
from diffgen.search.survival import RescoringSurvival
from diffgen.sources.space import Crossing, Genes, Mutating

Checkpoint = dict[str, Any]  # arrays and JSON values, never an object that must be pickled
_EVALUATED = {"F", "G", "H"}  # there are no constraints, G and H


class FirstFrontNsga2(NSGA2):  # type: ignore[misc]
    """NSGA-II whose best ones are those of the first front; pymoo asks every individual for its constraints first."""

    def _set_optimum(self, **kwargs: Any) -> None:
        self.opt = self.pop[column(self.pop, "rank") == 0]


class Nsga2Search:
    """NSGA-II over genes, resumable after any generation.

    A generation is proposed in as many parts as there is room for; pymoo is told when all of it was answered.

    Args:
        problem: the two objectives.
        config: population and operators.
        seed: of sampling, mating and survival.
        beginners: genes that a part of the source begins with, where it has any of its own; None: none has.
    """

    finished = False  # a genetic search never runs out of pictures

    def __init__(
        self,
        problem: GeneProblem,
        config: SearchConfig,
        *,
        seed: int,
        beginners: Callable[[int], Genes | None] | None = None,
    ) -> None:
        self.problem = problem
        self._shares = _shares(problem, config, beginners or (lambda part: None))
        repair = SpaceRepair()
        crossover = SpaceCrossover(
            config.crossover_probability,
            Crossing(gene_probability=config.crossover_gene_probability, eta=config.crossover_eta),
        )
        mutation = SpaceMutation(
            config.mutation_probability,
            Mutating(
                gene_probability=config.mutation_gene_probability,
                category_probability=config.mutation_class_probability,
                eta=config.mutation_eta,
            ),
        )
        # every operator is made anew: pymoo's default instances are shared between algorithms
        self.algorithm = FirstFrontNsga2(
            pop_size=config.population,
            sampling=SpaceSampling() if self._shares is None else SharedSampling(self._shares),
            mating=ArrayMating(None, crossover, mutation, repair=repair)
            if self._shares is None
            else SharedMating(self._shares, crossover, mutation, repair),
            survival=_survival(config),
            repair=repair,
            eliminate_duplicates=HashDuplicateElimination(),
            output=None,
        )
        # NSGA2's constructor ignores a termination; the loop's budget ends the search
        self.algorithm.setup(problem, seed=seed, termination=NoTermination())
        self._offspring: Population | None = None  # the generation that is being asked about
        self._genes: Column = np.empty(0)
        self._told: list[tuple[torch.Tensor, Answers]] = []

    @property
    def between_generations(self) -> bool:
        """Whether no generation was begun and not yet told to its end."""
        return self._offspring is None

    def propose(self, room: int) -> Proposal:
        """The next pictures of the present generation, at most ``room``.

        Raises:
            RunError: no new individuals can be made any more.
        """
        if self._offspring is None:
            self._offspring = self.algorithm.ask()
            if self._offspring is None:
                raise RunError(
                    "The search stands still: mating makes only genes that the population holds already; "
                    "use a larger population or more mutation."
                )
            self._genes = column(self._offspring, "X")
        first = sum(len(answers) for _, answers in self._told)
        return self.problem.draw(self._genes[first : first + room], self._generation)

    def learn(self, proposal: Proposal, answers: Answers) -> None:
        """Take in the answers; with the last of a generation, survival chooses the next parents."""
        assert self._offspring is not None
        self._told.append((proposal.images, answers))
        if sum(len(part) for _, part in self._told) < len(self._offspring):
            return
        pictures = torch.cat([images for images, _ in self._told])
        whole = Answers.joined([part for _, part in self._told])
        set_columns(self._offspring, self.problem.judge(pictures, whole))
        if self._shares is not None:
            self._shares.learn(self._genes, whole)
        for individual in self._offspring.tolist():
            individual.evaluated.update(_EVALUATED)
        self.algorithm.tell(infills=self._offspring)
        self._forget()

    def welcome(self, proposal: Proposal, answers: Answers) -> None:
        """Let triggers from elsewhere compete for places in the population; genes that it holds are passed over."""
        if not self.algorithm.is_initialized or not self.between_generations or proposal.genes is None:
            return
        genes, population = proposal.genes.cpu().numpy().astype(np.float64), self.algorithm.pop
        held = {row.tobytes() for row in column(population, "X").astype(np.float32)}
        drawable = np.isin(self.problem.space.part_of(genes), self.problem.space.opened)
        new = [row for row in np.flatnonzero(drawable).tolist() if genes[row].astype(np.float32).tobytes() not in held]
        if not new:
            return
        rows = torch.tensor(new)
        guests = new_population(genes[new])
        set_columns(guests, self.problem.judge(proposal.images[rows], answers.at(rows)))
        for individual in guests.tolist():
            individual.evaluated.update(_EVALUATED)
        algorithm = self.algorithm
        algorithm.pop = algorithm.survival.do(
            self.problem,
            Population.merge(population, guests),
            n_survive=algorithm.pop_size,
            algorithm=algorithm,
            random_state=algorithm.random_state,
        )

    def _forget(self) -> None:
        """Drop the generation that was begun, if any."""
        self._offspring, self._told = None, []

    @property
    def _generation(self) -> int:
        return (self.algorithm.n_iter or 1) if self.algorithm.is_initialized else 1

    def checkpoint(self) -> Checkpoint:
        """The state after a whole generation: arrays and JSON values only."""
        population, diversity = self.algorithm.pop, self.problem.diversity
        return {
            **({} if self._shares is None else self._shares.checkpoint()),
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
            individual.evaluated = set(_EVALUATED)
        self._forget()
        if self._shares is not None:
            self._shares.restore(state)
        self.algorithm.pop = population
        self.algorithm.off = None
        self.algorithm.is_initialized = True
        self.algorithm.n_iter = state["next_generation"]
        self.algorithm.random_state.bit_generator.state = state["random_state"]


def _shares(problem: GeneProblem, config: SearchConfig, beginners: Callable[[int], Genes | None]) -> Shares | None:
    """Who shares generations out; None where all of them are offspring, as published."""
    if config.sharing == "none" or (config.sharing == "auto" and not problem.space.real):
        return None
    return Shares(
        problem.space,
        Bandit(2 * problem.space.part_count, decay=config.sharing_decay, even=config.sharing == "even"),
        niche_parents=config.niche_parents,
        beginners=beginners,
    )


def _survival(config: SearchConfig) -> RescoringSurvival:
    if config.niches == "none":
        return RescoringSurvival()
    return NicheSurvival(cells=MAX_CELLS if config.niches == "behaviour" else 1)
