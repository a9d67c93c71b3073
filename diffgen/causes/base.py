"""What a cause of disagreement is: ways to feed or read one model otherwise, so that it answers as the other one."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from enum import IntEnum

import torch

from diffgen.config import Preprocessing
from diffgen.models.inputs import ImageShape
from diffgen.parts import Part, Registry
from diffgen.types import Float32Array


class Stage(IntEnum):
    """Where on the way from the picture to the answer a change is made; several are made in this order.

    PICTURE: float32 (N, C, H, W) grey levels 0..255 as the data has them.
    RESIZE: in place of the model's own resizing and cropping; grey levels in the size that it takes.
    PIXELS, CHANNELS, LEVELS: grey levels in the size that the model takes.
    INPUT: what the model is handed, scaled and normalised, float32 (N, C', H', W') whatever its layout.
    ANSWERS: what is read, float32 (N, K) probabilities; costs no query.
    """

    PICTURE = 0
    RESIZE = 1
    PIXELS = 2
    CHANNELS = 3
    LEVELS = 4
    INPUT = 5
    ANSWERS = 6


@dataclass(frozen=True, eq=False)
class Change:
    """One fault of one pipeline, imitated in the other.

    Attributes:
        name: of the fault, unlike that of any other change: "channel order: BGR".
        says: what the faulty side does, worded to follow "model B": "reads BGR for RGB".
        stage: where it is made.
        apply: the change itself, a tensor for a tensor of that stage; each image by itself.
        mends: ways to feed the faulty side that would undo it, given its pre-processing and that of the other side.
        direct: the change as pre-processing of the very model that it is made in, or None: nothing that diffgen does
            comes to it.
        advice: what to do where no pre-processing of the faulty side undoes it, worded to follow "in its pipeline, ".
        share: of the difference that it has to explain at least, by the lower bound, to be named.
        nearby: the same fault in other strengths, to be tried where this one is among the best.
    """

    name: str
    says: str
    stage: Stage
    apply: Callable[[torch.Tensor], torch.Tensor]
    advice: str
    mends: Callable[[Preprocessing, Preprocessing], list[Preprocessing]] = field(default=lambda own, other: [])
    direct: Callable[[Preprocessing], Preprocessing | None] = field(default=lambda own: None)
    share: float = 0.1
    nearby: Callable[[], tuple[Change, ...]] = tuple

    @property
    def cause(self) -> str:
        """Its name without what tells it from others of its kind."""
        return self.name.partition(":")[0]


@dataclass(frozen=True, eq=False)
class Seen:
    """What causes know of the model that they change, and of what was asked.

    Attributes:
        preprocessing: its own, as it is fed now; nothing in it is None.
        image_shape: (C, H, W) of the images.
        shape: (C', H', W') of what it is handed.
        own, other: float32 (N, K), what it and the other model say of images that no verdict rests on.
        class_names: K names, or none.
        takes_bytes: it is handed whole grey levels, and normalises them by itself.
    """

    preprocessing: Preprocessing
    image_shape: ImageShape
    shape: ImageShape
    own: Float32Array
    other: Float32Array
    class_names: tuple[str, ...] = ()
    takes_bytes: bool = False

    @property
    def resizes(self) -> bool:
        """Whether its pre-processing brings the images to another size."""
        return self.image_shape[1:] != self.shape[1:]


class Cause(Part, ABC):
    """A kind of fault in a pipeline, with the changes that imitate it."""

    kind = "cause"

    @abstractmethod
    def changes(self, seen: Seen) -> Iterator[Change]:
        """The changes to try, the most frequent fault first; none where it cannot occur."""


CAUSES: Registry[Cause] = Registry(Cause)  # type: ignore[type-abstract]


def all_changes(seen: Seen) -> list[Change]:
    """The changes of all causes, diffgen's own and those that installed packages offer."""
    return [change for name in CAUSES.names() for change in CAUSES.find(name)().changes(seen)]
