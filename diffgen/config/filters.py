"""The validity filters and their presets."""

from __future__ import annotations

from dataclasses import dataclass

from diffgen.errors import UserError

FILTERS = ("discriminator", "reconstruction", "ssim", "neighbors")


@dataclass(frozen=True)
class FilterConfig:
    """The validity filters (DiffGAN, section 3.6; ``FILTER_PRESETS`` has the published ones).

    Attributes:
        names: which filters, in the order in which they are asked; see :mod:`diffgen.filters`.
        false_alarm: share of held-out real images that all filters together may reject. Thresholds that are None are
            found so that this share is kept.
        discriminator_threshold, reconstruction_threshold, ssim_threshold, neighbors_threshold: lowest score that
            passes, or None to have it found.
        ssim_neighbors: how many nearest real images (cosine, pixels) SSIM is computed with; the best counts.
        near_duplicate: correlation of their thumbnails from which on two triggers of one label pair count as one.
        training_steps: updates of the auto-encoder of the reconstruction filter.

    Raises:
        UserError: a filter that is not known, or one named twice.
    """

    names: tuple[str, ...] = ("discriminator", "reconstruction", "ssim")
    false_alarm: float = 0.05
    discriminator_threshold: float | None = None
    reconstruction_threshold: float | None = None
    ssim_threshold: float | None = None
    neighbors_threshold: float | None = None
    ssim_neighbors: int = 10
    near_duplicate: float = 0.95
    training_steps: int = 1200

    def __post_init__(self) -> None:
        for name in self.names:
            if name not in FILTERS:
                raise UserError(f"The filter {name!r} is not known; known are {', '.join(FILTERS)}.")
        if len(set(self.names)) < len(self.names):
            raise UserError(f"The filters {', '.join(self.names)} name one of them twice; name each once.")


# "paper" is DiffGAN, section 3.6: SSIM of at least 0.4, and a discriminator whose threshold the paper leaves open
FILTER_PRESETS = {
    "default": FilterConfig(),
    "paper": FilterConfig(names=("discriminator", "ssim"), ssim_threshold=0.4),
    "none": FilterConfig(names=()),
}
