"""What a source of images is, and what a family of them can do."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Protocol, runtime_checkable

import torch

from diffgen.config import CompareConfig
from diffgen.data.split import DataSplit
from diffgen.errors import UserError
from diffgen.events import Progress
from diffgen.features.base import FeatureExtractor
from diffgen.features.jury import Recogniser
from diffgen.features.vae import Vae
from diffgen.origins import Origins
from diffgen.parts import NOTHING, Needs, Part
from diffgen.sources.space import Space
from diffgen.types import Float32Array, Scorer


@runtime_checkable
class Source(Protocol):
    """Draws images from genes. An image is a pure function of its own genes, so that stored genes redraw it.

    Drawing and saying where an image comes from are two methods, since drawing is tried again in smaller pieces where
    memory is too small, and since many callers want the images alone.
    """

    @property
    def space(self) -> Space:
        """Of the genes."""
        ...

    @property
    def image_shape(self) -> tuple[int, int, int]:
        """(C, H, W) of what it draws."""
        ...

    def draw(self, genes: torch.Tensor) -> torch.Tensor:
        """Images for genes.

        Args:
            genes: float32 (N, space.length).

        Returns:
            uint8 (N, C, H, W) on the source's device; an image never depends on its neighbours in the batch.
        """
        ...

    def origins(self, genes: torch.Tensor) -> Origins | None:
        """The real images that these were made from, and how; None where images are not made from real ones."""
        ...


@runtime_checkable
class EncodingSource(Source, Protocol):
    """A source that also finds genes for images: what it draws from them comes near to those images."""

    def encode(self, images: torch.Tensor, labels: torch.Tensor | None = None) -> torch.Tensor:
        """Genes for images.

        Args:
            images: uint8 (N, C, H, W).
            labels: int64 (N,), the classes of the images, for sources whose genes hold one; None: they are not known.

        Returns:
            float32 (N, space.length) on the CPU; genes of an image never depend on its neighbours in the batch.
        """
        ...


@runtime_checkable
class PreviewingSource(Source, Protocol):
    """A source of large pictures that also draws them small, many times as quickly."""

    def previews(self, genes: torch.Tensor) -> torch.Tensor | None:
        """uint8 (N, C, h, w): about what :meth:`draw` gives, averaged down; None: these are not drawn small."""
        ...


@dataclass(frozen=True)
class ImageSource:
    """What a family prepared for a data set.

    Attributes:
        source: draws the images, or None: nothing asks for any.
        scorer: says how real an image is, or None: there is none.
        artifact: the file that holds source and scorer, or None: there is no such file.
        facts: what a report says about them, name -> text.
        real: whether images are made from real ones, instead of drawn by a network.
        mild: they are real ones, changed no further than their label stays; without a jury it says what they show.
    """

    source: Source | None = None
    scorer: Scorer | None = None
    artifact: Path | None = None
    facts: dict[str, str] = field(default_factory=dict)
    real: bool = False
    mild: bool = False


@dataclass(frozen=True)
class FamilyContext:
    """What a family works with.

    Attributes:
        encoder: the data set's own, by which training is watched.
        device: where networks compute.
        progress: where to say how far it is.
        recogniser: says whether a picture can be recognised, or None: there is no jury.
        auto_encoder: gives that of the data set, trained now where it is not there; None: there is none to be had.
        answers: float32 (N, M, T), the probabilities of M models for the real images, of the classes that are kept
            (:mod:`diffgen.tasks.kept_answers`), or None: nobody has asked them.
        encoding: whether genes of real images will be asked for.
    """

    encoder: FeatureExtractor
    device: torch.device
    progress: Progress
    recogniser: Recogniser | None = None
    auto_encoder: Callable[[], Vae] | None = None
    answers: Float32Array | None = None
    encoding: bool = False


class Family(Part, ABC):
    """A family of sources: trains or opens what draws the images of a data set.

    Attributes:
        brought: the user brings it ready to draw, and no network is trained beside it to judge what it draws.
    """

    kind = "source"
    brought: ClassVar[bool] = False

    def gives(self, config: CompareConfig) -> Needs:
        """What a technique can have of its sources under these settings, besides that they draw from genes.

        "encoder": they are :class:`EncodingSource`; "between": what lies between the genes of two real images draws
        pictures between them; "operators": they change the real images themselves; "discriminator": there is one.
        """
        return frozenset({"between"})

    def needs(self, config: CompareConfig) -> Needs:
        """What must be trained before it under these settings: "auto_encoder", that of the data set."""
        return NOTHING

    def settings(self, config: CompareConfig) -> Any:
        """An object of its class ``Settings``."""
        return self.settings_among(config.source.families)

    def settled(self, config: CompareConfig) -> CompareConfig:
        """The settings with whole paths, as a run folder keeps them."""
        return config

    def check(self, config: CompareConfig) -> None:
        """See that the settings fit, before any data is read.

        Raises:
            UserError: they do not.
        """
        if config.generator.file is not None:
            raise UserError(
                f"--generator {config.generator.file} and --source {self.name} both say where the pictures come from; "
                "leave one of them out."
            )

    def try_out(self, config: CompareConfig, image_shape: tuple[int, int, int], device: torch.device) -> None:
        """See that what the settings name can be opened and draws images of (C, H, W), before anything is trained.

        Raises:
            UserError: it does not.
        """

    def check_count(self, config: CompareConfig, images: int) -> None:
        """See that so many real images are enough to learn from; nothing is trained yet.

        Raises:
            UserError: they are not.
        """

    @abstractmethod
    def supports(self, image_shape: tuple[int, int, int]) -> None:
        """See that it can draw images of (C, H, W).

        Raises:
            UserError: it cannot.
        """

    @abstractmethod
    def prepare(self, split: DataSplit, config: CompareConfig, context: FamilyContext) -> ImageSource:
        """The source for a data set: found in the cache, trained now, or opened.

        Raises:
            UserError: it does not fit the data.
            RunError: training failed.
        """
