"""The JSON header of a GAN's checkpoint, read without its weights, and added to."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch

from diffgen.runs.artifacts import read_tensors, unreadable, write_tensors
from diffgen.runs.opening import check_regular


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
    write_tensors(path, tensors, header)
    # as it will be read: JSON knows no tuples, and no keys but texts
    changed: dict[str, Any] = json.loads(json.dumps(header))
    return changed


def class_labels(header: dict[str, Any]) -> tuple[int, ...]:
    """The label that each class of a conditional GAN stands for: 0, 1, 2, ... unless the data's labels have gaps."""
    return tuple(int(label) for label in header.get("class_labels", range(header["classes"])))


def _read(path: Path, *, weights: bool) -> tuple[dict[str, Any], dict[str, torch.Tensor]]:
    try:
        check_regular(path)
        header, tensors = read_tensors(path, weights=weights)
    except (OSError, ValueError) as error:
        raise unreadable("The GAN checkpoint", path, error, "train it anew") from error
    if not header:
        raise unreadable("The GAN checkpoint", path, "it has no header", "train it anew")
    return header, tensors
