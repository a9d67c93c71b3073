"""What the values of a stored latent vector are; kept with a run, so that its triggers can be read without the GAN."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True)
class LatentLayout:
    """The genes of a source; see :class:`diffgen.sources.space.Space`.

    Attributes:
        latent_dim: continuous values.
        classes: classes that can be asked for, of which the last value is one; or 0: there is no such value.
        prior: distribution of the continuous values, "normal" or "uniform"; for genes that no network takes, the name
            of their family.
        class_labels: the label that each class stands for, or None: its own number.
    """

    latent_dim: int
    classes: int
    prior: str
    class_labels: tuple[int, ...] | None = None

    @classmethod
    def read(cls, entry: object) -> LatentLayout:
        """What :meth:`as_dict` gave.

        Raises:
            KeyError, TypeError, ValueError: it is damaged.
        """
        if not isinstance(entry, Mapping):
            raise TypeError("it is not a table")
        labels = entry.get("class_labels")
        layout = cls(entry["latent_dim"], entry["classes"], entry["prior"], None if labels is None else tuple(labels))
        if not all(type(value) is int and value >= low for value, low in ((layout.latent_dim, 1), (layout.classes, 0))):
            raise ValueError("its numbers are none")
        if labels is not None and not (len(labels) == layout.classes and all(type(each) is int for each in labels)):
            raise ValueError("its labels are none")
        return layout

    def as_dict(self) -> dict[str, Any]:
        """JSON values."""
        return asdict(self)

    @property
    def length(self) -> int:
        """Values in one stored latent vector."""
        return self.latent_dim + (self.classes > 0)
