"""diffgen finds realistic pictures on which two image classifiers disagree, and puts them to use.

>>> import diffgen
>>> result = diffgen.compare("float.onnx", "int8.onnx", data="val/", budget="60s")  # doctest: +SKIP
>>> result.valid_triggers, result.run  # doctest: +SKIP

Every verb of the command line is a function here; :mod:`diffgen.api` lists them.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from diffgen.api import *  # noqa: F403 - the list of names stands there alone

__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    api = importlib.import_module("diffgen.api")
    if name not in api.__all__:
        raise AttributeError(f"module 'diffgen' has no attribute {name!r}")
    return getattr(api, name)


def __dir__() -> list[str]:
    return sorted({*importlib.import_module("diffgen.api").__all__, "__version__"})
