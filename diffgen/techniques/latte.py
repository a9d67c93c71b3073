"""Latte: one step from a real image towards anchors of other classes, in the latent space of an auto-encoder.

B. Duan, M. B. Dwyer, G. Yang, "Latent Anchor-Driven Test Generation for Deep Neural Networks", arXiv 2606.04310.

Only its abstract could be read, and there is no code. It says: seeds are encoded by a VQ-VAE, a "seed-centered,
one-step latent mutation along directions defined by anchors sampled from alternative classes, followed by quantization
and decoding", for one model under test and for several, whose differing predictions then are the oracle. So much is
followed. All figures are ours, and so there is no preset ``paper``:

* a seed is an image to which all models give one label, which stands for its class: no other labels are needed.
* anchors: 10 images of each class, drawn once, of those that all models give that label. Each visit of a seed makes one
  picture towards an anchor of every other class, another one at its next visit.
* the step is a share of the way to the anchor, drawn for each picture between 0.05 and 0.3 (Argus, by the same authors,
  takes 0.1, 0.2 and 0.3). It always begins at the seed: nothing that was found is gone on from.
* quantised where the source quantises (``--source vq``).

Nothing is adapted to two models: the abstract's setting of several models is this one.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from diffgen.config import SearchConfig
from diffgen.config.schema import SettingError, setting, settings
from diffgen.parts import Needs
from diffgen.techniques.base import Preset, RealImages, TechniqueContext
from diffgen.techniques.latent.interpolation import Interpolation
from diffgen.types import Int64Array


@settings("search.latte")
class LatteSettings:
    """Settings of Latte."""

    anchors: int = setting(10, "Images of each class that seeds are led towards.", ge=1, le=10**6)
    shortest: float = setting(0.05, "Smallest share of the way to an anchor.", ge=0, le=1)
    longest: float = setting(0.3, "Largest share of the way to an anchor.", gt=0, le=1)

    def __post_init__(self) -> None:
        if self.shortest > self.longest:
            problem = f"is {self.shortest:g}, more than search.latte.longest, {self.longest:g}; swap them."
            raise SettingError("search.latte.shortest", problem)


class Latte(Interpolation):
    """See the module's text for the rules."""

    name = "latte"
    seed_requirement = "a real image to which all models give the same label, beside images of another such label"
    Settings = LatteSettings
    presets: ClassVar = {"default": Preset(source="vq")}

    def __init__(self, context: TechniqueContext) -> None:
        own = self.settings_in(context.config)
        super().__init__(context, seeds=None, others=own.anchors, fidelity=False)

    @classmethod
    def needs(cls, config: SearchConfig) -> Needs:
        return frozenset({"source", "encoder", "between"})

    @classmethod
    def seeds(cls, real: RealImages) -> Int64Array:
        rows = np.flatnonzero((classes := cls.classes_of(real)) >= 0)
        return rows if len(np.unique(classes[rows])) > 1 else rows[:0]

    @classmethod
    def classes_of(cls, real: RealImages) -> Int64Array:
        labels = real.answers.labels
        return np.asarray(np.where((labels == labels[:, :1]).all(axis=1), labels[:, 0], -1), dtype=np.int64)

    def shares(self, count: int) -> tuple[NDArray[np.float64], Int64Array]:
        own = self.settings
        share = self._rng.uniform(own.shortest, own.longest, (count, 1))
        return share, np.zeros((count, 1), dtype=np.int64)
