"""How far an image is from what was already found: the second objective.

``representatives`` holds the moving set that images are compared with; ``pixels`` and ``features`` are the spaces in
which they are compared.
"""

from diffgen.search.diversity.features import FeatureSpace
from diffgen.search.diversity.pixels import PixelSpace
from diffgen.search.diversity.representatives import Diversity
from diffgen.search.diversity.space import Space

__all__ = ["Diversity", "FeatureSpace", "PixelSpace", "Space"]
