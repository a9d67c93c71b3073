"""What a selector is worth and costs on real images, beside every other way to choose between the two models."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from diffgen.models import BlackBox
from diffgen.sampling import random_rows
from diffgen.selector.evaluation import Cost, Evaluation, evaluate
from diffgen.selector.onnx_file import Selector
from diffgen.selector.rules import most_confident, soft_vote, who_is_right
from diffgen.types import ImageSet, Int64Array, UInt8Array

_TIMED_IMAGES = 256
_SHARE_IMAGES = 2000  # of the real ones, on which it is counted how often the selector chooses A
_TIMED_REPEATS = 5


@dataclass(frozen=True)
class OnRealImages:
    """What each rule is worth on labelled real images that had no part in making the selector.

    Attributes:
        source: which images.
        images: how many.
        disagreements: those on which A and B differ.
        on_all, on_disagreements: rule -> share of right answers; "A" and "B" are the models alone.
        selector: the choices on the disagreements, or None when there are none.
    """

    source: str
    images: int
    disagreements: int
    on_all: dict[str, float]
    on_disagreements: dict[str, float]
    selector: Evaluation | None

    def as_dict(self) -> dict[str, Any]:
        """JSON values."""
        return {**asdict(self), "selector": None if self.selector is None else self.selector.as_dict()}


def judge_on_real(
    models: Sequence[BlackBox], selector: Selector, images: UInt8Array, labels: Int64Array, source: str
) -> OnRealImages:
    """Compare all rules on labelled real images, uint8 (N, C, H, W) and int64 (N,). The models must be prepared."""
    a, b = (model.predict(images) for model in models)
    said = np.stack([a.argmax(axis=1), b.argmax(axis=1)], axis=1)
    chosen = {
        "selector": selector.choose(images),
        "confidence": most_confident(a, b),
        "oracle": who_is_right(said[:, 0], said[:, 1], labels),
    }
    rows = np.arange(len(images))
    answers = {"A": said[:, 0], "B": said[:, 1], "soft-vote": soft_vote(a, b)}
    answers |= {rule: said[rows, choice] for rule, choice in chosen.items()}
    right = {rule: answer == labels for rule, answer in answers.items()}
    differ = said[:, 0] != said[:, 1]
    return OnRealImages(
        source=source,
        images=len(images),
        disagreements=int(differ.sum()),
        on_all={rule: float(each.mean()) for rule, each in right.items()},
        on_disagreements={rule: float(each[differ].mean()) for rule, each in right.items()} if differ.any() else {},
        selector=(
            evaluate("real images where A and B differ", chosen["selector"][differ], (said == labels[:, None])[differ])
            if differ.any()
            else None
        ),
    )


def measure_cost(models: Sequence[BlackBox], selector: Selector, triggers: UInt8Array, own: ImageSet | None) -> Cost:
    """Time each alone on the same images: the median of several passes, after one that does not count.

    The images are drawn at random: the first of a data set may all be of one class, for which one model is chosen.
    """
    everything = triggers if own is None else own.images
    some = everything[random_rows(len(everything), _SHARE_IMAGES)]
    images = some[:_TIMED_IMAGES]

    def milliseconds(ask: Any) -> float:
        ask(images)
        passes = []
        for _ in range(_TIMED_REPEATS):
            started = time.perf_counter()
            ask(images)
            passes.append(time.perf_counter() - started)
        return float(np.median(passes)) * 1000 / len(images)

    return Cost(
        model_a=milliseconds(models[0].predict),
        model_b=milliseconds(models[1].predict),
        selector=milliseconds(selector.probabilities),
        share_a=float((selector.choose(some) == 0).mean()),
    )
