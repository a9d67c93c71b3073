"""The one place where models are asked during a search."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from diffgen.config import Budget
from diffgen.errors import DiffgenError
from diffgen.models import BlackBox
from diffgen.search.archive import Archive, Triggers
from diffgen.search.behaviours import Behaviours
from diffgen.search.divergence import Divergence, answer_margin, euclidean_plus_one
from diffgen.search.memory import BatchHalver
from diffgen.types import Float32Array, Int64Array

NOT_ARCHIVED = -1
NO_PAIR = -1


class BudgetExhausted(DiffgenError):
    """The budget is used up; raised inside a generation, after what was found in it has been archived."""


@dataclass(frozen=True)
class Answers:
    """What the models said of a batch of N images.

    Attributes:
        probabilities: float32 (N, M, K).
        divergence: float32 (N,), larger is further apart.
        archive_numbers: int64 (N,) on the CPU: number in the archive of each trigger, ``NOT_ARCHIVED`` for the rest.
        label_pairs: int64 (N,): one number for each ordered tuple of labels of a trigger, ``NO_PAIR`` for the rest.
        cells: int64 (N,) on the CPU: the cell of each trigger; 0 for the rest, and when there are no cells.
        violation: float32 (N,) on the CPU: by how much the validity filters reject each trigger; 0 for those that they
            accept, for the rest, and when the filters are not asked.
    """

    probabilities: torch.Tensor
    divergence: torch.Tensor
    archive_numbers: torch.Tensor
    label_pairs: torch.Tensor
    cells: torch.Tensor
    violation: torch.Tensor


class Evaluator:
    """Black boxes, budget, query count and archive. Techniques are ask/tell on it.

    One query is one image that every model is asked about once.

    Args:
        black_boxes: two models or more, prepared.
        budget: of seconds and queries; whichever is reached first.
        archive: takes in the triggers.
        margin: a disagreement counts when every model's two highest probabilities are further apart than this.
        batch_size: images drawn and asked about between two looks at the budget.
        network_batch: of these, most that are handed to a network at once; None: all.
        divergence: of the models' answers.
        behaviours: counts what is met; None when behaviours are not to be counted.
        validity: by how much the validity filters reject pictures, uint8 (N, C, H, W) -> float32 (N,), 0 for those that
            are accepted. They are asked about every trigger; None: they are not asked in the search.
        saturation_queries: the search ends when so many queries found no new behaviour; None: it does not.
        on_smaller_batch: told how many images are handed over at once from now on, when memory was too small.
        clock: seconds; a parameter for tests.

    Attributes:
        spent: the model whose own limit of images ended the search, or None.
    """

    def __init__(
        self,
        black_boxes: Sequence[BlackBox],
        *,
        budget: Budget,
        archive: Archive,
        margin: float,
        batch_size: int,
        network_batch: int | None = None,
        divergence: Divergence = euclidean_plus_one,
        behaviours: Behaviours | None = None,
        validity: Callable[[torch.Tensor], Float32Array] | None = None,
        saturation_queries: int | None = None,
        on_smaller_batch: Callable[[int], None] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.black_boxes = tuple(black_boxes)
        self.budget = budget
        self.archive = archive
        self.margin = margin
        self.batch_size = batch_size
        self.queries = 0
        self.generation = 0
        self.stopped = False
        self.saturation_queries = saturation_queries
        self.behaviours = behaviours
        self._divergence = divergence
        self._validity = validity
        self.memory = BatchHalver(on_smaller_batch, size=network_batch)
        self.spent: BlackBox | None = None
        self._clock = clock
        self._started: float | None = None
        self._on_answer: Callable[[], None] | None = None

    def start(self, *, on_answer: Callable[[], None] | None = None, queries: int = 0, seconds: float = 0.0) -> None:
        """Start the clock; ``on_answer`` is called after every batch.

        A resumed search says how many ``queries`` and ``seconds`` were used before.
        """
        self._started = self._clock() - seconds
        self._on_answer = on_answer
        self.queries = queries

    def stop(self) -> None:
        """End the search before its next batch, as if the budget were used up."""
        self.stopped = True

    @property
    def seconds(self) -> float:
        """Seconds since :meth:`start`."""
        return 0.0 if self._started is None else self._clock() - self._started

    @property
    def asks_filters(self) -> bool:
        """Whether the validity filters are asked about every trigger, so that its verdict is known in the search."""
        return self._validity is not None

    @property
    def saturated(self) -> bool:
        """Whether too long nothing new was found."""
        if self.saturation_queries is None or self.behaviours is None:
            return False
        return self.queries - self.behaviours.latest_query >= self.saturation_queries

    def allowance(self) -> int:
        """How many images of a batch may still be asked about.

        Raises:
            BudgetExhausted: none.
        """
        if self.stopped:
            raise BudgetExhausted("The search was asked to stop.")
        if self.saturated:
            raise BudgetExhausted(f"The last {self.saturation_queries} queries found nothing new.")
        if self.budget.seconds is not None and self.seconds >= self.budget.seconds:
            raise BudgetExhausted(f"The budget of {self.budget} is used up.")
        allowed = min([self.batch_size, *map(self._affordable, self.black_boxes)])
        if self.budget.queries is None:
            return allowed
        left = self.budget.queries - self.queries
        if left <= 0:
            raise BudgetExhausted(f"The budget of {self.budget} is used up.")
        return min(left, allowed)

    def _affordable(self, model: BlackBox) -> int:
        """How many images a model may be asked about so that it can still be asked again about every trigger."""
        left = model.images_left
        if left is None:
            return self.batch_size
        # a batch is padded to the fixed size of the model's, in the search and when triggers are asked again one by one
        padded = model.fixed_batch or 1
        each, filled_up = (padded, 0) if model.alone else (1, padded - 1)
        afforded = (left - len(self.archive) * padded - filled_up) // (each + padded)
        if afforded < 1:
            self.spent = model
            raise BudgetExhausted(f"The query budget of model {model.name} is used up.")
        return afforded

    def ask(
        self, images: torch.Tensor, *, latents: torch.Tensor | None = None, sources: Int64Array | None = None
    ) -> Answers:
        """Ask every model about a batch of images and archive the triggers among them.

        Args:
            images: uint8 (N, C, H, W), N at most :meth:`allowance`.
            latents: float32 (N, latent_dim) that the images were made from.
            sources: int64 (N,), rows of the real images that the images were made from.

        Raises:
            RunError: a model raised or gave something that is not a probability.
        """
        probabilities = torch.stack([self.memory.call(model.predict, images) for model in self.black_boxes], dim=1)
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
                latents=None if latents is None else latents[rows.to(latents.device)].cpu().numpy(),
                sources=None if sources is None else sources[rows.cpu().numpy()],
                generation=self.generation,
                query=first + 1 + rows.cpu().numpy().astype(np.int64),
            )
            known = len(self.archive)
            archived = self.archive.add(found)
            numbers[rows.cpu()] = torch.from_numpy(archived)
            if self._validity is not None:
                violation[rows.cpu()] = self.memory.call(_on_arrays(self._validity), images[rows])
            if self.behaviours is not None:
                cells[rows.cpu()] = self.memory.call(_on_arrays(self.behaviours.cells), images[rows])
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
        if self._on_answer is not None:
            self._on_answer()
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
