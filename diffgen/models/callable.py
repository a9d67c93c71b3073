"""A Python function, or any other callable, as a model under test."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from diffgen.models.base import BlackBox
from diffgen.models.inputs import as_tensor
from diffgen.models.model_settings import ModelSettings

_CPU = torch.device("cpu")


class CallableModel(BlackBox):
    """Asks a function about numpy arrays.

    Args:
        function: takes a float32 array (N, C, H, W), or (N, H, W, C), with values in [0, 1] or as the pre-processing
            says, and gives something that numpy can read as a floating (N, K) array. It may change its argument.
        settings: name, device and so on. The function is always asked on the CPU.
    """

    format = "a Python function"

    def __init__(self, function: Callable[[Any], Any], settings: ModelSettings) -> None:
        super().__init__(settings)
        self._function = function
        self._input_device = _CPU

    def _ask(self, batch: torch.Tensor) -> object:
        answer = self._function(batch.numpy())
        if isinstance(answer, dict):
            return {name: _as_tensor_if_numbers(value) for name, value in answer.items()}
        if isinstance(answer, tuple):
            names = getattr(answer, "_fields", None)
            values = tuple(_as_tensor_if_numbers(value) for value in answer)
            return values if names is None else dict(zip(names, values, strict=True))
        return _as_tensor_if_numbers(answer)


def _as_tensor_if_numbers(answer: object) -> object:
    """An array of numbers as a tensor; anything else is passed on, to be named in the message."""
    if isinstance(answer, torch.Tensor):
        return answer.detach()
    if answer is None or isinstance(answer, str):
        return answer
    array = np.asarray(answer)
    return as_tensor(array) if array.dtype.kind in "fiub" else answer
