"""The objects that travel down the line of a comparison, and the hooks by which another verb takes part in it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch

from diffgen.comparison.jury import PreparedJury
from diffgen.comparison.preflight import RealAnswers
from diffgen.config import CompareConfig, ModelSpec
from diffgen.data.split import DataSplit
from diffgen.events import Progress
from diffgen.extensions import Extensions
from diffgen.features.cells import Cells
from diffgen.features.recognition import Recogniser
from diffgen.filters import FilterPipeline
from diffgen.models import BlackBox
from diffgen.report.from_run import write_report
from diffgen.runs.folder import RunFolder
from diffgen.runs.triggers import TriggerTable
from diffgen.sources.base import FamilyContext, ImageSource
from diffgen.types import ImageSet

if TYPE_CHECKING:
    from diffgen.comparison.technique_run import SearchOutcome


@dataclass(frozen=True)
class Reopening:
    """What another process needs besides the run folder to open the run again.

    Attributes:
        models: of each model the object that it was given as, or None: the run folder says where it is; or none at all.
        data: images in memory, or None: the run folder says where they are.
        options: how each model may be opened.
        extensions: objects in place of names.
    """

    models: tuple[Any, ...] = ()
    data: Any = None
    options: Sequence[ModelSpec] = ()
    extensions: Extensions = field(default_factory=Extensions)


@dataclass(frozen=True)
class Given:
    """What a comparison begins with: prepared models, real images and settings.

    Attributes:
        models: black boxes that have looked at some of the images.
        images: real ones.
        config: all settings.
        device: where networks compute.
        progress: where to say how far it is.
        hooks: what another verb does on the way.
        search: searches, until the budget is used up; None: :func:`diffgen.comparison.technique_run.run_search`.
    """

    models: tuple[BlackBox, ...]
    images: ImageSet
    config: CompareConfig
    device: torch.device
    progress: Progress
    hooks: ComparisonHooks
    search: Callable[[Prepared], SearchOutcome] | None = field(default=None, kw_only=True)


@dataclass(frozen=True)
class Prepared(Given):
    """Everything that is there before the search begins.

    Attributes:
        folder: of the run.
        real: what the models say of the real images.
        split: the images that networks were trained on, and those held out.
        source: where pictures come from.
        pipeline: the validity filters, calibrated.
        cells: of the real images.
        jury: says what pictures show, or why there is no jury.
        context: what families of sources work with.
        batch_size: images handed to a network at once.
    """

    folder: RunFolder
    real: RealAnswers
    split: DataSplit
    source: ImageSource
    pipeline: FilterPipeline
    cells: Cells
    jury: PreparedJury
    context: FamilyContext
    batch_size: int

    @property
    def recogniser(self) -> Recogniser | None:
        """The jury with its thresholds, or None: there is none."""
        return self.jury.recogniser


class ComparisonHooks:
    """What another verb does on the way of a comparison; this one draws the report at its end."""

    def about(self) -> dict[str, Any]:
        """What the manifest shall say of it; JSON values."""
        return {}

    def models_ready(self, models: tuple[BlackBox, ...], images: ImageSet, config: CompareConfig) -> None:
        """The models are prepared, and it is known whether labels are used; nothing was written yet."""

    def real_ready(self, images: ImageSet, real: RealAnswers) -> None:
        """The models have answered to the real images, without labels where these are not used; nothing was written."""

    def jury_ready(self, jury: PreparedJury) -> None:
        """There is a jury, or it is known why there is none; nothing was written yet."""

    def search_ready(self, prepared: Prepared) -> None:
        """The search begins when this returns."""

    def judged(self, prepared: Prepared, triggers: TriggerTable) -> None:
        """The triggers are judged and the figures written; what is left is the report."""
        with prepared.progress.stage("Drawing the report"):
            write_report(prepared.folder, triggers)
