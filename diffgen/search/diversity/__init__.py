"""How far an image is from what was already found: the second objective.

``representatives`` holds the moving set that images are compared with; ``pixels`` and ``features`` are the spaces in
which they are compared.
"""

from diffgen.search.diversity.embedding import ImageEmbedding
from diffgen.search.diversity.features import FeatureEmbedding
from diffgen.search.diversity.pixels import PixelEmbedding
from diffgen.search.diversity.representatives import Diversity

__all__ = ["Diversity", "FeatureEmbedding", "ImageEmbedding", "PixelEmbedding"]
