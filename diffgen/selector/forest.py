"""The random forest of the selector, and its cross-validation."""

from __future__ import annotations

import warnings
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


def choose(forest: Any, features: Float32Array, *, models: int = 2) -> Int64Array:
    """Which model to trust: the one that is most probably right; a tie goes to the first.

    As the file does it (:meth:`diffgen.selector.onnx_file.Selector.choose`): one of them has to be asked, so that it
    does not matter how probable it is that none is right.

    Args:
        forest: of :func:`fit_forest`.
        features: float32 (N, D).
        models: how many there are.

    Returns:
        int64 (N,), numbers of models.
    """
    kinds = forest.classes_.tolist()
    shares = forest.predict_proba(features)
    of = [shares[:, kinds.index(kind)] if kind in kinds else np.zeros(len(features)) for kind in range(models)]
    return np.stack(of, axis=1).argmax(axis=1).astype(np.int64)


def cross_validated(
    features: Float32Array, targets: Int64Array, groups: Int64Array | None, config: SelectorConfig, *, models: int = 2
) -> Int64Array | None:
    """What a forest chooses for each example when it was trained on the other parts of a random division.

    Args:
        features: float32 (N, D).
        targets: int64 (N,).
        groups: int64 (N,), examples of one group never lie in two parts; None: every example is a group.
        config: of the forest, and the number of parts.
        models: how many there are.

    Returns:
        int64 (N,) as :func:`choose` gives it, or None where no such division has two models to tell apart in every
        part: all but one of the models have too few examples or groups.
    """
    from sklearn.model_selection import StratifiedGroupKFold, StratifiedKFold

    names = np.arange(len(targets)) if groups is None else groups
    # two models are enough: of a third, or of pictures on which none is right, there may be one
    of_models = [len(np.unique(names[targets == kind])) for kind in np.unique(targets[targets < models])]
    parts = min(config.folds, sorted([0, 0, *of_models])[-2])
    if parts < 2:
        return None
    division = StratifiedKFold if groups is None else StratifiedGroupKFold
    said = np.empty_like(targets)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="The least populated class", category=UserWarning)
        pairs = list(division(parts, shuffle=True, random_state=config.seed).split(features, targets, groups))
    for training, test in pairs:
        said[test] = choose(fit_forest(features[training], targets[training], config), features[test], models=models)
    return said
