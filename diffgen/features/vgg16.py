"""VGG16 (Simonyan and Zisserman 2015), trained on ImageNet: features for diversity and for the selector.

The published code of DiffGAN takes ``block5_pool`` for its selector and ``block5_conv3`` for geometric diversity, both
of images scaled to 48x48. It leaves out the pre-processing that the network was trained with; here it is done.
"""

from __future__ import annotations

import os
from typing import Literal

import torch

from diffgen.features.pretrained import MEAN, STD, fill, find_weights, in_batches, rgb_pixels

SIDE = 48
VggLayer = Literal["block5_pool", "block5_conv3"]
# layers of torchvision's vgg16().features up to and with the one named (and its ReLU), and length of the features
_LAYERS: dict[VggLayer, tuple[int, int]] = {"block5_pool": (31, 512), "block5_conv3": (30, 512 * 3 * 3)}


class Vgg16:
    """Images uint8 (N, C, H, W) to features float32 (N, 512), or (N, 4608); see :class:`FeatureExtractor`.

    Args:
        weights: a state_dict of torchvision's VGG16, safetensors or .pth, of which ``features.*`` is enough; or None:
            those that torchvision finds or downloads (IMAGENET1K_V1).
        layer: "block5_pool": 512 features; "block5_conv3": 4608, a map of 512 x 3 x 3 after its ReLU, flattened.
        device: where it computes.

    Raises:
        UserError: there are no weights, or they are not VGG16's.

    Attributes:
        network: the layers, from normalised pixels float32 (N, 3, 48, 48).
    """

    name = "vgg16"

    def __init__(
        self,
        weights: str | os.PathLike[str] | None = None,
        *,
        layer: VggLayer = "block5_pool",
        device: torch.device | str = "cpu",
    ) -> None:
        from torchvision.models import VGG16_Weights, vgg16

        depth, self._features = _LAYERS[layer]
        self._device = torch.device(device)
        state = find_weights(self.name, VGG16_Weights.IMAGENET1K_V1, weights)
        with torch.device("meta"):  # draws no random weights, of which there would be 138 million
            network = vgg16(weights=None, init_weights=False).features[:depth]
        self.network = fill(network, state, prefix="features.", name=self.name).to(self._device)
        self._mean, self._std = (torch.tensor(each, device=self._device).reshape(3, 1, 1) for each in (MEAN, STD))

    def encode(self, images: torch.Tensor, *, batch_size: int = 64) -> torch.Tensor:
        """See :meth:`FeatureExtractor.encode`."""
        return in_batches(self._encode, images, batch_size=batch_size, device=self._device, features=self._features)

    def _encode(self, images: torch.Tensor) -> torch.Tensor:
        features: torch.Tensor = self.network((rgb_pixels(images, SIDE) - self._mean) / self._std)
        return features.flatten(1)
