"""What every technique is given, and what it must do."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch

from diffgen.config import SearchConfig
from diffgen.features.encoder import DomainEncoder
from diffgen.search.evaluator import Evaluator
from diffgen.types import Float32Array, Generator, Int64Array, Scorer, UInt8Array

Checkpoint = dict[str, Any]


@dataclass(frozen=True)
class Needs:
    """What must be there before a technique can begin.

    Attributes:
        generator: it draws its pictures from latent vectors.
        discriminator: it asks how real a picture is, in the search.
        labels: of the real images.
    """

    generator: bool = False
    discriminator: bool = False
    labels: bool = False


@dataclass(frozen=True)
class RealImages:
    """The given images and what the models said of them before the search.

    Attributes:
        images: uint8 (N, C, H, W).
        labels: int64 (N,), or None.
        probabilities: float32 (N, M, K) of the M models.
    """

    images: UInt8Array
    labels: Int64Array | None
    probabilities: Float32Array


@dataclass(frozen=True)
class TechniqueContext:
    """What a technique works with.

    Attributes:
        evaluator: asks the models, keeps budget and archive.
        generator: latent vector -> image; None where the technique needs none.
        config: the settings of the search.
        seed: seed of everything random in the technique.
        device: where tensors live.
        guided: whether the search keeps away from pictures that the validity filters reject; the evaluator asks them.
        encoder: of the domain, for techniques that compare images by features; None where there is none.
        real: the given images, for techniques that begin with them; None where the technique draws all of its own.
        scorer: the discriminator; None where there is none.
    """

    evaluator: Evaluator
    generator: Generator | None
    config: SearchConfig
    seed: int
    device: torch.device
    guided: bool = False
    encoder: DomainEncoder | None = None
    real: RealImages | None = None
    scorer: Scorer | None = None

    def need_generator(self) -> Generator:
        """The generator.

        Raises:
            ValueError: there is none.
        """
        if self.generator is None:
            raise ValueError("This technique draws its pictures from a generator.")
        return self.generator

    def need_real(self) -> RealImages:
        """The given images.

        Raises:
            ValueError: there are none.
        """
        if self.real is None:
            raise ValueError("This technique makes its pictures from real images.")
        return self.real


class Technique(ABC):
    """A way to make test inputs. One file each, named after its paper.

    Attributes:
        begins_with: which of the real images :meth:`seeds` gives, as a part of a sentence.
    """

    begins_with: ClassVar[str] = "any real image"

    def __init__(self, context: TechniqueContext) -> None:
        self.context = context

    @classmethod
    @abstractmethod
    def needs(cls, config: SearchConfig) -> Needs:
        """What must be there before this technique can begin."""

    @classmethod
    def seeds(cls, real: RealImages) -> Int64Array:
        """int64 (n,), ascending: rows of the real images that pictures are made from, where they are."""
        return np.arange(len(real.images))

    @abstractmethod
    def run(self, on_generation: Callable[[], None]) -> None:
        """Work until the evaluator's budget is used up; ``on_generation`` is called after each generation or batch."""

    @abstractmethod
    def checkpoint(self) -> Checkpoint:
        """The state between two generations, as arrays and JSON values."""

    @abstractmethod
    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on from what :meth:`checkpoint` gave."""
