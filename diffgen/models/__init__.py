"""The models under test: black boxes that turn images into class probabilities, one file per format."""

from diffgen.models.base import BlackBox
from diffgen.models.class_names import read_class_names, read_label_map
from diffgen.models.loading import load
from diffgen.models.sidecar import read_sidecar

__all__ = ["BlackBox", "load", "read_class_names", "read_label_map", "read_sidecar"]
