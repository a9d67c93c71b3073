"""Run folders with parts of triggers, as the archive writes them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from diffgen.config import CompareConfig, to_dict
from diffgen.runs.folder import RunFolder
from diffgen.runs.triggers import TriggerTable

CONFIG = to_dict(CompareConfig())
MANIFEST = {"status": "running", "version": "1", "data": {"source": "digits"}}


def create(path: Path, *, force: bool = False, **manifest: Any) -> RunFolder:
    return RunFolder.create(path, config=CONFIG, manifest={**MANIFEST, **manifest}, force=force)


def table(rows: int, first: int = 0) -> TriggerTable:
    """A part like those of the archive."""
    rng = np.random.default_rng(first)
    return TriggerTable.of(
        rng.integers(0, 256, (rows, 1, 28, 28)).astype(np.uint8),
        rng.random((rows, 2, 10)).astype(np.float32),
        divergence=np.ones(rows, np.float32),
        query=np.arange(first, first + rows),
        seeds=np.arange(rows),
        recipes=np.array([f"rotation(degrees={10**row})" for row in range(rows)], dtype=np.bytes_),
    )


def part(rows: int, first: int = 0) -> dict[str, np.ndarray[Any, Any]]:
    """Its columns."""
    return table(rows, first).columns()


def write_manifest(folder: RunFolder, **changes: Any) -> None:
    file = folder.path / "manifest.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), **changes}))


def stop() -> None:
    raise KeyboardInterrupt


# -- the manifest ----------------------------------------------------------------------------------------------------


@pytest.fixture
def run(tmp_path: Path) -> RunFolder:
    """Two parts of triggers."""
    folder = create(tmp_path / "run")
    folder.write_part(table(5))
    folder.write_part(table(3, first=5))
    return folder
