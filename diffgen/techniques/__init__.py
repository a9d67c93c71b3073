"""Published ways to make test inputs: each proposes images and learns from the answers; the search's loop asks."""

from diffgen.techniques.base import Preset, RealImages, Technique, TechniqueContext
from diffgen.techniques.registry import TECHNIQUES, make, preset, technique_class

__all__ = [
    "TECHNIQUES",
    "Preset",
    "RealImages",
    "Technique",
    "TechniqueContext",
    "make",
    "preset",
    "technique_class",
]
