"""What is kept of the answers to many images: every probability of few classes, of many only those that matter.

A hundred thousand answers of two models with 10,000 classes are 8 GB. Of each image as many classes are kept as
:func:`kept_classes` says; every figure of a run depends on these alone: labels, margins, the largest change of a
probability between two models, and which five labels of a model are the highest.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from diffgen.types import Float32Array, Int64Array

if TYPE_CHECKING:
    # only for the types: who draws a report waits for no torch
    import torch

#: With at most this many classes every probability is kept.
ALL_KEPT = 128
_KEPT = 32  # classes of an image, at least
_TOP = 5  # highest ones of every model that are among them


def kept_count(models: int, classes: int) -> int:
    """How many classes of an image are kept: all, or room for the highest ones of every model and some more."""
    return classes if classes <= ALL_KEPT else min(classes, max(_KEPT, (_TOP + 1) * models + 1))


def kept_classes(probabilities: torch.Tensor) -> torch.Tensor:
    """Which classes of each image are kept, int64 (N, T), ascending, on the device of the answers.

    Those are what each model says, its five highest, the one that the models differ on most, and then those with the
    highest probability from any model.

    Args:
        probabilities: float32 (N, M, K).
    """
    import torch

    count, models, classes = probabilities.shape
    highest, lowest = probabilities.amax(dim=1), probabilities.amin(dim=1)
    must = torch.cat(
        [
            probabilities.argmax(dim=2),
            probabilities.topk(_TOP, dim=2).indices.reshape(count, _TOP * models),
            (highest - lowest).argmax(dim=1, keepdim=True),
        ],
        dim=1,
    )
    wanted = highest.scatter(1, must, 2.0)  # above every probability
    return wanted.topk(kept_count(models, classes), dim=1).indices.sort(dim=1).values


def keep(probabilities: torch.Tensor) -> tuple[Float32Array, Int64Array | None]:
    """What is kept, on the CPU: probabilities float32 (N, M, T) and classes int64 (N, T); None: all classes are.

    Args:
        probabilities: float32 (N, M, K).
    """
    if probabilities.shape[2] <= ALL_KEPT:
        return probabilities.cpu().numpy(), None
    classes = kept_classes(probabilities)
    chosen = probabilities.gather(2, classes[:, None].expand(-1, probabilities.shape[1], -1))
    return chosen.cpu().numpy(), classes.cpu().numpy()


def labels_among(probabilities: Float32Array, classes: Int64Array | None) -> Int64Array:
    """int64 (N, M): what each model says, for what :func:`keep` gave."""
    places = np.asarray(probabilities.argmax(axis=2), dtype=np.int64)
    return places if classes is None else np.take_along_axis(classes, places, axis=1).astype(np.int64)


def spread_out(probabilities: Float32Array, classes: Int64Array | None, count: int) -> Float32Array:
    """float32 (N, M, K) for what :func:`keep` gave of ``count`` classes; what is not known is spread evenly.

    Rows sum to 1 again.
    """
    if classes is None:
        return probabilities
    rows, models, kept = probabilities.shape
    left = np.maximum(1 - probabilities.sum(axis=2, keepdims=True), 0) / max(1, count - kept)
    whole = np.broadcast_to(left, (rows, models, count)).astype(np.float32)
    np.put_along_axis(whole, np.broadcast_to(classes[:, None], probabilities.shape), probabilities, axis=2)
    return whole


@dataclass(frozen=True, eq=False)
class KeptAnswers:
    """Answers of M models to N images, as far as they are kept.

    Attributes:
        probabilities: float32 (N, M, T), of the classes that are kept. Margins, and the largest difference between two
            models, are those of all classes.
        classes: int64 (N, T), ascending, which these are; None: all of them.
        count: K, how many classes there are.
    """

    probabilities: Float32Array
    classes: Int64Array | None
    count: int

    @classmethod
    def of(cls, probabilities: Float32Array | torch.Tensor) -> KeptAnswers:
        """What is kept of float32 (N, M, K)."""
        import torch

        whole = torch.from_numpy(probabilities) if isinstance(probabilities, np.ndarray) else probabilities
        return cls(*keep(whole), int(whole.shape[2]))

    @classmethod
    def joined(cls, parts: Sequence[KeptAnswers]) -> KeptAnswers:
        """Several, of the same models, one after the other."""
        classes = [each.classes for each in parts if each.classes is not None]
        return cls(
            np.concatenate([each.probabilities for each in parts]),
            np.concatenate(classes) if classes else None,
            parts[0].count,
        )

    def __len__(self) -> int:
        return len(self.probabilities)

    def __getitem__(self, rows: Any) -> KeptAnswers:
        """Those to some images."""
        return KeptAnswers(self.probabilities[rows], None if self.classes is None else self.classes[rows], self.count)

    @cached_property
    def labels(self) -> Int64Array:
        """int64 (N, M): what each model says."""
        return labels_among(self.probabilities, self.classes)

    def dense(self) -> Float32Array:
        """float32 (N, M, K); see :func:`spread_out`. Of many images and classes it takes much memory."""
        return spread_out(self.probabilities, self.classes, self.count)
