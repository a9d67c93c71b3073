"""Random genes, as the source expects them: the baseline that any search must beat."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import torch

from diffgen.config import SearchConfig
from diffgen.parts import Needs
from diffgen.search.proposal import Answers, Proposal
from diffgen.sources.space import random_genes
from diffgen.techniques.base import Checkpoint, Preset, Technique, TechniqueContext


class RandomLatent(Technique):
    """Draws batch after batch; nothing is learned from the answers."""

    name = "random_latent"
    presets: ClassVar = {"default": Preset(source="gan")}

    def __init__(self, context: TechniqueContext) -> None:
        super().__init__(context)
        self._rng = torch.Generator().manual_seed(context.seed)
        self._batches = 0

    @classmethod
    def needs(cls, config: SearchConfig) -> Needs:
        return frozenset({"source"})

    def propose(self, room: int) -> Proposal:
        source = self.context.need_source()
        # a whole batch is drawn even when less of it may be asked about: the draws do not depend on the budget
        genes = random_genes(source.space, self.context.batch_size, self._rng)[:room]
        images = self.context.memory.call(source.draw, genes)
        return Proposal(images, generation=self._batches + 1, genes=genes, source=source)

    def learn(self, proposal: Proposal, answers: Answers) -> None:
        self._batches += 1

    def checkpoint(self) -> Checkpoint:
        return {"batches": self._batches, "random_state": self._rng.get_state().numpy()}

    def restore(self, state: Mapping[str, Any]) -> None:
        self._batches = int(state["batches"])
        self._rng.set_state(torch.from_numpy(state["random_state"]))
