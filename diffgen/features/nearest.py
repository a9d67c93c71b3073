"""Finds the real images that lie nearest to a picture, without measuring the distance to all of them."""

from __future__ import annotations

import torch

from diffgen.numerics import seeded

# Of 600 changed real images of CIFAR-10, 9,000 real ones and these figures, the nearest image was found for 599 and of
# the ten nearest 99.7 %; of MNIST for all 600 and 98.9 % (benchmarks/results/parts.md).
_DIRECTIONS = 64
_LEARNT_FROM = 3_000  # vectors
_SPARE = 15  # candidates beyond those that are wanted
_FEW = 2_048  # vectors that all distances are measured to
_GROUP = 8  # distances whose smallest stands for all of them at first


class Nearest:
    """Finds which of many vectors lie nearest to others (Euclidean).

    Candidates are those that are nearest along the vectors' principal directions, what lies beside these counted as if
    it stood at right angles; distances to the candidates alone are measured. That is right for nearly all pictures
    (see above) and takes an eighth (CIFAR-10) to a quarter (MNIST) of the time of a product with all
    (benchmarks/results/parts.md). Of few all are candidates.

    Args:
        vectors: float32 (N, D), N at least 1, on the device that is to compute.
    """

    def __init__(self, vectors: torch.Tensor) -> None:
        self._vectors = vectors
        self._energies = vectors.square().sum(dim=1)
        self._directions: torch.Tensor | None = None
        if len(vectors) > _FEW and vectors.shape[1] > 2 * _DIRECTIONS:
            self._directions, self._mean = _principal_directions(vectors)
            self._projected = vectors @ self._directions - self._mean @ self._directions
            # squared distances to the mean
            self._offsets = self._energies - 2 * (vectors @ self._mean) + self._mean.square().sum()

    def find(self, vectors: torch.Tensor, count: int) -> tuple[torch.Tensor, torch.Tensor]:
        """The nearest of all.

        Args:
            vectors: float32 (n, D).
            count: how many are wanted, or all where there are no more.

        Returns:
            int64 (n, count), rows of the nearest, the nearest first; and float32 (n, count), the distances.
        """
        count = min(count, len(self._vectors))
        rows = self._candidates(vectors, count)
        # measured anew: what a matrix product leaves of small distances is rounding
        distances = torch.stack([_distances(vectors, self._vectors, row) for row in rows.T], dim=1)
        nearest = distances.topk(count, dim=1, largest=False)
        return rows.gather(1, nearest.indices), nearest.values

    def _candidates(self, vectors: torch.Tensor, count: int) -> torch.Tensor:
        """int64 (n, count or more)."""
        if self._directions is None:
            squared = torch.addmm(self._energies, vectors, self._vectors.T, alpha=-2)
        else:
            count = min(count + _SPARE, len(self._vectors))
            own = (vectors - self._mean) @ self._directions
            squared = torch.addmm(self._offsets, own, self._projected.T, alpha=-2)
        return _smallest(squared, count)


def _distances(vectors: torch.Tensor, others: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
    """float32 (n,), from each of n vectors to the other one of its row."""
    between = others.index_select(0, rows)
    return between.sub_(vectors).norm(dim=1)


def _smallest(values: torch.Tensor, count: int) -> torch.Tensor:
    """int64 (n, count): where the smallest numbers of each row of (n, m) are, the smallest first.

    They lie in those groups whose own smallest are the smallest, and what a group's is takes no sorting.
    """
    groups = values.shape[1] // _GROUP
    if groups <= 2 * count:
        return values.topk(count, dim=1, largest=False).indices
    grouped = values[:, : groups * _GROUP].view(len(values), _GROUP, groups)
    columns = torch.arange(values.shape[1], device=values.device)
    firsts = _smallest(grouped.amin(dim=1), count)
    members = firsts[:, None] + columns[: groups * _GROUP : groups, None]
    rest = columns[groups * _GROUP :].expand(len(values), -1)
    among = torch.cat([members.flatten(1), rest], dim=1)
    return among.gather(1, values.gather(1, among).topk(count, dim=1, largest=False).indices)


def _principal_directions(vectors: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """float32 (D, directions) and the mean (D,), from some of the vectors; the same for the same vectors."""
    with seeded(0):
        # on the CPU, whose stream of random numbers is that of the seed
        some = vectors[torch.randperm(len(vectors))[:_LEARNT_FROM].to(vectors.device)].cpu()
        mean = some.mean(dim=0)
        directions = torch.svd_lowrank(some - mean, q=_DIRECTIONS)[2]
    return directions.to(vectors.device), mean.to(vectors.device)
