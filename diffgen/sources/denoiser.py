"""The family ``denoiser``: real images with noise over them, restored by a network that was trained on the data."""

from __future__ import annotations

from typing import Literal

from diffgen.config import CompareConfig
from diffgen.config.schema import Maybe, setting, settings
from diffgen.config.split import SEEDS
from diffgen.data.split import DataSplit
from diffgen.parts import Needs
from diffgen.seeding import seeded
from diffgen.sources.base import Family, FamilyContext, ImageSource
from diffgen.sources.learned.denoising import DEVIATIONS, Denoiser, DenoisingLesson, over_images
from diffgen.sources.learned.kept import Recipe, check_sides, default_steps, obtain
from diffgen.sources.learned.training import Plan

FORMAT = "diffgen-denoiser-source-1"
_BATCH, _STEPS = 64, 1_500
_PIXELS = _BATCH * 32 * 32  # of an update, at most: with 64 images of 64x64 a training takes 25 minutes of two cores


@settings("source.denoiser")
class DenoiserSettings:
    """Settings of the family ``denoiser``."""

    strength: Literal["low", "high"] = setting(
        "low", "How much noise is laid over a real image: low leaves what it shows, high its coarse forms."
    )
    restorations: int = setting(2, "Steps in which an image is restored; each brings some detail.", ge=1, le=4)
    steps: Maybe[int] = setting(None, "Updates of its training (default: 1,500, fewer for few images).", ge=1, le=10**7)
    seed: int = setting(0, "Seed of its training.", ge=0, le=SEEDS)


class DenoiserFamily(Family):
    """The denoiser is trained on the data once, then found in the cache; the seeds are all real images."""

    name = "denoiser"
    Settings = DenoiserSettings

    def gives(self, config: CompareConfig) -> Needs:
        """See the base class."""
        return frozenset({"encoder"})  # genes say which image it is: halfway between two there is none

    def supports(self, image_shape: tuple[int, int, int]) -> None:
        """See the base class."""
        check_sides(image_shape, "the source denoiser")

    def prepare(self, split: DataSplit, config: CompareConfig, context: FamilyContext) -> ImageSource:
        """See the base class."""
        own: DenoiserSettings = self.settings(config)
        shape, device = split.data.image_shape, context.device
        self.supports(shape)
        with seeded(own.seed):
            denoiser = Denoiser(shape).to(device)
        batch = _batch(shape)
        steps = own.steps or default_steps(len(split.rows[0]), batch, _STEPS)
        kept = obtain(
            Recipe(FORMAT, {}, Plan("the denoiser", steps, batch, own.seed, ends_early=own.steps is None)),
            split,
            context,
            {"denoiser": denoiser},
            lambda: DenoisingLesson(denoiser, device=device),
            dict,
        )
        real = split.data.images
        source = over_images(denoiser, real, deviation=DEVIATIONS[own.strength], steps=own.restorations, device=device)
        facts = {
            "kind": "real images with noise, restored by a denoiser",
            "seeds": f"{len(real):,} real images",
            "latent vector": f"{source.space.continuous} values of coarse noise, normal, and the real image",
            "noise": f"{127.5 * DEVIATIONS[own.strength]:.0f} grey levels ({own.strength}), restored in "
            f"{own.restorations} step{'s' if own.restorations > 1 else ''}",
            **kept.facts(split),
        }
        return ImageSource(source, artifact=kept.path, facts=facts, real=True)


def _batch(image_shape: tuple[int, int, int]) -> int:
    """Images of an update: fewer where they are larger than 32x32, since every pixel costs as much."""
    _, height, width = image_shape
    return min(_BATCH, _PIXELS // (height * width))
