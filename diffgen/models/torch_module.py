"""A torch.nn.Module that the user hands over as it is."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch

from diffgen.errors import UserError
from diffgen.models.base import BlackBox
from diffgen.models.model_settings import ModelSettings


class TorchModule(BlackBox):
    """A network in memory.

    The module itself is used, not a copy: it is moved to the device, and is in evaluation mode while it is asked.

    Args:
        module: takes float32 (N, C, H, W) and gives (N, K).
        settings: name, device and so on.
        lent: it is the caller's: each of its parts is back in its own mode whenever it has been asked.
    """

    format = "a PyTorch network in memory"

    def __init__(self, module: torch.nn.Module, settings: ModelSettings, *, lent: bool = False) -> None:
        super().__init__(settings)
        self._module = module.to(settings.device)
        if lent:
            with evaluating(self._module) as self._has_modes:
                pass
        else:
            self._has_modes = try_eval(self._module)

    def _ask(self, batch: torch.Tensor) -> object:
        try:
            return self._answer(batch)
        except RuntimeError as error:
            kind = self._other_type(batch)
            if kind is None:
                raise
            raise UserError(
                f"Model {self.name} computes in {kind}, but diffgen hands it float32 images; save it again after "
                "model.float()."
            ) from error

    def _answer(self, batch: torch.Tensor) -> object:
        if not self._has_modes:
            return self._module(batch)
        with evaluating(self._module):
            return self._module(batch)

    def _other_type(self, batch: torch.Tensor) -> str | None:
        """The type of the network's weights, if it refuses float32 images and takes the same ones in that type."""
        weights = next((each.dtype for each in self._module.parameters() if each.is_floating_point()), batch.dtype)
        if weights == batch.dtype:
            return None
        try:
            self._answer(batch.to(weights))
        except RuntimeError:
            return None
        return str(weights).removeprefix("torch.")


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
