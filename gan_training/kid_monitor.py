"""The collapse guard of a tuning trial: it also notes the kernel inception distance of what it reads."""

from __future__ import annotations

from collections.abc import Callable

import torch

from diffgen.gan_training.kid import squared_discrepancy
from diffgen.gan_training.monitor import GanMonitor, Measurement


class KidMonitor(GanMonitor):
    """See :class:`diffgen.gan_training.monitor.GanMonitor`.

    Attributes:
        kid: that of the last measurement, on all images of the measurement at once.
    """

    kid: float = float("nan")

    def measure(
        self, step: int, draw: Callable[[int, torch.Generator], tuple[torch.Tensor, torch.Tensor | None]]
    ) -> Measurement:
        """Measure a generator, see the base class, and note its KID."""
        images, asked = draw(self.images, torch.Generator().manual_seed(0))
        self.kid = squared_discrepancy(self._real, self._extractor.encode(images).cpu())
        return super().measure(step, lambda count, rng: (images, asked))
