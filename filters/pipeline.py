"""Filters one after the other: the first that rejects an image decides; and warnings of filters that are of no use."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch

from diffgen.errors import UserError
from diffgen.filters.base import Filter
from diffgen.filters.calibration import Calibration, calibrate
from diffgen.metrics.counting import ACCEPTED
from diffgen.sampling import at_once
from diffgen.types import BoolArray, Float32Array, Int64Array
from diffgen.wording import percent


@dataclass(frozen=True)
class FilterVerdicts:
    """What the filters said of N images.

    Attributes:
        names: the filters, in the order in which they were asked.
        thresholds: float32 (F,).
        scores: float32 (N, F); NaN where a filter was not asked, since an earlier one had rejected the image.
        rejected_by: int64 (N,), index of the filter that rejected the image, or ``ACCEPTED``.
    """

    names: tuple[str, ...]
    thresholds: Float32Array
    scores: Float32Array
    rejected_by: Int64Array

    @classmethod
    def joined(cls, parts: Sequence[FilterVerdicts]) -> FilterVerdicts:
        """What the same filters said of several batches, one after the other."""
        scores, rejected_by = ([getattr(part, name) for part in parts] for name in ("scores", "rejected_by"))
        return replace(parts[0], scores=np.concatenate(scores), rejected_by=np.concatenate(rejected_by))

    @property
    def accepted(self) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
        """bool (N,)."""
        return self.rejected_by == ACCEPTED


class FilterPipeline:
    """A chain of filters that are fitted and calibrated together.

    Args:
        filters: in the order in which they are asked.
        false_alarm: share of held-out real images that all of them together may reject; filters that come with a
            threshold keep it.
    """

    def __init__(self, filters: Sequence[Filter], *, false_alarm: float = 0.05) -> None:
        self.filters = tuple(filters)
        self._false_alarm = false_alarm
        self._given = [each.threshold for each in self.filters]
        self._calibration: Calibration | None = None

    @property
    def calibration(self) -> Calibration:
        """What :meth:`fit` found."""
        if self._calibration is None:
            raise RuntimeError("fit() the filters before they are asked")
        return self._calibration

    def fit(self, reference: torch.Tensor, held_out: torch.Tensor) -> None:
        """Fit every filter and find the thresholds.

        Args:
            reference: uint8 (N, C, H, W), real images to compare with.
            held_out: uint8 (n, C, H, W), n at least 1, real images that nothing was trained on.

        Raises:
            UserError: a filter's scores are not one number for each image.
        """
        for each in self.filters:
            each.fit(reference)
        scores = self.scores(held_out)
        for each, column in zip(self.filters, scores.T, strict=True):
            if np.isnan(column).any():
                raise UserError(
                    f"The filter {each.name} gives NaN for a real image; its score() must give a number for each image."
                )
        self._calibration = calibrate(scores, self._given, self._false_alarm)
        for each, given, found in zip(self.filters, self._given, self._calibration.thresholds.tolist(), strict=True):
            each.threshold = found if math.isnan(given) else given

    def scores(self, images: torch.Tensor) -> Float32Array:
        """float32 (N, F): what every filter says of every image, uint8 (N, C, H, W), also of rejected ones."""
        columns = [_scored(each, images) for each in self.filters]
        return np.stack(columns, axis=1) if columns else np.empty((len(images), 0), dtype=np.float32)

    def violation(self, images: torch.Tensor, known: Mapping[str, Float32Array] | None = None) -> Float32Array:
        """By how much images are rejected: what the score of their worst filter is below its threshold.

        The unit is the standard deviation of the filter's scores of the held-out real images.

        Args:
            images: uint8 (N, C, H, W).
            known: scores of filters, by name, that are known already.

        Returns:
            float32 (N,); 0 for those that are accepted, infinity for a score that is no number.
        """
        spread = np.maximum(self.calibration.scores.std(axis=0), 1e-6)
        worst = np.zeros(len(images), dtype=np.float32)
        for each, unit in zip(self.filters, spread, strict=True):
            scores = (known or {}).get(each.name)
            if scores is None:
                scores = _scored(each, images, enough=each.threshold)
            below = (each.threshold - scores) / unit
            np.maximum(worst, np.where(np.isnan(below), np.inf, below), out=worst)
        return worst

    def accepts(self, images: torch.Tensor, *, batch_size: int = 1024) -> BoolArray:
        """What :meth:`apply` accepts, found sooner: no score is computed further than its threshold.

        Args:
            images: uint8 (N, C, H, W).
            batch_size: images that are judged at once.

        Returns:
            bool (N,).
        """
        accepted = np.ones(len(images), dtype=np.bool_)
        for start in range(0, len(images), batch_size):
            rows = np.arange(start, min(start + batch_size, len(images)))
            for each in self.filters:
                scores = _scored(each, images[torch.from_numpy(rows)], enough=each.threshold)
                accepted[rows] = passed = scores >= each.threshold
                rows = rows[passed]
        return accepted

    def apply(
        self,
        images: torch.Tensor,
        known: Mapping[str, Float32Array] | None = None,
        *,
        batch_size: int = 1024,
    ) -> FilterVerdicts:
        """Judge images, one filter after the other: what one rejects no later one is asked about.

        Args:
            images: uint8 (N, C, H, W).
            known: scores of filters, by name, that are known already.
            batch_size: images that are judged at once, of large ones fewer.
        """
        batch_size = at_once(batch_size, images.shape[1:])
        scores = np.full((len(images), len(self.filters)), np.nan, dtype=np.float32)
        rejected_by = np.full(len(images), ACCEPTED, dtype=np.int64)
        for start in range(0, len(images), batch_size):
            rows = np.arange(start, min(start + batch_size, len(images)))
            for index, each in enumerate(self.filters):
                told = (known or {}).get(each.name)
                own = _scored(each, images[torch.from_numpy(rows)]) if told is None else told[rows]
                scores[rows, index] = own
                passed = scores[rows, index] >= each.threshold
                rejected_by[rows[~passed]] = index
                rows = rows[passed]
        return FilterVerdicts(
            names=tuple(each.name for each in self.filters),
            thresholds=np.asarray([each.threshold for each in self.filters], dtype=np.float32),
            scores=scores,
            rejected_by=rejected_by,
        )


def _scored(one: Filter, images: torch.Tensor, **enough: float) -> Float32Array:
    """What a filter says of images; one of the user's own is asked for a number for each, whenever it is asked.

    No filter is asked about no images.
    """
    if not len(images):
        return np.empty(0, dtype=np.float32)
    scores: Any = one.score(images, **enough)
    if not isinstance(scores, torch.Tensor) or scores.shape != (len(images),):
        given = f"a tensor of {tuple(scores.shape)}" if isinstance(scores, torch.Tensor) else type(scores).__name__
        raise UserError(
            f"The filter {one.name} gives {given} for {len(images):,} images; its score() must give a tensor with one "
            "number for each."
        )
    # a run folder holds scores as float32, and whole numbers or truth values are scores as good
    return scores.detach().to("cpu", torch.float32).numpy()


_MAX_REAL = 0.2  # share of real images whose rejection makes a given threshold unfit
_NEARLY_ALL = 0.98
_MIN_TRIGGERS = 50  # triggers from which on a share says something


def filter_warnings(
    verdicts: FilterVerdicts, calibration: Calibration, *, asked_in_search: bool = False
) -> tuple[str, ...]:
    """One sentence for each filter that gives NaN, or rejects nothing or nearly everything, of triggers or real images.

    Args:
        asked_in_search: the search avoided what the filters reject, so that rejecting nothing is no fault.
    """
    found = []
    for index, name in enumerate(verdicts.names):
        strange = int((np.isnan(verdicts.scores[:, index]) & (verdicts.rejected_by == index)).sum())
        if strange:
            found.append(
                f"The filter {name} gave NaN for {strange:,} of the {len(verdicts.scores):,} triggers, which count as "
                "rejected; its score() must give a number for each image."
            )
        real = float(calibration.alone[index])
        asked = int((~np.isnan(verdicts.scores[:, index])).sum())
        rejected = int((verdicts.rejected_by == index).sum())
        if calibration.given[index] and real > _MAX_REAL:
            found.append(
                f"The filter {name} rejects {percent(real, 0)} of held-out real images with the threshold "
                f"{calibration.thresholds[index]:.4g}; it does not fit this data. Leave the threshold out to have it "
                "calibrated."
            )
        if asked >= _MIN_TRIGGERS and rejected == 0 and not asked_in_search:
            found.append(
                f"The filter {name} rejected none of the {asked:,} triggers that it was asked about; it may be blind "
                "to what is wrong with them."
            )
        elif asked >= _MIN_TRIGGERS and rejected >= _NEARLY_ALL * asked:
            found.append(
                f"The filter {name} rejected {rejected:,} of the {asked:,} triggers that it was asked about, nearly "
                "everything; look at the rejected pictures before you trust it."
            )
    return tuple(found)
