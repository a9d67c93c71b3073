"""What a source of images is."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

import torch

from diffgen.origins import Origins
from diffgen.sources.space import Space


@runtime_checkable
class Source(Protocol):
    """Draws images from genes. An image is a pure function of its own genes, so that stored genes redraw it.

    Drawing and saying where an image comes from are two methods, since drawing is tried again in smaller pieces where
    memory is too small, and since many callers want the images alone.

    Attributes:
        space: of the genes.
        image_shape: (C, H, W) of what it draws.
    """

    space: Space
    image_shape: tuple[int, int, int]

    def draw(self, genes: torch.Tensor) -> torch.Tensor:
        """Images for genes.

        Args:
            genes: float32 (N, space.length).

        Returns:
            uint8 (N, C, H, W) on the source's device; an image never depends on its neighbours in the batch.
        """
        ...

    def origins(self, genes: torch.Tensor) -> Origins | None:
        """The real images that these were made from, and how; None where images are not made from real ones."""
        ...
