"""The random forest of the selector, and its cross-validation."""

from __future__ import annotations

from typing import Any

import numpy as np

from diffgen.config import SelectorConfig
from diffgen.types import Float32Array, Int64Array


def fit_forest(features: Float32Array, targets: Int64Array, config: SelectorConfig) -> Any:
    """A scikit-learn RandomForestClassifier (Breiman 2001) trained on float32 (N, D) and int64 (N,)."""
    from sklearn.ensemble import RandomForestClassifier

    forest = RandomForestClassifier(
        n_estimators=config.trees,
        class_weight="balanced" if config.balanced else None,
        random_state=config.seed,
    )
    return forest.fit(features, targets)


def cross_validated(
    features: Float32Array, targets: Int64Array, groups: Int64Array | None, config: SelectorConfig
) -> Int64Array | None:
    """What a forest says of each example when it was trained on the other parts of a random division.

    Args:
        features: float32 (N, D).
        targets: int64 (N,).
        groups: int64 (N,), examples of one group never lie in two parts; None: every example is a group.
        config: of the forest, and the number of parts.

    Returns:
        int64 (N,), or None where no such division has every kind in it: a kind with too few examples or groups.
    """
    from sklearn.model_selection import StratifiedGroupKFold, StratifiedKFold

    if groups is None:
        fewest = int(np.unique(targets, return_counts=True)[1].min())
    else:
        fewest = min(len(np.unique(groups[targets == target])) for target in np.unique(targets))
    parts = min(config.folds, fewest)
    if parts < 2:
        return None
    kind = StratifiedKFold if groups is None else StratifiedGroupKFold
    said = np.empty_like(targets)
    for training, test in kind(parts, shuffle=True, random_state=config.seed).split(features, targets, groups):
        said[test] = fit_forest(features[training], targets[training], config).predict(features[test])
    return said
