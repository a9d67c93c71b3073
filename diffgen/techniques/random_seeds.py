"""Random genes of the space that the default searches, with its order of real images: what its search has to beat."""

from __future__ import annotations

from typing import ClassVar

from diffgen.techniques.base import Preset
from diffgen.techniques.random_latent import RandomLatent


class RandomSeeds(RandomLatent):
    """As ``random_latent``, of real images and operators."""

    name = "random_seeds"
    presets: ClassVar = {"default": Preset(source="seeds")}
