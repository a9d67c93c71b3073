"""Adam whose step size rises and falls once: what the small networks of a data set are trained with."""

from __future__ import annotations

import math
from collections.abc import Iterable

import torch
from torch import nn
from torch.optim.adam import adam

_RISING = 0.3  # of the updates
_FIRST, _LAST = 1 / 25, 1 / 25e4  # of the largest step size
_MOMENTUM, _LEAST_MOMENTUM = 0.95, 0.85
_BETA2, _EPS = 0.999, 1e-8


class OneCycleAdam:
    """Adam (Kingma and Ba 2015) with one cycle of step size and momentum (Smith and Topin 2018).

    It does bit for bit what ``torch.optim.Adam`` does under ``OneCycleLR`` with the settings that these have by
    default. Any ``torch.optim.Optimizer`` imports torch's compiler, about two seconds of the processor, which nothing
    here compiles with; the function below it does not (docs/decisions/057).

    Args:
        parameters: what is trained, of one device and in the memory format that it keeps.
        rate: largest step size, > 0.
        steps: updates of the whole cycle, at least 1; there may be no more of them.
    """

    def __init__(self, parameters: Iterable[nn.Parameter], rate: float, steps: int) -> None:
        self._parameters = list(parameters)
        self._rate, self._steps, self._done = rate, steps, 0
        self._means = [torch.zeros_like(each) for each in self._parameters]
        self._squares = [torch.zeros_like(each) for each in self._parameters]
        self._counts = [torch.tensor(0.0) for _ in self._parameters]

    def update(self, loss: torch.Tensor) -> None:
        """One update of every parameter that ``loss``, a scalar, depends on. ValueError if the cycle is over."""
        if self._done >= self._steps:
            raise ValueError(f"The cycle of {self._steps} updates is over.")
        for each in self._parameters:
            each.grad = None
        loss.backward()
        rate, momentum = self._now()
        moved = [row for row, each in enumerate(self._parameters) if each.grad is not None]
        with torch.no_grad():
            adam(
                [self._parameters[row] for row in moved],
                [grad for each in self._parameters if (grad := each.grad) is not None],
                [self._means[row] for row in moved],
                [self._squares[row] for row in moved],
                [],
                [self._counts[row] for row in moved],
                amsgrad=False,
                beta1=momentum,
                beta2=_BETA2,
                lr=rate,
                weight_decay=0.0,
                eps=_EPS,
                maximize=False,
            )
        self._done += 1

    def _now(self) -> tuple[float, float]:
        """Step size and momentum of the next update."""
        top, last = _RISING * self._steps - 1, self._steps - 1
        first, end = self._rate * _FIRST, self._rate * _LAST
        if self._done <= top:
            share = self._done / top
            return _between(first, self._rate, share), _between(_MOMENTUM, _LEAST_MOMENTUM, share)
        share = (self._done - top) / (last - top)
        return _between(self._rate, end, share), _between(_LEAST_MOMENTUM, _MOMENTUM, share)


def _between(start: float, end: float, share: float) -> float:
    """Half a wave of the cosine, from ``start`` to ``end``."""
    return end + (start - end) / 2.0 * (math.cos(math.pi * share) + 1)
