"""A generator of the user's own, from a file, and the discriminator that may come with it."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

import torch

from diffgen.config import CompareConfig, GeneratorConfig
from diffgen.data.split import DataSplit
from diffgen.errors import UserError
from diffgen.parts import Need, Needs
from diffgen.sources.base import Family, FamilyContext, ImageSource
from diffgen.sources.file import FileScorer, FileSource
from diffgen.sources.file_encoder import EncodingFileSource


class FileFamily(Family):
    """Nothing is trained: the file that ``[generator]`` names is opened and tried out."""

    name = "file"
    brought = True
    hints: ClassVar = {"encoder": "add --generator-encoder FILE", "discriminator": "add --discriminator FILE"}

    def gives(self, config: CompareConfig) -> Needs:
        """See the base class; as the files that come with the generator allow."""
        given: dict[Need, str | None] = {
            "encoder": config.generator.encoder,
            "discriminator": config.generator.discriminator,
        }
        return super().gives(config) | {need for need, file in given.items() if file is not None}

    def check(self, config: CompareConfig) -> None:
        """See the base class."""
        if config.generator.file is None:
            raise UserError("The source is a file, but none is named; add --generator FILE and --latent-dim N.")

    def supports(self, image_shape: tuple[int, int, int]) -> None:
        """See the base class; what a file draws is found out when it is opened."""

    def try_out(self, config: CompareConfig, image_shape: tuple[int, int, int], device: torch.device) -> None:
        """See the base class."""
        _opened(config.generator, image_shape, device)

    def prepare(self, split: DataSplit, config: CompareConfig, context: FamilyContext) -> ImageSource:
        """See the base class."""
        own = config.generator
        assert own.file is not None
        source, scorer = _opened(own, split.data.image_shape, context.device)
        facts = {
            "kind": f"your own, {source.network.format}",
            "file": source.network.name,
            "latent vector": f"{source.latent_dim} values, {own.prior}",
            "pixels": f"{source.pixels} ({'found out' if source.detected else 'as said'})",
            "discriminator": "none given, so that there is no discriminator filter"
            if scorer is None
            else scorer.network.name,
            "compared with": f"{len(split.rows[0]):,} real images, which it may or may not have been trained on",
            "held out": f"{len(split.rows[1]):,} real images",
        }
        if isinstance(source, EncodingFileSource):
            facts["encoder"] = source.encoder.name
        context.progress.say(
            f"Pictures come from {source.network.name}, {source.network.format}: {facts['latent vector']}; pixels "
            f"{facts['pixels']}; discriminator: {facts['discriminator']}."
        )
        return ImageSource(source, scorer, Path(own.file), facts)


def _opened(
    own: GeneratorConfig, image_shape: tuple[int, int, int], device: torch.device
) -> tuple[FileSource, FileScorer | None]:
    """The generator of the settings, with its encoder where they name one, and its discriminator.

    Raises:
        UserError: a file does not do what is said of it.
    """
    source = (FileSource if own.encoder is None else EncodingFileSource)(own, image_shape, device=device)
    if own.discriminator is None:
        return source, None
    path = Path(own.discriminator)
    return source, FileScorer(path, pixels=source.pixels, image_shape=image_shape, device=device)
