"""Which behaviours a search has met, how often, and when it last met a new one.

They are counted as at the end of the search (:mod:`diffgen.metrics.counting`), as far as that is known in it: the
filters' verdicts when the search asks them, and near-duplicates. Only that the models give the same labels when they
are asked again is known afterwards.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch

from diffgen.metrics.near_duplicates import DistinctPictures
from diffgen.search.archive import Archive
from diffgen.search.proposal import NEW_BEHAVIOUR, NEW_TRIGGER
from diffgen.tasks.classification import behaviours
from diffgen.types import BoolArray, Int64Array, UInt8Array


class Behaviours:
    """The behaviours of the distinct pictures met so far.

    Args:
        cells: the cell of each image, int64 (N,) for uint8 (N, C, H, W).
        near_duplicate: correlation of thumbnails from which on two pictures count as one; see
            :class:`diffgen.metrics.near_duplicates.DistinctPictures`.

    Attributes:
        pictures: how many were added, near-duplicates among them.
        latest_query: queries asked when the latest new behaviour was met.
    """

    def __init__(self, cells: Callable[[torch.Tensor], Int64Array], near_duplicate: float) -> None:
        self.cells = cells
        self._met: set[tuple[int, ...]] = set()
        self._named: set[tuple[int, ...]] = set()  # of recognised pictures
        self._distinct = DistinctPictures(near_duplicate)
        self.pictures = 0
        self.latest_query = 0

    def __len__(self) -> int:
        return len(self._met)

    @property
    def label_pairs(self) -> int:
        """Number of different labels of the models."""
        return len({key[:-1] for key in self._met})

    def add(
        self,
        images: UInt8Array,
        labels: Int64Array,
        cells: Int64Array,
        numbers: Int64Array,
        *,
        query: int,
        recognised: BoolArray | None = None,
    ) -> tuple[Int64Array, Int64Array]:
        """Count triggers that the archive did not hold before, in its order.

        Args:
            images: uint8 (N, C, H, W).
            labels: int64 (N, M) of the M models.
            cells: int64 (N,).
            numbers: int64 (N,), ascending, numbers in the archive.
            query: queries asked when they were found.
            recognised: bool (N,), which the jury recognises; None: there is no jury, all count as recognised.

        Returns:
            int64 (N,) twice: ``NEW_BEHAVIOUR`` for the first picture of one, ``NEW_TRIGGER`` for others that are no
            near-duplicates, 0 for the rest; and the same among recognised ones alone. See
            :class:`diffgen.search.proposal.Answers`.
        """
        kept = self._distinct.add(images, labels, numbers) == numbers
        self.pictures += len(images)
        named = kept if recognised is None else kept & recognised
        news, named_news = np.where(kept, NEW_TRIGGER, 0), np.where(named, NEW_TRIGGER, 0)
        rows = np.flatnonzero(kept)
        for row, key in zip(rows.tolist(), map(tuple, behaviours(labels[kept], cells[kept]).tolist()), strict=True):
            if key not in self._met:
                self._met.add(key)
                news[row] = NEW_BEHAVIOUR
                self.latest_query = query
            if named[row] and key not in self._named:
                self._named.add(key)
                named_news[row] = NEW_BEHAVIOUR
        return news.astype(np.int64), named_news.astype(np.int64)

    def meet(self, keys: Int64Array) -> None:
        """Count behaviours as known that another search met, int64 (n, M + 1), without any pictures of them."""
        self._met.update(map(tuple, keys.tolist()))

    @property
    def met(self) -> Int64Array:
        """All that were met, int64 (N, M + 1), sorted."""
        return _as_array(self._met)

    def checkpoint(self) -> dict[str, Any]:
        """What was met, as arrays and JSON values."""
        return {
            "behaviours": self.met,
            "behaviours_named": _as_array(self._named),
            "behaviour_query": self.latest_query,
            "behaviour_distinct": self._distinct.kept,
            "behaviour_pictures": self.pictures,
        }

    def restore(self, state: Mapping[str, Any], archive: Archive) -> None:
        """Go on from what :meth:`checkpoint` gave; the archive must be as it was then."""
        kept = state["behaviour_distinct"]
        self._distinct.restore(archive.images(kept), archive.labels()[kept], kept)
        self.pictures = int(state["behaviour_pictures"])
        self._met = set(map(tuple, state["behaviours"].tolist()))
        self._named = set(map(tuple, state["behaviours_named"].tolist())) if "behaviours_named" in state else set()
        self.latest_query = int(state["behaviour_query"])


def _as_array(keys: set[tuple[int, ...]]) -> Int64Array:
    """int64 (N, M + 1), sorted."""
    return np.array(sorted(keys), dtype=np.int64).reshape(len(keys), len(next(iter(keys), ())))
