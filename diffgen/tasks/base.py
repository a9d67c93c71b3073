"""What a second kind of task says of its answers, so that everything behind the models goes on as for classes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar

from numpy.typing import NDArray

from diffgen.config.task import TaskName
from diffgen.types import Float32Array


class Task(ABC):
    """What models that say more of a picture than one class differ on; docs/decisions/067-tasks.md.

    Attributes:
        name: what the models do.
        no_jury: why there is no jury, and what says who is right instead.
        classes: C names of what is in pictures.
    """

    name: ClassVar[TaskName]
    no_jury: ClassVar[str]
    classes: tuple[str, ...]

    @property
    @abstractmethod
    def rule(self) -> str:
        """When two models differ, as part of a sentence."""

    @property
    @abstractmethod
    def words(self) -> tuple[str, ...]:
        """K statements that a model can make of one thing in a picture: the classes of everything downstream."""

    @abstractmethod
    def contested(self, answers: Float32Array) -> Float32Array:
        """What each model says of that thing in a picture on which the models are furthest apart.

        Two models disagree on the picture when their highest values stand at different words; they are as decided as
        the two highest values of each are apart; and the vectors come closer to a disagreement as the answers do.

        Args:
            answers: float32 (N, M, D), as M models give them.

        Returns:
            float32 (N, M, K) in [0, 1], rows sum to 1.
        """

    @abstractmethod
    def numbers_in(self, answers: Float32Array) -> Float32Array:
        """The numbers of classes in answers, float32 (N, D), below 0 for none; a view."""

    @abstractmethod
    def marks(self, answers: Float32Array) -> NDArray[Any]:
        """What is drawn into pictures: boxes, float32 (N, Q, 9), see :meth:`diffgen.tasks.detection.Detection.marks`;
        or maps, int16 (N, M + 1, h, w), see :meth:`diffgen.tasks.segmentation.Segmentation.marks`."""
