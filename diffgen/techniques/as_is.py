"""The given images as they are, each once: what the models say of real images, with everything that is said of finds.

Nothing is searched for and nothing is made. It is what a table of answers (:mod:`diffgen.models.answer_table`) can be
asked about, and a yardstick for searches: these disagreements are there without them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch

from diffgen.origins import Origins
from diffgen.search.proposal import Answers, Proposal
from diffgen.techniques.base import Checkpoint, Technique, TechniqueContext


class AsIs(Technique):
    """Asks about image after image, in the order of the data."""

    name = "as_is"
    asks_known_images = True

    def __init__(self, context: TechniqueContext) -> None:
        super().__init__(context)
        self._images = context.need_real().images
        self._asked = 0
        self._batches = 0

    @property
    def finished(self) -> bool:
        return self._asked >= len(self._images)

    def propose(self, room: int) -> Proposal:
        rows = np.arange(self._asked, min(self._asked + min(room, self.context.batch_size), len(self._images)))
        images = torch.from_numpy(np.array(self._images[rows])).to(self.context.device)
        return Proposal(images, generation=self._batches + 1, origins=Origins(rows, ("",) * len(rows)))

    def learn(self, proposal: Proposal, answers: Answers) -> None:
        self._asked += len(proposal)
        self._batches += 1

    def checkpoint(self) -> Checkpoint:
        return {"asked": self._asked, "batches": self._batches}

    def restore(self, state: Mapping[str, Any]) -> None:
        self._asked, self._batches = int(state["asked"]), int(state["batches"])
