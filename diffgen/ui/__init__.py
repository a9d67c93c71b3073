"""The page in the browser: draws what :mod:`diffgen.api` reads, and starts the command line; it computes nothing."""

from __future__ import annotations

from importlib.util import find_spec


def missing() -> str:
    """The package that the page needs and that is not installed, or nothing."""
    return next((name for name in ("gradio", "fastapi", "uvicorn") if find_spec(name) is None), "")
