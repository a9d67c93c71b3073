"""TorchScript files, as torch.jit.save writes them."""

from __future__ import annotations

import os
import warnings
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO

import torch

from diffgen.errors import UserError
from diffgen.models.model_settings import ModelSettings
from diffgen.models.torch_module import TorchModule
from diffgen.models.untrusted import UntrustedError, check_graphs, checked_torchscript, is_quantized
from diffgen.models.wording import reason


class TorchScriptModel(TorchModule):
    """A traced or scripted network. A quantized one runs on the CPU, which alone has its operators.

    Args:
        allow_pickle: the user trusts the file, so that its code may do more than compute.

    Raises:
        UserError: torch cannot read the file, or its code does more than compute.
    """

    format = "a TorchScript file"

    def __init__(self, path: Path, settings: ModelSettings, *, allow_pickle: bool = False) -> None:
        place = settings.device
        opened = open_torchscript(path, place, allow_pickle=allow_pickle)
        if opened.device != place:
            self.remarks = (f"Model {settings.name} runs on the CPU, which alone has torch's quantized operators.",)
        super().__init__(opened.module, replace(settings, device=opened.device))
        self.device = settings.device
        self.unpickled = opened.trusted


@dataclass(frozen=True)
class OpenedScript:
    """What a TorchScript file held.

    Attributes:
        module: the network, in the mode that it was saved in.
        device: where it is: on the CPU if it is quantized.
        trusted: it was only opened because the user trusts it.
    """

    module: torch.nn.Module
    device: torch.device
    trusted: bool


def open_torchscript(path: Path, device: torch.device, *, allow_pickle: bool = False) -> OpenedScript:
    """The network of a file, on a device if it can run there.

    Args:
        device: where to.
        allow_pickle: the user trusts the file, so that its code may do more than compute.

    Raises:
        UserError: torch cannot read the file, or its code does more than compute.
    """
    try:
        with checked_torchscript(path) as copy:
            place = _place(path, device)
            module = _loaded(_readable(copy), place, path)
        check_graphs(module)
    except UntrustedError as error:
        if not allow_pickle:
            raise UserError(
                f"{path} is a TorchScript file that is not opened because {error}; export the network to ONNX, or add "
                "--allow-pickle if you trust the file, since its code could then write files and run programs."
            ) from error
        place = _place(path, device)
        return OpenedScript(_loaded(str(path), place, path), place, trusted=True)
    except UserError:
        raise
    except Exception as error:  # zipfile raises half a dozen types on damaged archives
        raise _unreadable(path, error) from error
    return OpenedScript(module, place, trusted=False)


def _place(path: Path, device: torch.device) -> torch.device:
    return torch.device("cpu") if device.type != "cpu" and is_quantized(path) else device


def _readable(copy: IO[bytes]) -> str | IO[bytes]:
    """The file as torch reads it fastest: by a path, where nameless files have one."""
    by_number = f"/proc/self/fd/{copy.fileno()}"
    return by_number if os.path.exists(by_number) else copy


def _loaded(source: str | IO[bytes], device: torch.device, path: Path) -> torch.nn.Module:
    with warnings.catch_warnings():
        # torch advises torch.export by now; the format is read as before.
        warnings.filterwarnings("ignore", message=r"`torch\.jit\.\w+` is", category=FutureWarning)
        warnings.filterwarnings("ignore", message=r"`torch\.jit\.\w+` is", category=DeprecationWarning)
        try:
            module: torch.nn.Module = torch.jit.load(source, map_location=device)
        except Exception as error:  # torch raises a RuntimeError mostly, other classes for damaged contents
            raise _unreadable(path, error) from error
    return module


def _unreadable(path: Path, error: Exception) -> UserError:
    return UserError(
        f"{path} is a TorchScript file that torch {torch.__version__} cannot read ({reason(error)}); save it again "
        "with torch.jit.save."
    )
