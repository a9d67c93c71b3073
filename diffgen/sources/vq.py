"""The family ``vq``: a quantised auto-encoder of the data set, with the discriminators of Argus where wanted."""

from __future__ import annotations

import math

from torch import nn

from diffgen.config import CompareConfig
from diffgen.config.schema import Many, Maybe, SettingError, setting, settings
from diffgen.config.split import SEEDS
from diffgen.data.split import DataSplit
from diffgen.parts import Needs
from diffgen.seeding import seeded
from diffgen.sources.base import Family, FamilyContext, ImageSource
from diffgen.sources.learned.adversaries import (
    AdversarialLesson,
    AdversaryScorer,
    CodeDiscriminator,
    ImageDiscriminator,
)
from diffgen.sources.learned.codes_source import CodesSource, known_codes
from diffgen.sources.learned.codes_space import Codes
from diffgen.sources.learned.kept import Recipe, check_sides, default_steps, obtain
from diffgen.sources.learned.quantised import QuantisedCoder, QuantisedLesson, codebook_size
from diffgen.sources.learned.training import Plan

FORMAT = "diffgen-vq-source-1"
_BATCH, _STEPS = 64, 1_500
# grey images take fewer: 1,000 codes a cell draw them again, colours take 64,000
_GREY, _COLOUR = (8, 5, 5, 5), (8, 8, 8, 5, 5, 5)
_FEWEST_LEVELS = 3  # of two the outermost would be the only ones
_ALONE = 0.5  # share of the updates before the discriminators join


@settings("source.vq")
class VqSettings:
    """Settings of the family ``vq``.

    Raises:
        SettingError: a number of levels that nothing can be rounded to.
    """

    levels: Many[int] = setting(
        (),
        "Steps of each value of a cell, whose product is the size of the codebook (default: 8, 5, 5, 5 for grey "
        "images, 8, 8, 8, 5, 5, 5 for colour).",
    )
    discriminators: bool = setting(
        False, "Train the two discriminators of Argus too, on codes and on images; they take twice as long."
    )
    share: float = setting(
        0.2, "Share of another image's code in the mixed ones that the discriminators see.", gt=0, lt=1
    )
    steps: Maybe[int] = setting(None, "Updates of its training (default: 1,500, fewer for few images).", ge=1, le=10**7)
    seed: int = setting(0, "Seed of its training.", ge=0, le=SEEDS)

    def __post_init__(self) -> None:
        if any(not _FEWEST_LEVELS <= each <= 256 for each in self.levels) or len(self.levels) > 64:
            raise SettingError("source.vq.levels", f"is {list(self.levels)}; give at most 64 numbers from 3 to 256.")

    def levels_for(self, image_shape: tuple[int, int, int]) -> tuple[int, ...]:
        """Those that are set, or that suit images of (C, H, W)."""
        return self.levels or (_GREY if image_shape[0] == 1 else _COLOUR)


class VqFamily(Family):
    """Trained on the data once, then found in the cache."""

    name = "vq"
    Settings = VqSettings

    def gives(self, config: CompareConfig) -> Needs:
        """See the base class."""
        return super().gives(config) | (
            {"encoder", "discriminator"} if self.settings(config).discriminators else {"encoder"}
        )

    def supports(self, image_shape: tuple[int, int, int]) -> None:
        """See the base class."""
        check_sides(image_shape, "the source vq")

    def prepare(self, split: DataSplit, config: CompareConfig, context: FamilyContext) -> ImageSource:
        """See the base class."""
        own: VqSettings = self.settings(config)
        shape, device = split.data.image_shape, context.device
        self.supports(shape)
        levels = own.levels_for(shape)
        with seeded(own.seed):
            coder = QuantisedCoder(shape, levels=levels).to(device)
        steps = own.steps or default_steps(len(split.rows[0]), _BATCH, _STEPS)
        networks: dict[str, nn.Module] = {"coder": coder}
        decisive: dict[str, object] = {"levels": list(levels)}
        scorer = None
        if own.discriminators:
            decisive["share"] = own.share
            length = math.prod(coder.map)
            with seeded(own.seed):
                networks["on_codes"] = on_codes = CodeDiscriminator(length).to(device)
                networks["on_images"] = on_images = ImageDiscriminator(shape).to(device)
            scorer = AdversaryScorer(on_images, device=device)

        def lesson() -> QuantisedLesson:
            if not own.discriminators:
                return QuantisedLesson(coder, device=device)
            alone = round(_ALONE * steps)
            return AdversarialLesson(coder, on_codes, on_images, share=own.share, alone=alone, device=device)

        # the discriminators begin late: it must not end before
        ends_early = own.steps is None and not own.discriminators
        kept = obtain(
            Recipe(FORMAT, decisive, Plan("the quantised auto-encoder", steps, _BATCH, own.seed, ends_early)),
            split,
            context,
            networks,
            lesson,
            lambda: {"known.genes": known_codes(coder, split.reference, device)},
        )
        low, high = coder.bounds()
        space = Codes(low.numpy(), high.numpy(), kept.tensors["known.genes"].numpy())
        facts = {
            "kind": f"auto-encoder with finite scalar quantisation, {codebook_size(levels):,} codes a cell",
            "latent vector": f"{'x'.join(map(str, coder.map))} values, drawn between those of real images",
            "discriminators": "none" if scorer is None else "two, on codes and on images, as in Argus",
            **kept.facts(split),
        }
        source = CodesSource(coder, space, shape, device=device)
        return ImageSource(source, scorer, artifact=kept.path, facts=facts)
