"""A data set's split into images that networks are trained on, and images held out."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch

from diffgen.config import SplitConfig
from diffgen.sampling import LARGE_BYTES, affordable_rows
from diffgen.types import ImageSet

_HELD_OUT = 1 / 3  # of what the images to train on may take, where a set is large


def split_rows(count: int, config: SplitConfig) -> tuple[torch.Tensor, torch.Tensor]:
    """Rows to train on and rows held out, both int64 and ascending; at least one of each."""
    order = torch.randperm(count, generator=torch.Generator().manual_seed(config.seed))
    held_out = min(max(1, round(config.holdout * count)), count - 1)
    return order[held_out:].sort().values, order[:held_out].sort().values


@dataclass(frozen=True)
class DataSplit:
    """Real images, and which of them nothing is trained on, as ``config`` says."""

    data: ImageSet
    config: SplitConfig

    @cached_property
    def all_rows(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Of those to train on and of those held out; int64, ascending."""
        return split_rows(len(self.data), self.config)

    @cached_property
    def rows(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Those that are held in memory: :attr:`all_rows`, or of a large set random ones of each."""
        images = self.data.images
        trained, held_out = self.all_rows
        if images.nbytes <= LARGE_BYTES:
            return trained, held_out
        return (
            torch.from_numpy(affordable_rows(images, trained.numpy())),
            torch.from_numpy(affordable_rows(images, held_out.numpy(), share=_HELD_OUT)),
        )

    @cached_property
    def reference(self) -> torch.Tensor:
        """uint8 (N, C, H, W): those that networks may be trained on."""
        return self._taken(self.rows[0])

    @cached_property
    def held_out(self) -> torch.Tensor:
        """uint8 (n, C, H, W): those that no network of diffgen's has seen."""
        return self._taken(self.rows[1])

    def _taken(self, rows: torch.Tensor) -> torch.Tensor:
        images = self.data.images
        if isinstance(images, np.memmap):
            return torch.from_numpy(images[rows.numpy()])
        # memory of torch's: where an array begins moves the last digit of what networks compute from it
        return torch.from_numpy(images)[rows]

    @property
    def labels(self) -> tuple[torch.Tensor, torch.Tensor] | None:
        """int64 (N,) and (n,): the labels of both parts; None where there are none."""
        if self.data.labels is None:
            return None
        labels = torch.from_numpy(self.data.labels)
        return labels[self.rows[0]], labels[self.rows[1]]

    @property
    def key(self) -> list[float]:
        """What decides about the split besides the data, for the keys of what is made from a part of it."""
        return [self.config.holdout, self.config.seed]
