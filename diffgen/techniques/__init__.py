"""Published ways to make test inputs, each ask/tell on the same evaluator."""

from diffgen.techniques.base import Technique, TechniqueContext
from diffgen.techniques.registry import PRESETS, make, preset, technique_names

__all__ = ["PRESETS", "Technique", "TechniqueContext", "make", "preset", "technique_names"]
