"""DRfuzz's corpus: real images and mutants worth mutating again, and how likely each of them is chosen."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from diffgen.types import Float32Array, Int64Array, UInt8Array

MAX_SELECTIONS = 10
DECAY = math.log(20) / 20  # after 20 generations a twentieth is left
NO_PARENT = -1

_COLUMNS: dict[str, type[Any]] = {
    "root": np.int64,  # number of the real image that the line of mutants began with
    "parent": np.int64,  # the entry that this one was made from
    "generation": np.int64,
    "selected": np.int64,
    "retired": np.bool_,
    "drift": np.int64,  # the class that B has moved towards most, compared with A
    "right_a": np.float32,  # probability of the right class
    "right_b": np.float32,
}


class Corpus:
    """Entries 0, 1, 2, ...; the first are the real images.

    Args:
        images: uint8 (n, C, H, W), the real images.
        columns: ``drift`` int64 (n,), ``right_a`` and ``right_b`` float32 (n,).
    """

    def __init__(self, images: UInt8Array, **columns: NDArray[Any]) -> None:
        count = len(images)
        self.roots = count
        self._real = images
        self._added: list[UInt8Array] = []
        self._recipes: list[str] = []  # of those that were added
        self.banned = np.zeros(count, dtype=np.bool_)
        self.columns: dict[str, NDArray[Any]] = {
            "root": np.arange(count),
            "parent": np.full(count, NO_PARENT, dtype=np.int64),
            "generation": np.zeros(count, dtype=np.int64),
            "selected": np.zeros(count, dtype=np.int64),
            "retired": np.zeros(count, dtype=np.bool_),
            **columns,
        }

    def __len__(self) -> int:
        return len(self.columns["root"])

    def images(self, entries: Int64Array) -> UInt8Array:
        """uint8 (len(entries), C, H, W)."""
        roots = self.roots
        return np.stack([self._real[e] if e < roots else self._added[e - roots] for e in entries.tolist()])

    def recipe(self, entry: int) -> str:
        """How an entry was made from its real image; see :mod:`diffgen.origins`."""
        return "" if entry < self.roots else self._recipes[entry - self.roots]

    def weights(self) -> NDArray[np.float64]:
        """(len(self),): exp(-a (g + s / 2)) for an entry of generation g that was selected s times.

        0 after more than ``MAX_SELECTIONS`` selections, for a retired entry, and for those of a banned real image.
        """
        of = self.columns
        weights = np.exp(-DECAY * (of["generation"] + of["selected"] / 2))
        weights[(of["selected"] > MAX_SELECTIONS) | of["retired"] | self.banned[of["root"]]] = 0.0
        return np.asarray(weights)

    def select(self, count: int, rng: np.random.Generator) -> Int64Array:
        """int64 (at most ``count``,): different entries, drawn by their weights and marked as selected.

        When no entry has any weight left, all are taken up again as if they had never been selected.
        """
        weights = self.weights()
        if not weights.any():
            self.columns["selected"][:] = 0
            self.columns["retired"][:] = False
            self.banned[:] = False
            weights = self.weights()
        possible = np.flatnonzero(weights)
        share = weights[possible] / weights[possible].sum()
        chosen = rng.choice(possible, size=min(count, len(possible)), replace=False, p=share)
        self.columns["selected"][chosen] += 1
        return np.asarray(chosen, dtype=np.int64)

    def add(self, images: UInt8Array, parents: Int64Array, recipes: Sequence[str], **columns: NDArray[Any]) -> None:
        """Take in mutants of the entries ``parents`` with their recipes; the columns are those of the constructor."""
        count = len(images)
        new = {
            "root": self.columns["root"][parents],
            "parent": parents,
            "generation": self.columns["generation"][parents] + 1,
            "selected": np.zeros(count, dtype=np.int64),
            "retired": np.zeros(count, dtype=np.bool_),
            **columns,
        }
        self._added.extend(images)
        self._recipes.extend(recipes)
        self.columns = {name: np.concatenate([self.columns[name], new[name]]) for name in _COLUMNS}

    def retire(self, entry: int, fault: int) -> None:
        """Retire those of an entry and its ancestors whose drift was the class that B has now fallen into."""
        while entry != NO_PARENT:
            if self.columns["drift"][entry] == fault:
                self.columns["retired"][entry] = True
            entry = int(self.columns["parent"][entry])

    def state(self) -> dict[str, Any]:
        """Everything but the real images, as arrays and JSON values."""
        shape = (0, *self._real.shape[1:])
        added = np.stack(self._added) if self._added else np.empty(shape, dtype=np.uint8)
        columns = {f"corpus_{name}": self.columns[name] for name in _COLUMNS}
        return {**columns, "added": added, "recipes": list(self._recipes), "banned": self.banned}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Take back what :meth:`state` gave. ValueError if it was made for other real images."""
        self.columns = {name: np.asarray(state[f"corpus_{name}"], dtype=kind) for name, kind in _COLUMNS.items()}
        self._added = list(state["added"])
        self._recipes = list(state["recipes"])
        self.banned = state["banned"]
        if len(self.banned) != self.roots or not len(self) - self.roots == len(self._added) == len(self._recipes):
            raise ValueError("the corpus belongs to other real images")


def drift(probabilities: Float32Array, labels: Int64Array) -> Float32Array:
    """float32 (N, K): by how much B gives each class more than A does; -infinity for the right class.

    Args:
        probabilities: float32 (N, 2, K).
        labels: int64 (N,), the right classes.
    """
    moved = probabilities[:, 1] - probabilities[:, 0]
    moved[np.arange(len(labels)), labels] = -np.inf
    return np.asarray(moved)
