"""How good a choice among models is: against always taking one of them, and against always choosing well."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from diffgen.config import roles
from diffgen.models import BlackBox
from diffgen.sampling import random_rows
from diffgen.selector.onnx_file import Selector
from diffgen.selector.rules import Stacking, most_confident, soft_vote, who_is_right
from diffgen.tasks.classification import differ, labels_of, those
from diffgen.types import BoolArray, ImageSet, Int64Array, UInt8Array

_TIMED_IMAGES = 256
_SHARE_IMAGES = 2000  # on which it is counted how often the selector chooses each model
_TIMED_REPEATS = 5


@dataclass(frozen=True)
class Evaluation:
    """One selector on N pictures of which it is known what they show.

    All shares are 0..1.

    Attributes:
        name: on what, and how divided.
        pictures: N.
        decisive: pictures on which one model is right and another wrong; the next four speak of these only.
        accuracy: share on which a right model is chosen.
        balanced_accuracy: mean, over the models, of that share among those on which the model is right; None when a
            model is right on none.
        balanced_interval: its 95 % interval, or None likewise: percentiles over 2,000 bootstrap samples of the groups
            that were held apart (Efron and Tibshirani 1993).
        majority: accuracy of always choosing the model that is right most often.
        confusion: int, rows A right, B right, ...; columns A chosen, B chosen, ....
        ensemble: share of all N on which the chosen model is right.
        models: share of all N on which each model is right.
        oracle: share of all N on which at least one is right: the best that any choice can do.
    """

    name: str
    pictures: int
    decisive: int
    accuracy: float
    balanced_accuracy: float | None
    balanced_interval: tuple[float, float] | None
    majority: float
    confusion: tuple[tuple[int, ...], ...]
    ensemble: float
    models: tuple[float, ...]
    oracle: float

    @property
    def regret(self) -> float:
        """What choosing well would add."""
        return self.oracle - self.ensemble

    @property
    def gain(self) -> float:
        """What the choice adds to always taking the best model."""
        return self.ensemble - max(self.models)

    def as_dict(self) -> dict[str, Any]:
        """JSON values."""
        return {**_of_each(asdict(self), "models", "model"), "regret": self.regret, "gain": self.gain}


def evaluate(name: str, chosen: Int64Array, right: BoolArray, groups: Int64Array | None = None) -> Evaluation:
    """Compare choices with who is right.

    Args:
        name: on what.
        chosen: int64 (N,), N >= 1: the number of a model, since one of them has to be asked.
        right: bool (N, M).
        groups: int64 (N,), pictures of one group say together whether the choice is good; None: each says it alone.
    """
    decisive, models = right.any(axis=1) & ~right.all(axis=1), right.shape[1]
    known, taken = right[decisive], chosen[decisive]
    well = known[np.arange(len(known)), taken]
    confusion = [np.bincount(taken[known[:, model]], minlength=models) for model in range(models)]
    totals = known.sum(axis=0)
    count = len(known)
    recalls = [well[known[:, model]].mean() for model in range(models) if totals[model]]
    all_known = count > 0 and len(recalls) == models
    alone = np.arange(len(right)) if groups is None else groups
    return Evaluation(
        name=name,
        pictures=len(chosen),
        decisive=count,
        accuracy=float(well.sum() / count) if count else 0.0,
        balanced_accuracy=float(np.mean(recalls)) if all_known else None,
        balanced_interval=_interval(known, well, alone[decisive]) if all_known else None,
        majority=float(totals.max() / count) if count else 0.0,
        confusion=tuple(tuple(row.tolist()) for row in confusion),
        ensemble=float(right[np.arange(len(chosen)), chosen].mean()),
        models=tuple(right.mean(axis=0).tolist()),
        oracle=float(right.any(axis=1).mean()),
    )


_RESAMPLED = 2_000


def _interval(known: BoolArray, well: BoolArray, groups: Int64Array) -> tuple[float, float]:
    """The interval of the balanced accuracy; samples that lack a model that is right count without it.

    Args:
        known: bool (n, M), which models are right on a picture.
        well: bool (n,), the choice is.
        groups: int64 (n,).
    """
    _, places = np.unique(groups, return_inverse=True)
    size = int(places.max()) + 1
    of, right = (np.zeros((size, known.shape[1])) for _ in range(2))
    np.add.at(of, places, known)
    np.add.at(right, places, known & well[:, None])
    times = np.random.default_rng(0).multinomial(size, np.full(size, 1 / size), size=_RESAMPLED)
    total = times @ of
    recalls = np.where(total > 0, times @ right / np.maximum(total, 1), np.nan)
    low, high = np.quantile(np.nanmean(recalls, axis=1), (0.025, 0.975))
    return float(low), float(high)


@dataclass(frozen=True)
class Cost:
    """Milliseconds for one image, measured in batches on this machine.

    Attributes:
        models: of each alone.
        selector: of the selector alone.
        shares: share of images for which the selector chooses each model.
        of_real: these images are the run's real ones; where these are gone, its finds.
    """

    models: tuple[float, ...]
    selector: float
    shares: tuple[float, ...]
    of_real: bool

    @property
    def ensemble(self) -> float:
        """Of the selector and the model that it chooses."""
        return self.selector + sum(share * cost for share, cost in zip(self.shares, self.models, strict=True))

    @property
    def saved(self) -> float:
        """Share of the cost of asking all models that the ensemble saves; negative when it costs more."""
        return 1 - self.ensemble / sum(self.models)

    def as_dict(self) -> dict[str, float]:
        """JSON values."""
        values = _of_each(_of_each(asdict(self), "models", "model"), "shares", "share")
        if len(self.models) == 2:
            del values["share_b"]
        return {**values, "ensemble": self.ensemble, "saved": self.saved}


def _of_each(values: dict[str, Any], several: str, one: str) -> dict[str, Any]:
    """The same with a name for each model, ``model_a``, in the place of a list of all."""
    found: dict[str, Any] = {}
    for name, value in values.items():
        if name == several:
            found |= {f"{one}_{role}": each for role, each in zip(roles(value).lower(), value, strict=True)}
        else:
            found[name] = value
    return found


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
