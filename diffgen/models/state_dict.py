"""Weights without their network: a state_dict in a file of PyTorch's or in a safetensors file, with ``--arch``."""

from __future__ import annotations

import difflib
import importlib
import inspect
import pickle
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Set
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

from diffgen.config import Weights
from diffgen.errors import UserError
from diffgen.models.base import BlackBox
from diffgen.models.model_settings import ModelSettings
from diffgen.models.torch_module import CallableModel, TorchModule
from diffgen.models.wording import reason

# Where programs that train put the weights inside a checkpoint, in the order in which they are looked for, and where
# the mean of these over the last steps of training (exponential moving average).
_KEYS = ("state_dict", "model_state_dict", "model", "net", "network", "weights")
_EMA_KEYS = ("state_dict_ema", "ema_state_dict", "model_ema", "ema_model", "ema")
_AVERAGED = "n_averaged"  # how many steps, among the weights that torch's AveragedModel has
# Batch normalization counts batches in training; old files do not have the count, and it changes no answer.
_COUNTER = "num_batches_tracked"
_NAMED = 3


class StateDictModel(TorchModule):
    """Weights that are loaded into the network that the user's factory builds.

    Args:
        settings: name, device and so on; its ``arch`` names the factory.
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
        weights, place, averaged = find_weights(content, path, settings.weights)
        network = build_network(settings.arch)
        _load_into(network, _unwrapped(weights, set(network.state_dict())), path, settings.arch)
        if averaged and settings.weights is None:
            self.remarks = (
                f"Of the weights in the file of model {settings.name} those under {place} are taken, not the averaged "
                f"ones under {averaged}; --weights ema takes these.",
            )
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


def find_weights(
    content: object, path: Path, which: Weights | None = None
) -> tuple[dict[str, torch.Tensor], str, str | None]:
    """The state_dict inside what a file holds.

    Args:
        path: of the file, for messages.
        which: of several; None: not averaged ones where there are others.

    Returns:
        It, the name that it has in the file or nothing, and the name of averaged weights beside it, if any.

    Raises:
        UserError: there is none.
    """
    whole = _tensors(content)
    inside = content if whole is None and isinstance(content, Mapping) else {}
    found = {key: weights for key in (*_KEYS, *_EMA_KEYS) if (weights := _tensors(inside.get(key))) is not None}
    averaged = next((key for key in _EMA_KEYS if key in found), None)
    if which == "ema":
        if averaged is None:
            raise UserError(
                f"{path} holds no averaged weights (under {', '.join(_EMA_KEYS)}); leave --weights ema out, or give "
                "the checkpoint that has them."
            )
        return found[averaged], averaged, averaged
    if whole is not None:
        return whole, "", None
    if not found:
        held = ", ".join(map(str, list(content)[:8])) if isinstance(content, Mapping) else type(content).__name__
        raise UserError(
            f"{path} holds no state_dict where one is looked for (at the top, or under {', '.join(_KEYS)}), but "
            f"{held}; save model.state_dict() alone."
        )
    place = next(iter(found))
    return found[place], place, None if place == averaged else averaged


def _unwrapped(weights: dict[str, torch.Tensor], wanted: Set[str]) -> dict[str, torch.Tensor]:
    """Without what wrappers put in front of every name (Lightning, DataParallel, torch.compile), as far as that helps.

    The network's own names are not touched where they are the file's.
    """
    if _AVERAGED in weights and _AVERAGED not in wanted:
        weights = {name: tensor for name, tensor in weights.items() if name != _AVERAGED}
    best = weights
    while len({name.partition(".")[0] for name in weights}) == 1 and all("." in name for name in weights):
        weights = {name.partition(".")[2]: tensor for name, tensor in weights.items()}
        if len(wanted & weights.keys()) > len(wanted & best.keys()):
            best = weights
    return best


def _tensors(content: object) -> dict[str, torch.Tensor] | None:
    if isinstance(content, torch.nn.Module):
        content = content.state_dict()
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


# -- the function of the user that builds the network of a state_dict: ``--arch package.module:factory`` -------------

_SPEC = re.compile(r"([^\W\d]\w*(?:\.[^\W\d]\w*)*):([^\W\d]\w*(?:\.[^\W\d]\w*)*)")


def build_network(spec: str) -> torch.nn.Module:
    """The network that a factory builds. This runs code of the user's, who named it.

    Args:
        spec: ``package.module:factory``; the module is looked for in the current folder and where Python looks.

    Raises:
        UserError: no such module or function, it fails, it needs arguments, or gives something else than a network.
    """
    factory = _find(spec)
    try:
        inspect.signature(factory).bind()
    except TypeError as error:
        raise UserError(
            f"The factory {spec} cannot be called without arguments ({error}); write a function that needs none and "
            "name it with --arch."
        ) from error
    except ValueError:
        pass  # it has no signature that Python could tell; calling it will show
    try:
        network = factory()
    except Exception as error:
        raise UserError(
            f"The factory {spec} fails ({reason(error)}); repair it, or name another with --arch."
        ) from error
    if not isinstance(network, torch.nn.Module):
        raise UserError(
            f"The factory {spec} gives a {type(network).__name__}; write one that returns the network, a "
            "torch.nn.Module."
        )
    return network


def _find(spec: str) -> Callable[[], Any]:
    match = _SPEC.fullmatch(spec)
    if match is None:
        raise UserError(
            f"--arch {spec!r} is not understood; write package.module:factory, such as networks:resnet20 for the "
            "function resnet20 in networks.py."
        )
    module_name, path = match[1], match[2]
    try:
        with current_folder_importable():
            found: Any = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name is not None and (module_name == error.name or module_name.startswith(f"{error.name}.")):
            raise UserError(
                f"The module {module_name} of --arch {spec} was not found; run diffgen in the folder that holds "
                f"{module_name.split('.')[0]}.py, or set PYTHONPATH to it."
            ) from error
        raise UserError(
            f"The module {module_name} of --arch {spec} needs {error.name}, which is not installed; install it here."
        ) from error
    except Exception as error:
        raise UserError(
            f"The module {module_name} of --arch {spec} cannot be imported ({reason(error)}); repair it."
        ) from error
    where = module_name
    for name in path.split("."):
        if not hasattr(found, name):
            near = difflib.get_close_matches(name, dir(found), n=1)
            hint = f"did you mean {near[0]!r}?" if near else "name a function that builds the network."
            raise UserError(f"The {name!r} of --arch {spec} is not in {where}; {hint}")
        found, where = getattr(found, name), f"{where}.{name}"
    if not callable(found):
        raise UserError(
            f"The {path!r} of --arch {spec} is a {type(found).__name__}; name a function that builds the network."
        )
    return found


@contextmanager
def current_folder_importable() -> Iterator[None]:
    """Lets imports find the modules of the current folder while the block runs, as ``python script.py`` would."""
    folder = str(Path.cwd())
    sys.path.insert(0, folder)
    # A module that was written a moment ago is found too.
    importlib.invalidate_caches()
    try:
        yield
    finally:
        if folder in sys.path:
            sys.path.remove(folder)


# -- whole pickled networks; reading one runs whatever is in the file, so the user has to say --allow-pickle ---------


class PickledModule(TorchModule):
    """A network that torch.save or pickle.dump wrote as a whole."""

    format = "a pickled PyTorch network"


class PickledCallable(CallableModel):
    """A pickled function, or another object that can be called."""

    format = "a pickled Python function"


def load_pickled(path: Path, settings: ModelSettings, *, plain: bool) -> BlackBox:
    """The black box of a pickled network. This runs the code in the file.

    Args:
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
