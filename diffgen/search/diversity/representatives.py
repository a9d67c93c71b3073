"""Distance to the representatives of the archive.

Paper, section 3.3.2.2 and Eq. 2: the smallest cosine distance, over pixels, to the representatives of the HDBSCAN
clusters of the archive. The archive moves, so the representatives carry a version; whoever keeps a score compares it.
"""

from __future__ import annotations

import numpy as np
import torch
import torch.nn.functional as F

from diffgen.config import SearchConfig
from diffgen.search.archive import Archive
from diffgen.search.clustering import representative_rows
from diffgen.search.diversity.embedding import ImageEmbedding
from diffgen.search.turns import turns
from diffgen.types import Int64Array

_MIN_NEW = 20  # triggers that must have come in before a small archive is clustered again
_ROWS = 8192  # representatives that a batch is compared with at once


class Diversity:
    """Smallest cosine distance of each image to the archive's representatives, itself left out.

    With nothing to compare with (empty archive, or the image is the only representative) the distance is the largest
    that there is. A blank image has no direction; its distance is 0, so that nothing is won by drawing nothing.

    With ``config.representatives`` "all", every archived trigger stands for itself: the exact measure, whose cost grows
    with the archive, and with which the clusters' is compared.

    Args:
        archive: the triggers found so far.
        config: representatives, reducer, sample and schedule.
        space: in which images are compared.
        seed: seed of the sample and of the reducer.
        device: where scores are computed.

    Attributes:
        device: the same.
    """

    def __init__(
        self, archive: Archive, config: SearchConfig, *, space: ImageEmbedding, seed: int, device: torch.device
    ) -> None:
        self._archive = archive
        self._config = config
        self._space = space
        self._seed = seed
        self.device = device
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
        """Size of the archive when the representatives were last chosen."""
        return self._clustered

    def due(self) -> bool:
        """Whether the archive has grown enough since the representatives were last chosen."""
        grown = len(self._archive) - self._clustered
        if grown == 0:
            return False
        if self._config.cluster_growth == 0 or self._config.representatives == "all":
            return True
        return grown >= max(_MIN_NEW, self._config.cluster_growth * self._clustered)

    def update(self) -> bool:
        """Choose representatives anew when that is due; True when they have changed."""
        if not self.due():
            return False
        count = len(self._archive)
        if self._config.representatives == "all":
            self._append(np.arange(self._clustered, count), clustered=count)
            return True
        # the seed follows the archive, not the number of calls: a resumed run draws the same sample
        rng = np.random.default_rng((self._seed, count))
        limit = self._config.cluster_sample
        if limit is None or count <= limit:
            sample = np.arange(count)
        else:
            sample = stratified_rows(self._archive.labels(), limit, rng)
        points = self._points(sample).cpu().numpy()
        self.restore(sample[representative_rows(points, self._config, seed=self._seed)], clustered=count)
        return True

    def restore(self, numbers: Int64Array, *, clustered: int) -> None:
        """Set the representatives, as after an :meth:`update` at an archive of ``clustered`` triggers."""
        self._numbers, self._vectors = torch.empty(0, dtype=torch.int64), None
        self._append(np.asarray(numbers, dtype=np.int64), clustered=clustered)

    def _append(self, numbers: Int64Array, *, clustered: int) -> None:
        vectors = F.normalize(self._points(numbers))
        self._vectors = vectors if self._vectors is None else torch.cat([self._vectors, vectors])
        self._numbers = torch.cat([self._numbers, torch.from_numpy(numbers)])
        self._clustered = clustered
        self.version += 1

    def _points(self, numbers: Int64Array) -> torch.Tensor:
        return self._space.points(torch.from_numpy(self._archive.images(numbers)).to(self.device))

    def score(self, images: torch.Tensor, numbers: torch.Tensor) -> torch.Tensor:
        """Eq. 2 for a batch.

        Args:
            images: uint8 (N, C, H, W).
            numbers: int64 (N,): archive number of each image, negative for those that are not archived.

        Returns:
            float32 (N,) from 0 to the space's ``farthest``.
        """
        images, numbers = images.to(self.device), numbers.to(self.device)
        blank = images.flatten(1).amax(dim=1) == 0
        farthest = self._space.farthest
        if self._vectors is None or len(self._vectors) == 0:
            return torch.where(blank, 0.0, farthest)
        vectors = F.normalize(self._space.points(images))
        nearest = torch.full((len(images),), -torch.inf, device=self.device)
        for rows in torch.arange(len(self._vectors)).split(_ROWS):
            few = slice(int(rows[0]), int(rows[-1]) + 1)
            similarity = vectors @ self._vectors[few].T
            itself = numbers[:, None] == self._numbers[None, few].to(self.device)
            nearest = torch.maximum(nearest, similarity.masked_fill_(itself, -torch.inf).amax(dim=1))
        # -inf, nothing but itself to compare with, becomes the farthest
        return torch.where(blank, 0.0, (1.0 - nearest).clamp(0.0, farthest))


def stratified_rows(labels: Int64Array, limit: int, rng: np.random.Generator) -> Int64Array:
    """A sample in which no label pair has more than another that has any left to give.

    Args:
        labels: int64 (N, M), N > limit.

    Returns:
        int64 (limit,), ascending.
    """
    # not one number for each tuple that there could be: of many models and classes these are more than int64 holds
    pairs = np.unique(labels, axis=0, return_inverse=True)[1].reshape(-1)
    shuffled = rng.permutation(len(labels))
    order = np.argsort(turns(pairs[shuffled]), kind="stable")
    return np.sort(shuffled[order[:limit]])
