"""What every technique is given, and what it must do."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch

from diffgen.config import SearchConfig
from diffgen.features.encoder import DomainEncoder
from diffgen.search.evaluator import Evaluator
from diffgen.types import Float32Array, Generator

Checkpoint = dict[str, Any]


@dataclass(frozen=True)
class TechniqueContext:
    """What a technique works with.

    Attributes:
        evaluator: asks the models, keeps budget and archive.
        generator: latent vector -> image.
        config: the settings of the search.
        seed: seed of everything random in the technique.
        device: where tensors live.
        validity: by how much pictures pass the validity filters, uint8 (N, C, H, W) -> float32 (N,), below 0 for those
            that are rejected; None when the search is not to ask.
        encoder: of the domain, for techniques that compare images by features; None where there is none.
    """

    evaluator: Evaluator
    generator: Generator
    config: SearchConfig
    seed: int
    device: torch.device
    validity: Callable[[torch.Tensor], Float32Array] | None = None
    encoder: DomainEncoder | None = None


class Technique(ABC):
    """A way to make test inputs. One file each, named after its paper."""

    def __init__(self, context: TechniqueContext) -> None:
        self.context = context

    @abstractmethod
    def run(self, on_generation: Callable[[], None]) -> None:
        """Work until the evaluator's budget is used up; ``on_generation`` is called after each generation or batch."""

    @abstractmethod
    def checkpoint(self) -> Checkpoint:
        """The state between two generations, as arrays and JSON values."""

    @abstractmethod
    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on from what :meth:`checkpoint` gave."""
