"""DiffGAN's loop as its published code runs it: the mark that the batched one is compared with.

Everything that the archive holds is clustered again in every generation, each image is compared with each
representative by a call of its own, and survivors keep the score of the generation that they were born in. Models and
generator are asked for a whole generation at once, as there.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from sklearn.metrics.pairwise import cosine_similarity

from diffgen.config import SearchConfig
from diffgen.parts import Needs
from diffgen.search.diversity import Diversity, PixelEmbedding
from diffgen.search.nsga2 import Nsga2Search
from diffgen.search.problem import GeneProblem
from diffgen.search.proposal import Answers, Proposal
from diffgen.search.survival import Population
from diffgen.techniques import preset
from diffgen.techniques.base import Checkpoint, Technique, TechniqueContext


class OneByOneDiversity(Diversity):
    """Eq. 2 with one call for each pair of images."""

    def score(self, images: torch.Tensor, numbers: torch.Tensor) -> torch.Tensor:
        flat = images.flatten(1).numpy().astype(float)
        own = self.representatives
        known = self._archive.images(own).reshape(len(own), flat.shape[1]).astype(float)
        found = []
        for image, number in zip(flat, numbers.tolist(), strict=True):
            nearest = [
                1 - float(cosine_similarity(image[None], other[None])[0, 0])
                for other, representative in zip(known, own, strict=True)
                if representative != number
            ]
            found.append(min(nearest, default=1.0) if image.any() else 0.0)
        return torch.tensor(found, dtype=torch.float32)


class StaleProblem(GeneProblem):
    """Scores are never brought up to date."""

    def rescore(self, population: Population) -> None:
        pass


class PublishedLoop(Technique):
    """The published loop with the constants of the preset ``paper``."""

    config: SearchConfig = preset("diffgan", "paper").search

    def __init__(self, context: TechniqueContext) -> None:
        super().__init__(context)
        archive, config = context.archive, self.config
        diversity = OneByOneDiversity(
            archive, config, space=PixelEmbedding(), seed=context.seed, device=torch.device("cpu")
        )
        problem = StaleProblem(context.need_source(), archive, diversity, config, memory=context.memory)
        self._search = Nsga2Search(problem, config, seed=context.seed)

    @classmethod
    def needs(cls, config: SearchConfig) -> Needs:
        return frozenset({"source"})

    @property
    def between_generations(self) -> bool:
        return self._search.between_generations

    def propose(self, room: int) -> Proposal:
        return self._search.propose(room)

    def learn(self, proposal: Proposal, answers: Answers) -> None:
        self._search.learn(proposal, answers)

    def checkpoint(self) -> Checkpoint:
        return self._search.checkpoint()

    def restore(self, state: Mapping[str, Any]) -> None:
        self._search.restore(state)
