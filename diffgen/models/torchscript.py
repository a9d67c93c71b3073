"""TorchScript files, as torch.jit.save writes them."""

from __future__ import annotations

import warnings
from pathlib import Path

import torch

from diffgen.errors import UserError
from diffgen.models.base import ModelSettings
from diffgen.models.torch_module import TorchModule
from diffgen.models.wording import reason


class TorchScriptModel(TorchModule):
    """A traced or scripted network.

    Args:
        path: the file.
        settings: name, device and so on.

    Raises:
        UserError: torch cannot read the file.
    """

    format = "a TorchScript file"

    def __init__(self, path: Path, settings: ModelSettings) -> None:
        super().__init__(open_torchscript(path, settings.device), settings)


def open_torchscript(path: Path, device: torch.device) -> torch.nn.Module:
    """The network of a file, on a device; in the mode that it was saved in.

    Raises:
        UserError: torch cannot read the file.
    """
    with warnings.catch_warnings():
        # torch advises torch.export by now; the format is read as before.
        warnings.filterwarnings("ignore", message=r"`torch\.jit\.\w+` is", category=FutureWarning)
        warnings.filterwarnings("ignore", message=r"`torch\.jit\.\w+` is", category=DeprecationWarning)
        try:
            module: torch.nn.Module = torch.jit.load(str(path), map_location=device)
        except Exception as error:  # torch raises a RuntimeError mostly, other classes for damaged contents
            raise UserError(
                f"{path} is a TorchScript file that torch {torch.__version__} cannot read ({reason(error)}); save it "
                "again with torch.jit.save."
            ) from error
    return module
