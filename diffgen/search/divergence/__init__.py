"""How far apart the models' answers to one image are: the first objective, one file each."""

from __future__ import annotations

from collections.abc import Callable

import torch

from diffgen.search.divergence.euclidean_plus_one import euclidean_plus_one
from diffgen.search.divergence.jensen_shannon import jensen_shannon
from diffgen.search.divergence.top2_margin import top2_margin

Divergence = Callable[[torch.Tensor], torch.Tensor]  # float32 (N, M, K) to float32 (N,), larger is further apart

DIVERGENCES: dict[str, Divergence] = {
    "euclidean+1": euclidean_plus_one,
    "jensen-shannon": jensen_shannon,
    "top2-margin": top2_margin,
}

__all__ = ["DIVERGENCES", "Divergence", "euclidean_plus_one", "jensen_shannon", "top2_margin"]
