"""Validity filters: what is not a real picture is rejected, with its score and the reason kept."""

from diffgen.filters.base import Filter
from diffgen.filters.discriminator import DiscriminatorFilter
from diffgen.filters.pipeline import FilterPipeline, Verdicts
from diffgen.filters.ssim import SsimFilter

__all__ = ["DiscriminatorFilter", "Filter", "FilterPipeline", "SsimFilter", "Verdicts"]
