"""What a selector is worth and costs on real images, beside every other way to choose among the models."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from diffgen.config import roles
from diffgen.models import BlackBox
from diffgen.sampling import random_rows
from diffgen.selector.evaluation import Cost, Evaluation, evaluate
from diffgen.selector.onnx_file import Selector
from diffgen.selector.rules import most_confident, soft_vote, who_is_right
from diffgen.selector.stacking import Stacking
from diffgen.tasks.classification import differ, labels_of, those
from diffgen.types import ImageSet, Int64Array, UInt8Array

_TIMED_IMAGES = 256
_SHARE_IMAGES = 2000  # on which it is counted how often the selector chooses each model
_TIMED_REPEATS = 5


@dataclass(frozen=True)
class OnRealImages:
    """What each rule is worth on labelled real images that had no part in making the selector.

    Attributes:
        source: which images.
        images: how many.
        disagreements: those on which the models differ.
        on_all, on_disagreements: rule -> share of right answers; "A", "B", ... are the models alone.
        selector: the choices on the disagreements, or None when there are none.
        left_out: labelled finds that were made from these images, or look like one that was. The selector that is
            judged here did not learn from them; the one in the file did.
    """

    source: str
    images: int
    disagreements: int
    on_all: dict[str, float]
    on_disagreements: dict[str, float]
    selector: Evaluation | None
    left_out: int = 0

    def as_dict(self) -> dict[str, Any]:
        """JSON values."""
        return {**asdict(self), "selector": None if self.selector is None else self.selector.as_dict()}


def judge_on_real(
    models: Sequence[BlackBox],
    selector: Selector,
    images: UInt8Array,
    labels: Int64Array,
    source: str,
    stacking: Stacking | None = None,
) -> OnRealImages:
    """Compare all rules on labelled real images, uint8 (N, C, H, W) and int64 (N,). The models must be prepared.

    ``stacking`` is one more rule where it is given: three models or more.
    """
    probabilities = np.stack([model.predict(images) for model in models], axis=1)
    said = labels_of(probabilities)
    chosen = {
        "selector": selector.choose(images),
        "confidence": most_confident(probabilities),
        "oracle": who_is_right(said, labels),
    }
    rows = np.arange(len(images))
    answers = {role: said[:, index] for index, role in enumerate(roles(models))}
    answers["soft-vote"] = soft_vote(probabilities)
    if stacking is not None:
        answers["stacking"] = stacking.labels(probabilities)
    answers |= {rule: said[rows, choice] for rule, choice in chosen.items()}
    right = {rule: answer == labels for rule, answer in answers.items()}
    apart = differ(said)
    on_apart = None
    if apart.any():
        name = f"real images where {those(len(models))} differ"
        on_apart = evaluate(name, chosen["selector"][apart], (said == labels[:, None])[apart])
    return OnRealImages(
        source=source,
        images=len(images),
        disagreements=int(apart.sum()),
        on_all={rule: float(each.mean()) for rule, each in right.items()},
        on_disagreements={rule: float(each[apart].mean()) for rule, each in right.items()} if apart.any() else {},
        selector=on_apart,
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
        models=tuple(milliseconds(model.predict) for model in models),
        selector=milliseconds(selector.probabilities),
        shares=tuple((np.bincount(selector.choose(some), minlength=len(models)) / len(some)).tolist()),
        of_real=own is not None,
    )
