"""``--arch package.module:factory``: the function of the user that builds the network of a state_dict."""

from __future__ import annotations

import difflib
import importlib
import inspect
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

from diffgen.errors import UserError
from diffgen.models.wording import reason

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
