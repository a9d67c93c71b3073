"""What a comparison is made of: its plan, which is settled before anything is written, and what is ready to search."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import torch

from diffgen.comparison.jury import PreparedJury
from diffgen.comparison.machine import resolve_batch_size
from diffgen.comparison.preflight import RealAnswers
from diffgen.config import CompareConfig, ModelSpec
from diffgen.data.split import DataSplit
from diffgen.events import Progress
from diffgen.features.cells import Cells
from diffgen.features.jury import Recogniser
from diffgen.filters import FilterPipeline
from diffgen.models import BlackBox
from diffgen.parts import Extensions
from diffgen.runs.folder import RunFolder
from diffgen.sources.base import FamilyContext, ImageSource
from diffgen.types import ImageSet


@dataclass(frozen=True)
class Objects:
    """What the user gave as objects, which another process needs besides the run folder to open the run again.

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
class Plan:
    """What a run works with; the same for a new run, one that is gone on with, a worker of one, and a check.

    Attributes:
        models: black boxes that have looked at some of the images.
        images: real ones, without labels where these are not used.
        config: all settings, with what was found out in them, so that nothing is guessed again.
        device: where networks compute.
        progress: where to say how far it is.
        open_folder: makes the run folder, or gives that of the run, for the settings with the filters by name.
        objects: for workers in other processes.
    """

    models: tuple[BlackBox, ...]
    images: ImageSet
    config: CompareConfig
    device: torch.device
    progress: Progress
    open_folder: Callable[[CompareConfig], RunFolder]
    objects: Objects = field(default_factory=Objects)

    @cached_property
    def split(self) -> DataSplit:
        """The images that networks are trained on, and those held out."""
        return DataSplit(self.images, self.config.split)

    @property
    def batch_size(self) -> int:
        """Images handed to a network at once."""
        return resolve_batch_size(self.config.batch_size, self.device)


@dataclass(frozen=True)
class Learned(Plan):
    """A plan with what was learned from the real images; nothing but the cache is written yet.

    Attributes:
        real: what the models say of the real images.
        jury: says what pictures show, or why there is no jury.
        source: where pictures come from.
        context: what families of sources work with.
    """

    real: RealAnswers = field(kw_only=True)
    cells: Cells = field(kw_only=True)
    jury: PreparedJury = field(kw_only=True)
    source: ImageSource = field(kw_only=True)
    context: FamilyContext = field(kw_only=True)

    @property
    def recogniser(self) -> Recogniser | None:
        """The jury with its thresholds, or None: there is none."""
        return self.jury.recogniser


@dataclass(frozen=True)
class Prepared(Learned):
    """Everything that is there before the search begins.

    Attributes:
        pipeline: the validity filters, calibrated.
        unanswered: of each model, to how many images it had no answer until now.
    """

    folder: RunFolder = field(kw_only=True)
    pipeline: FilterPipeline = field(kw_only=True)
    unanswered: tuple[int, ...] = field(kw_only=True)
