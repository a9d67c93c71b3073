"""The GAN's discriminator as a filter (paper, section 3.6.1)."""

from __future__ import annotations

import torch

from diffgen.types import Scorer


class DiscriminatorFilter:
    """Passes what a discriminator takes for real.

    The paper names no threshold. Unless one is given, it is the score that a stated share of held-out real images stays
    below.

    Args:
        scorer: any scorer of realism; usually the discriminator that was trained with the generator.
        threshold: lowest score that passes, or None to find it.
        false_alarm: share of held-out real images that may be rejected, when the threshold is to be found.
        batch_size: images scored at once.
    """

    name = "discriminator"

    def __init__(
        self, scorer: Scorer, *, threshold: float | None = None, false_alarm: float = 0.05, batch_size: int = 256
    ) -> None:
        self._scorer = scorer
        self._given = threshold
        self._false_alarm = false_alarm
        self._batch_size = batch_size
        self.threshold = float("nan") if threshold is None else threshold
        self.description = "Score of the GAN's discriminator; threshold given by the user."

    def fit(self, reference: torch.Tensor, held_out: torch.Tensor) -> None:
        """Find the threshold on the held-out real images, if none was given."""
        if self._given is None:
            self.threshold = float(torch.quantile(self.score(held_out), self._false_alarm))
            self.description = (
                f"Score of the GAN's discriminator; the threshold rejects {self._false_alarm:.0%} of "
                f"{len(held_out)} held-out real images."
            )

    def score(self, images: torch.Tensor) -> torch.Tensor:
        """float32 (N,) for uint8 (N, C, H, W), on the CPU."""
        if len(images) == 0:
            return torch.empty(0)
        return torch.cat([self._scorer.score(batch).cpu() for batch in images.split(self._batch_size)])
