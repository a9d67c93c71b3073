"""Validity filters: what is not a real picture is rejected, with its score and the reason kept."""

from diffgen.filters.base import FILTERS as FILTERS
from diffgen.filters.base import Filter as Filter
from diffgen.filters.base import FilterContext as FilterContext
from diffgen.filters.base import filters_named as filters_named
from diffgen.filters.calibration import Calibration as Calibration
from diffgen.filters.calibration import calibrate as calibrate
from diffgen.filters.discriminator import DiscriminatorFilter as DiscriminatorFilter
from diffgen.filters.learned import LearnedFilter as LearnedFilter
from diffgen.filters.learned import check_enough as check_enough
from diffgen.filters.neighbors import NeighborsFilter as NeighborsFilter
from diffgen.filters.pipeline import FilterPipeline as FilterPipeline
from diffgen.filters.pipeline import FilterVerdicts as FilterVerdicts
from diffgen.filters.pipeline import filter_warnings as filter_warnings
from diffgen.filters.recognition import RecognitionFilter as RecognitionFilter
from diffgen.filters.reconstruction import ReconstructionFilter as ReconstructionFilter
from diffgen.filters.ssim import SsimFilter as SsimFilter
