"""Cores and GPUs shared out among workers, against trying every share."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from diffgen.errors import UserError
from diffgen.pool import ray_cluster
from diffgen.pool.ray_cluster import share
from tests.recording import Recording


@given(
    st.lists(st.sampled_from([0.0, 0.01, 0.5, 1.0, 3.0]), max_size=4),
    st.integers(1, 12),
    st.sampled_from([0.25, 1.0, 2.0]),
)
def test_no_larger_share_finds_places_for_all(places: list[float], workers: int, wanted: float) -> None:
    def fits(units: int) -> bool:
        return sum(round(10_000 * place) // units for place in places) >= workers

    tried = (units for units in range(int(10_000 * wanted), 0, -1) if fits(units))
    assert share(places, workers, wanted) == next(tried, 0) / 10_000


def test_three_workers_share_two_gpus() -> None:
    # two thirds of a GPU for each would leave the third worker without: a third of each of two is no two thirds
    assert share([1.0, 1.0], 3, 1.0) == 0.5


class _Cluster(ray_cluster.Cluster):
    """One whose machines are told."""

    def __init__(self, nodes: list[dict[str, Any]]) -> None:
        self.ray, self._began = self, False
        self._nodes = nodes

    def nodes(self) -> list[dict[str, Any]]:
        return [{"Alive": True, "Resources": each} for each in self._nodes] + [
            {"Alive": False, "Resources": {"CPU": 64.0, "GPU": 8.0}}
        ]


def test_what_machines_have_is_shared_out(told: Any) -> None:
    two = _Cluster([{"CPU": 4.0, "GPU": 1.0}, {"CPU": 4.0, "GPU": 1.0}])
    said = Recording()
    assert two.shares(4, 2.0, gpus=True, progress=said.progress) == (2.0, 0.5)
    assert two.shares(2, 3.0, gpus=False, progress=said.progress) == (3.0, 0.0)
    assert said.warnings == []
    assert two.shares(16, 1.0, gpus=False, progress=said.progress) == (0.5, 0.0)
    told("Workers", "more workers than the cluster has cores: a warning", said.warnings[0])
    with pytest.raises(UserError) as caught:
        _Cluster([{"CPU": 4.0}]).shares(2, 1.0, gpus=True, progress=said.progress)
    told("Workers", "a Ray cluster without GPUs for a search on one", caught.value)
