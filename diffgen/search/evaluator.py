"""The one place where models are asked during a search."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from diffgen.models import BlackBox
from diffgen.search.archive import Archive, Triggers
from diffgen.search.behaviours import Behaviours
from diffgen.search.divergence import Divergence, answer_margin, euclidean_plus_one
from diffgen.search.memory import BatchHalver
from diffgen.search.proposal import NO_PAIR, NOT_ARCHIVED, Answers, Proposal
from diffgen.types import Float32Array


class Evaluator:
    """Asks the black boxes about proposals, counts, and archives what triggers. It knows no budget.

    One query is one image that every model is asked about once.

    Args:
        black_boxes: two models or more, prepared.
        archive: takes in the triggers.
        margin: a disagreement counts when every model's two highest probabilities are further apart than this.
        memory: hands a batch over in pieces where memory is too small for all of it; None: at once until it is.
        divergence: of the models' answers.
        behaviours: counts what is met; None when behaviours are not to be counted.
        validity: by how much the validity filters reject pictures, uint8 (N, C, H, W) -> float32 (N,), 0 for those that
            are accepted. They are asked about every trigger; None: they are not asked in the search.

    Attributes:
        queries: images asked about so far.
    """

    def __init__(
        self,
        black_boxes: Sequence[BlackBox],
        *,
        archive: Archive,
        margin: float,
        memory: BatchHalver | None = None,
        divergence: Divergence = euclidean_plus_one,
        behaviours: Behaviours | None = None,
        validity: Callable[[torch.Tensor], Float32Array] | None = None,
    ) -> None:
        self.black_boxes = tuple(black_boxes)
        self.archive = archive
        self.margin = margin
        self.queries = 0
        self.behaviours = behaviours
        self._divergence = divergence
        self._validity = validity
        self._memory = memory or BatchHalver()

    @property
    def asks_filters(self) -> bool:
        """Whether the validity filters are asked about every trigger."""
        return self._validity is not None

    def ask(self, proposal: Proposal) -> Answers:
        """Ask every model about a proposal, and the filters where they are to be; archive the triggers.

        Raises:
            RunError: a model raised or gave something that is not a probability.
        """
        images, genes, origins = proposal.images, proposal.genes, proposal.origins
        if len(images) == 0:
            return Answers.none(len(self.black_boxes), self.black_boxes[0].num_classes)
        probabilities = torch.stack([self._memory.call(model.predict, images) for model in self.black_boxes], dim=1)
        first = self.queries
        self.queries += len(images)
        labels = probabilities.argmax(dim=2)
        disagree = (labels != labels[:, :1]).any(dim=1)
        disagree &= answer_margin(probabilities) > self.margin
        divergence = self._divergence(probabilities)
        numbers = torch.full((len(images),), NOT_ARCHIVED, dtype=torch.int64)
        cells = torch.zeros(len(images), dtype=torch.int64)
        violation = torch.zeros(len(images), dtype=torch.float32)
        rows = disagree.nonzero().squeeze(1)
        if len(rows) > 0:
            # only triggers ever leave the device
            found = Triggers(
                images=images[rows].cpu().numpy(),
                probabilities=probabilities[rows].cpu().numpy(),
                divergence=divergence[rows].cpu().numpy(),
                latents=None if genes is None else genes[rows.to(genes.device)].cpu().numpy(),
                sources=None if origins is None else origins.seeds[rows.cpu().numpy()],
                generation=proposal.generation,
                query=first + 1 + rows.cpu().numpy().astype(np.int64),
            )
            known = len(self.archive)
            archived = self.archive.add(found)
            numbers[rows.cpu()] = torch.from_numpy(archived)
            if self._validity is not None:
                violation[rows.cpu()] = self._memory.call(_on_arrays(self._validity), images[rows])
            if self.behaviours is not None:
                cells[rows.cpu()] = self._memory.call(_on_arrays(self.behaviours.cells), images[rows])
                # an image that the archive holds already is no new find
                new, first_rows = np.unique(archived, return_index=True)
                fresh = first_rows[new >= known]
                fresh = fresh[violation[rows.cpu()].numpy()[fresh] == 0]
                self.behaviours.add(
                    found.images[fresh],
                    labels[rows].cpu().numpy()[fresh],
                    cells[rows.cpu()].numpy()[fresh],
                    archived[fresh],
                    query=self.queries,
                )
        pairs = torch.zeros_like(labels[:, 0])
        for column in labels.unbind(dim=1):
            pairs = pairs * probabilities.shape[2] + column
        pairs = pairs.masked_fill(~disagree, NO_PAIR)
        return Answers(
            probabilities, divergence, archive_numbers=numbers, label_pairs=pairs, cells=cells, violation=violation
        )


def _on_arrays(function: Callable[[torch.Tensor], NDArray[Any]]) -> Callable[[torch.Tensor], torch.Tensor]:
    """A function that gives an array, as one that gives a tensor."""
    return lambda images: torch.from_numpy(function(images))
