"""How the models answer as an operator gets stronger."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class OperatorCurve:
    """The curves of one strength of one operator.

    Attributes:
        operator: its name.
        strength: name of the strength with its unit, such as "degrees".
        x: the strengths, rising.
        accuracy: of each model the share of the images on which it is right; empty where nobody knows.
        disagreement: the share of the images on which two models disagree.
    """

    operator: str
    strength: str
    x: tuple[float, ...]
    accuracy: tuple[tuple[float, ...], ...]
    disagreement: tuple[float, ...]


@dataclass(frozen=True)
class OperatorsView:
    """The curves of all operators.

    Attributes:
        images: how many random real images every share is of.
        judged_by: who says what they show: "label", "jury" or "nobody".
        asked: how many pictures each model was asked about.
    """

    curves: tuple[OperatorCurve, ...]
    images: int
    judged_by: str
    asked: int
