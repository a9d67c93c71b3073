"""The collapse guard of a tuning trial: it also notes the kernel inception distance of what it reads."""

from __future__ import annotations

from collections.abc import Callable

import torch

from diffgen.gan_training.kid import squared_discrepancy
from diffgen.gan_training.watch import Reading, Watch


class KidWatch(Watch):
    """See :class:`diffgen.gan_training.watch.Watch`.

    Attributes:
        kid: that of the last reading, on all images of the reading at once.
    """

    kid: float = float("nan")

    def look(
        self, step: int, draw: Callable[[int, torch.Generator], tuple[torch.Tensor, torch.Tensor | None]]
    ) -> Reading:
        """Measure a generator, see the base class, and note its KID."""
        images, asked = draw(self.images, torch.Generator().manual_seed(0))
        self.kid = squared_discrepancy(self._real, self._extractor.encode(images).cpu())
        return super().look(step, lambda count, rng: (images, asked))
