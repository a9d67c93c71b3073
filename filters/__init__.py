"""Validity filters: what is not a real picture is rejected, with its score and the reason kept."""

from diffgen.filters.base import FILTERS, Filter, FilterContext, filters_named
from diffgen.filters.calibration import Calibration, calibrate
from diffgen.filters.discriminator import DiscriminatorFilter
from diffgen.filters.learned import LearnedFilter, check_enough
from diffgen.filters.neighbors import NeighborsFilter
from diffgen.filters.pipeline import FilterPipeline, FilterVerdicts, filter_warnings
from diffgen.filters.recognition import RecognitionFilter
from diffgen.filters.reconstruction import ReconstructionFilter
from diffgen.filters.ssim import SsimFilter

__all__ = [
    "FILTERS",
    "Calibration",
    "DiscriminatorFilter",
    "Filter",
    "FilterContext",
    "FilterPipeline",
    "FilterVerdicts",
    "LearnedFilter",
    "NeighborsFilter",
    "RecognitionFilter",
    "ReconstructionFilter",
    "SsimFilter",
    "calibrate",
    "check_enough",
    "filter_warnings",
    "filters_named",
]
