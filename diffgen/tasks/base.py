"""What search, counting and report must know of the answers of models; a task brings it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

from diffgen.types import Float32Array, Int64Array

if TYPE_CHECKING:
    import torch


class Task(Protocol):
    """Reads the answers of M models to N images."""

    def disagrees(self, answers: torch.Tensor, margin: float) -> torch.Tensor:
        """bool (N,): which answers are further apart than the models' numeric noise, as ``margin`` bounds it."""
        ...

    def kind(self, answers: Float32Array) -> Int64Array:
        """int64 (N, D): who says what. Equal rows say the same."""
        ...

    def describe(self, kind: Sequence[int], names: Sequence[str]) -> str:
        """One row of :meth:`kind` in words, with the names of K classes."""
        ...
