"""Random latent vectors from the generator's prior: the baseline that any search must beat."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from diffgen.config import SearchConfig
from diffgen.generators.prior import draw_latents
from diffgen.techniques.base import Checkpoint, Needs, TechniqueContext
from diffgen.techniques.rounds import InRounds


class RandomLatent(InRounds):
    """Draw, look, ask; nothing is learned from the answers."""

    def __init__(self, context: TechniqueContext) -> None:
        super().__init__(context)
        self._rng = torch.Generator().manual_seed(context.seed)

    @classmethod
    def needs(cls, config: SearchConfig) -> Needs:
        return Needs(generator=True)

    def _round(self) -> None:
        evaluator, generator = self.context.evaluator, self.context.need_generator()
        # a whole batch is drawn even when less of it may be asked about: the draws do not depend on the budget
        latents = draw_latents(generator, evaluator.batch_size, self._rng)
        latents = latents[: evaluator.allowance()]
        evaluator.ask(evaluator.memory.call(generator.generate, latents), latents=latents)

    def checkpoint(self) -> Checkpoint:
        return {"batches": self._rounds, "random_state": self._rng.get_state().numpy()}

    def restore(self, state: Mapping[str, Any]) -> None:
        self._rounds = int(state["batches"])
        self._rng.set_state(torch.from_numpy(state["random_state"]))
