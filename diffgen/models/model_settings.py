"""What is known of a model before it is opened."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import torch

from diffgen.config import Preprocessing, Weights
from diffgen.errors import UserError
from diffgen.models.class_names import is_name


@dataclass(frozen=True)
class ModelSettings:
    """What is known of a model before it is opened.

    Attributes:
        name: shown in messages and reports.
        path: its file, or None.
        digest: SHA-256 of the file's contents, or None.
        device: where its answers are wanted.
        preprocessing: as the user, a sidecar or a recorded run gave it.
        class_names: K names in the order of the model's answers; one for the background may be among them; empty when
            unknown.
        class_order: K numbers, for each of the model's own classes the class that it is counted as; empty for its
            own order.
        arch: ``package.module:factory`` that built its network, or None.
        weights: which of the weights in its file, or None.
        unpickled: its file was opened by running the pickle in it.
    """

    name: str
    path: Path | None = None
    digest: str | None = None
    device: torch.device = field(default_factory=lambda: torch.device("cpu"))
    batch_size: int = 256
    preprocessing: Preprocessing = field(default_factory=Preprocessing)
    class_names: tuple[str, ...] = ()
    class_order: tuple[int, ...] = ()
    arch: str | None = None
    weights: Weights | None = None
    unpickled: bool = False

    def __post_init__(self) -> None:
        if self.batch_size < 1:
            raise UserError(f"The batch size {self.batch_size} of model {self.name} is not positive; give 1 or more.")
        strange = next((name for name in self.class_names if not is_name(name)), None)
        if strange is not None:
            raise UserError(f"The class name {strange!r} of model {self.name} is not printable text; rename the class.")
