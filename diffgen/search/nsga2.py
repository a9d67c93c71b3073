"""NSGA-II, generation by generation, on a moving second objective: asked for offspring, told what they are."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch

from diffgen.config import SearchConfig
from diffgen.errors import RunError
from diffgen.features.shrinking import shrunk
from diffgen.search.mating import Mating, NewGenes
from diffgen.search.problem import GeneProblem
from diffgen.search.proposal import Answers, Proposal
from diffgen.search.screen import Screen
from diffgen.search.shares import Shares
from diffgen.search.survival import Population, joined, rows_of, survivors
from diffgen.sources.draws import NumpyDraws

_KEPT = ("X", "F", "rank", "crowding", "archive_number", "niche")  # columns in a checkpoint, with the pictures
Checkpoint = dict[str, Any]  # arrays and JSON values, never an object that must be pickled


class Nsga2Search:
    """NSGA-II over genes (Deb et al. 2002), resumable after any generation.

    A generation is proposed in as many parts as there is room for; survival chooses when all of it was answered.

    Args:
        seed: of sampling, mating and survival.
        screen: chooses among many candidates, where a generation is shared out; None: everything that is made is asked
            about.

    Attributes:
        population: those who survived the latest generation; None: there was none.
    """

    finished = False  # a genetic search never runs out of pictures

    def __init__(self, problem: GeneProblem, config: SearchConfig, *, seed: int, screen: Screen | None = None) -> None:
        self.problem = problem
        self.population: Population | None = None
        self._size, self._niches = config.population, config.niches == "label_pair"
        self._mating = Mating(problem.operators, config)
        shared = config.sharing == "auto" and problem.space.real
        self._shares = Shares(problem, self._mating, screen) if shared else None
        self._rng = np.random.default_rng(seed)
        self._generation = 1  # the one that is asked about, or will be next
        self._offspring: dict[str, torch.Tensor] | None = None
        self._told: list[tuple[torch.Tensor, Answers]] = []

    @property
    def between_generations(self) -> bool:
        """Whether no generation was begun and not yet told to its end."""
        return self._offspring is None

    def propose(self, room: int) -> Proposal:
        """At most ``room`` pictures of the present generation. RunError if no new individuals can be made any more."""
        if self._offspring is None:
            self._offspring = self._first() if self.population is None else self._next(self.population)
        first = sum(len(answers) for _, answers in self._told)
        some = {name: values[first : first + room] for name, values in self._offspring.items()}
        images = some["images"] if "images" in some else self.problem.pictures(some["X"])
        genes = some["X"].to(torch.float32)
        return Proposal(images, generation=self._generation, genes=genes, source=self.problem.source)

    def _first(self) -> dict[str, torch.Tensor]:
        """Random genes, each once."""
        space = self.problem.space
        if self._shares is not None:
            nobody = torch.empty((0, space.length), dtype=torch.float64)
            return self._shares.offspring({"X": nobody}, self._size, self._rng)
        X = torch.from_numpy(space.repair(space.sample(self._size, NumpyDraws(self._rng))))
        return {"X": NewGenes(X[:0]).among(X).to(self.problem.operators.device)}

    def _next(self, parents: Population) -> dict[str, torch.Tensor]:
        if self._shares is not None:
            offspring = self._shares.offspring(parents, self._size, self._rng)
        else:
            offspring = {"X": self._mating.offspring(parents, self._size, self._rng)}
        if len(offspring["X"]) == 0:
            raise RunError(
                "The search stands still: mating makes only genes that the population holds already; "
                "use a larger population or more mutation."
            )
        return offspring

    def learn(self, proposal: Proposal, answers: Answers) -> None:
        """Take in the answers; with the last of a generation, survival chooses the next parents."""
        offspring = self._offspring
        assert offspring is not None
        drawn = "images" in offspring
        self._told.append((proposal.images[:0] if drawn else proposal.images, answers))
        if sum(len(part) for _, part in self._told) < len(offspring["X"]):
            return
        pictures = offspring["images"] if drawn else torch.cat([images for images, _ in self._told])
        whole = Answers.joined([part for _, part in self._told])
        offspring.update(self.problem.judge(pictures, whole))
        if self._shares is not None:
            self._shares.learn(offspring, pictures, whole)
        self._compete(offspring)
        self._generation += 1
        self._forget()

    def _compete(self, others: Population) -> None:
        """Let parents and others compete for the places of the population."""
        everybody = others if self.population is None else joined(self.population, others)
        self.problem.rescore(everybody)
        self.population = survivors(everybody, self._size, self._rng, niches=self._niches)

    def welcome(self, proposal: Proposal, answers: Answers) -> None:
        """Let triggers from elsewhere compete for places in the population; genes that it holds are passed over."""
        if self.population is None or not self.between_generations or proposal.genes is None:
            return
        genes = proposal.genes.to(self.problem.operators.device, torch.float64)
        rows = NewGenes(self.population["X"].to(torch.float32).to(torch.float64)).rows_among(genes).cpu()
        if len(rows):
            known = self.problem.judge(proposal.images[rows], answers.at(rows))
            self._compete({"X": rows_of({"X": genes}, rows)["X"], **known})

    def _forget(self) -> None:
        """Drop the generation that was begun, if any."""
        self._offspring, self._told = None, []

    def checkpoint(self) -> Checkpoint:
        """The state after a whole generation: arrays and JSON values only."""
        assert self.population is not None
        diversity = self.problem.diversity
        return {
            **({} if self._shares is None else self._shares.checkpoint()),
            **{name: self.population[name].cpu().numpy() for name in (*_KEPT, "images")},
            "representatives": diversity.representatives,
            "clustered": diversity.clustered,
            "next_generation": self._generation,
            "random_state": self._rng.bit_generator.state,
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on from what :meth:`checkpoint` gave; the archive must be as it was then."""
        diversity, place = self.problem.diversity, self.problem.operators.device
        diversity.restore(state["representatives"], clustered=state["clustered"])
        self._forget()
        if self._shares is not None:
            self._shares.restore(state)
        self.population = {
            **{name: torch.tensor(state[name]).to(place) for name in _KEPT},
            "images": shrunk(torch.tensor(state["images"]).to(diversity.device)),
            "version": torch.full((len(state["X"]),), diversity.version, device=place),
        }
        self._generation = state["next_generation"]
        self._rng.bit_generator.state = state["random_state"]
