"""Models that are objects of this process: a torch.nn.Module, or a Python function."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import numpy as np
import torch

from diffgen.models.base import BlackBox
from diffgen.models.inputs import as_tensor
from diffgen.models.model_settings import ModelSettings
from diffgen.models.named_outputs import per_image

_TYPES = (torch.float16, torch.bfloat16, torch.float64)  # besides float32


class TorchModule(BlackBox):
    """A network in memory.

    The module itself is used, not a copy: it is moved to the device, and is in evaluation mode while it is asked.

    Args:
        module: takes (N, C, H, W), in float32 or in the type of its weights, and gives (N, K).
        lent: it is the caller's: each of its parts is back in its own mode whenever it has been asked.
    """

    format = "a PyTorch network in memory"

    def __init__(self, module: torch.nn.Module, settings: ModelSettings, *, lent: bool = False) -> None:
        super().__init__(settings)
        self._module = module.to(settings.device)
        self._typed = InItsOwnType(self._module)
        if lent:
            with evaluating(self._module) as self._has_modes:
                pass
        else:
            self._has_modes = try_eval(self._module)

    def _ask(self, batch: torch.Tensor) -> object:
        if not self._has_modes:
            return self._typed(batch)
        with evaluating(self._module):
            return self._typed(batch)


class InItsOwnType:
    """A network that is handed float32 and, where it refuses that, the same values in the type that it computes in.

    Args:
        module: takes one floating tensor.
    """

    def __init__(self, module: torch.nn.Module) -> None:
        self._module = module
        self._type = torch.float32
        self._listed = False

    def __call__(self, batch: torch.Tensor) -> object:
        """What the network gives for a float32 tensor; raises whatever it raises to float32."""
        try:
            return self._module([*batch] if self._listed else batch.to(self._type))
        except torch.OutOfMemoryError:
            raise
        except RuntimeError as error:
            if "List[Tensor]" in str(error) and not self._listed:
                # torchvision's detectors as TorchScript take images one by one
                self._listed = True
                return self(batch)
            for kind in self._types():
                with suppress(RuntimeError):
                    answer = self._module(batch.to(kind))
                    self._type = kind
                    return answer
            raise

    def _types(self) -> tuple[torch.dtype, ...]:
        """Types that may be the network's; one that was frozen has no weights which tell."""
        weights = [each.dtype for each in self._module.parameters() if each.is_floating_point()]
        return tuple(kind for kind in _TYPES if kind in weights or not weights)


@contextmanager
def evaluating(module: torch.nn.Module) -> Iterator[bool]:
    """While the block runs, a module and all its parts are in evaluation mode; gives False if it has no modes."""
    training = [part for part in module.modules() if getattr(part, "training", False)]
    has_modes = not training or try_eval(module)
    try:
        yield has_modes
    finally:
        for part in training:
            part.training = True


def try_eval(module: torch.nn.Module) -> bool:
    """Put a module into evaluation mode; False if it has no modes."""
    try:
        module.eval()
    except NotImplementedError:
        # The module of a torch.export program refuses; its mode was set when it was exported.
        return False
    return True


_CPU = torch.device("cpu")


class CallableModel(BlackBox):
    """Asks a function about numpy arrays.

    Args:
        function: takes a float32 array (N, C, H, W), or (N, H, W, C), with values in [0, 1] or as the pre-processing
            says, and gives something that numpy can read as a floating (N, K) array; a detector gives what
            :mod:`diffgen.models.detector_heads` reads. It may change its argument.
        settings: name, device and so on. The function is always asked on the CPU.
    """

    format = "a Python function"

    def __init__(self, function: Callable[[Any], Any], settings: ModelSettings) -> None:
        super().__init__(settings)
        self._function = function
        self._input_device = _CPU

    def _ask(self, batch: torch.Tensor) -> object:
        answer = self._function(batch.numpy())
        if per_image(answer):
            return answer
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
