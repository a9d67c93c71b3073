"""pymoo's NSGA-II, generation by generation, on a moving second objective: asked for offspring, told what they are."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from pymoo.algorithms.moo.nsga2 import NSGA2
from pymoo.core.termination import NoTermination

from diffgen.config import SearchConfig
from diffgen.errors import RunError
from diffgen.search.bandit import Bandit
from diffgen.search.individuals import Individuals
from diffgen.search.mating import ArrayMating, FreshGenes
from diffgen.search.niches import NicheSurvival
from diffgen.search.operators import SpaceCrossover, SpaceMutation, SpaceSampling
from diffgen.search.problem import MAX_CELLS, GeneProblem
from diffgen.search.proposal import Answers, Proposal
from diffgen.search.seed_finds import SeedFinds
from diffgen.search.shares import SharedMating, SharedSampling, Shares
from diffgen.search.survival import RescoringSurvival
from diffgen.search.tensor_mating import TensorMating
from diffgen.search.tensor_survival import TensorSurvival
from diffgen.sources.space import Crossing, Mutating
from diffgen.sources.tensor_space import TensorSpace, tensor_space

_KEPT = ("X", "F", "rank", "crowding", "archive_number", "niche")  # columns in a checkpoint, with the pictures
Checkpoint = dict[str, Any]  # arrays and JSON values, never an object that must be pickled


class ColumnNsga2(NSGA2):  # type: ignore[misc]
    """pymoo's NSGA-II on a population of columns; it merges these, and looks for no optimum, which nobody asks for."""

    pop: Individuals

    def _initialize_infill(self) -> Individuals:
        """Random genes, each once."""
        X = self.initialization.sampling._do(self.problem, self.pop_size, random_state=self.random_state)
        made = FreshGenes(X[:0])
        made.take(self.problem.space.repair(X))
        return Individuals({"X": torch.from_numpy(made.first(self.pop_size)).to(self.problem.place)})

    def _advance(self, infills: Individuals, **kwargs: Any) -> None:
        self.pop = self._survivors(self.pop.joined(infills))

    def _survivors(self, individuals: Individuals) -> Individuals:
        survivors: Individuals = self.survival.do(
            self.problem, individuals, n_survive=self.pop_size, algorithm=self, random_state=self.random_state
        )
        return survivors

    def welcome(self, guests: Individuals) -> None:
        """Let others compete for places, between two generations."""
        self.pop = self._survivors(self.pop.joined(guests))

    def _set_optimum(self, **kwargs: Any) -> None:
        self.opt = None


