"""The random forest of the selector, and its cross-validation."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from diffgen.config import SelectorConfig
from diffgen.numerics import all_threads
from diffgen.types import Float32Array, Int64Array


def fit_forest(features: Float32Array, targets: Int64Array, config: SelectorConfig) -> Any:
    """A scikit-learn RandomForestClassifier (Breiman 2001) trained on float32 (N, D) and int64 (N,)."""
    from sklearn.ensemble import RandomForestClassifier

    forest = RandomForestClassifier(
        n_estimators=config.trees,
        class_weight="balanced",  # so that the examples of each model count the same
        random_state=config.seed,
        n_jobs=all_threads(),  # the forest is the same whatever their number
    )
    return forest.fit(features, targets)


def cross_validated(
    features: Float32Array, targets: Int64Array, groups: Int64Array | None, config: SelectorConfig
) -> Int64Array | None:
    """What a forest chooses for each example when it was trained on the other parts of a random division.

    Args:
        features: float32 (N, D).
        targets: int64 (N,).
        groups: int64 (N,), examples of one group never lie in two parts; None: every example is a group.
        config: of the forest, and the number of parts.

    Returns:
        int64 (N,), the model that is most probably right, of equal ones the first; or None where no such division has
        two models to tell apart in every part: all but one of the models have too few examples or groups.
    """
    from sklearn.model_selection import StratifiedGroupKFold, StratifiedKFold

    names = np.arange(len(targets)) if groups is None else groups
    # two models are enough: of a third there may be one
    of_models = [len(np.unique(names[targets == kind])) for kind in np.unique(targets)]
    parts = min(config.folds, sorted([0, 0, *of_models])[-2])
    if parts < 2:
        return None
    division = StratifiedKFold if groups is None else StratifiedGroupKFold
    said = np.empty_like(targets)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="The least populated class", category=UserWarning)
        pairs = list(division(parts, shuffle=True, random_state=config.seed).split(features, targets, groups))
    for training, test in pairs:
        said[test] = fit_forest(features[training], targets[training], config).predict(features[test])
    return said
