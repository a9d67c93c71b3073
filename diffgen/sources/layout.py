"""What the values of a stored latent vector are; kept with a run, so that its triggers can be read without the GAN."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any


@dataclass(frozen=True)
class PartLayout:
    """The genes of one part of a source of several.

    Attributes:
        name: of its family.
        continuous: continuous values; those of all parts come first, in the order of the parts.
        categories: size of each categorical value; those of all parts come after the continuous ones.
        classes: classes that can be asked for, of which the part's last value is one; or 0: there is no such value.
        class_labels: the label that each class stands for, or None: its own number.
    """

    name: str
    continuous: int
    categories: tuple[int, ...] = ()
    classes: int = 0
    class_labels: tuple[int, ...] | None = None

    @classmethod
    def read(cls, entry: Any) -> PartLayout:
        """What ``as_dict`` of a layout gave of it.

        Raises:
            KeyError, TypeError, ValueError: it is damaged.
        """
        layout = LatentLayout.read({**entry, "latent_dim": entry["continuous"], "prior": entry["name"], "parts": None})
        categories = tuple(entry["categories"])
        if not all(type(size) is int and size > 0 for size in categories) or (layout.classes and not categories):
            raise ValueError("its categories are none")
        return cls(layout.prior, layout.latent_dim, categories, layout.classes, layout.class_labels)


@dataclass(frozen=True)
class LatentLayout:
    """The genes of a source; see :class:`diffgen.sources.space.Space`.

    Attributes:
        latent_dim: continuous values.
        classes: classes that can be asked for, of which the last value is one; or 0: there is no such value.
        prior: distribution of the continuous values, "normal" or "uniform"; for genes that no network takes, the name
            of their family.
        class_labels: the label that each class stands for, or None: its own number.
        parts: of a source of several, in their order, the number of the part being one more value at the end; or None.
    """

    latent_dim: int
    classes: int
    prior: str
    class_labels: tuple[int, ...] | None = None
    parts: tuple[PartLayout, ...] | None = None

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
        parts = entry.get("parts")
        return layout if parts is None else replace(layout, parts=tuple(map(PartLayout.read, parts)))

    def as_dict(self) -> dict[str, Any]:
        """JSON values."""
        return asdict(self)

    @property
    def length(self) -> int:
        """Values in one stored latent vector."""
        if self.parts is None:
            return self.latent_dim + (self.classes > 0)
        return self.latent_dim + sum(len(part.categories) for part in self.parts) + 1

    def classes_asked(self, number: int) -> int | None:
        """The place of the value that says which class a part was asked for; None where it is asked for none."""
        assert self.parts is not None
        if not self.parts[number].classes:
            return None
        return self.latent_dim + sum(len(part.categories) for part in self.parts[: number + 1]) - 1
