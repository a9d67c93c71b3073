"""Pictures that a person would call the same, found among many."""

from __future__ import annotations

import numpy as np
import torch
import torch.nn.functional as F

from diffgen.types import Int64Array, UInt8Array

_THUMBNAIL = 16  # longest side, pixels
_CHUNK = 4096  # images that are made thumbnails of at once
_BLOCK = 512  # images that are compared with all kept ones at once


def near_duplicate_of(
    images: UInt8Array,
    groups: Int64Array,
    *,
    threshold: float,
    device: torch.device | str = "cpu",
) -> Int64Array:
    """For each image the earliest kept image of its group that it is a near-duplicate of; itself when it is kept.

    Images are gone through in their order. One is kept unless its thumbnail correlates (Pearson, over pixels and
    channels) at least ``threshold`` with that of a kept one; among several the earliest counts. A later image can
    therefore never change what was said of an earlier one. Thumbnails are averages over at least 2 x 2 pixels, so that
    grain does not make two pictures of one. An image of one colour has no correlation; it is like any other of one
    colour.

    Args:
        images: uint8 (N, C, H, W).
        groups: int64 (N,) or (N, D); images of different groups (label pairs, say) are never compared.
        threshold: in (-1, 1].
        device: where to compute.

    Returns:
        int64 (N,), row numbers.
    """
    leaders = np.arange(len(images), dtype=np.int64)
    if len(images) == 0:
        return leaders
    inverse = np.unique(groups, axis=0, return_inverse=True)[1].reshape(-1)
    order = np.argsort(inverse, kind="stable")
    for rows in np.split(order, np.flatnonzero(np.diff(inverse[order])) + 1):
        if len(rows) > 1:
            leaders[rows] = rows[_leaders(images[rows], threshold, torch.device(device))]
    return leaders


def _leaders(images: UInt8Array, threshold: float, device: torch.device) -> Int64Array:
    """The same for one group."""
    vectors = torch.cat([_directions(batch, device) for batch in torch.from_numpy(images).split(_CHUNK)])
    leader = np.arange(len(images), dtype=np.int64)
    kept_rows = np.empty(0, dtype=np.int64)
    for start in range(0, len(images), _BLOCK):
        block = vectors[start : start + _BLOCK]
        found = np.full(len(block), -1, dtype=np.int64)
        if len(kept_rows):
            alike = block @ vectors[torch.from_numpy(kept_rows).to(device)].T >= threshold
            found = np.where(alike.any(dim=1).cpu().numpy(), kept_rows[alike.int().argmax(dim=1).cpu().numpy()], -1)
        # within the block one after the other, on a small matrix
        within = (block @ block.T >= threshold).cpu().numpy()
        fresh: list[int] = []
        for row in range(len(block)):
            if found[row] < 0:
                near = [other for other in fresh if within[row, other]]
                if near:
                    found[row] = start + near[0]
                else:
                    fresh.append(row)
                    found[row] = start + row
        leader[start : start + len(block)] = found
        kept_rows = np.concatenate([kept_rows, start + np.asarray(fresh, dtype=np.int64)])
    return leader


def _directions(images: torch.Tensor, device: torch.device) -> torch.Tensor:
    """float32 (N, D): thumbnails with mean 0 and length 1; for those of one colour, one and the same vector."""
    _, _, height, width = images.shape
    factor = max(2, -(-max(height, width) // _THUMBNAIL)) if min(height, width) >= 2 else 1
    small = F.avg_pool2d(images.to(device, torch.float32), factor, ceil_mode=True).flatten(1)
    centred = small - small.mean(dim=1, keepdim=True)
    length = torch.linalg.vector_norm(centred, dim=1, keepdim=True)
    plain = torch.zeros_like(centred)
    # an extra axis holds those without a direction
    directions = torch.where(length > 1e-3, centred / length.clamp_min(1e-3), plain)
    return torch.cat([directions, (length <= 1e-3).to(torch.float32)], dim=1)
