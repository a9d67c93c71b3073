"""The part of a technique that every search from encoded images has: rounds of genes, asked about in parts."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from diffgen.origins import Origins
from diffgen.search.proposal import Answers, Proposal
from diffgen.techniques.base import Checkpoint, Technique, TechniqueContext
from diffgen.types import Float32Array


@dataclass(frozen=True)
class Round:
    """What is asked about before anything is learned from it.

    Attributes:
        genes: float32 (n, L).
        images: uint8 (n, C, H, W), where they had to be drawn already; None: not yet.
    """

    genes: Float32Array
    origins: Origins
    images: torch.Tensor | None = None

    def __len__(self) -> int:
        return len(self.genes)


class LatentTechnique(Technique):
    """Makes a round of genes, has it drawn and asked about, and takes in all answers at once.

    What is random is drawn when a round is made, and a round that was not finished is made again from the state before
    it: how many pictures there is room for changes nothing.
    """

    def __init__(self, context: TechniqueContext) -> None:
        super().__init__(context)
        self._rng = np.random.default_rng([context.seed, 0])
        self._rounds = 0
        self._round: Round | None = None  # that is being asked about
        self._told: list[Answers] = []

    @abstractmethod
    def begin(self) -> Round:
        """The next round."""

    @abstractmethod
    def end(self, now: Round, probabilities: Float32Array) -> None:
        """Take in what the models say of a whole round, float32 (n, M, K)."""

    @property
    def between_generations(self) -> bool:
        return self._round is None

    def propose(self, room: int) -> Proposal:
        self._round = now = self._round or self.begin()
        first = sum(map(len, self._told))
        part = slice(first, first + room)
        source, genes = self.context.need_source(), torch.from_numpy(now.genes[part])
        if now.images is not None:
            images = now.images[part]
        elif len(genes):
            images = self.context.memory.call(source.draw, genes)
        else:
            images = torch.empty(0, *source.image_shape, dtype=torch.uint8)
        return Proposal(images, generation=self._rounds + 1, genes=genes, origins=now.origins[part])

    def learn(self, proposal: Proposal, answers: Answers) -> None:
        assert self._round is not None
        self._told.append(answers)
        if sum(map(len, self._told)) < len(self._round):
            return
        self.end(self._round, Answers.joined(self._told).probabilities.cpu().numpy())
        self._rounds += 1
        self._forget()

    def _forget(self) -> None:
        """Drop the round that was begun, if any."""
        self._round, self._told = None, []

    def checkpoint(self) -> Checkpoint:
        return {"rounds": self._rounds, "random_state": self._rng.bit_generator.state}

    def restore(self, state: Mapping[str, Any]) -> None:
        self._forget()
        self._rounds = int(state["rounds"])
        self._rng.bit_generator.state = state["random_state"]
