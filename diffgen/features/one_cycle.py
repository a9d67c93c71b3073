"""Adam (Kingma and Ba 2015) over one cycle of rates (Smith and Topin 2019), for networks that learn before a search.

To the last bit what torch.optim.Adam and OneCycleLR compute on a CPU. But the first optimiser of torch imports its
compiler, which takes a second of the processor, and goes through the weights tensor by tensor, which small networks
wait for; here all weights of a network lie one behind the other, and an update is a handful of operations.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

import torch
from torch import nn

# those of torch.optim.Adam and OneCycleLR
_SECOND_MOMENT, _EPSILON = 0.999, 1e-8
_RISING = 0.3  # share of the cycle in which the rate rises
_FIRST, _LAST = 25.0, 1e4  # the rate begins at a 25th of its height, and ends at a 10,000th of that
_LEAST_MOMENTUM, _MOST_MOMENTUM = 0.85, 0.95  # least where the rate is highest
_ALIGNED = 16  # floats, a line of the cache: where torch itself would put a tensor


class OneCycleAdam:
    """Trains the parameters of networks; :meth:`released` when that is done.

    Args:
        parameters: float32, each laid out without gaps, in the memory format that is wanted.
        rate: learning rate at the height of the cycle.
        steps: updates there will be.
    """

    def __init__(self, parameters: Iterable[nn.Parameter], rate: float, *, steps: int) -> None:
        self._parameters = list(parameters)
        self._rate, self._steps, self._done = rate, steps, 0
        sizes = [-(-each.numel() // _ALIGNED) * _ALIGNED for each in self._parameters]
        like = self._parameters[0].detach()
        self._weights, self._gradients, self._mean, self._square = (like.new_zeros(sum(sizes)) for _ in range(4))
        start = 0
        for each, size in zip(self._parameters, sizes, strict=True):
            own = self._weights.as_strided(each.shape, each.stride(), start)
            own.copy_(each.detach())
            each.data = own
            each.grad = self._gradients.as_strided(each.shape, each.stride(), start)
            start += size

    @torch.no_grad()
    def step(self) -> None:
        """Change the weights by the gradients that there are, and forget these."""
        rate, momentum = one_cycle(self._done, self._steps, self._rate)
        self._done += 1
        self._mean.lerp_(self._gradients, 1 - momentum)
        self._square.mul_(_SECOND_MOMENT).addcmul_(self._gradients, self._gradients, value=1 - _SECOND_MOMENT)
        spread = (self._square.sqrt() / (1 - _SECOND_MOMENT**self._done) ** 0.5).add_(_EPSILON)
        self._weights.addcdiv_(self._mean, spread, value=-(rate / (1 - momentum**self._done)))
        self._gradients.zero_()

    def released(self) -> None:
        """Each parameter has memory of its own again, and no gradient."""
        for each in self._parameters:
            each.data, each.grad = each.detach().clone(), None


def one_cycle(step: int, steps: int, rate: float) -> tuple[float, float]:
    """Learning rate and momentum of an update: the one rises and falls as the other falls and rises, both as a cosine.

    Args:
        step: from 0 to ``steps`` - 1.
        steps: of the cycle, more than 3.
        rate: at its height.
    """
    top = _RISING * steps - 1
    if step <= top:
        share, ends, momenta = step / top, (rate / _FIRST, rate), (_MOST_MOMENTUM, _LEAST_MOMENTUM)
    else:
        share = (step - top) / (steps - 1 - top)
        ends, momenta = (rate, rate / _FIRST / _LAST), (_LEAST_MOMENTUM, _MOST_MOMENTUM)
    return _between(*ends, share), _between(*momenta, share)


def _between(start: float, end: float, share: float) -> float:
    return end + (start - end) / 2.0 * (math.cos(math.pi * share) + 1)
