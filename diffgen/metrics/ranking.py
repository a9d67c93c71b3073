"""Which of several classifiers is better, from the pictures on which they differ: which to label, how sure it is.

On a picture of which all models say the same, all are right or all are wrong: it tells nothing of their order. Of the
others, the differences of the models' accuracies are estimated from a few labels without bias, however these few were
chosen, as long as the chance of each is known (Horvitz and Thompson 1952). Chances follow how unsure it is beforehand
who is right (Sawade, Landwehr and Scheffer 2012, Active Comparison of Prediction Models), and that guess is what the
labels correct (Zrnic and Candes 2024, Active Statistical Inference).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from diffgen.types import Float32Array, Int64Array

Float64Array = np.ndarray[tuple[int, ...], np.dtype[np.float64]]

DRAWS = 2_000  # of the bootstrap
_BLIND = 0.25  # share of the chances that no guess has a say in
_ENDS = (2.5, 97.5)  # percentiles of a 95 % interval


def guessed_right(posterior: Float32Array, said: Int64Array) -> Float32Array:
    """float32 (N, M): how probably each model is right, for float32 (N, K) what a picture shows and int64 (N, M)."""
    return np.take_along_axis(posterior, said, axis=1)


def doubt(guessed: Float32Array, said: Int64Array) -> Float64Array:
    """How much a label of each picture may tell of the order of the models.

    Args:
        guessed: float32 (N, M), as :func:`guessed_right` gives it.
        said: int64 (N, M), what each model says.

    Returns:
        float64 (N,): root of the variance of who is right, summed over the pairs of models that differ.
    """
    total = np.zeros(len(said))
    for one in range(said.shape[1]):
        for other in range(one):
            p, q = guessed[:, one].astype(np.float64), guessed[:, other].astype(np.float64)
            total += np.where(said[:, one] != said[:, other], p + q - (p - q) ** 2, 0)
    return np.sqrt(np.maximum(total, 0))


def chances(weights: Float64Array, count: int) -> Float64Array:
    """float64 (N,): the chance of each picture to be among ``count`` chosen ones, by weights; they add up to it."""
    if count >= len(weights):
        return np.ones(len(weights))
    total = weights.sum()
    shares = np.full(len(weights), 1 / len(weights)) if total <= 0 else weights / total
    shares = _BLIND / len(weights) + (1 - _BLIND) * shares
    found = np.zeros(len(weights))
    certain = np.zeros(len(weights), dtype=np.bool_)
    while True:
        left = count - certain.sum()
        found = np.where(certain, 1.0, shares * left / shares[~certain].sum())
        above = (found >= 1) & ~certain
        if not above.any():
            return found
        certain |= above


def draw(chance: Float64Array, seed: int) -> Int64Array:
    """int64 (n,), ascending: rows drawn with given chances, systematically in a random order (Madow 1949)."""
    rng = np.random.default_rng(seed)
    order = rng.permutation(len(chance))
    ends = np.cumsum(chance[order])
    count = round(float(ends[-1])) if len(ends) else 0
    marks = (rng.random() + np.arange(count)) * (ends[-1] / max(count, 1)) if count else np.empty(0)
    rows: Int64Array = np.sort(order[np.searchsorted(ends, marks, side="right").clip(0, len(ends) - 1)])
    return rows


@dataclass(frozen=True)
class Standing:
    """How M models stand, and how sure it is.

    Attributes:
        values: float64 (M,), of each model.
        low, high: float64 (M,), ends of 95 % intervals.
        above: float64 (M, M): share of the draws in which the model of the row has a higher value than that of the
            column; ties count half, and so do draws with one case more for it and with one case more against it.
    """

    values: Float64Array
    low: Float64Array
    high: Float64Array
    above: Float64Array

    @classmethod
    def of(cls, values: Float64Array, worst: Float64Array, best: Float64Array) -> Standing:
        """From float64 (M,) values, and what they may be: float64 (D, M) draws with a case more against, for each."""
        low, high = np.percentile(worst, _ENDS[0], axis=0), np.percentile(best, _ENDS[1], axis=0)
        above = (_above(best, worst) + _above(worst, best)) / 2
        # rounding can put an end beyond the value
        return cls(values, np.minimum(low, values), np.maximum(high, values), above)

    @classmethod
    def unknown(cls, values: Float64Array) -> Standing:
        """Where one thing alone was drawn: it varies with nothing, and so says nothing of how sure the values are."""
        count = len(values)
        return cls(values, np.zeros(count), np.ones(count), np.full((count, count), 0.5))

    def as_shares(self) -> Standing:
        """The same, with values and intervals between 0 and 1: estimates of few labels may lie beyond."""
        return replace(self, values=self.values.clip(0, 1), low=self.low.clip(0, 1), high=self.high.clip(0, 1))


def _above(one: Float64Array, other: Float64Array) -> Float64Array:
    """float64 (M, M): share of float64 (D, M) draws in which ``one`` of the row is above ``other`` of the column."""
    gaps = one[:, :, None] - other[:, None, :]
    share: Float64Array = ((gaps > 0).mean(axis=0) + (gaps >= 0).mean(axis=0)) / 2
    return share


def _weights(count: int, seed: int) -> tuple[Float64Array, Float64Array, Int64Array]:
    """Of a Bayesian bootstrap (Rubin 1981) of ``count`` cases and one more, which looks like one of them.

    Resampling alone knows of no case that was not met: where a model is right on all, it would leave no doubt. With one
    case more against the model for the lower end, and one for it for the upper end, the interval of a share of equally
    likely cases is exactly that of Clopper and Pearson (1934), whose ends are quantiles of such beta distributions.

    Returns:
        float64 (D, count) and (D, 1), weights of the cases and of the one more, which add up to 1; and int64 (D,),
        which case that one looks like.
    """
    rng = np.random.default_rng(seed)
    weights = rng.standard_exponential((DRAWS, count + 1))
    weights /= weights.sum(axis=1, keepdims=True)
    return weights[:, :-1], weights[:, -1:], rng.integers(0, count, size=DRAWS)


def standing_by_labels(
    right: np.ndarray[tuple[int, int], np.dtype[np.bool_]],
    guessed: Float32Array,
    chance: Float64Array,
    *,
    guessed_sum: Float64Array,
    pictures: int,
    seed: int,
) -> Standing:
    """On which share of the pictures on which models differ each one is right, from labels of a few.

    Args:
        right: bool (n, M), who is right on the labelled pictures.
        guessed: float32 (n, M), how probably each was, beforehand.
        chance: float64 (n,), that each of these was chosen.
        guessed_sum: float64 (M,), sum of the guesses over all pictures on which models differ.
    """
    corrections = (right.astype(np.float64) - guessed) / chance[:, None]
    values = (guessed_sum + corrections.sum(axis=0)) / pictures
    # what had to be chosen is no sample: it is the same in every draw
    sampled = np.flatnonzero(chance < 1)
    if len(sampled) == 0:
        return Standing.of(values, values[None], values[None])
    if len(sampled) == 1:
        return Standing.unknown(values)
    weights, more, alike = _weights(len(sampled), seed)
    known = guessed_sum + corrections[chance >= 1].sum(axis=0)
    drawn, odds = weights @ corrections[sampled], chance[sampled][alike, None]
    worst, best = (drawn + more * (each - guessed[sampled][alike]) / odds for each in (0, 1))
    return Standing.of(values, *((known + len(sampled) * each) / pictures for each in (worst, best)))


def standing_by_clusters(
    wrong: np.ndarray[tuple[int, int], np.dtype[np.bool_]], clusters: Int64Array, *, seed: int
) -> Standing:
    """On which share of pictures each model is right, where those of one cluster are alike; by bootstrap of clusters.

    Args:
        wrong: bool (N, M), N >= 1.
        clusters: int64 (N,), any numbers.
    """
    _, rows, counts = np.unique(clusters, return_inverse=True, return_counts=True)
    right = np.zeros((len(counts), wrong.shape[1]))
    np.add.at(right, rows.reshape(-1), ~wrong)
    values = right.sum(axis=0) / len(wrong)
    if len(counts) == 1:
        return Standing.unknown(values)
    weights, more, alike = _weights(len(counts), seed)
    drawn, size = weights @ right, more * counts[alike, None]
    pictures = weights @ counts[:, None] + size
    return Standing.of(values, drawn / pictures, (drawn + size) / pictures)
