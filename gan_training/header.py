"""The JSON header of a GAN's checkpoint, read without its weights, and added to."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file

from diffgen.errors import UserError
from diffgen.runs.files import write_whole

_KEY = "diffgen"


def read_header(path: Path) -> dict[str, Any]:
    """The header of a checkpoint.

    Raises:
        UserError: the file cannot be read.
    """
    return _read(path, weights=False)[0]


def add_to_header(path: Path, values: dict[str, Any]) -> dict[str, Any]:
    """Write JSON values into the header of a checkpoint, whose weights stay as they are; returns the new header.

    Raises:
        UserError: the file cannot be read.
        RunError: it cannot be written.
    """
    header, tensors = _read(path, weights=True)
    header |= values
    metadata = {_KEY: json.dumps(header, sort_keys=True)}
    write_whole(path, lambda temporary: save_file(tensors, temporary, metadata=metadata))
    # as it will be read: JSON knows no tuples, and no keys but texts
    changed: dict[str, Any] = json.loads(metadata[_KEY])
    return changed


def class_labels(header: dict[str, Any]) -> tuple[int, ...]:
    """The label that each class of a conditional GAN stands for: 0, 1, 2, ... unless the data's labels have gaps."""
    return tuple(int(label) for label in header.get("class_labels", range(header["classes"])))


def _read(path: Path, *, weights: bool) -> tuple[dict[str, Any], dict[str, torch.Tensor]]:
    try:
        with safe_open(path, framework="pt", device="cpu") as stored:
            header: dict[str, Any] = json.loads((stored.metadata() or {})[_KEY])
            names = list(stored.keys()) if weights else []
            return header, {name: stored.get_tensor(name) for name in names}
    except (OSError, SafetensorError, ValueError, KeyError) as error:
        raise UserError(f"The GAN checkpoint {path} cannot be read ({error}); train it anew.") from error
