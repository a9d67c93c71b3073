"""Two models as one: who is asked, and about what."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB

import diffgen
from diffgen.config import SelectorConfig
from diffgen.data import load
from diffgen.errors import UserError
from diffgen.selector.forest import fit_forest
from diffgen.selector.onnx_file import PixelNetwork, Selector, load_selector, save_selector


class Counting:
    """A real classifier that remembers how many images it was asked about."""

    def __init__(self, classifier: object) -> None:
        data = load("digits:train")
        self._classifier = classifier.fit(data.images.reshape(len(data), -1) / 255, data.labels)
        self.asked = 0

    def __call__(self, pixels: np.ndarray) -> np.ndarray:
        self.asked += len(pixels)
        return self._classifier.predict_proba(pixels.reshape(len(pixels), -1)).astype(np.float32)


@pytest.fixture(scope="module")
def models() -> tuple[Counting, Counting]:
    return Counting(LogisticRegression(max_iter=200, C=0.01)), Counting(GaussianNB(var_smoothing=0.05))


@pytest.fixture(scope="module")
def selector(models: tuple[Counting, Counting], tmp_path_factory: pytest.TempPathFactory) -> Selector:
    """Trained on digits of the training half on which exactly one model is right."""
    data = load("digits:train")
    right = np.stack([m(data.images.astype(np.float32) / 255).argmax(axis=1) == data.labels for m in models], axis=1)
    rows = right[:, 0] != right[:, 1]
    features = data.images[rows].reshape(rows.sum(), -1).astype(np.float32) / 255
    forest = fit_forest(features, right[rows, 1].astype(np.int64), SelectorConfig(trees=30))
    path = tmp_path_factory.mktemp("selector") / "selector.onnx"
    save_selector(path, PixelNetwork(), forest, (1, 28, 28), {"models": {"A": {}, "B": {}}})
    return load_selector(path)


def answers(models: tuple[Counting, Counting], images: np.ndarray) -> np.ndarray:
    return np.stack([model(images.astype(np.float32) / 255) for model in models])


def test_only_the_chosen_model_is_asked(models: tuple[Counting, Counting], selector: Selector) -> None:
    images = load("digits:test").images[:120]
    ensemble = diffgen.SelectorEnsemble(*models, selector)
    ensemble.predict(images)  # the first time also looks at the models
    before = [model.asked for model in models]
    decision = ensemble.decide(images)
    assert tuple(model.asked - b for model, b in zip(models, before, strict=True)) == decision.asked
    assert sum(decision.asked) == 120
    assert min(decision.asked) > 0
    said = answers(models, images).argmax(axis=2)
    assert np.array_equal(decision.chosen, selector.choose(images))
    assert np.array_equal(decision.labels, said[decision.chosen, np.arange(120)])


def test_the_other_rules(models: tuple[Counting, Counting], selector: Selector) -> None:
    data = load("digits:test")
    images, truth = data.images[:200], data.labels[:200]
    p = answers(models, images)
    said = p.argmax(axis=2)

    def labels(rule: str) -> np.ndarray:
        return diffgen.SelectorEnsemble(*models, selector, rule=rule).predict(images, truth=truth)

    surer = [said[0 if p[0, i].max() >= p[1, i].max() else 1, i] for i in range(200)]
    assert np.array_equal(labels("confidence"), surer)
    assert np.array_equal(labels("soft-vote"), ((p[0] + p[1]) / 2).argmax(axis=1))
    best = labels("oracle") == truth
    assert np.array_equal(best, (said == truth).any(axis=0))
    assert all((labels(rule) == truth).mean() <= best.mean() for rule in ("selector", "soft-vote", "confidence"))


def test_mistakes(models: tuple[Counting, Counting], selector: Selector, tmp_path: Path) -> None:
    images = load("digits:test").images[:5]
    with pytest.raises(UserError, match="rule 'best' is not known"):
        diffgen.SelectorEnsemble(*models, selector, rule="best")
    with pytest.raises(UserError, match="needs what every image shows"):
        diffgen.SelectorEnsemble(*models, selector, rule="oracle").predict(images)
    ensemble = diffgen.SelectorEnsemble(*models, selector)
    for wrong in (images[:, :, :20], images.astype(np.float32), images[0]):
        with pytest.raises(UserError, match="was trained on uint8 images"):
            ensemble.predict(wrong)
    assert ensemble.predict(images[:0]).shape == (0,)
    with pytest.raises(UserError, match="There is no selector"):
        diffgen.SelectorEnsemble(*models, tmp_path / "none.onnx")
