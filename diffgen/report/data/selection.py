"""The selector of a run as a report shows it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from diffgen.types import UInt8Array


@dataclass(frozen=True)
class TrustView:
    """One behaviour in which one model is right more often than the other.

    Attributes:
        trust: "A", "B", ....
        labels: what each model says.
        right: labelled triggers of this behaviour on which each model is right.
        labelled: how many there are, or None: an earlier version, which counted only those on which a model is right.
        images: uint8 (n, C, H, W), some of those on which the trusted one is.
    """

    trust: str
    labels: tuple[int, ...]
    cell: int
    right: tuple[int, ...]
    labelled: int | None
    images: UInt8Array


@dataclass(frozen=True)
class SelectionView:
    """What the selector of a run is worth; see :mod:`diffgen.workflows.select`.

    Attributes:
        features: what the forest sees.
        examples, both_wrong: labelled triggers that it learnt from, and those on which neither model is right.
        sources: where the labels come from -> how many.
        on_triggers, real, cost: as recorded in the run, JSON values.
        behaviours: those of A first.
    """

    features: str
    examples: int
    both_wrong: int
    sources: dict[str, int]
    on_triggers: tuple[dict[str, Any], ...]
    real: tuple[dict[str, Any], ...]
    cost: dict[str, float]
    behaviours: tuple[TrustView, ...]
