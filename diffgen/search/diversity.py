"""Distance to what was already found: the second objective, and the clusters of the archive that it is measured by.

Paper, section 3.3.2.2 and Eq. 2: the smallest cosine distance, over pixels, to the representatives of the HDBSCAN
clusters of the archive. The archive moves, so the representatives carry a version; whoever keeps a score compares it.
"""

from __future__ import annotations

import warnings
from typing import Protocol

import numpy as np
import torch
import torch.nn.functional as F
from threadpoolctl import threadpool_limits

from diffgen.config import SearchConfig
from diffgen.features.encoder import DomainEncoder
from diffgen.features.shrinking import shrunk
from diffgen.search.archive import Archive
from diffgen.search.survival import turns
from diffgen.types import Float32Array, Int64Array

_MIN_NEW = 20  # triggers that must have come in before a small archive is clustered again
_NOISE = -1
_SHORT = 256  # numbers of a vector


class ImageEmbedding(Protocol):
    """Images as vectors.

    Attributes:
        farthest: the largest cosine distance that two images can have.
    """

    farthest: float

    def points(self, images: torch.Tensor) -> torch.Tensor:
        """float32 (N, D) for uint8 (N, C, H, W): what is clustered, and what cosine distances are taken of."""
        ...


class FeatureEmbedding:
    """Features of the domain encoder; they have either sign, so that a cosine distance may reach 2."""

    farthest = 2.0

    def __init__(self, encoder: DomainEncoder) -> None:
        self._encoder = encoder

    def points(self, images: torch.Tensor) -> torch.Tensor:
        """float32 (N, 64) for uint8 (N, C, H, W)."""
        return self._encoder.encode(images)


class PixelEmbedding:
    """The grey levels themselves, of large images averaged down to 32 pixels a side.

    They are not negative, so that no two images are further apart than 1.
    """

    farthest = 1.0

    def points(self, images: torch.Tensor) -> torch.Tensor:
        """float32 (N, C h w) in [0, 1] for uint8 (N, C, H, W)."""
        return shrunk(images).flatten(1).to(torch.float32) / 255


class Diversity:
    """Smallest cosine distance of each image to the archive's representatives, itself left out.

    With nothing to compare with (empty archive, or the image is the only representative) the distance is the largest
    that there is. A blank image has no direction; its distance is 0, so that nothing is won by drawing nothing.

    Args:
        archive: the triggers found so far.
        seed: seed of the sample and of the reducer.
        device: where scores are computed.

    Attributes:
        device: the same.
        clustered: size of the archive when the representatives were last chosen.
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
        self.clustered = 0
        self.version = 0

    @property
    def representatives(self) -> Int64Array:
        """int64 (R,): the archive numbers of the present representatives, ascending."""
        return self._numbers.numpy()

    def due(self) -> bool:
        """Whether the archive has grown enough since the representatives were last chosen."""
        grown, share = len(self._archive) - self.clustered, self._config.cluster_growth
        return grown > 0 and (share == 0 or grown >= max(_MIN_NEW, share * self.clustered))

    def update(self) -> bool:
        """Choose representatives anew when that is due; True when they have changed."""
        if not self.due():
            return False
        count = len(self._archive)
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
        self._numbers, self.clustered = torch.from_numpy(np.asarray(numbers, dtype=np.int64)), clustered
        self._vectors = F.normalize(self._points(self.representatives))
        self.version += 1

    def _points(self, numbers: Int64Array) -> torch.Tensor:
        return self._space.points(self._archive.compared(numbers).to(self.device))

    def score(self, images: torch.Tensor, numbers: torch.Tensor) -> torch.Tensor:
        """Eq. 2 for a batch.

        Args:
            images: uint8 (N, C, H, W), or what :func:`diffgen.features.shrinking.shrunk` made of them.
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
        itself = numbers[:, None] == self._numbers[None].to(self.device)
        nearest = (vectors @ self._vectors.T).masked_fill_(itself, -torch.inf).amax(dim=1)
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
    order = turns(torch.from_numpy(pairs[shuffled])).argsort(stable=True).numpy()
    return np.sort(shuffled[order[:limit]])


