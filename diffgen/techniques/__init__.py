"""Published ways to make test inputs: each proposes images and learns from the answers; the search's loop asks."""

from diffgen.techniques.base import Needs, Preset, RealImages, Technique, TechniqueContext
from diffgen.techniques.registry import (
    TECHNIQUES,
    check_settings_tables,
    make,
    preset,
    preset_gan,
    preset_source,
    technique_class,
    technique_names,
    with_settings_written_out,
)

__all__ = [
    "TECHNIQUES",
    "Needs",
    "Preset",
    "RealImages",
    "Technique",
    "TechniqueContext",
    "check_settings_tables",
    "make",
    "preset",
    "preset_gan",
    "preset_source",
    "technique_class",
    "technique_names",
    "with_settings_written_out",
]
