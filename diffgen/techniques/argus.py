"""Argus: pictures between a real image and images of other classes, in the latent space of an auto-encoder.

B. Duan, M. B. Dwyer, G. Yang, "Generating Realistic, Diverse, and Fault-Revealing Inputs with Latent Space
Interpolation for Testing Deep Neural Networks", arXiv 2503.17630, Algorithm 1. There is no public code.

An image x and an image of another class are encoded; (1 - a) z_x + a z_other is quantised, where the source quantises
(``--source vq``), and drawn. There is no search and no feedback from the models: every picture that they disagree on is
a trigger, and how often each model alone gives another label than the seed's is counted (``outcomes``), which is P's
error rate, success rate and label diversity for each of the models. Nothing has to be adapted to two models, therefore.

Constant by constant, in preset ``paper``:

* a is 0.1, 0.2 or 0.3 (P 4.2). P makes a set of pictures for each, with an auto-encoder that was trained at the same a;
  here one run makes all three side by side, counted apart, and the source is trained without them.
* 10 seeds, drawn at random (P 4.2), each with about 3,333 images of each other class, 30,000 in all. 3,333 is the most
  images of a class that are led towards here. A run ends when every picture was made once, or with its budget, which P
  does not have.
* seeds: P draws them from the whole data set. Here they are labelled images that all models get right; what else is
  wrong before anything was changed is no finding.
* two discriminators take part in training and not in the generation (P 3.2: "no longer needed"): fidelity is none.

Preset ``default`` uses every seed, and as many images of other classes as a source encodes quickly. Where the source
has a scorer (that of the GAN is its discriminator), a picture is asked about only if the scorer takes it for at least
as real as its seed, encoded and drawn again; this stands in for the discriminators that P trains with.
"""

from __future__ import annotations

from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from diffgen.config import SearchConfig
from diffgen.config.schema import Maybe, setting, settings
from diffgen.parts import Needs
from diffgen.techniques.base import Preset, RealImages, TechniqueContext
from diffgen.techniques.latent.interpolation import Interpolation
from diffgen.types import Int64Array

SHARES = (0.1, 0.2, 0.3)


@settings("search.argus")
class ArgusSettings:
    """Settings of Argus."""

    seeds: Maybe[int] = setting(None, "Maximum number of seeds; none for all.", ge=1, le=10**6)
    others: int = setting(
        100, "Maximum number of images of each other class that seeds are led towards.", ge=1, le=10**6
    )
    fidelity: Literal["scorer", "none"] = setting(
        "scorer",
        "Which pictures are asked about: those that the scorer of the source, where it has one, takes for at least as "
        "real as their seed, encoded and drawn again; or all (none).",
    )


class Argus(Interpolation):
    """See the module's text for the rules."""

    name = "argus"
    seed_requirement = "a labelled real image that all models get right, beside images of another class"
    shares_count = len(SHARES)
    once = True
    Settings = ArgusSettings
    presets: ClassVar = {
        "default": Preset(source="vq"),
        "paper": Preset(
            SearchConfig().with_technique(ArgusSettings(seeds=10, others=3_333, fidelity="none")), source="vq"
        ),
    }

    def __init__(self, context: TechniqueContext) -> None:
        own = self.settings_in(context.config)
        super().__init__(context, seeds=own.seeds, others=own.others, fidelity=own.fidelity == "scorer")

    @classmethod
    def needs(cls, config: SearchConfig) -> Needs:
        return frozenset({"source", "encoder", "between", "labels"})

    @classmethod
    def seeds(cls, real: RealImages) -> Int64Array:
        if real.labels is None or len(np.unique(real.labels)) < 2:
            return np.empty(0, dtype=np.int64)
        return real.all_right()

    @classmethod
    def classes_of(cls, real: RealImages) -> Int64Array:
        if real.labels is None:
            raise ValueError("Argus needs the labels of the real images.")
        return np.asarray(real.labels, dtype=np.int64)

    def shares(self, count: int) -> tuple[NDArray[np.float64], Int64Array]:
        kinds = np.arange(len(SHARES))
        return np.tile(np.array(SHARES), (count, 1)), np.tile(kinds, (count, 1))
