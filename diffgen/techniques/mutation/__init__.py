"""Mutators of images and the choice among them, shared by the techniques that mutate real images.

A mutator takes uint8 (N, C, H, W) and a generator of random numbers and gives as many images of the same kind, each
with the strengths that were drawn for it. Results are rounded and cut to 0..255, never wrapped around.
"""

from diffgen.techniques.mutation.choice import FIRST, choose
from diffgen.techniques.mutation.mutator import Mutated, Mutator, mutate

__all__ = ["FIRST", "Mutated", "Mutator", "choose", "mutate"]