def representative_rows(points: Float32Array, config: SearchConfig, *, seed: int) -> Int64Array:
    """The rows that stand for the clusters of a set of images.

    For each cluster the member with the highest membership probability (the first of equals). A noise point belongs to
    no cluster and stands for itself, up to ``config.noise_representatives`` of them, evenly chosen. Where clustering
    says nothing (fewer images than two clusters need) every image stands for itself.

    Args:
        points: float32 (N, D), the images in the space in which they are compared.
        config: reducer, its settings and HDBSCAN's.
        seed: seed of the reducer.

    Returns:
        int64 (R,), ascending, R >= 1 when N >= 1.
    """
    count = len(points)
    if count < 2 * config.min_cluster_size + 1:
        return np.arange(count)
    if (points == points[:1]).all():
        return np.zeros(1, dtype=np.int64)
    from hdbscan import HDBSCAN

    # two threads take twice as long for so few points, and more of them than cores are free many times as long
    # (docs/decisions/055)
    with threadpool_limits(1, user_api="blas"), warnings.catch_warnings():
        reduced = _reduce(points, config, seed)
        # hdbscan 0.8.44 still uses an argument name that scikit-learn 1.6 renamed
        warnings.filterwarnings("ignore", category=FutureWarning, module="sklearn")
        clustering = HDBSCAN(min_cluster_size=config.min_cluster_size, core_dist_n_jobs=1).fit(reduced)
    labels, strength = clustering.labels_, clustering.probabilities_
    members = [np.flatnonzero(labels == cluster) for cluster in range(labels.max() + 1)]
    rows = [int(each[np.argmax(strength[each])]) for each in members]
    noise = np.flatnonzero(labels == _NOISE)
    if len(noise) > config.noise_representatives:
        noise = noise[np.linspace(0, len(noise) - 1, config.noise_representatives).astype(np.int64)]
    chosen = np.unique(np.concatenate([np.asarray(rows, dtype=np.int64), noise]))
    # noise points may be turned off (preset paper) and then nothing is left when all is noise
    return chosen if len(chosen) else np.flatnonzero(labels == _NOISE)[:1]


def _reduce(points: Float32Array, config: SearchConfig, seed: int) -> Float32Array:
    """float32 (N, at most ``reducer_dim``)."""
    dim = min(config.reducer_dim, points.shape[1], len(points) - 1)
    if config.reducer == "pca":
        from sklearn.decomposition import PCA

        # of short vectors the covariance matrix gives the directions in a third of the time
        solver = "covariance_eigh" if points.shape[1] <= _SHORT else "randomized"
        # about their mean, since that matrix is a difference of sums
        centred = points - points.mean(axis=0)
        return np.asarray(PCA(dim, svd_solver=solver, random_state=seed).fit_transform(centred), dtype=np.float32)
    from umap import UMAP

    # UMAP begins with one eigenvector more than there are dimensions, and eigsh finds fewer than there are points
    dim = min(dim, len(points) - 2)
    with warnings.catch_warnings():
        # a seed makes UMAP run in one thread, and it warns of that even when one thread was asked for
        warnings.filterwarnings("ignore", message="n_jobs value", category=UserWarning)
        warnings.filterwarnings("ignore", message="n_neighbors is larger", category=UserWarning)
        reducer = UMAP(
            n_components=dim,
            n_neighbors=config.umap_neighbors,
            min_dist=config.umap_min_dist,
            random_state=seed,
            n_jobs=1,
        )
        return np.asarray(reducer.fit_transform(points), dtype=np.float32)


def warm_up(config: SearchConfig) -> None:
    """Cluster a few random points as a search with this configuration does it.

    Importing and compiling UMAP takes some ten seconds in every new process, HDBSCAN some; a search of a minute that
    pays for it has a sixth less time than the others. From 4,096 points on, UMAP looks for neighbours with code that is
    compiled on its own, so it is made to run that too. A technique that clusters calls it in its own
    ``warm_up``, before the clock of its search starts.
    """
    points = np.random.default_rng(0).random((60, 784), dtype=np.float32)
    representative_rows(points, config, seed=0)
    if config.reducer == "umap":
        from umap import UMAP

        with warnings.catch_warnings():
            warnings.simplefilter("ignore", category=UserWarning)  # of one thread, and of few points
            UMAP(n_neighbors=config.umap_neighbors, n_jobs=1, random_state=0, force_approximation_algorithm=True).fit(
                points
            )
