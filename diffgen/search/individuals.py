"""A population as columns, in place of pymoo's with an object for each individual.

pymoo's algorithm hands its population from mating to survival and looks at nothing but how many there are; what a
column means is known to the parts that read and write it. A column costs a generation no Python call for each
individual, and lies where it is computed with.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch

Column = np.ndarray[Any, Any]


class Individuals:
    """N individuals.

    Args:
        columns: a tensor of N rows each: X, float64 genes; F, float64 objectives; and what else is known of them.
    """

    def __init__(self, columns: Mapping[str, torch.Tensor]) -> None:
        self._columns = dict(columns)

    @classmethod
    def unasked(cls, X: Column) -> Individuals:
        """Those of which nothing is known but their genes, float64 (N, n_var)."""
        return cls({"X": torch.from_numpy(X)})

    def __len__(self) -> int:
        return len(self._columns["X"])

    def __getitem__(self, rows: torch.Tensor) -> Individuals:
        """Some of them, by their rows or a mask, in memory of their own."""
        return Individuals({name: values[rows.to(values.device)] for name, values in self._columns.items()})

    def knows(self, name: str) -> bool:
        """Whether there is a column of that name."""
        return name in self._columns

    def column(self, name: str) -> torch.Tensor:
        """What is known of each, where it lies."""
        return self._columns[name]

    def get(self, name: str) -> Column:
        """The same as an array on the processor, to be read only."""
        return np.asarray(self._columns[name].cpu().numpy())

    def set(self, name: str, value: torch.Tensor | Column | int) -> None:
        """Note something of each; one number is noted of all (pymoo does so with the generation)."""
        if isinstance(value, int):
            value = torch.full((len(self),), value, device=self.column("X").device)
        self._columns[name] = torch.from_numpy(value) if isinstance(value, np.ndarray) else value

    def update(self, columns: Mapping[str, torch.Tensor]) -> None:
        """Note several things of each."""
        self._columns.update(columns)

    def joined(self, others: Individuals) -> Individuals:
        """These and after them others; of what is known of both."""
        theirs = others._columns
        return Individuals(
            {name: torch.cat([own, theirs[name]]) for name, own in self._columns.items() if name in theirs}
        )
