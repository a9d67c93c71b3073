"""How far an image is from what was already found: the second objective.

Paper, section 3.3.2.2 and Eq. 2: the smallest cosine distance, over pixels, to the representatives of the HDBSCAN
clusters of the archive. The archive moves, so the representatives carry a version; whoever keeps a score compares it.
"""

from __future__ import annotations

import numpy as np
import torch

from diffgen.config import SearchConfig
from diffgen.metrics.cosine import unit_vectors
from diffgen.search.archive import Archive
from diffgen.search.clustering import representative_rows
from diffgen.types import Int64Array

_FEWEST_NEW = 20  # triggers that must have come in before a small archive is clustered again
_NOVEL = 1.0  # the largest cosine distance of two pictures whose grey levels are not negative


class Diversity:
    """Smallest cosine distance of each image to the archive's representatives, itself left out.

    With nothing to compare with (empty archive, or the image is the only representative) the distance is 1. A blank
    image has no direction; its distance is 0, so that nothing is won by drawing nothing.

    Args:
        archive: the triggers found so far.
        config: reducer, sample and schedule.
        seed: seed of the sample and of the reducer.
        device: where scores are computed.
    """

    def __init__(self, archive: Archive, config: SearchConfig, *, seed: int, device: torch.device) -> None:
        self._archive = archive
        self._config = config
        self._seed = seed
        self._device = device
        self._numbers = torch.empty(0, dtype=torch.int64)
        self._vectors: torch.Tensor | None = None
        self._clustered = 0
        self.version = 0

    @property
    def representatives(self) -> Int64Array:
        """int64 (R,): the archive numbers of the present representatives, ascending."""
        return self._numbers.numpy()

    @property
    def clustered(self) -> int:
        """Size of the archive when it was last clustered."""
        return self._clustered

    def due(self) -> bool:
        """Whether the archive has grown enough since it was last clustered."""
        grown = len(self._archive) - self._clustered
        if grown == 0:
            return False
        if self._config.cluster_growth == 0:
            return True
        return grown >= max(_FEWEST_NEW, self._config.cluster_growth * self._clustered)

    def update(self) -> bool:
        """Cluster the archive anew when that is due; True when the representatives have changed."""
        if not self.due():
            return False
        count = len(self._archive)
        # the seed follows the archive, not the number of calls: a resumed run draws the same sample
        rng = np.random.default_rng((self._seed, count))
        limit = self._config.cluster_sample
        sample = (
            np.arange(count) if limit is None or count <= limit else np.sort(rng.choice(count, limit, replace=False))
        )
        rows = representative_rows(self._archive.images(sample), self._config, seed=self._seed)
        self.restore(sample[rows], clustered=count)
        return True

    def restore(self, numbers: Int64Array, *, clustered: int) -> None:
        """Set the representatives, as after an :meth:`update` at an archive of ``clustered`` triggers."""
        self._numbers = torch.from_numpy(np.asarray(numbers, dtype=np.int64))
        self._vectors = unit_vectors(torch.from_numpy(self._archive.images(self.representatives)).to(self._device))
        self._clustered = clustered
        self.version += 1

    def score(self, images: torch.Tensor, numbers: torch.Tensor) -> torch.Tensor:
        """Eq. 2 for a batch.

        Args:
            images: uint8 (N, C, H, W).
            numbers: int64 (N,): archive number of each image, negative for those that are not archived.

        Returns:
            float32 (N,) in [0, 1].
        """
        images = images.to(self._device)
        blank = images.flatten(1).amax(dim=1) == 0
        if self._vectors is None or len(self._vectors) == 0:
            return torch.where(blank, 0.0, _NOVEL)
        similarity = unit_vectors(images) @ self._vectors.T
        itself = (numbers[:, None] == self._numbers[None, :]).to(self._device)
        nearest = similarity.masked_fill(itself, -torch.inf).amax(dim=1)
        distance = (1.0 - nearest).clamp(0.0, _NOVEL)  # -inf, nothing but itself to compare with, becomes 1
        return torch.where(blank, 0.0, distance)
