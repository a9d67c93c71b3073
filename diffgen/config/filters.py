"""The validity filters and their presets."""

from __future__ import annotations

from diffgen import extensions
from diffgen.config.schema import FileName, Many, Maybe, setting, settings
from diffgen.errors import UserError

FILTERS = ("discriminator", "reconstruction", "ssim", "neighbors", "jury", "learned")


@settings("filters.discriminator")
class DiscriminatorSettings:
    """The filter ``discriminator``: the score of the network that was trained with the generator."""

    threshold: Maybe[float] = setting(
        None,
        "Lowest discriminator score that passes (default: found).",
        option="--discriminator-threshold",
        metavar="X",
    )


@settings("filters.reconstruction")
class ReconstructionSettings:
    """The filter ``reconstruction``: how well an auto-encoder of real images draws an image again."""

    threshold: Maybe[float] = setting(
        None,
        "Lowest reconstruction score that passes (default: found).",
        option="--reconstruction-threshold",
        metavar="X",
    )
    training_steps: int = setting(900, "Updates of the auto-encoder of the reconstruction filter.", ge=1, le=10**8)


@settings("filters.ssim")
class SsimSettings:
    """The filter ``ssim``: structural similarity with the nearest real image."""

    threshold: Maybe[float] = setting(
        None, "Lowest SSIM that passes (default: found).", option="--ssim-threshold", metavar="X", ge=-1, le=1
    )
    neighbors: int = setting(
        10,
        "How many nearest real images (cosine, pixels) SSIM is computed with; the best counts.",
        ge=1,
        le=10_000,
    )


@settings("filters.neighbors")
class NeighborsSettings:
    """The filter ``neighbors``: distance to real images, as a share of the picture's own size."""

    threshold: Maybe[float] = setting(
        None,
        "Lowest nearness to real images that passes (default: found).",
        option="--neighbors-threshold",
        metavar="X",
        le=1,
    )


@settings("filters.jury")
class JurySettings:
    """The filter ``jury``: how sure small classifiers are of what an image shows."""

    threshold: Maybe[float] = setting(
        None,
        "Lowest certainty of the jury, minus an entropy in nats, that passes (default: found).",
        option="--jury-threshold",
        metavar="X",
        le=0,
    )
    false_alarm: float = setting(
        0.05,
        "Share of held-out real images that the jury alone may fail to recognise.",
        ge=0,
        lt=1,
    )
    shown: Maybe[int] = setting(
        None,
        "Images that every member of the jury is shown in its training, each of the real ones several times (default: "
        "15,000 for grey images, 45,000 for colour ones).",
        ge=64,
        le=10**9,
    )


@settings("filters.learned")
class LearnedSettings:
    """The filter ``learned``: whether people like those who answered would rather take an image for valid."""

    threshold: Maybe[float] = setting(
        None,
        "Lowest logarithm of the odds of being valid that passes (default: 0, even odds).",
        option="--learned-threshold",
        metavar="X",
    )
    answers: FileName = setting(
        None,
        "What the filter learned learns from: a run whose pictures people labelled, or an .npz file with images and "
        "valid.",
        option="--learned-from",
        metavar="RUN|NPZ",
    )


@settings("filters")
class FilterConfig:
    """The validity filters (DiffGAN, section 3.6; ``FILTER_PRESETS`` has the published ones).

    Each of them has a table of its own. Thresholds that are None are found so that ``false_alarm`` is kept.

    Raises:
        UserError: a filter that is not known, one named twice, or a number out of its range.
    """

    names: Many[str] | None = setting(
        None,
        "The filters, in the order in which they are asked (default: neighbors, jury and ssim; without a jury "
        "reconstruction and ssim, and discriminator before them where the run has one anyway).",
    )
    false_alarm: float = setting(
        0.02,
        "Share of held-out real images that all filters together may reject; it sets the thresholds.",
        option="--false-alarm-rate",
        metavar="X",
        ge=0,
        lt=1,
    )
    near_duplicate: float = setting(
        0.95,
        "Two triggers of one label pair count as one when their thumbnails correlate at least this much.",
        gt=0,
        le=1,
    )
    discriminator: DiscriminatorSettings = setting(factory=DiscriminatorSettings)
    reconstruction: ReconstructionSettings = setting(factory=ReconstructionSettings)
    ssim: SsimSettings = setting(factory=SsimSettings)
    neighbors: NeighborsSettings = setting(factory=NeighborsSettings)
    jury: JurySettings = setting(factory=JurySettings)
    learned: LearnedSettings = setting(factory=LearnedSettings)

    def __post_init__(self) -> None:
        names = self.names or ()
        for name in names:
            if name not in FILTERS and not extensions.is_object(name) and name not in extensions.offered("filter"):
                known = ", ".join((*FILTERS, *sorted(extensions.offered("filter"))))
                raise UserError(f"The filter {name!r} is not known; known are {known}.")
        if len(set(names)) < len(names):
            raise UserError(
                f"The filters {', '.join(names)} name one of them twice; name each once, and give objects of one class "
                "a name each."
            )


# "paper" is DiffGAN, section 3.6: SSIM of at least 0.4, and a discriminator whose threshold the paper leaves open
FILTER_PRESETS = {
    "default": FilterConfig(),
    "paper": FilterConfig(names=("discriminator", "ssim"), ssim=SsimSettings(threshold=0.4)),
    "none": FilterConfig(names=()),
}