class Nsga2Search:
    """NSGA-II over genes, resumable after any generation.

    A generation is proposed in as many parts as there is room for; pymoo is told when all of it was answered.

    Args:
        problem: the two objectives.
        config: population and operators.
        seed: of sampling, mating and survival.
        finds: of every real image, where a picture that looks like one of its own is to be made anew; None: everything
            that is made is asked about.
    """

    finished = False  # a genetic search never runs out of pictures

    def __init__(
        self,
        problem: GeneProblem,
        config: SearchConfig,
        *,
        seed: int,
        finds: SeedFinds | None = None,
    ) -> None:
        self.problem = problem
        self._shares = _shares(problem, config, finds)
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
        survival: RescoringSurvival | TensorSurvival
        mating: ArrayMating | TensorMating
        space = None if self._shares is not None else _on_tensors(problem, config)
        if space is not None:
            problem.place = problem.diversity.device
            mating = TensorMating(space, crossover, mutation, device=problem.place)
            survival = TensorSurvival(cells=_cells(config))
        else:
            shares, cells = self._shares, _cells(config)
            mating = ArrayMating(crossover, mutation) if shares is None else SharedMating(shares, crossover, mutation)
            survival = RescoringSurvival() if cells is None else NicheSurvival(cells=cells)
        # every operator is made anew: pymoo's default instances are shared between algorithms
        self.algorithm = ColumnNsga2(
            pop_size=config.population,
            sampling=SpaceSampling() if self._shares is None else SharedSampling(self._shares),
            mating=mating,
            survival=survival,
            output=None,
        )
        # NSGA2's constructor ignores a termination; the loop's budget ends the search
        self.algorithm.setup(problem, seed=seed, termination=NoTermination())
        self._offspring: Individuals | None = None  # the generation that is being asked about
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
        first = sum(len(answers) for _, answers in self._told)
        some = self._offspring[torch.arange(first, min(first + room, len(self._offspring)))]
        return self.problem.draw(some, self._generation)

    def learn(self, proposal: Proposal, answers: Answers) -> None:
        """Take in the answers; with the last of a generation, survival chooses the next parents."""
        assert self._offspring is not None
        drawn = self._offspring.knows("images")
        self._told.append((proposal.images[:0] if drawn else proposal.images, answers))
        if sum(len(part) for _, part in self._told) < len(self._offspring):
            return
        pictures = self._offspring.column("images") if drawn else torch.cat([images for images, _ in self._told])
        whole = Answers.joined([part for _, part in self._told])
        self._offspring.update(self.problem.judge(pictures, whole))
        if self._shares is not None:
            self._shares.learn(self._offspring.get("X"), pictures, whole)
        self.algorithm.tell(infills=self._offspring)
        self._forget()

    def welcome(self, proposal: Proposal, answers: Answers) -> None:
        """Let triggers from elsewhere compete for places in the population; genes that it holds are passed over."""
        if not self.algorithm.is_initialized or not self.between_generations or proposal.genes is None:
            return
        genes = proposal.genes.cpu().numpy().astype(np.float64)
        held = {row.tobytes() for row in self.algorithm.pop.get("X").astype(np.float32)}
        new = [row for row in range(len(genes)) if genes[row].astype(np.float32).tobytes() not in held]
        if not new:
            return
        rows = torch.tensor(new)
        guests = Individuals({"X": torch.from_numpy(genes[new]).to(self.problem.place)})
        guests.update(self.problem.judge(proposal.images[rows], answers.at(rows)))
        self.algorithm.welcome(guests)

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
            **{name: population.get(name) for name in _KEPT},
            "images": population.get("images"),
            "representatives": diversity.representatives,
            "clustered": diversity.clustered,
            "next_generation": int(self.algorithm.n_iter),
            "random_state": self.algorithm.random_state.bit_generator.state,
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on from what :meth:`checkpoint` gave; the archive must be as it was then."""
        self.problem.diversity.restore(state["representatives"], clustered=state["clustered"])
        population = Individuals({name: torch.tensor(state[name]).to(self.problem.place) for name in _KEPT})
        population.set("images", torch.tensor(state["images"]).to(self.problem.diversity.device))
        population.set("version", self.problem.diversity.version)
        self._forget()
        if self._shares is not None:
            self._shares.restore(state)
        self.algorithm.pop = population
        self.algorithm.off = None
        self.algorithm.is_initialized = True
        self.algorithm.n_iter = state["next_generation"]
        self.algorithm.random_state.bit_generator.state = state["random_state"]


def _shares(problem: GeneProblem, config: SearchConfig, finds: SeedFinds | None) -> Shares | None:
    """Who shares generations out; None where all of them are offspring, as published."""
    if config.sharing == "none" or (config.sharing == "auto" and not problem.space.real):
        return None
    return Shares(
        problem.space,
        Bandit(2, decay=config.sharing_decay, even=config.sharing == "even"),
        niche_parents=config.niche_parents,
        finds=finds if config.skip_near_finds else None,
    )


def _cells(config: SearchConfig) -> int | None:
    """How many niches a label pair has; None: there are no niches."""
    return {"none": None, "label_pair": 1, "behaviour": MAX_CELLS}[config.niches]


def _on_tensors(problem: GeneProblem, config: SearchConfig) -> TensorSpace | None:
    """The searched space for tensors on the networks' device; None where arrays are to do, or the space wants them."""
    device = problem.diversity.device
    # mps has no float64
    if config.operators == "arrays" or device.type == "mps" or (config.operators == "auto" and device.type != "cuda"):
        return None
    return tensor_space(problem.space, device)
