"""Sources that encode images exactly and at once, for techniques that search from encoded images."""

from __future__ import annotations

import torch

from diffgen.origins import Origins
from diffgen.sources.space import Box, WithClass


class PixelSource:
    """Its genes are the pixels themselves, between 0 and 1."""

    image_shape = (1, 28, 28)

    def __init__(self) -> None:
        self.space = Box(784)
        self.encoded = 0

    def draw(self, genes: torch.Tensor) -> torch.Tensor:
        return (genes[:, :784].clamp(0, 1) * 255).round().to(torch.uint8).unflatten(1, self.image_shape)

    def encode(self, images: torch.Tensor, labels: torch.Tensor | None = None) -> torch.Tensor:
        self.encoded += len(images)
        return images.flatten(1).float() / 255

    def origins(self, genes: torch.Tensor) -> Origins | None:
        return None


class PixelSourceWithClass(PixelSource):
    """The same with the class of the image as its last gene, which draws nothing."""

    def __init__(self) -> None:
        super().__init__()
        self.space = WithClass(Box(784), 10)

    def encode(self, images: torch.Tensor, labels: torch.Tensor | None = None) -> torch.Tensor:
        assert labels is not None
        return torch.cat([super().encode(images), labels[:, None].float()], dim=1)


class BrightScorer:
    """Takes the brighter picture for the more real one."""

    def score(self, images: torch.Tensor) -> torch.Tensor:
        return images.float().mean(dim=(1, 2, 3))
