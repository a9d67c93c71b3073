"""Tells pictures that look like a find made from the same real image, before anybody is asked about them."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from diffgen.metrics.near_duplicates import directions_of
from diffgen.origins import NO_SEED
from diffgen.search.archive import Archive
from diffgen.search.proposal import Answers
from diffgen.types import BoolArray, Int64Array

_KEPT = ("find_seeds", "find_numbers")  # names in a checkpoint
_LATEST = 16  # finds of a real image that a picture is compared with


class SeedFinds:
    """The finds of every real image, as far as a search remembers them: the latest of each.

    A picture is like a find where their thumbnails correlate as those of near-duplicates do
    (:class:`diffgen.metrics.near_duplicates.DistinctPictures`), whatever the models say of it: nobody has asked them.

    Args:
        archive: holds the pictures of the finds.
        near_duplicate: correlation from which on a picture is like a find, in (-1, 1].
    """

    def __init__(self, archive: Archive, near_duplicate: float) -> None:
        self._archive = archive
        self._threshold = near_duplicate
        self._finds: defaultdict[int, deque[int]] = defaultdict(lambda: deque(maxlen=_LATEST))

    def learn(self, seeds: Int64Array, answers: Answers) -> None:
        """Remember what was found.

        Args:
            seeds: int64 (N,), the row of the real image that each picture was made from, or ``NO_SEED``.
            answers: to the N pictures.
        """
        for row in np.flatnonzero((answers.news.numpy() > 0) & (seeds != NO_SEED)).tolist():
            self._finds[int(seeds[row])].append(int(answers.archive_numbers[row]))

    def alike(self, images: torch.Tensor, seeds: Int64Array) -> BoolArray:
        """bool (N,): which of uint8 images (N, C, H, W) look like a find made from the same real image."""
        found = np.zeros(len(images), dtype=np.bool_)
        pairs = [(row, number) for row, seed in enumerate(seeds.tolist()) for number in self._finds.get(seed, ())]
        if pairs:
            rows, numbers = np.array(pairs, dtype=np.int64).T
            known, find = np.unique(numbers, return_inverse=True)
            asked, picture = np.unique(rows, return_inverse=True)
            finds = directions_of(self._archive.images(known))
            pictures = directions_of(images[torch.from_numpy(asked)].cpu().numpy())
            alike = (pictures[picture] * finds[find]).sum(axis=1) >= self._threshold
            found[rows[alike]] = True
        return found

    def checkpoint(self) -> dict[str, Any]:
        """Arrays."""
        pairs: list[tuple[int, int]] = [(seed, number) for seed, own in self._finds.items() for number in own]
        values: NDArray[np.int64] = np.array(pairs, dtype=np.int64).reshape(-1, 2)
        return dict(zip(_KEPT, values.T, strict=True))

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on from what :meth:`checkpoint` gave; of a search that kept nothing, as if nothing was found.

        The archive must be as it was then.
        """
        self._finds.clear()
        for seed, number in zip(*(np.asarray(state.get(name, ())).tolist() for name in _KEPT), strict=True):
            self._finds[seed].append(number)
