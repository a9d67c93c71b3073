"""What a second kind of task says of its answers, so that everything behind the models goes on as for classes."""

from __future__ import annotations

from typing import Protocol

from diffgen.types import Float32Array


class Task(Protocol):
    """What models that name more than one class for a picture differ on; docs/decisions/067-tasks.md.

    Attributes:
        name: "detection" or "segmentation".
        words: K statements that a model can make of one thing in a picture, the classes of everything downstream.
    """

    @property
    def name(self) -> str: ...

    @property
    def words(self) -> tuple[str, ...]: ...

    def contested(self, answers: Float32Array) -> Float32Array:
        """What each model says of that thing in a picture on which the models are furthest apart.

        Two models disagree on the picture when their highest values stand at different words; they are as decided as
        the two highest values of each are apart; and the vectors come closer to a disagreement as the answers do.

        Args:
            answers: float32 (N, M, D), as M models give them.

        Returns:
            float32 (N, M, K) in [0, 1], rows sum to 1.
        """
        ...
