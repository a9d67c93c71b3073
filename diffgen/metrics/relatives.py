"""Which pictures show nearly the same, and a division of pictures in two that no such group lies across."""

from __future__ import annotations

import numpy as np
from scipy.sparse import coo_matrix
from scipy.sparse.csgraph import connected_components

from diffgen.metrics.near_duplicates import alike_pairs
from diffgen.types import BoolArray, Int64Array, UInt8Array


def groups_of_relatives(images: UInt8Array, seeds: Int64Array, *, threshold: float) -> Int64Array:
    """The group of each picture: what is made from one seed image or is a near-duplicate is of one, and theirs are too.

    Args:
        images: uint8 (N, C, H, W).
        seeds: int64 (N,), what each was made from; a negative number: from nothing that another was made from.
        threshold: in (-1, 1], see :class:`diffgen.metrics.near_duplicates.DistinctPictures`.

    Returns:
        int64 (N,), numbered from 0 in the order in which their first pictures come.
    """
    numbers = np.arange(len(images), dtype=np.int64)
    _, first, inverse = np.unique(seeds, return_index=True, return_inverse=True)
    groups = np.where(seeds < 0, numbers, first[inverse.reshape(-1)])
    for one, other in alike_pairs(images, threshold=threshold):
        # the groups so far join those of the pairs, so that no more pairs than a block's are held at once
        ends = np.concatenate([numbers, one]), np.concatenate([groups, other])
        links = coo_matrix((np.ones(len(ends[0]), dtype=np.bool_), ends), shape=(len(images), len(images)))
        groups = connected_components(links, directed=False)[1].astype(np.int64)
        _, first, inverse = np.unique(groups, return_index=True, return_inverse=True)
        groups = first[inverse.reshape(-1)]
    return np.asarray(np.unique(groups, return_inverse=True)[1].reshape(-1), dtype=np.int64)


def divided(groups: Int64Array, labels: Int64Array, *, share: float, seed: int) -> BoolArray:
    """Which pictures are of the second, smaller part: of each label ``share`` at most, and of a group all or none.

    Groups are taken in random order as long as none of their labels gets more than its share, rounded.

    Args:
        groups: int64 (N,), from 0.
        labels: int64 (N,), from 0.
        share: 0..1.
        seed: of the order.

    Returns:
        bool (N,).
    """
    room = np.floor(share * np.bincount(labels) + 0.5).astype(np.int64)
    chosen = np.zeros(len(groups), dtype=np.bool_)
    members = np.split(np.argsort(groups, kind="stable"), np.cumsum(np.bincount(groups))[:-1])
    for group in np.random.default_rng(seed).permutation(len(members)):
        wanted = np.bincount(labels[members[group]], minlength=len(room))
        if (wanted <= room).all():
            room -= wanted
            chosen[members[group]] = True
    return chosen
