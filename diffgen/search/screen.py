"""Screens candidates before any model is asked about them: by their genes, and by what their pictures show.

A candidate costs next to nothing until its picture is drawn, and a picture little until the models are asked. So many
times more candidates are made than there are places. A forest of boosted trees learns from all answers until now which
genes showed a new behaviour on a picture that can be recognised, and says which candidates are drawn; where models are
nearly the same, so that few answers did, also which came near to a boundary of a model. The models are then asked only
about pictures that the filters accept, that the jury recognises, and that look like no find of the same real image: any
other could not be counted, whatever they say of it (docs/decisions/059-screened-candidates.md).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

import numpy as np
import torch

from diffgen.search.proposal import NEW_BEHAVIOUR, Answers
from diffgen.search.seed_finds import SeedFinds
from diffgen.search.survival import turns
from diffgen.sources.space import Space
from diffgen.tasks.kept_answers import KeptAnswers
from diffgen.types import BoolArray, Float32Array, Int64Array

CANDIDATES = 20  # for each picture that is drawn
_EXPLORED = 0.1  # share of the pictures whose candidates are drawn by lot
_OF_A_SEED = 2  # pictures of one real image that are drawn at once; more are often near-duplicates
_FIRST = 500  # answers that a forest learns from, at least
_GROWTH = 1.2  # it learns anew when there are so many times as many answers
_LATEST = 20_000  # answers that it learns from, at most: what is new changes
# A new behaviour is worth 1; while few answers showed one, that a model wavers between two labels is worth something.
_FEW, _NEAR, _SHARPNESS = 100, 0.3, 8
_KEPT = ("screen_features", "screen_new", "screen_near", "screen_fitted", "screen_next")  # names in a checkpoint
_FOREST = {"max_iter": 60, "learning_rate": 0.1, "max_leaf_nodes": 15, "early_stopping": False, "random_state": 0}


class Accepts(Protocol):
    """Says, before any model is asked, which pictures could be counted as finds.

    Attributes:
        any_size: it can be asked about pictures that were drawn smaller than the models see them.
    """

    any_size: bool

    def __call__(self, images: torch.Tensor, seeds: Int64Array) -> BoolArray:
        """bool (N,): which of uint8 (N, C, H, W) the filters accept and the jury recognises, where there is one.

        Args:
            seeds: int64 (N,), the row of the real image that each was made from.
        """
        ...


class Screen:
    """Says which candidates are worth a picture, and which pictures are worth a question.

    Args:
        space: of the genes, which name real images.
        accepts: filters and jury; None: they are not asked in the search.
        finds: of every real image; None: no picture looks like another.
        learns: whether a forest learns from the answers.
    """

    def __init__(
        self,
        space: Space,
        answers: KeptAnswers,
        accepts: Accepts | None,
        finds: SeedFinds | None,
        *,
        learns: bool = True,
    ) -> None:
        self._space, self._accepts, self._finds, self._learns = space, accepts, finds, learns
        self._of_seeds = _features_of(answers)
        self._features: Float32Array | None = None
        self._new = np.empty(0, dtype=np.bool_)
        self._near = np.empty(0, dtype=np.float32)  # 1 where a model is undecided
        self._forest: Any = None
        self._fitted = 0  # answers that the forest learned from: the first of those that are kept
        self._next_fit = _FIRST  # when there are so many

    @property
    def any_size(self) -> bool:
        """Whether small pictures say enough."""
        return self._accepts is None or self._accepts.any_size

    @property
    def candidates(self) -> int:
        """How many are wanted for each picture: as long as no forest has learned anything, no more than one."""
        return 1 if self._forest is None else CANDIDATES

    def best(self, genes: np.ndarray, count: int, rng: np.random.Generator) -> Int64Array:
        """int64 (at most count,): rows of the candidates, float64 (N, length), to draw, the most promising first."""
        if self._forest is None:
            return np.arange(min(count, len(genes)))
        order = np.argsort(-self._forest.predict(self._described(genes)), kind="stable")
        among = turns(torch.from_numpy(self._space.seeds_of(genes)[order])).numpy()
        chosen = order[among < _OF_A_SEED][: count - int(_EXPLORED * count)]
        others = np.setdiff1d(np.arange(len(genes)), chosen)
        return np.concatenate([chosen, rng.permutation(others)[: count - len(chosen)]])

    def passes(self, genes: np.ndarray, images: torch.Tensor) -> BoolArray:
        """bool (N,): which pictures, uint8 (N, C, H, W), of genes (N, length) are worth a question."""
        seeds = self._space.seeds_of(genes)
        passed = np.ones(len(genes), dtype=np.bool_) if self._finds is None else ~self._finds.alike(images, seeds)
        rows = np.flatnonzero(passed)
        if self._accepts is not None and len(rows):
            passed[rows] = self._accepts(images[torch.from_numpy(rows).to(images.device)], seeds[rows])
        return passed

    def learn(self, genes: np.ndarray, images: torch.Tensor, answers: Answers) -> None:
        """Take in the answers to a generation, before its space does: features are of the time when it was made."""
        if self._finds is not None:
            self._finds.learn(self._space.seeds_of(genes), images, answers)
        if not self._learns:
            return
        described = self._described(genes)
        self._features = described if self._features is None else np.concatenate([self._features, described])
        two = answers.probabilities.topk(2, dim=2).values
        near = (1 - (two[:, :, 0] - two[:, :, 1]).amin(dim=1)) ** _SHARPNESS
        self._near = np.concatenate([self._near, near.cpu().numpy()])
        self._new = np.concatenate([self._new, answers.named_news.numpy() == NEW_BEHAVIOUR])
        if len(self._new) >= self._next_fit:
            self._features = self._features[-_LATEST:]
            self._new, self._near = self._new[-_LATEST:], self._near[-_LATEST:]
            self._next_fit = max(len(self._new) + _FIRST, int(_GROWTH * len(self._new)))
            self._fit(len(self._new))

    def _fit(self, count: int) -> None:
        from sklearn.ensemble import HistGradientBoostingRegressor

        assert self._features is not None
        self._fitted = count
        worth = self._new[:count].astype(np.float32)
        if worth.sum() < _FEW:
            worth += _NEAR * self._near[:count]
        self._forest = HistGradientBoostingRegressor(**_FOREST).fit(self._features[:count], worth)

    def _described(self, genes: np.ndarray) -> Float32Array:
        return np.column_stack([self._of_seeds[self._space.seeds_of(genes)], self._space.features(genes)])

    def checkpoint(self) -> dict[str, Any]:
        """Arrays and JSON values."""
        features = np.empty((0, 0), dtype=np.float32) if self._features is None else self._features
        finds = {} if self._finds is None else self._finds.checkpoint()
        own = (features, self._new, self._near, self._fitted, self._next_fit)
        return {**dict(zip(_KEPT, own, strict=True)), **finds}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on from what :meth:`checkpoint` gave; the forest learns again what it had learned."""
        features, self._new, self._near, fitted, next_fit = (state[name] for name in _KEPT)
        self._features = features if len(features) else None
        self._next_fit, self._forest, self._fitted = int(next_fit), None, 0
        if fitted:
            self._fit(int(fitted))
        if self._finds is not None:
            self._finds.restore(state)


def _features_of(answers: KeptAnswers) -> Float32Array:
    """float32 (N, D): what the models said of N images.

    First and second label of each model and their probabilities, the smallest margin, and the largest difference
    between two models.
    """
    values, count = answers.probabilities, answers.probabilities.shape[2]
    places = np.argsort(-values, axis=2, kind="stable")[:, :, : min(2, count)]
    first = np.take_along_axis(values, places, axis=2)
    classes = places if answers.classes is None else np.take_along_axis(answers.classes[:, None], places, axis=2)
    apart = np.ptp(values, axis=1).max(axis=1)
    parts = [
        first.reshape(len(first), -1),
        classes.reshape(len(first), -1),
        (first[:, :, 0] - first[:, :, -1]).min(axis=1),
        apart,
    ]
    return np.column_stack(parts).astype(np.float32)
