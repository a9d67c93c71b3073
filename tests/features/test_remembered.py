"""What is remembered is what would be made, and no more of it is kept than fits."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import torch
from hypothesis import given
from hypothesis import strategies as st

from diffgen.features.remembered import Remembered

IMAGES = torch.randint(0, 256, (12, 1, 5, 4), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))


def _sums(images: torch.Tensor) -> torch.Tensor:
    return images.to(torch.float64).flatten(2).cumsum(dim=2)


ROW = _sums(IMAGES[:1]).nbytes + 1024  # bytes that one is counted as


@given(st.lists(st.lists(st.integers(0, 11), min_size=1, max_size=9), max_size=8), st.integers(0, 6))
def test_it_gives_what_is_made_and_makes_it_once_while_it_fits(batches: list[list[int]], fit: int) -> None:
    made: list[int] = []

    def make(images: torch.Tensor) -> torch.Tensor:
        made.extend((images.flatten(1)[:, None] == IMAGES.flatten(1)[None]).all(dim=2).int().argmax(dim=1).tolist())
        return _sums(images)

    remembered = Remembered(make, fit * ROW)
    latest: list[int] = []  # the last is the one that was asked for last
    for batch in batches:
        made.clear()
        assert torch.equal(remembered(IMAGES[batch]), _sums(IMAGES[batch]))
        assert sorted(made) == sorted(set(batch) - set(latest))
        for each in dict.fromkeys(batch):
            latest = [other for other in latest if other != each] + [each]
        latest = latest[len(latest) - min(fit, len(latest)) :]


def test_several_threads_may_ask() -> None:
    remembered = Remembered(_sums, 3 * ROW)
    batches = [torch.randint(0, 12, (4,), generator=torch.Generator().manual_seed(n)) for n in range(300)]
    with ThreadPoolExecutor(8) as pool:
        for rows, got in zip(batches, pool.map(lambda rows: remembered(IMAGES[rows]), batches), strict=True):
            assert torch.equal(got, _sums(IMAGES[rows]))
