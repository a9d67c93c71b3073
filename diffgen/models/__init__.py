"""The models under test: black boxes that turn images into class probabilities, one file per format."""

from diffgen.models.base import BlackBox
from diffgen.models.loading import load

__all__ = ["BlackBox", "load"]
