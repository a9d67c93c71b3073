"""A torch.nn.Module that the user hands over as it is."""

from __future__ import annotations

import torch

from diffgen.errors import UserError
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
        try:
            return self._module(batch)
        except RuntimeError as error:
            kind = self._other_type(batch)
            if kind is None:
                raise
            raise UserError(
                f"Model {self.name} computes in {kind}, but diffgen hands it float32 images; save it again after "
                "model.float()."
            ) from error

    def _other_type(self, batch: torch.Tensor) -> str | None:
        """The type of the network's weights, if it refuses float32 images and takes the same ones in that type."""
        weights = next((each.dtype for each in self._module.parameters() if each.is_floating_point()), batch.dtype)
        if weights == batch.dtype:
            return None
        try:
            self._module(batch.to(weights))
        except RuntimeError:
            return None
        return str(weights).removeprefix("torch.")


def try_eval(module: torch.nn.Module) -> bool:
    """Put a module into evaluation mode; False if it has no modes."""
    try:
        module.eval()
    except NotImplementedError:
        # The module of a torch.export program refuses; its mode was set when it was exported.
        return False
    return True
