"""What another workflow may do on the way of a comparison."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from diffgen.comparison.gan_source import DomainModels
from diffgen.comparison.preflight import RealAnswers
from diffgen.config import CompareConfig
from diffgen.features.cells import Cells
from diffgen.filters import FilterPipeline
from diffgen.models import BlackBox
from diffgen.runs.folder import RunFolder
from diffgen.types import ImageSet


@dataclass(frozen=True)
class Prepared:
    """Everything that is there before the search begins."""

    models: tuple[BlackBox, BlackBox]
    images: ImageSet
    config: CompareConfig
    folder: RunFolder
    real: RealAnswers
    domain: DomainModels
    pipeline: FilterPipeline
    cells: Cells
    batch_size: int


class ComparisonHooks:
    """What another workflow does on the way of a comparison; this one does nothing.

    Attributes:
        verb: of the command line that goes on with such a run.
    """

    verb = "compare"

    def about(self) -> dict[str, Any]:
        """What the manifest shall say of it; JSON values."""
        return {}

    def models_ready(self, models: tuple[BlackBox, BlackBox], images: ImageSet) -> None:
        """The models are prepared; nothing was written yet."""

    def search_ready(self, prepared: Prepared) -> None:
        """The search begins when this returns."""
