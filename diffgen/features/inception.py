"""Inception v3 (Szegedy et al. 2016), trained on ImageNet: the features that FID and KID are named after.

The published figures of other people come from the weights of TensorFlow's release of 2015. torchvision's are of
another release, so that scores of these features can be compared with each other only.
"""

from __future__ import annotations

import os

import torch
from torch import nn

from diffgen.features.pretrained import fill, find_weights, in_batches, rgb_pixels

SIDE = 299
FEATURES = 2048


class InceptionV3:
    """Images uint8 (N, C, H, W) to the features of the last pooling, float32 (N, 2048); see :class:`FeatureExtractor`.

    Args:
        weights: a state_dict of torchvision's Inception v3, safetensors or .pth, with or without ``fc.*`` and
            ``AuxLogits.*``; or None: those that torchvision finds or downloads (IMAGENET1K_V1).
        device: where it computes.

    Raises:
        UserError: there are no weights, or they are not Inception v3's.
    """

    name = "inception"

    def __init__(self, weights: str | os.PathLike[str] | None = None, *, device: torch.device | str = "cpu") -> None:
        from torchvision.models import Inception_V3_Weights, inception_v3

        self._device = torch.device(device)
        state = find_weights(self.name, Inception_V3_Weights.IMAGENET1K_V1, weights)
        with torch.device("meta"):  # draws no random weights
            network = inception_v3(weights=None, init_weights=False, transform_input=False)
            network.AuxLogits, network.fc, network.dropout = None, nn.Identity(), nn.Identity()
        self._network = fill(network, state, prefix="", name=self.name).to(self._device)

    def encode(self, images: torch.Tensor, *, batch_size: int = 64) -> torch.Tensor:
        """See :meth:`FeatureExtractor.encode`."""
        return in_batches(self._encode, images, batch_size=batch_size, device=self._device, features=FEATURES)

    def _encode(self, images: torch.Tensor) -> torch.Tensor:
        # trained with (x - 0.5) / 0.5; torchvision takes ImageNet's mean and std and undoes them (transform_input)
        features: torch.Tensor = self._network(rgb_pixels(images, SIDE) * 2 - 1)
        return features
