"""Recognises pictures that look like a find made from the same real image, before anybody is asked about them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch

from diffgen.metrics.near_duplicates import directions_of
from diffgen.origins import NO_SEED
from diffgen.search.archive import Archive
from diffgen.search.proposal import Answers
from diffgen.types import BoolArray, Float32Array, Int64Array

_KEPT = ("find_seeds", "find_numbers", "finds_latest")  # names in a checkpoint
# Latest finds of a real image that a picture is compared with; with 16, long searches repeated themselves
# (docs/decisions/033-seeds-and-operators.md).
_LATEST = 64
_BYTES = 1 << 28  # of thumbnails; where they are more, half as many of each real image are remembered
_BLOCK = 512  # pictures that are compared at once


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
        self._latest = _LATEST
        self._bytes = 0  # of all thumbnails
        # real image -> numbers in the archive, int64 (n,), and thumbnails, float32 (n, D)
        self._finds: dict[int, tuple[Int64Array, Float32Array]] = {}

    def learn(self, seeds: Int64Array, images: torch.Tensor, answers: Answers) -> None:
        """Remember what was found.

        Args:
            seeds: int64 (N,), the row of the real image that each picture was made from, or ``NO_SEED``.
            images: uint8 (N, C, H, W), the pictures.
        """
        rows = np.flatnonzero((answers.news.numpy() > 0) & (seeds != NO_SEED))
        found = images[torch.from_numpy(rows).to(images.device)].cpu().numpy()
        self._remember(seeds[rows], answers.archive_numbers.numpy()[rows], directions_of(found))

    def _remember(self, seeds: Int64Array, numbers: Int64Array, directions: Float32Array) -> None:
        for seed in np.unique(seeds).tolist():
            own = seeds == seed
            known, thumbnails = self._finds.get(seed, (numbers[:0], directions[:0]))
            after = np.concatenate([thumbnails, directions[own]])[-self._latest :]
            self._finds[seed] = np.concatenate([known, numbers[own]])[-self._latest :], after
            self._bytes += after.nbytes - thumbnails.nbytes
        while self._latest > 1 and self._bytes > _BYTES:
            self._latest //= 2
            # copies: a view would keep what is forgotten
            self._finds = {
                seed: (known[-self._latest :].copy(), thumbnails[-self._latest :].copy())
                for seed, (known, thumbnails) in self._finds.items()
            }
            self._bytes = sum(thumbnails.nbytes for _, thumbnails in self._finds.values())

    def alike(self, images: torch.Tensor, seeds: Int64Array) -> BoolArray:
        """bool (N,): which of uint8 images (N, C, H, W) look like a find made from the same real image."""
        found = np.zeros(len(images), dtype=np.bool_)
        known = np.flatnonzero([seed in self._finds for seed in seeds.tolist()])
        for rows in np.split(known, range(_BLOCK, len(known), _BLOCK)) if len(known) else ():
            pictures = directions_of(images[torch.from_numpy(rows).to(images.device)].cpu().numpy())
            for row, seed, picture in zip(rows.tolist(), seeds[rows].tolist(), pictures, strict=True):
                found[row] = (self._finds[seed][1] @ picture).max() >= self._threshold
        return found

    def checkpoint(self) -> dict[str, Any]:
        """Arrays."""
        order = sorted(self._finds)
        numbers = [self._finds[seed][0] for seed in order]
        seeds = np.repeat(np.array(order, dtype=np.int64), [len(each) for each in numbers])
        return dict(zip(_KEPT, (seeds, np.concatenate([seeds[:0], *numbers]), np.array(self._latest)), strict=True))

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on from what :meth:`checkpoint` gave; of a search that kept nothing, as if nothing was found.

        The archive must be as it was then.
        """
        self._finds, self._bytes = {}, 0
        self._latest = int(state.get(_KEPT[2], _LATEST))
        seeds, numbers = (np.asarray(state.get(name, ()), dtype=np.int64) for name in _KEPT[:2])
        for start in range(0, len(seeds), _BLOCK):
            some = slice(start, start + _BLOCK)
            self._remember(seeds[some], numbers[some], directions_of(self._archive.images(numbers[some])))
