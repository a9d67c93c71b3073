"""Imports and compiles what a search would otherwise import and compile on its own clock."""

from __future__ import annotations

import warnings

import numpy as np

from diffgen.config import SearchConfig
from diffgen.search.clustering import representative_rows

_POINTS, _PIXELS = 60, 784


def warm_up(config: SearchConfig) -> None:
    """Cluster a few random points as a search with this configuration does it.

    Importing and compiling UMAP takes some ten seconds in every new process, HDBSCAN some; a search of a minute that
    pays for it has a sixth less time than the others. From 4,096 points on, UMAP looks for neighbours with code that is
    compiled on its own, so it is made to run that too. A technique that clusters calls it in its own
    ``warm_up``, before the clock of its search starts.
    """
    points = np.random.default_rng(0).random((_POINTS, _PIXELS), dtype=np.float32)
    representative_rows(points, config, seed=0)
    if config.reducer == "umap":
        from umap import UMAP

        with warnings.catch_warnings():
            warnings.simplefilter("ignore", category=UserWarning)  # of one thread, and of few points
            UMAP(n_neighbors=config.umap_neighbors, n_jobs=1, random_state=0, force_approximation_algorithm=True).fit(
                points
            )
