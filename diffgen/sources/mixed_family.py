"""Seeds and a GAN as one source: real images with operators from the beginning, a GAN's pictures once there is one."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from diffgen.config import CompareConfig, replace
from diffgen.data.split import DataSplit
from diffgen.gan_training.header import class_labels, read_header
from diffgen.gan_training.networks import SUPPORTED_SIZES
from diffgen.sources.base import Family, FamilyContext, ImageSource
from diffgen.sources.gan_family import GanFamily
from diffgen.sources.mixed import MixedSource
from diffgen.sources.seeds import SeedsFamily, SeedsSettings
from diffgen.sources.space import Space, latent_space

SEEDS, GAN = "seeds", "gan"


class MixedFamily(Family):
    """The seeds are there at once; the GAN is there from the beginning, joins in the search, or never comes."""

    name = "mixed"
    Settings = SeedsSettings

    def __init__(self, seeds: SeedsFamily, gan: GanFamily) -> None:
        self._seeds, self._gan = seeds, gan

    def supports(self, image_shape: tuple[int, int, int]) -> None:
        """See the base class; images that no GAN fits come from the seeds alone."""

    def uses_auto_encoder(self, config: CompareConfig) -> bool:
        """See the base class."""
        return self._seeds.uses_auto_encoder(config)

    def prepare(self, split: DataSplit, config: CompareConfig, context: FamilyContext) -> ImageSource:
        """See the base class; ``source.gan`` says when the GAN comes, and is not ``auto``."""
        seeds = self._seeds.prepare(split, config, context)
        assert seeds.source is not None
        facts = {**seeds.facts, "compared with": f"{len(split.rows[0]):,} real images"}
        if config.source.gan == "never":
            mixed = MixedSource({SEEDS: seeds.source}, device=context.device)
            return replace(seeds, source=mixed, facts={**facts, "GAN": "none"})
        space = gan_space(split, config)
        mixed = MixedSource({SEEDS: seeds.source, GAN: space}, device=context.device)

        def join(ended: Callable[[], bool] | None = None) -> ImageSource:
            gan = self._gan.prepare(split, config, replace(context, ended=ended))
            assert gan.source is not None
            mixed.join(GAN, gan.source)
            own = {f"GAN, {name}" if name in facts else name: text for name, text in gan.facts.items()}
            return ImageSource(mixed, gan.scorer, gan.artifact, {**facts, **own}, real=True)

        if config.source.gan == "now":
            return join()
        return ImageSource(mixed, facts={**facts, "GAN": "did not join"}, real=True, join=join)


def gan_space(split: DataSplit, config: CompareConfig) -> Space:
    """The space of the genes of the data set's GAN, before there is one."""
    if config.gan_file is not None:
        header = read_header(Path(config.gan_file))
        return latent_space(int(header["latent_dim"]), "normal", int(header["classes"]), class_labels(header))
    labels: tuple[int, ...] = ()
    if config.gan.conditional and split.labels is not None:
        labels = tuple(split.labels[0].unique().tolist())
    return latent_space(config.gan.latent_dim, "normal", len(labels), labels)


def fits_gan(image_shape: tuple[int, int, int]) -> bool:
    """Whether a GAN can draw images of (C, H, W)."""
    channels, height, width = image_shape
    return channels in (1, 3) and height == width and height in SUPPORTED_SIZES
