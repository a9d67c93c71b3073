"""Everything that a model gave, as tensors by name; what belongs to one image is named by its number."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

import numpy as np
import torch

Outputs: TypeAlias = dict[str, torch.Tensor]
PARTS_OF_ONE = ("boxes", "scores", "labels")
_ROLES = {"boxes": "boxes", "xyxy": "boxes", "scores": "scores", "confidence": "scores", "labels": "labels"}
_ROLES |= {"class_id": "labels", "classes": "labels"}
_OWN_NAMES = ("xyxy", "confidence", "class_id")  # of supervision.Detections


def named_outputs(answer: object) -> Outputs:
    """Everything that a model gave as tensors by name: a single one as "", parts of a tuple or list by their number.

    What belongs to the image i becomes "i.boxes", "i.scores" and "i.labels".

    Args:
        answer: a tensor, or mappings, tuples and lists of them; in a list also arrays (n, 6), or objects with ``xyxy``,
            ``confidence`` and ``class_id``, one for each image.
    """
    found: Outputs = {}
    _collect(answer, "", found)
    return found


def _collect(answer: object, place: str, found: Outputs) -> None:
    if isinstance(answer, torch.Tensor | np.ndarray):
        found[place] = torch.as_tensor(answer)
    elif per_image(answer):
        assert isinstance(answer, list | tuple)
        for number, each in enumerate(answer):
            for role, value in _parts(each).items():
                found[f"{number}.{role}"] = torch.as_tensor(value)
    elif isinstance(answer, Mapping | tuple | list):
        names = answer.keys() if isinstance(answer, Mapping) else getattr(answer, "_fields", range(len(answer)))
        values = answer.values() if isinstance(answer, Mapping) else answer
        for name, value in zip(names, values, strict=True):
            _collect(value, f"{place}.{name}" if place else str(name), found)


def _parts(each: Any) -> dict[str, Any]:
    """Boxes, scores and labels of one image, as far as they are there."""
    if isinstance(each, torch.Tensor | np.ndarray):
        return dict(zip(PARTS_OF_ONE, (each[:, :4], each[:, 4], each[:, 5]), strict=True))
    values = each if isinstance(each, Mapping) else {name: getattr(each, name) for name in _OWN_NAMES}
    return {_ROLES[str(name)]: value for name, value in values.items() if str(name) in _ROLES and value is not None}


def per_image(answer: object) -> bool:
    """Whether an answer is a list with one thing for each image that boxes can be read from."""
    if not isinstance(answer, list | tuple) or not answer:
        return False
    return all(
        (isinstance(each, torch.Tensor | np.ndarray) and each.ndim == 2 and each.shape[1] == 6)
        or (isinstance(each, Mapping) and any(_ROLES.get(str(name)) == "boxes" for name in each))
        or all(hasattr(each, name) for name in _OWN_NAMES)
        for each in answer
    )
