"""What the techniques share that begin with real images as genes of a source: rounds, encodings, aims, lanes."""

from diffgen.techniques.latent.aims import EVERY_MODEL as EVERY_MODEL
from diffgen.techniques.latent.aims import changed as changed
from diffgen.techniques.latent.aims import margins as margins
from diffgen.techniques.latent.aims import shortfall as shortfall
from diffgen.techniques.latent.aims import still_named as still_named
from diffgen.techniques.latent.encoded import EncodedImages as EncodedImages
from diffgen.techniques.latent.rounds import LatentTechnique as LatentTechnique
from diffgen.techniques.latent.rounds import Round as Round
