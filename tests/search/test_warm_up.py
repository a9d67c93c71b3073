"""After warming up, which a technique does before its clock starts, a search compiles nothing on its own clock."""

from __future__ import annotations

import sys

import numpy as np
import pytest

from diffgen.search.clustering import representative_rows
from diffgen.search.warm_up import warm_up
from diffgen.techniques import preset


def test_the_default_search_finds_its_clustering_imported() -> None:
    warm_up(preset("diffgan", "default").search)
    assert {"hdbscan", "sklearn.decomposition"} <= sys.modules.keys()


@pytest.mark.slow  # UMAP is compiled
def test_nothing_of_umap_is_left_to_compile() -> None:
    config = preset("diffgan", "paper").search
    warm_up(config)
    from numba.core import event

    points = np.random.default_rng(1).random((4200, 20), dtype=np.float32)
    for count in (30, 300, 4200):  # the last number takes another way through UMAP
        with event.install_recorder("numba:compile") as recorded:
            representative_rows(points[:count], config, seed=1)
        assert [str(each[1].data.get("dispatcher")) for each in recorded.buffer if each[1].is_start] == []
