"""The one place where models are asked during a search."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from diffgen.models import BlackBox
from diffgen.runs.triggers import TriggerTable
from diffgen.search.archive import Archive
from diffgen.search.behaviours import Behaviours
from diffgen.search.divergence import Divergence, euclidean_plus_one
from diffgen.search.memory import BatchHalver
from diffgen.search.proposal import NO_PAIR, NOT_ARCHIVED, Answers, Proposal
from diffgen.tasks.classification import disagree, label_numbers
from diffgen.tasks.kept_answers import keep
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
        violation: by how much the filters reject pictures, uint8 (N, C, H, W) -> float32 (N,), 0 for those that
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
        violation: Callable[[torch.Tensor], Float32Array] | None = None,
    ) -> None:
        self.black_boxes = tuple(black_boxes)
        self.archive = archive
        self.margin = margin
        self.queries = 0
        self.behaviours = behaviours
        self._divergence = divergence
        self._violation = violation
        self._memory = memory or BatchHalver()

    @property
    def asks_filters(self) -> bool:
        """Whether the validity filters are asked about every trigger."""
        return self._violation is not None

    def ask(self, proposal: Proposal) -> Answers:
        """Ask every model about a proposal, and the filters where they are to be; archive the triggers.

        Raises:
            RunError: a model raised or gave something that is not a probability.
        """
        images = proposal.images
        if len(images) == 0:
            return Answers.none(len(self.black_boxes), self.black_boxes[0].num_classes)
        probabilities = torch.stack([self._memory.call(model.predict, images) for model in self.black_boxes], dim=1)
        first = self.queries
        self.queries += len(images)
        triggers = disagree(probabilities, self.margin)
        divergence = self._divergence(probabilities)
        numbers = torch.full((len(images),), NOT_ARCHIVED, dtype=torch.int64)
        cells = torch.zeros(len(images), dtype=torch.int64)
        violation = torch.zeros(len(images), dtype=torch.float32)
        news = torch.zeros(len(images), dtype=torch.int64)
        rows = triggers.nonzero().squeeze(1)
        if len(rows) > 0:
            on_cpu = rows.cpu()
            found = _table(proposal, rows, probabilities, divergence, first_query=first + 1)
            known = len(self.archive)
            archived = self.archive.add(found)
            numbers[on_cpu] = torch.from_numpy(archived)
            if self._violation is not None:
                violation[on_cpu] = self._memory.call(_on_arrays(self._violation), images[rows])
            if self.behaviours is not None:
                cells[on_cpu] = self._memory.call(_on_arrays(self.behaviours.cells), images[rows])
                # an image that the archive holds already is no new find
                new, first_rows = np.unique(archived, return_index=True)
                fresh = first_rows[new >= known]
                fresh = fresh[violation[on_cpu].numpy()[fresh] == 0]
                news[on_cpu[torch.from_numpy(fresh)]] = torch.from_numpy(
                    self.behaviours.add(
                        found.images[fresh],
                        found.labels[fresh],
                        cells[on_cpu].numpy()[fresh],
                        archived[fresh],
                        query=self.queries,
                    )
                )
        pairs = label_numbers(probabilities.argmax(dim=2), probabilities.shape[2]).masked_fill(~triggers, NO_PAIR)
        return Answers(
            probabilities,
            divergence,
            archive_numbers=numbers,
            label_pairs=pairs,
            cells=cells,
            violation=violation,
            news=news,
        )


def _table(
    proposal: Proposal, rows: torch.Tensor, probabilities: torch.Tensor, divergence: torch.Tensor, *, first_query: int
) -> TriggerTable:
    """The rows of a proposal that trigger; only they ever leave the device."""
    genes, origins, on_cpu = proposal.genes, proposal.origins, rows.cpu().numpy()
    kept, classes = keep(probabilities[rows])
    return TriggerTable.of(
        proposal.images[rows].cpu().numpy(),
        kept,
        classes=classes,
        divergence=divergence[rows].cpu().numpy(),
        generation=np.full(len(rows), proposal.generation, dtype=np.int64),
        query=first_query + on_cpu.astype(np.int64),
        genes=None if genes is None else genes[rows.to(genes.device)].cpu().numpy(),
        seeds=None if origins is None else origins.seeds[on_cpu],
        recipes=None if origins is None else np.array(origins[on_cpu].recipes, dtype=np.bytes_),
    )


def _on_arrays(function: Callable[[torch.Tensor], NDArray[Any]]) -> Callable[[torch.Tensor], torch.Tensor]:
    """A function that gives an array, as one that gives a tensor."""
    return lambda images: torch.from_numpy(function(images))
