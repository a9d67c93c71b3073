"""diffgen finds realistic pictures on which two image classifiers disagree, and puts them to use.

>>> import diffgen
>>> result = diffgen.compare("float.onnx", "int8.onnx", data="val/", budget="60s")  # doctest: +SKIP
>>> result.valid_triggers, result.run  # doctest: +SKIP
"""

from __future__ import annotations

import importlib
from typing import Any

__version__ = "0.1.0"

# What is heavy (torch, pymoo, ...) is imported when it is first used: 'import diffgen' stays quick.
_LAZY = {
    "Budget": "diffgen.config",
    "CheckConfig": "diffgen.config",
    "CheckResult": "diffgen.gate.result",
    "CompareConfig": "diffgen.config",
    "CompareResult": "diffgen.comparison.line",
    "DiffgenError": "diffgen.errors",
    "ImageSet": "diffgen.types",
    "Limits": "diffgen.config",
    "ReplayResult": "diffgen.workflows.replay",
    "RunError": "diffgen.errors",
    "SelectorEnsemble": "diffgen.selector.ensemble",
    "UserError": "diffgen.errors",
    "check": "diffgen.workflows.check",
    "compare": "diffgen.workflows.compare",
    "draw_report": "diffgen.workflows.report",
    "replay": "diffgen.workflows.replay",
    "resume": "diffgen.workflows.resume",
    "resume_check": "diffgen.workflows.check",
}

__all__ = [
    "Budget",
    "CheckConfig",
    "CheckResult",
    "CompareConfig",
    "CompareResult",
    "DiffgenError",
    "ImageSet",
    "Limits",
    "ReplayResult",
    "RunError",
    "SelectorEnsemble",
    "UserError",
    "check",
    "compare",
    "draw_report",
    "replay",
    "resume",
    "resume_check",
]


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module 'diffgen' has no attribute {name!r}")
    return getattr(importlib.import_module(_LAZY[name]), name)


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
