"""Whole pickled networks; reading one runs whatever is in the file, so the user has to say --allow-pickle."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from diffgen.errors import UserError
from diffgen.models.arch import current_folder_importable
from diffgen.models.base import BlackBox
from diffgen.models.callable import CallableModel
from diffgen.models.model_settings import ModelSettings
from diffgen.models.state_dict import unpickle
from diffgen.models.torch_module import TorchModule
from diffgen.models.wording import reason


class PickledModule(TorchModule):
    """A network that torch.save or pickle.dump wrote as a whole."""

    format = "a pickled PyTorch network"


class PickledCallable(CallableModel):
    """A pickled function, or another object that can be called."""

    format = "a pickled Python function"


def load_pickled(path: Path, settings: ModelSettings, *, plain: bool) -> BlackBox:
    """The black box of a pickled network. This runs the code in the file.

    Args:
        path: the file.
        settings: name, device and so on.
        plain: the file was written by pickle.dump and not by torch.save.

    Raises:
        UserError: it cannot be unpickled, or holds something else.
    """
    content = _plain_unpickle(path) if plain else unpickle(path)
    if isinstance(content, torch.nn.Module):
        return PickledModule(content, settings)
    if callable(content):
        function: Callable[[Any], Any] = content
        return PickledCallable(function, settings)
    if isinstance(content, dict):
        raise UserError(
            f"{path} holds weights or a checkpoint but no network; name the function that builds it with --arch "
            "package.module:factory."
        )
    raise UserError(f"{path} holds a {type(content).__name__}, not a network; save the torch.nn.Module itself.")


def _plain_unpickle(path: Path) -> object:
    try:
        with current_folder_importable(), path.open("rb") as file:
            return pickle.load(file)
    except Exception as error:  # a pickle may raise anything
        raise UserError(
            f"{path} cannot be unpickled ({reason(error)}); run diffgen in the folder of the program that made it, "
            "with what it needs installed."
        ) from error
