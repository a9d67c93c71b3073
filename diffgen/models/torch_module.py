"""A torch.nn.Module that the user hands over as it is."""

from __future__ import annotations

import torch

from diffgen.models.base import BlackBox
from diffgen.models.model_settings import ModelSettings


class TorchModule(BlackBox):
    """A network in memory.

    The module itself is used, not a copy: it is moved to the device and put into evaluation mode, also when somebody
    puts it back into training mode between two calls.

    Args:
        module: takes float32 (N, C, H, W) and gives (N, K).
        settings: name, device and so on.
    """

    format = "a PyTorch network in memory"

    def __init__(self, module: torch.nn.Module, settings: ModelSettings) -> None:
        super().__init__(settings)
        self._module = module.to(settings.device)
        self._has_modes = try_eval(self._module)

    def _ask(self, batch: torch.Tensor) -> object:
        if self._has_modes and self._module.training:
            self._module.eval()
        return self._module(batch)


def try_eval(module: torch.nn.Module) -> bool:
    """Put a module into evaluation mode; False if it has no modes."""
    try:
        module.eval()
    except NotImplementedError:
        # The module of a torch.export program refuses; its mode was set when it was exported.
        return False
    return True
