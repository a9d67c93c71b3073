"""Label sheets."""

from __future__ import annotations

from dataclasses import dataclass

from diffgen.errors import UserError

_LEAST = 0.0001


@dataclass(frozen=True)
class LabelConfig:
    """How many triggers a person is asked to label, and which.

    Attributes:
        count: pictures on the sheet, or None: as many as ``confidence`` and ``margin`` ask for.
        confidence, margin: a share among all valid triggers (of those where A is right, say) shall be known within
            this margin with this confidence.
        seed: which pictures are drawn, and their order.
    """

    count: int | None = None
    confidence: float = 0.95
    margin: float = 0.05
    seed: int = 0

    def __post_init__(self) -> None:
        for name, usual in (("confidence", 0.95), ("margin", 0.05)):
            if not _LEAST <= getattr(self, name) <= 1 - _LEAST:
                raise UserError(
                    f"The {name} {getattr(self, name)} does not lie between {_LEAST} and {1 - _LEAST}; give {usual} or "
                    "the like."
                )
        if self.count is not None and self.count < 1:
            raise UserError(f"A sheet of {self.count} pictures cannot be; give a number from 1.")
        if self.seed < 0:
            raise UserError(f"The seed {self.seed} is negative; give 0 or more.")
