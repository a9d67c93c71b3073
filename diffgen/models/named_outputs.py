"""Everything that a model gave, by name; what belongs to one image is named by its number.

What is behind the wall without torch names its arrays by this too, so that torch is imported where it is used.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

if TYPE_CHECKING:
    import torch

Outputs: TypeAlias = "dict[str, torch.Tensor]"
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
    import torch

    return {name: torch.as_tensor(each) for name, each in named_arrays(answer).items()}


def named_arrays(answer: object) -> dict[str, Any]:
    """As :func:`named_outputs`, with tensors and arrays as they are."""
    found: dict[str, Any] = {}
    _collect(answer, "", found)
    return found


def _collect(answer: object, place: str, found: dict[str, Any]) -> None:
    if _is_array(answer):
        found[place] = answer
    elif per_image(answer):
        assert isinstance(answer, list | tuple)
        for number, each in enumerate(answer):
            for role, value in _parts(each).items():
                found[f"{number}.{role}"] = value
    elif isinstance(answer, Mapping | tuple | list):
        names = answer.keys() if isinstance(answer, Mapping) else getattr(answer, "_fields", range(len(answer)))
        values = answer.values() if isinstance(answer, Mapping) else answer
        for name, value in zip(names, values, strict=True):
            _collect(value, f"{place}.{name}" if place else str(name), found)


def _parts(each: Any) -> dict[str, Any]:
    """Boxes, scores and labels of one image, as far as they are there."""
    if _is_array(each):
        return dict(zip(PARTS_OF_ONE, (each[:, :4], each[:, 4], each[:, 5]), strict=True))
    values = each if isinstance(each, Mapping) else {name: getattr(each, name) for name in _OWN_NAMES}
    return {_ROLES[str(name)]: value for name, value in values.items() if str(name) in _ROLES and value is not None}


def per_image(answer: object) -> bool:
    """Whether an answer is a list with one thing for each image that boxes can be read from."""
    if not isinstance(answer, list | tuple) or not answer:
        return False
    return all(
        (_is_array(each) and each.ndim == 2 and each.shape[1] == 6)
        or (isinstance(each, Mapping) and any(_ROLES.get(str(name)) == "boxes" for name in each))
        or all(hasattr(each, name) for name in _OWN_NAMES)
        for each in answer
    )


def _is_array(value: object) -> bool:
    torch = sys.modules.get("torch")
    return isinstance(value, np.ndarray) or (torch is not None and isinstance(value, torch.Tensor))
