"""Mating of NSGA-II, where the population lies: tournaments, crossover and mutation, and no genes twice.

On a processor it makes, with the same random state, the same offspring as ``pymoo.core.mating.Mating``.
"""

from __future__ import annotations

import math

import numpy as np
import torch
from pymoo.util.misc import random_permutations

from diffgen.config import SearchConfig
from diffgen.search.survival import Population
from diffgen.sources.space import Crossing, Mutating
from diffgen.sources.tensor_space import GeneOperators

ROUNDS = 100  # of mating, as pymoo's NSGA2 tries, until there are enough new genes


class Mating:
    """Binary tournaments by dominance and crowding (Deb et al. 2002), then the operators of the space.

    An offspring with the genes of another one, or of a parent, is made again.

    Args:
        operators: what is done to genes.
        config: of which share of the matings, individuals and genes, and how far.
    """

    def __init__(self, operators: GeneOperators, config: SearchConfig) -> None:
        self._operators = operators
        self._crossed, self._mutated = config.crossover_probability, config.mutation_probability
        self._crossing = Crossing(gene_probability=config.crossover_gene_probability, eta=config.crossover_eta)
        self._mutating = Mutating(
            gene_probability=config.mutation_gene_probability,
            category_probability=config.mutation_class_probability,
            eta=config.mutation_eta,
        )

    def offspring(self, parents: Population, count: int, rng: np.random.Generator) -> torch.Tensor:
        """float64 (at most ``count``, length): genes that none of the parents has."""
        new, made = NewGenes(parents["X"]), [parents["X"][:0]]
        for _ in range(ROUNDS):
            left = count - sum(map(len, made))
            if left <= 0:
                break
            winners = tournament_winners(parents, 2 * math.ceil(left / 2), rng)
            made.append(new.among(self.children(parents, winners, rng)))
        return torch.cat(made)[:count]

    def children(self, parents: Population, chosen: torch.Tensor, rng: np.random.Generator) -> torch.Tensor:
        """float64 (2 n, length): two mutated children of each two chosen rows, int64 (2 n,), that follow each other."""
        device, matings = chosen.device, len(chosen) // 2
        pairs = parents["X"][chosen].reshape(matings, 2, -1).transpose(0, 1)
        crossed = torch.from_numpy(rng.random(matings) < self._crossed).to(device)
        if crossed.any():
            pairs = torch.where(crossed[:, None], self._operators.crossover(pairs, self._crossing, rng), pairs)
        children = pairs.reshape(2 * matings, -1)
        mutants = self._operators.mutate(children, self._mutating, rng)
        mutated = torch.from_numpy(rng.random(2 * matings) <= self._mutated).to(device)
        return self._operators.repair(torch.where(mutated[:, None], mutants, children))


def tournament_winners(individuals: Population, count: int, rng: np.random.Generator) -> torch.Tensor:
    """int64 (count,): the better one of each pair; who dominates wins, then who is less crowded, then either.

    Everybody is drawn before anybody is drawn again.
    """
    F, crowding = individuals["F"], individuals["crowding"]
    if count == 0:
        return torch.empty(0, dtype=torch.int64, device=F.device)
    drawn = random_permutations(math.ceil(2 * count / len(F)), len(F), random_state=rng)[: 2 * count]
    first, second = torch.from_numpy(drawn).to(F.device).reshape(count, 2).T
    better, worse = (F[first] < F[second]).any(dim=1), (F[first] > F[second]).any(dim=1)
    # equal, or each better in one objective: crowding decides
    undecided = better == worse
    first_wins = torch.where(undecided, crowding[first] > crowding[second], better)
    alike = (undecided & (crowding[first] == crowding[second])).nonzero().squeeze(1)
    first_wins[alike] = torch.from_numpy(rng.integers(0, 2, len(alike)) == 0).to(F.device)
    return torch.where(first_wins, first, second)


def niche_winners(individuals: Population, count: int, rng: np.random.Generator) -> torch.Tensor:
    """int64 (count,): of a niche drawn evenly among all, the better one of two of its members drawn at random."""
    niche, F, crowding = (individuals[name] for name in ("niche", "F", "crowding"))
    order = niche.argsort(stable=True)
    sizes = niche.unique(return_counts=True)[1]
    drawn = torch.from_numpy(rng.integers(len(sizes), size=count)).to(niche.device)
    shares = torch.from_numpy(rng.random((count, 2))).to(niche.device)
    picks = (sizes.cumsum(0) - sizes)[drawn, None] + (shares * sizes[drawn, None]).to(torch.int64)
    first, second = order[picks].T
    better, worse = (F[first] < F[second]).any(dim=1), (F[first] > F[second]).any(dim=1)
    return torch.where(torch.where(better == worse, crowding[first] >= crowding[second], better), first, second)


class NewGenes:
    """Tells genes that nobody had before.

    Rows are told apart by hashes of 64 bits: once in 10^11 generations of 4,096 a child would be taken for a double,
    and made again.

    Args:
        known: float64 (N, length), genes that are there already.
    """

    def __init__(self, known: torch.Tensor) -> None:
        self._hashes = row_hashes(known)

    def among(self, genes: torch.Tensor) -> torch.Tensor:
        """What is new of float64 (n, length), each once, in its order; it is known from now on."""
        return genes[self.rows_among(genes)]

    def rows_among(self, genes: torch.Tensor) -> torch.Tensor:
        """int64 (k,), ascending: the rows of what :meth:`among` gives."""
        hashes = torch.cat([self._hashes, row_hashes(genes)])
        ordered, order = hashes.sort(stable=True)
        first = torch.ones_like(ordered, dtype=torch.bool)
        first[1:] = ordered[1:] != ordered[:-1]
        new = torch.empty_like(first).scatter_(0, order, first)[len(self._hashes) :]
        self._hashes = hashes
        return new.nonzero().squeeze(1)


def row_hashes(genes: torch.Tensor) -> torch.Tensor:
    """int64 (n,): a hash of the bits of each row of float64 (n, length).

    The bits of every gene are mixed by the last steps of SplitMix64 (Steele, Lea and Flood 2014) with the number of its
    column, and summed.
    """
    mixed = genes.contiguous().view(torch.int64) + torch.arange(1, genes.shape[1] + 1, device=genes.device) * _GOLDEN
    mixed = (mixed ^ _shifted(mixed, 30)) * _FIRST
    mixed = (mixed ^ _shifted(mixed, 27)) * _SECOND
    return (mixed ^ _shifted(mixed, 31)).sum(dim=1)


def _shifted(values: torch.Tensor, bits: int) -> torch.Tensor:
    """Shifted to the right as numbers without a sign are."""
    return (values >> bits) & ((1 << (64 - bits)) - 1)


# as signed numbers, which torch has alone
_GOLDEN, _FIRST, _SECOND = (each - 2**64 for each in (0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB))
