"""TorchScript files, as torch.jit.save writes them."""

from __future__ import annotations

import warnings
from dataclasses import replace
from pathlib import Path

import torch

from diffgen.errors import UserError
from diffgen.models.archives import UntrustedError
from diffgen.models.base import ModelSettings
from diffgen.models.torch_module import TorchModule
from diffgen.models.torchscript_archive import check_archive, is_quantized
from diffgen.models.wording import reason


class TorchScriptModel(TorchModule):
    """A traced or scripted network. A quantized one runs on the CPU, which alone has its operators.

    Args:
        path: the file.
        settings: name, device and so on.
        allow_pickle: the user trusts the file, so that its code may reach for files.

    Raises:
        UserError: torch cannot read the file, or its code does more than compute.
    """

    format = "a TorchScript file"

    def __init__(self, path: Path, settings: ModelSettings, *, allow_pickle: bool = False) -> None:
        trusted = _only_because_trusted(path, allow_pickle=allow_pickle)
        place = settings.device
        if place.type != "cpu" and is_quantized(path):
            place = torch.device("cpu")
            self.remarks = (f"Model {settings.name} runs on the CPU, which alone has torch's quantized operators.",)
        super().__init__(open_torchscript(path, place, checked=True), replace(settings, device=place))
        self.device = settings.device
        self.unpickled = trusted


def _only_because_trusted(path: Path, *, allow_pickle: bool) -> bool:
    """Whether the file does more than compute and the user allows it."""
    try:
        check_archive(path)
    except UntrustedError as error:
        if allow_pickle:
            return True
        raise UserError(
            f"{path} is a TorchScript file that is not opened because {error}; save it again without that, or add "
            "--allow-pickle if you trust it."
        ) from error
    except Exception as error:  # zipfile raises half a dozen types on damaged ones
        raise _unreadable(path, error) from error
    return False


def open_torchscript(path: Path, device: torch.device, *, checked: bool = False) -> torch.nn.Module:
    """The network of a file, on a device; in the mode that it was saved in.

    Args:
        path: the file.
        device: where to.
        checked: somebody has seen that it only computes, or the user trusts it.

    Raises:
        UserError: torch cannot read the file, or its code does more than compute.
    """
    if not checked:
        _only_because_trusted(path, allow_pickle=False)
    with warnings.catch_warnings():
        # torch advises torch.export by now; the format is read as before.
        warnings.filterwarnings("ignore", message=r"`torch\.jit\.\w+` is", category=FutureWarning)
        warnings.filterwarnings("ignore", message=r"`torch\.jit\.\w+` is", category=DeprecationWarning)
        try:
            module: torch.nn.Module = torch.jit.load(str(path), map_location=device)
        except Exception as error:  # torch raises a RuntimeError mostly, other classes for damaged contents
            raise _unreadable(path, error) from error
    return module


def _unreadable(path: Path, error: Exception) -> UserError:
    return UserError(
        f"{path} is a TorchScript file that torch {torch.__version__} cannot read ({reason(error)}); save it again "
        "with torch.jit.save."
    )
