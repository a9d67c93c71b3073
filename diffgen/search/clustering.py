"""HDBSCAN over a set of trigger images, and who stands for each cluster."""

from __future__ import annotations

import warnings

import numpy as np
from threadpoolctl import threadpool_limits

from diffgen.config import SearchConfig
from diffgen.types import Float32Array, Int64Array

_NOISE = -1
_SHORT = 256  # numbers of a vector


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
    rows = [int(members[np.argmax(strength[members])]) for members in _members(labels)]
    noise = np.flatnonzero(labels == _NOISE)
    if len(noise) > config.noise_representatives:
        noise = noise[np.linspace(0, len(noise) - 1, config.noise_representatives).astype(np.int64)]
    chosen = np.unique(np.concatenate([np.asarray(rows, dtype=np.int64), noise]))
    # noise points may be turned off (preset paper) and then nothing is left when all is noise
    return chosen if len(chosen) else np.flatnonzero(labels == _NOISE)[:1]


def _members(labels: Int64Array) -> list[Int64Array]:
    return [np.flatnonzero(labels == cluster) for cluster in range(labels.max() + 1)]


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
