"""How good a choice between two models is: against always taking one of them, and against always choosing well."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from diffgen.selector.examples import A, B
from diffgen.types import Int64Array

BoolArray = np.ndarray[Any, np.dtype[np.bool_]]


@dataclass(frozen=True)
class Evaluation:
    """One selector on N pictures of which it is known what they show.

    All shares are 0..1.

    Attributes:
        name: on what, and how divided.
        pictures: N.
        decisive: pictures on which exactly one model is right; the next four speak of these only.
        accuracy: share on which the right model is chosen.
        balanced_accuracy: mean of that share among those of A and those of B; None when one kind is missing.
        majority: accuracy of always choosing the model that is right more often.
        confusion: int, rows A right, B right; columns A chosen, B chosen.
        ensemble: share of all N on which the chosen model is right.
        model_a, model_b: share of all N on which that model is right.
        oracle: share of all N on which at least one is right: the best that any choice can do.
    """

    name: str
    pictures: int
    decisive: int
    accuracy: float
    balanced_accuracy: float | None
    majority: float
    confusion: tuple[tuple[int, int], tuple[int, int]]
    ensemble: float
    model_a: float
    model_b: float
    oracle: float

    @property
    def regret(self) -> float:
        """What choosing well would add."""
        return self.oracle - self.ensemble

    @property
    def gain(self) -> float:
        """What the choice adds to always taking the better model."""
        return self.ensemble - max(self.model_a, self.model_b)

    def as_dict(self) -> dict[str, Any]:
        """JSON values."""
        return {**asdict(self), "regret": self.regret, "gain": self.gain}


def evaluate(name: str, chosen: Int64Array, right: BoolArray) -> Evaluation:
    """Compare choices with who is right.

    Args:
        name: on what.
        chosen: int64 (N,), N >= 1: ``A`` or ``B``, since one of them has to be asked.
        right: bool (N, 2).
    """
    decisive = right[:, A] != right[:, B]
    target = np.where(right[:, A], A, B)[decisive]
    confusion = np.zeros((2, 2), dtype=np.int64)
    np.add.at(confusion, (target, chosen[decisive]), 1)
    totals = confusion.sum(axis=1)
    count = int(totals.sum())
    recalls = [confusion[kind, kind] / totals[kind] for kind in (A, B) if totals[kind]]
    return Evaluation(
        name=name,
        pictures=len(chosen),
        decisive=count,
        accuracy=float(np.trace(confusion) / count) if count else 0.0,
        balanced_accuracy=float(np.mean(recalls)) if len(recalls) == 2 else None,
        majority=float(totals.max() / count) if count else 0.0,
        confusion=((int(confusion[0, 0]), int(confusion[0, 1])), (int(confusion[1, 0]), int(confusion[1, 1]))),
        ensemble=float(right[np.arange(len(chosen)), chosen].mean()),
        model_a=float(right[:, A].mean()),
        model_b=float(right[:, B].mean()),
        oracle=float(right.any(axis=1).mean()),
    )


@dataclass(frozen=True)
class Cost:
    """Milliseconds for one image, measured in batches on this machine.

    Attributes:
        model_a, model_b, selector: of each alone.
        share_a: share of real images for which the selector chooses A.
    """

    model_a: float
    model_b: float
    selector: float
    share_a: float

    @property
    def ensemble(self) -> float:
        """Of the selector and the model that it chooses."""
        return self.selector + self.share_a * self.model_a + (1 - self.share_a) * self.model_b

    @property
    def saved(self) -> float:
        """Share of the cost of asking both models that the ensemble saves; negative when it costs more."""
        return 1 - self.ensemble / (self.model_a + self.model_b)

    def as_dict(self) -> dict[str, float]:
        """JSON values."""
        return {**asdict(self), "ensemble": self.ensemble, "saved": self.saved}
