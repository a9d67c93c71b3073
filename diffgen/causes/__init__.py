"""Why two models that should be the same differ: faults of a pipeline, each imitated, and told apart by answers."""

from diffgen.causes.base import CAUSES, Cause, Change, Seen, Stage
from diffgen.causes.explanation import Explanation, Found
from diffgen.causes.finding import explain_models

__all__ = ["CAUSES", "Cause", "Change", "Explanation", "Found", "Seen", "Stage", "explain_models"]
