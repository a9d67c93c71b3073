"""What the user's own answers, valid or not, say of the other filters' scores, as a filter of its own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray

from diffgen.config.schema import setting, settings
from diffgen.errors import UserError
from diffgen.filters.base import Filter, FilterContext
from diffgen.types import Float32Array
from diffgen.wording import percent

if TYPE_CHECKING:
    from sklearn.pipeline import Pipeline

_FEWEST = 100  # answers
_FEWEST_OF_A_KIND = 10  # of them, valid ones and others
_FOLDS = 10
_SEED = 0


def check_enough(valid: NDArray[np.bool_]) -> None:
    """See that there are answers enough to learn from.

    Args:
        valid: bool (N,), the answers.

    Raises:
        UserError: there are too few, or too few of one kind.
    """
    fewer = int(min(valid.sum(), (~valid).sum()))
    if len(valid) < _FEWEST or fewer < _FEWEST_OF_A_KIND:
        raise UserError(
            f"The filter learned has {len(valid):,} answers to learn from, {int((~valid).sum()):,} of them invalid, "
            f"and takes {_FEWEST}, with {_FEWEST_OF_A_KIND} of either kind; label more pictures, or leave it out of "
            "--filters."
        )


@settings("filters.learned")
class LearnedSettings:
    """The filter ``learned``: whether people like those who answered would rather take an image for valid."""

    threshold: float = setting(0.0, "Lowest logarithm of the odds of being valid that passes; 0: even odds.")


class LearnedFilter(Filter):
    """Passes what people like those who answered would more likely take for valid than not.

    The score is the logarithm of the odds that a logistic regression on the scores of other filters gives, valid and
    invalid answers counting alike however many there are of each; DeepNaqqal (ICST 2026) and Ghobari et al. (ICSE-SEIP
    2025) show that a few hundred answers are enough. How well it agrees with the answers is cross-validated, and part
    of the description.

    Args:
        parts: filters whose scores it learns from; they are fitted with it.
        images: uint8 (N, C, H, W), pictures that people answered about.
        valid: bool (N,), what they answered.
        threshold: lowest score that passes; 0 is as likely valid as not.

    Raises:
        UserError: see :func:`check_enough`.
    """

    name = "learned"
    needs = frozenset({"answers"})
    Settings = LearnedSettings
    hints: ClassVar = {
        "answers": "name a run whose pictures people labelled, or a file of answers, with --learned-from"
    }

    @classmethod
    def make(cls, context: FilterContext) -> LearnedFilter:
        assert context.answers is not None
        return cls(context.others(), *context.answers, threshold=context.threshold(cls))

    def __init__(
        self, parts: Sequence[Filter], images: torch.Tensor, valid: NDArray[np.bool_], *, threshold: float = 0.0
    ) -> None:
        check_enough(valid)
        self.parts = tuple(parts)
        self.threshold = threshold
        self._images, self._valid = images, valid
        self._model: Pipeline | None = None
        self.description = "Whether it is more likely valid than not, by what your own answers say of other scores."

    def fit(self, real: torch.Tensor) -> None:
        """Fit the other filters to real images, uint8 (N, C, H, W), and learn from the answers.

        Raises:
            UserError: see :func:`check_enough`; answers about pictures that a filter gives no number do not count.
        """
        # here, because no other filter needs them and all would wait for them
        from sklearn.linear_model import LogisticRegression
        from sklearn.model_selection import StratifiedKFold, cross_val_predict
        from sklearn.pipeline import make_pipeline
        from sklearn.preprocessing import StandardScaler

        for each in self.parts:
            each.fit(real)
        scores = self._scores(self._images)
        usable = np.isfinite(scores).all(axis=1)
        scores, valid = scores[usable], self._valid[usable]
        check_enough(valid)
        model = make_pipeline(StandardScaler(), LogisticRegression(class_weight="balanced"))
        folds = StratifiedKFold(_FOLDS, shuffle=True, random_state=_SEED)
        said = cross_val_predict(model, scores, valid, cv=folds)
        kept, refused = said[valid].mean(), (~said[~valid]).mean()
        self._model = model.fit(scores, valid)
        self.description = (
            f"How much likelier valid than not, by {len(valid):,} answers of people "
            f"({int(valid.sum()):,} valid) and the scores {', '.join(each.name for each in self.parts)}. "
            f"Cross-validated it keeps {percent(kept, 0)} of what they took for valid and refuses "
            f"{percent(refused, 0)} of the rest."
        )

    def score(self, images: torch.Tensor, *, enough: float = float("inf")) -> torch.Tensor:
        """float32 (N,), on the CPU, for uint8 (N, C, H, W); NaN where another filter gives no number."""
        if self._model is None:
            raise RuntimeError("fit() the filter before it is asked")
        scores = self._scores(images)
        odds = np.full(len(images), np.nan, dtype=np.float32)
        usable = np.isfinite(scores).all(axis=1)
        if usable.any():
            odds[usable] = self._model.decision_function(scores[usable])
        return torch.from_numpy(odds)

    def _scores(self, images: torch.Tensor) -> Float32Array:
        return np.stack([each.score(images).numpy() for each in self.parts], axis=1)
