"""Curves of how models answer as an operator gets stronger, as a run keeps them; the arrays of operators.npz."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from diffgen.types import Float32Array

BY_LABEL, BY_JURY, BY_NOBODY = "label", "jury", "nobody"  # who says what a real image shows


@dataclass(frozen=True, eq=False)
class OperatorCurves:
    """P points of the curves, the strengths of each curve rising.

    Attributes:
        operators: bytes (P,), which operator.
        names: bytes (P,), which of its strengths.
        units: bytes (P,), of that strength; may be empty.
        strengths: float64 (P,).
        accuracy: float32 (P, M), share of the images on which each of M models is right; NaN where nobody knows.
        disagreement: float32 (P,), share of the images on which two models disagree by more than the margin.
        images: how many real images every share is of.
        judged_by: who says what they show.
    """

    operators: NDArray[np.bytes_]
    names: NDArray[np.bytes_]
    units: NDArray[np.bytes_]
    strengths: NDArray[np.float64]
    accuracy: Float32Array
    disagreement: Float32Array
    images: int
    judged_by: str

    def as_arrays(self) -> dict[str, Any]:
        """The arrays by name."""
        about = {"images": self.images, "judged_by": self.judged_by}
        names = ("operators", "names", "units", "strengths", "accuracy", "disagreement")
        return {name: getattr(self, name) for name in names} | {"about": about}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, Any]) -> OperatorCurves:
        """What :meth:`as_arrays` gave.

        Raises:
            KeyError: something is missing.
        """
        about = arrays["about"]
        names = ("operators", "names", "units", "strengths", "accuracy", "disagreement")
        return cls(**{name: arrays[name] for name in names}, images=about["images"], judged_by=about["judged_by"])
