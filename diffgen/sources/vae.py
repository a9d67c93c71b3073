"""The family ``vae``: a variational auto-encoder of the data set, whose codes are the genes."""

from __future__ import annotations

from typing import Literal

from diffgen.config import CompareConfig
from diffgen.config.schema import Maybe, setting, settings
from diffgen.config.split import SEEDS
from diffgen.data.split import DataSplit
from diffgen.parts import Needs
from diffgen.seeding import seeded
from diffgen.sources.base import Family, FamilyContext, ImageSource
from diffgen.sources.learned.codes_source import CodesSource, known_codes
from diffgen.sources.learned.codes_space import Codes
from diffgen.sources.learned.kept import Recipe, check_sides, default_steps, obtain
from diffgen.sources.learned.training import Plan
from diffgen.sources.learned.variational import VariationalCoder, VariationalLesson

FORMAT = "diffgen-vae-source-1"
_BATCH = {True: 64, False: 128}  # of spatial and of dense networks
_STEPS = {True: 1_500, False: 2_500}


@settings("source.vae")
class VaeSettings:
    """Settings of the family ``vae``."""

    codes: Literal["auto", "dense", "spatial"] = setting(
        "auto",
        "What the code of an image is: dense, one vector; spatial, a map of at most 8x8 cells; auto: dense for grey "
        "images, spatial for colour.",
    )
    latent_dim: int = setting(64, "Values of a dense code; 400 in SINVAD.", ge=1, le=4096)
    cell_dim: int = setting(16, "Values of each cell of a spatial code.", ge=1, le=64)
    divergence: float = setting(
        1.0, "Weight of the codes' divergence from N(0, 1); less draws images again with more detail.", gt=0, le=100
    )
    steps: Maybe[int] = setting(
        None,
        "Updates of its training (default: 1,500 for spatial codes, 2,500 for dense ones, fewer for few images).",
        ge=1,
        le=10**7,
    )
    seed: int = setting(0, "Seed of its training.", ge=0, le=SEEDS)

    def spatial(self, image_shape: tuple[int, int, int]) -> bool:
        """Whether the codes of images of (C, H, W) are a map."""
        return self.codes == "spatial" or (self.codes == "auto" and image_shape[0] > 1)


class VaeFamily(Family):
    """Trained on the data once, then found in the cache."""

    name = "vae"
    Settings = VaeSettings

    def gives(self, config: CompareConfig) -> Needs:
        """See the base class."""
        return super().gives(config) | {"encoder"}

    def supports(self, image_shape: tuple[int, int, int]) -> None:
        """See the base class."""
        check_sides(image_shape, "the source vae")

    def prepare(self, split: DataSplit, config: CompareConfig, context: FamilyContext) -> ImageSource:
        """See the base class."""
        own: VaeSettings = self.settings(config)
        shape, device = split.data.image_shape, context.device
        self.supports(shape)
        spatial = own.spatial(shape)
        size = own.cell_dim if spatial else own.latent_dim
        with seeded(own.seed):
            coder = VariationalCoder(shape, spatial=spatial, size=size).to(device)
        steps = own.steps or default_steps(len(split.rows[0]), _BATCH[spatial], _STEPS[spatial])
        decisive = {"spatial": spatial, "size": size, "divergence": own.divergence}
        plan = Plan("the auto-encoder", steps, _BATCH[spatial], own.seed, ends_early=own.steps is None)
        kept = obtain(
            Recipe(FORMAT, decisive, plan),
            split,
            context,
            {"coder": coder},
            lambda: VariationalLesson(coder, divergence=own.divergence, device=device),
            lambda: {"known.genes": known_codes(coder, split.reference, device)},
        )
        space = Codes.among(kept.tensors["known.genes"].numpy(), normal=not spatial)
        shape_of_code = "x".join(map(str, coder.map)) + " values"
        facts = {
            "kind": f"variational auto-encoder, {'spatial' if spatial else 'dense'} codes",
            "latent vector": f"{shape_of_code}, " + ("drawn between those of real images" if spatial else "normal"),
            **kept.facts(split),
        }
        return ImageSource(CodesSource(coder, space, shape, device=device), artifact=kept.path, facts=facts)
