"""The models under test: black boxes that turn images into class probabilities, one file per format.

What is heavy (torch) is imported when a name is first used: the process that isolates models is started before.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from diffgen.models.base import BlackBox as BlackBox
    from diffgen.models.class_names import read_class_names as read_class_names
    from diffgen.models.class_names import read_label_map as read_label_map
    from diffgen.models.loading import load as load
    from diffgen.models.sidecar import read_sidecar as read_sidecar

_PLACES = {
    "BlackBox": "base",
    "load": "loading",
    "read_class_names": "class_names",
    "read_label_map": "class_names",
    "read_sidecar": "sidecar",
}


def __getattr__(name: str) -> Any:
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"diffgen.models.{_PLACES[name]}"), name)
