"""Published ways to make test inputs: each proposes images and learns from the answers; the search's loop asks."""

from diffgen.techniques.base import Preset as Preset
from diffgen.techniques.base import RealImages as RealImages
from diffgen.techniques.base import Technique as Technique
from diffgen.techniques.base import TechniqueContext as TechniqueContext
from diffgen.techniques.registry import TECHNIQUES as TECHNIQUES
from diffgen.techniques.registry import make as make
from diffgen.techniques.registry import preset as preset
from diffgen.techniques.registry import technique_class as technique_class
