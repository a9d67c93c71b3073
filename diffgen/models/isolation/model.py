"""A black box whose model lives behind the wall."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import torch

from diffgen.config import Preprocessing, from_dict, to_dict
from diffgen.errors import UserError
from diffgen.models.base import BlackBox
from diffgen.models.class_names import is_name
from diffgen.models.graphs import image_sides
from diffgen.models.isolation.process import Child
from diffgen.models.model_settings import ModelSettings
from diffgen.models.sniffing import FileKind
from diffgen.models.untrusted import external_files
from diffgen.models.wording import cleaned
from diffgen.numerics import all_threads

_MAX_REMARKS = 8
_MAX_SIDE = 1 << 20
_DECLARED = {"channels", "size", "crop", "fitting", "antialias", "scale", "mean", "std", "outputs"}


class IsolatedModel(BlackBox):
    """A file of a model, opened and asked in a process that can only compute.

    Everything that is decided about the model is decided here, in the process that can be trusted: pre-processing,
    layout, what its answers are. Numbers and text from the child are taken for what they are, of whatever size and
    content.

    Args:
        settings: name and so on. The model always computes on the CPU.
        allow_pickle: open it without looking first whether it does more than compute.
        timeout: seconds that opening the file, and each batch, may take.

    Raises:
        UserError: the file cannot be opened, or its process died or took too long.
    """

    def __init__(
        self, path: Path, kind: FileKind, settings: ModelSettings, *, allow_pickle: bool = False, timeout: float
    ) -> None:
        super().__init__(settings)
        self._child = Child(self.name, kind.name, timeout)
        self._all_at_once = kind is FileKind.TFLITE  # it computes all outputs, and which is read is decided here
        said = Said(
            self._child.open(
                {
                    **request(path, kind),
                    "as": "model",
                    "name": self.name,
                    "batch_size": self.batch_size,
                    "preprocessing": to_dict(settings.preprocessing),
                    "allow_pickle": allow_pickle,
                }
            ),
            self.name,
        )
        self.isolated = True
        self.format = said.text("format") or kind.value
        self.fixed_batch = said.count("fixed_batch")
        self.batch_size = min(self.batch_size, said.count("batch_size") or self.batch_size)
        self.largest_batch = said.count("largest_batch")
        self.unpickled = allow_pickle and said.flag("unpickled")
        self.remarks = tuple(said.texts("remarks")[:_MAX_REMARKS])
        self._takes_bytes = said.flag("takes_bytes")
        sides = said.sides("sides")
        self._sides = None if sides is None else image_sides([self.fixed_batch, *sides])
        names = tuple(said.texts("class_names"))
        if self._named_by_file and len(set(names)) == len(names) and all(map(is_name, names)):
            self.class_names = names
        self.preprocessing = self._admit(self.preprocessing)
        self.declare(said.preprocessing("declared"))

    def give_up(self) -> None:
        self._child.give_up()

    def _ask(self, batch: torch.Tensor) -> object:
        everything = self._all_at_once or not self.classifies
        answer = self._child.ask(batch, self.preprocessing.output or "", everything=everything)
        return answer[""] if answer.keys() == {""} else answer


def request(path: Path, kind: FileKind) -> dict[str, Any]:
    """What a child is told about any file."""
    # the weights of an ONNX file may lie beside it; its digest covers them too
    beside = [str(path.parent / name) for name in external_files(path)] if kind is FileKind.ONNX else []
    return {
        "kind": kind.name,
        "folder": os.getcwd(),
        "path": str(path),
        "readable": beside,
        "threads": all_threads(),
    }


class Said:
    """What a child says of its model, read as if an enemy had written it."""

    def __init__(self, values: dict[str, Any], name: str) -> None:
        self._values = values
        self._name = name

    def text(self, key: str) -> str:
        return cleaned(self._values.get(key))

    def texts(self, key: str) -> list[str]:
        values = self._values.get(key)
        return [cleaned(each) for each in values] if isinstance(values, list) else []

    def flag(self, key: str) -> bool:
        return self._values.get(key) is True

    def count(self, key: str) -> int | None:
        value = self._values.get(key)
        return value if type(value) is int and 1 <= value <= _MAX_SIDE else None

    def preprocessing(self, key: str) -> Preprocessing:
        """What the model's file says of its pre-processing; nothing where that cannot be."""
        try:
            return from_dict(
                Preprocessing, {name: self._values[key][name] for name in _DECLARED & {*self._values[key]}}
            )
        except (UserError, TypeError, LookupError):
            return Preprocessing()

    def sides(self, key: str) -> list[int | None] | None:
        """Sides of an input, None for open ones. UserError if they cannot be."""
        value = self._values.get(key)
        if value is None:
            return None
        if not isinstance(value, list) or not all(s is None or (type(s) is int and 0 < s <= _MAX_SIDE) for s in value):
            raise UserError(f"Model {self._name} declares an input that cannot be; export it again.")
        return value
