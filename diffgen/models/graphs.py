"""Files that compute without torch, as their input declares itself and as arrays go through them.

Nothing here or in a subclass imports torch: the process that isolates such files does without it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from diffgen.config import Preprocessing
from diffgen.errors import UserError
from diffgen.models.wording import counted, no_rows, no_such_output

# The sides of one image as a file declares them: three, or (D,) or (D, 1) for a row of values; None for open ones.
DeclaredSides = tuple[int | None, ...]


class Graph(ABC):
    """A file of one input of images.

    Args:
        name: of the model, for messages.

    Attributes:
        format, fixed_batch, declared: as of the black box that it becomes.
        sides: of one image, or None: the file does not say.
        takes_bytes: its input is uint8.
    """

    format: str

    def __init__(self, name: str) -> None:
        self.name = name
        self.sides: DeclaredSides | None = None
        self.fixed_batch: int | None = None
        self.takes_bytes = False
        self.declared = Preprocessing()

    @property
    def class_names(self) -> tuple[str, ...]:
        """Those in its metadata, or none."""
        return ()

    def ask(self, batch: NDArray[np.float32], output: str, *, everything: bool) -> dict[str, Any]:
        """What it gives for a batch, by the names of its outputs: arrays, or what else a file may give.

        Args:
            batch: float32 (N, ...), contiguous.
            output: the one that is wanted, or empty; a file that computes all of them in any case gives all.
            everything: all outputs are wanted where none is named.

        Raises:
            UserError: it has no such output, or gives text.
        """
        answers = self._ask(batch, output, everything=everything)
        if any(isinstance(each, np.ndarray) and each.dtype.kind in "OSU" for each in answers.values()):
            raise UserError(no_rows(self.name, "text"))
        return answers

    @abstractmethod
    def _ask(self, batch: NDArray[np.float32], output: str, *, everything: bool) -> dict[str, Any]:
        """See :meth:`ask`."""


def sides_of_images(name: str, shapes: Sequence[Sequence[int | None]], mend: str) -> DeclaredSides:
    """The sides of one image in the only input of a file.

    Args:
        shapes: of all inputs, None for open sides; of one of images, the first side is that of the batch.
        mend: how to get a file that takes images, worded to follow a semicolon.

    Raises:
        UserError: there are several inputs, or it is none of images.
    """
    sides = image_sides(shapes[0]) if len(shapes) == 1 else None
    if sides is None:
        text = "; ".join(f"({', '.join('?' if side is None else str(side) for side in shape)})" for shape in shapes)
        raise UserError(
            f"Model {name} takes {counted(len(shapes), 'input')} of shape {text or '()'}, not images alone; {mend}."
        )
    return sides


def image_sides(sides: Sequence[int | None]) -> DeclaredSides | None:
    """The sides of one image in a declared input, whose first side counts the images; None for what holds no images."""
    holds_images = len(sides) in (2, 4) or (len(sides) == 3 and sides[2] == 1)
    return tuple(sides[1:]) if holds_images else None


def check_sides(sides: DeclaredSides | None, given: tuple[int, ...]) -> None:
    """Refuse images that a file does not declare, for formats that would take them all the same.

    Raises:
        ValueError: a side of an image is another than the declared one.
    """
    if sides is not None and (len(sides) != len(given) or not all(map(agree, sides, given))):
        raise ValueError(f"the file declares {sides}, not {given}")


def agree(wanted: int | None, side: int) -> bool:
    """Whether a side is what a declared one, None where it is open, asks for."""
    return wanted is None or wanted == side


def declared_outputs(read: Preprocessing, shapes: Mapping[str, Sequence[object]]) -> Preprocessing:
    """What a file or a server says of its outputs by their shapes: several may be boxes, or maps of classes.

    Args:
        read: how they are read as far as is known.
        shapes: by name; sides that are left open are no whole numbers.
    """
    if read.outputs in (None, "auto") and not read.output:
        if _declare_boxes(shapes):
            return Preprocessing(outputs="boxes")
        if len(shapes) > 1 and all(len(shape) == 4 for shape in shapes.values()):
            return Preprocessing(outputs="maps")
    return Preprocessing()


def _declare_boxes(shapes: Mapping[str, Sequence[object]]) -> bool:
    """Whether outputs, as a file declares them, are those of a detector: several, one of them boxes."""
    # rows of four beside others may be the classes of a classifier; of boxes without an image's axis there are labels
    axes = 2 if any(len(shape) == 1 for shape in shapes.values()) else 3
    return len(shapes) > 1 and any(
        (len(shape) in (axes, 3) and shape[-1] in (4, 5))
        or (len(shape) in (2, 3) and "box" in name.lower() and not isinstance(shape[-1], int))
        for name, shape in shapes.items()
    )


def wanted_outputs(name: str, names: list[str], output: str, *, everything: bool) -> list[str]:
    """Which outputs of model ``name`` are to be read: ``output``, else ``everything`` of what is no classifier.

    Raises:
        UserError: there is none of that name, or a classifier has several.
    """
    if output in names:
        return [output]
    if not output and (len(names) == 1 or everything):
        return names
    raise UserError(no_such_output(name, names, output, counted(len(names), "output")))
