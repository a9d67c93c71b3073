"""Which real images train the GAN, and which are held out for the calibration of the filters."""

from __future__ import annotations

import torch

from diffgen.config import GanConfig


def split_rows(count: int, config: GanConfig) -> tuple[torch.Tensor, torch.Tensor]:
    """Rows to train on and rows held out, both int64 and ascending; at least one of each."""
    order = torch.randperm(count, generator=torch.Generator().manual_seed(config.seed))
    held_out = min(max(1, round(config.holdout * count)), count - 1)
    return order[held_out:].sort().values, order[:held_out].sort().values
