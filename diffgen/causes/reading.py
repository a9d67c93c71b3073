"""Reading: softmax twice, another temperature, a class that cannot get higher."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch
from scipy.optimize import minimize_scalar

from diffgen.causes.base import Cause, Change, Seen, Stage
from diffgen.config import replace
from diffgen.types import Float32Array

_LEAST = 1e-6  # a probability: 8 bits leave hardly less
# retrained models are surer or less sure by some factor, which a temperature makes up for in part
_MOST_OF_IT = 0.6
_FAR = 1.25  # from 1, in either direction


class Reading(Cause):
    name = "reading"

    def changes(self, seen: Seen) -> Iterator[Change]:
        classes = seen.other.shape[1]
        highest = float(np.e / (np.e + classes - 1))  # that a softmax of probabilities can be
        if seen.other.max() <= 1.01 * highest < seen.own.max():
            yield Change(
                "softmax twice",
                "takes the softmax of probabilities",
                Stage.ANSWERS,
                lambda answers: torch.softmax(answers, dim=1),
                "take the softmax once",
                lambda own, other: [replace(own, outputs="probabilities")] if own.outputs == "logits" else [],
                share=_MOST_OF_IT,
            )
        else:
            factor = _temperature(seen.own, seen.other)
            if max(factor, 1 / factor) >= _FAR:
                says = f"divides its logits by {factor:.2f}"
                yield Change(
                    f"temperature: {factor:.2f}",
                    says if factor > 1 else f"multiplies its logits by {1 / factor:.2f}",
                    Stage.ANSWERS,
                    lambda answers: _tempered(answers, factor),
                    "read the logits as they are",
                    share=_MOST_OF_IT,
                )
        yield from _saturated(seen.own, seen.other)


def _tempered(answers: torch.Tensor, factor: float) -> torch.Tensor:
    return torch.softmax(torch.log(answers.clamp(min=_LEAST)) / factor, dim=1)


def _temperature(own: Float32Array, other: Float32Array) -> float:
    """The factor that logits are divided by so that the answers come nearest to the other's."""
    known, wanted = torch.from_numpy(own), torch.from_numpy(other)

    def apart(logarithm: float) -> float:
        return float((_tempered(known, float(np.exp(logarithm))) - wanted).abs().sum())

    return float(np.exp(minimize_scalar(apart, bounds=(-3, 3), method="bounded").x))


def _saturated(own: Float32Array, other: Float32Array) -> Iterator[Change]:
    """The class that the other side gives far lower at its highest than this one does."""
    highest, reached = own.max(axis=0), other.max(axis=0)
    label = int(np.argmax(highest - reached))
    if highest[label] < 0.5:
        return
    odds = float(np.log(reached[label] + _LEAST) - np.log(1 - reached[label] + _LEAST))

    def capped(answers: torch.Tensor) -> torch.Tensor:
        rest = answers.clone()
        share = answers[:, label].clamp(max=1 / (1 + np.exp(-odds)))
        rest[:, label] = 0
        rest = rest * ((1 - share) / rest.sum(dim=1).clamp(min=_LEAST))[:, None]
        rest[:, label] = share
        return rest

    yield Change(
        f"saturation: class {label}",
        f"gives class {label} at most {reached[label]:.0%}, as an 8-bit output of too small a range does",
        Stage.ANSWERS,
        capped,
        "calibrate with pictures of that class",
        share=_MOST_OF_IT,
    )
