"""What the techniques share that begin with real images as genes of a source: rounds, encodings, aims, lanes."""

from diffgen.techniques.latent.aims import EVERY_MODEL, changed, margins, shortfall, still_named
from diffgen.techniques.latent.encoded import EncodedImages
from diffgen.techniques.latent.rounds import LatentTechnique, Round

__all__ = [
    "EVERY_MODEL",
    "EncodedImages",
    "LatentTechnique",
    "Round",
    "changed",
    "margins",
    "shortfall",
    "still_named",
]
