"""What a technique proposes and what it is told: the two records that pass between techniques and the search's loop."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields

import torch

from diffgen.origins import Origins, check_recipes
from diffgen.sources.base import Source
from diffgen.types import Int64Array

NOT_ARCHIVED = -1
NO_PAIR = -1
NEW_TRIGGER, NEW_BEHAVIOUR = 1, 2


@dataclass(frozen=True)
class Proposal:
    """N images that the models are to be asked about; N may be 0, and then nobody is asked.

    Attributes:
        images: uint8 (N, C, H, W).
        generation: number of the generation (or of the batch) that they belong to, from 1.
        genes: float32 (N, L), what a source of images drew them from, or None.
        origins: the real images that they were made from, and how; None where they were not made from any, and where
            ``source`` tells.
        source: what drew them from the genes, or None; it is asked about the origins of triggers alone, and goes
            before ``origins``.

    Raises:
        UserError: a recipe among the origins is none; a run would end at its report otherwise.
    """

    images: torch.Tensor
    generation: int
    genes: torch.Tensor | None = None
    origins: Origins | None = None
    source: Source | None = None

    def __post_init__(self) -> None:
        if self.origins is not None:
            check_recipes(self.origins.recipes, "A technique proposes a picture with a recipe that is not understood")

    def origins_of(self, rows: Int64Array) -> Origins | None:
        """How some of the pictures came about; None where they were not made from real images.

        Args:
            rows: int64 (n,), which of them.

        Raises:
            UserError: the source tells a recipe that is none.
        """
        if self.source is None or self.genes is None:
            return None if self.origins is None else self.origins[rows]
        told = self.source.origins(self.genes[torch.from_numpy(rows).to(self.genes.device)])
        if told is not None:
            check_recipes(told.recipes, "The source tells a recipe that is not understood")
        return told

    def __len__(self) -> int:
        return len(self.images)


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
        news: int64 (N,) on the CPU: ``NEW_BEHAVIOUR`` where a trigger that the filters accept showed one that was not
            met before, ``NEW_TRIGGER`` for any other accepted one that is no near-duplicate of what was found, 0 for
            the rest.
        named_news: int64 (N,) on the CPU: the same among those that the jury recognises; where there is no jury, of
            all.
    """

    probabilities: torch.Tensor
    divergence: torch.Tensor
    archive_numbers: torch.Tensor
    label_pairs: torch.Tensor
    cells: torch.Tensor
    violation: torch.Tensor
    news: torch.Tensor
    named_news: torch.Tensor

    def __len__(self) -> int:
        return len(self.probabilities)

    def at(self, rows: torch.Tensor) -> Answers:
        """Those of some rows, int64 (n,)."""
        return Answers(**{f.name: getattr(self, f.name)[rows] for f in fields(self)})

    @classmethod
    def none(cls, models: int, classes: int) -> Answers:
        """The answers to nothing."""
        numbers, values = torch.empty(0, dtype=torch.int64), torch.empty(0)
        return cls(torch.empty(0, models, classes), values, numbers, numbers, numbers, values, numbers, numbers)

    @classmethod
    def joined(cls, parts: Sequence[Answers]) -> Answers:
        """The answers to several proposals, one after the other."""
        if len(parts) == 1:
            return parts[0]
        return cls(**{f.name: torch.cat([getattr(part, f.name) for part in parts]) for f in fields(cls)})
