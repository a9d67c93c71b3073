"""The given images and nothing but label-preserving transformations of them: what a GAN and a search must beat.

Both models are asked about every given image as it is before any search; those disagreements are reported apart. This
technique asks about transformed ones: pass after pass over all images, in random order, each with one of the five
transformations that the DiffGAN paper enlarges the GAN's training set by (section 3.1;
:mod:`diffgen.gan_training.augmentation`), with parameters drawn anew. Nothing is learned from the answers.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch

from diffgen.gan_training.augmentation import TRANSFORMATIONS, plain_background
from diffgen.origins import Origins, Step
from diffgen.sampling import affordable_rows
from diffgen.search.proposal import Answers, Proposal
from diffgen.techniques.base import Checkpoint, Technique, TechniqueContext

_GROUP = 4  # images of a batch that share the parameters of a transformation


class RealData(Technique):
    """Transforms batch after batch. A batch is a function of seed and number, so that no random state need be kept."""

    name = "real_data"

    def __init__(self, context: TechniqueContext) -> None:
        super().__init__(context)
        self._images = context.need_real().images
        self._background = plain_background(torch.from_numpy(self._images[affordable_rows(self._images)]))
        self._batches = 0

    def warm_up(self) -> None:
        one, rng = torch.from_numpy(self._images[:1]), torch.Generator().manual_seed(0)
        for each in TRANSFORMATIONS.values():
            each.apply(one, self._background, each.draw(one.shape[-2:], rng))

    def propose(self, room: int) -> Proposal:
        images, origins = self._draw(self._batches, self.context.batch_size)
        moved = images[:room].to(self.context.device)
        return Proposal(moved, generation=self._batches + 1, origins=origins[:room])

    def learn(self, proposal: Proposal, answers: Answers) -> None:
        self._batches += 1

    def _draw(self, batch: int, size: int) -> tuple[torch.Tensor, Origins]:
        """Transformed real images, and how each was made."""
        of_a_pass = -(-len(self._images) // size)
        turn, place = divmod(batch, of_a_pass)
        order = np.random.default_rng([self.context.seed, 0, turn]).permutation(len(self._images))
        rows = order[place * size : (place + 1) * size]
        state = np.random.SeedSequence([self.context.seed, 1, batch]).generate_state(1, np.uint64)
        rng = torch.Generator().manual_seed(int(state[0] >> 1))
        images = torch.from_numpy(self._images[rows])
        kinds = list(TRANSFORMATIONS.items())
        recipes: list[str] = []
        for group in torch.arange(len(rows)).split(_GROUP):
            name, transformation = kinds[int(torch.randint(len(kinds), (), generator=rng))]
            strengths = transformation.draw(images.shape[-2:], rng)
            images[group] = transformation.apply(images[group], self._background, strengths)
            recipes += [str(Step(name, tuple(strengths.items())))] * len(group)
        return images, Origins(rows, tuple(recipes))

    def checkpoint(self) -> Checkpoint:
        return {"batches": self._batches}

    def restore(self, state: Mapping[str, Any]) -> None:
        self._batches = int(state["batches"])
