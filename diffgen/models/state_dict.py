"""Weights without their network: a state_dict in a file of PyTorch's or in a safetensors file, with ``--arch``."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import torch

from diffgen.errors import UserError
from diffgen.models.arch import build_network, current_folder_importable
from diffgen.models.model_settings import ModelSettings
from diffgen.models.torch_module import TorchModule
from diffgen.models.wording import reason

# Where programs that train put the weights inside a checkpoint, in the order in which they are looked for.
_KEYS = ("state_dict", "model_state_dict", "model", "net", "network", "weights")
# What DataParallel and torch.compile put in front of every name.
_PREFIXES = ("module.", "_orig_mod.")
# Batch normalization counts batches in training; old files do not have the count, and it changes no answer.
_COUNTER = "num_batches_tracked"
_NAMED = 3


class StateDictModel(TorchModule):
    """Weights that are loaded into the network that the user's factory builds.

    Args:
        path: the file.
        settings: name, device and so on; its ``arch`` names the factory.
        safetensors: the file is one of that kind.
        allow_pickle: the user trusts the file, so that it may hold more than tensors.

    Raises:
        UserError: the factory or the file cannot be used, or the weights are of another network.
    """

    format = "weights (state_dict) with the network of --arch"

    def __init__(
        self, path: Path, settings: ModelSettings, *, safetensors: bool = False, allow_pickle: bool = False
    ) -> None:
        assert settings.arch is not None
        content = _read_safetensors(path) if safetensors else read_torch_file(path, allow_pickle=allow_pickle)
        weights = find_weights(content, path)
        network = build_network(settings.arch)
        _load_into(network, weights, path, settings.arch)
        super().__init__(network, settings)


def read_torch_file(path: Path, *, allow_pickle: bool) -> object:
    """What torch.save wrote. Only tensors and plain containers are read, unless the user trusts the file.

    Raises:
        UserError: it holds more than that, or is damaged.
    """
    try:
        return torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # UnpicklingError for what is not allowed, many other kinds for damaged files
        if not allow_pickle:
            raise UserError(
                f"{path} cannot be read as weights alone ({reason(error)}); if it holds other objects too and you "
                "trust it, since reading those can run any code, add --allow-pickle."
            ) from error
    return unpickle(path)


def unpickle(path: Path) -> object:
    """What torch.save or pickle.dump wrote; this runs whatever is in it.

    Raises:
        UserError: it cannot be read, say because the program that made it is not here.
    """
    try:
        with current_folder_importable():
            return torch.load(path, map_location="cpu", weights_only=False)
    except Exception as error:  # a pickle may raise anything
        raise UserError(
            f"{path} cannot be unpickled ({reason(error)}); run diffgen in the folder of the program that made it, "
            "with what it needs installed."
        ) from error


def find_weights(content: object, path: Path) -> dict[str, torch.Tensor]:
    """The state_dict inside what a file holds: names of the network's own, without prefixes of wrappers.

    Raises:
        UserError: there is none.
    """
    if isinstance(content, torch.nn.Module):
        content = content.state_dict()
    weights = _tensors(content)
    if weights is None and isinstance(content, Mapping):
        for key in _KEYS:
            inner = content.get(key)
            weights = _tensors(inner.state_dict() if isinstance(inner, torch.nn.Module) else inner)
            if weights is not None:
                break
    if weights is None:
        held = ", ".join(map(str, list(content)[:8])) if isinstance(content, Mapping) else type(content).__name__
        raise UserError(
            f"{path} holds no state_dict where one is looked for (at the top, or under {', '.join(_KEYS)}), but "
            f"{held}; save model.state_dict() alone."
        )
    for prefix in _PREFIXES:
        if all(name.startswith(prefix) for name in weights):
            weights = {name.removeprefix(prefix): tensor for name, tensor in weights.items()}
    return weights


def _tensors(content: object) -> dict[str, torch.Tensor] | None:
    if not isinstance(content, Mapping) or not content:
        return None
    found = {str(name): value for name, value in content.items() if isinstance(value, torch.Tensor)}
    return found if len(found) == len(content) else None


def _load_into(network: torch.nn.Module, weights: dict[str, torch.Tensor], path: Path, arch: str) -> None:
    wanted = network.state_dict()
    missing = [name for name in wanted if name not in weights and not name.endswith(_COUNTER)]
    surplus = [name for name in weights if name not in wanted]
    if missing or surplus:
        parts = [
            f"{len(names)} {what} ({', '.join(names[:_NAMED])}{', ...' if len(names) > _NAMED else ''})"
            for names, what in ((missing, "missing from the file"), (surplus, "that the network does not have"))
            if names
        ]
        raise UserError(
            f"The weights in {path} are not those of the network of --arch {arch}: {' and '.join(parts)}; name the "
            "factory of the network that was trained."
        )
    for name, tensor in wanted.items():
        if name in weights and weights[name].shape != tensor.shape:
            raise UserError(
                f"The weights in {path} are not those of the network of --arch {arch}: {name} is "
                f"{tuple(weights[name].shape)} in the file but {tuple(tensor.shape)} in the network; name the factory "
                "of the network that was trained."
            )
    network.load_state_dict(weights, strict=False)


def _read_safetensors(path: Path) -> dict[str, torch.Tensor]:
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    try:
        return load_file(path)
    except (SafetensorError, ValueError, OSError) as error:
        raise UserError(
            f"{path} is a safetensors file that cannot be read ({reason(error)}); copy or save it again."
        ) from error
