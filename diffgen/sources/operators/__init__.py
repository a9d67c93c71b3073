"""Operators with explicit strengths: ways to change real images so that their labels stay."""

from diffgen.sources.operators import geometry, learned, levels, texture
from diffgen.sources.operators.base import STRENGTHS, Axis, ImageRows, Operator, Range, Scene, Strengths, step_of

OPERATORS: dict[str, Operator] = {
    **geometry.OPERATORS,
    **levels.OPERATORS,
    **texture.OPERATORS,
    **learned.OPERATORS,
}

__all__ = ["OPERATORS", "STRENGTHS", "Axis", "ImageRows", "Operator", "Range", "Scene", "Strengths", "step_of"]
