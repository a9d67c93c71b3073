"""From what the user names as a model to a black box."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from diffgen.config import Preprocessing
from diffgen.errors import UserError
from diffgen.models.advice import describe_directory, describe_file
from diffgen.models.base import BlackBox, ModelSettings
from diffgen.models.callable import CallableModel
from diffgen.models.identity import file_sha256, onnx_sha256
from diffgen.models.sniffing import FileKind, sniff
from diffgen.models.torch_module import TorchModule
from diffgen.models.wording import reason

ModelLike = str | os.PathLike[str] | Callable[[Any], Any] | torch.nn.Module | BlackBox


def load(
    model: ModelLike,
    *,
    device: torch.device | str = "cpu",
    batch_size: int = 256,
    preprocessing: Preprocessing | None = None,
    name: str | None = None,
) -> BlackBox:
    """A black box for a model. Call its ``prepare`` before its ``predict``.

    Args:
        model: path of a TorchScript or ONNX file; or a torch module (used as it is, not copied); or a function from a
            float32 numpy array (N, C, H, W) to (N, K); or a black box, which is given back as it is.
        device: where tensors of probabilities are wanted; torch computes there too, ONNX if onnxruntime can.
        batch_size: most images handed to the model at once.
        preprocessing: what is done to the images first, or None for the defaults of :class:`Preprocessing`.
        name: what the model is called in messages and reports, or None: its file's name, or its own.

    Raises:
        UserError: there is no such file, it cannot be read as a model (the message says what it is and how to convert
            it), or there is no such device.

    Example:
        >>> box = load(lambda pixels: pixels.reshape(len(pixels), -1)[:, :10], name="first ten pixels")
        >>> box.prepare(np.zeros((4, 1, 28, 28), dtype=np.uint8))
        >>> box.predict(np.zeros((2, 1, 28, 28), dtype=np.uint8)).shape
        (2, 10)
    """
    if isinstance(model, BlackBox):
        return model
    settings = ModelSettings(
        name=name if name is not None else _own_name(model),
        device=_device(device),
        batch_size=batch_size,
        preprocessing=preprocessing if preprocessing is not None else Preprocessing(),
    )
    if isinstance(model, (str, os.PathLike)):
        return _from_path(Path(model).expanduser(), settings)
    if isinstance(model, type):
        raise UserError(f"The model {settings.name} is a class; give an object of it, such as {settings.name}().")
    if isinstance(model, torch.nn.Module):
        return TorchModule(model, settings)
    if callable(model):
        return CallableModel(model, settings)
    raise UserError(
        f"A {type(model).__name__} is not a model; give the path of a TorchScript or ONNX file, a torch module, or a "
        "function from images to class probabilities."
    )


def _from_path(path: Path, settings: ModelSettings) -> BlackBox:
    if "://" in str(path) or str(path).startswith(("http:/", "https:/")):
        raise UserError(f"{path} is an address on the network; download the model and give the path of its file.")
    try:
        if path.is_dir():
            raise UserError(describe_directory(path))
        if not path.exists():
            raise UserError(f"The model file {path} does not exist; check the path (looked up from {Path.cwd()}).")
        if not path.is_file():
            raise UserError(f"{path} is not a regular file; give the path of a TorchScript or ONNX file.")
        kind = sniff(path)
        if kind not in (FileKind.TORCHSCRIPT, FileKind.ONNX):
            raise UserError(describe_file(path, kind))
        digest = onnx_sha256(path) if kind is FileKind.ONNX else file_sha256(path)
    except OSError as error:
        raise UserError(f"The model file {path} cannot be read: {reason(error)}") from error
    settings = replace(settings, path=path, digest=digest)
    if kind is FileKind.TORCHSCRIPT:
        from diffgen.models.torchscript import TorchScriptModel

        return TorchScriptModel(path, settings)
    from diffgen.models.onnx import OnnxModel

    return OnnxModel(path, settings)


def _own_name(model: object) -> str:
    if isinstance(model, (str, os.PathLike)):
        return Path(model).name
    name = getattr(model, "__name__", None)
    return name if isinstance(name, str) else type(model).__name__


def _device(device: torch.device | str) -> torch.device:
    try:
        found = torch.device(device)
    except RuntimeError as error:
        raise UserError(f"The device {device!r} is not known to torch; give cpu or cuda.") from error
    if found.type == "cuda" and not torch.cuda.is_available():
        raise UserError(f"The device {device} is not there (torch sees no GPU); give cpu.")
    return found
