"""``~`` in paths that somebody names."""

from __future__ import annotations

import os
from pathlib import Path


def expanded(path: str | os.PathLike[str]) -> Path:
    """The path with ``~`` and ``~user`` written out as a shell does: it leaves those of a user whom nobody knows."""
    return Path(os.path.expanduser(path))
