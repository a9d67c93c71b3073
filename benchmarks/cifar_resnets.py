"""The ResNets for CIFAR of He et al. (2016), section 4.2, as factories for ``--arch``.

Names and shapes are those of the published weights of github.com/akamaster/pytorch_resnet_cifar10 (shortcuts of kind A:
what is missing is padded with zeros).
"""

from __future__ import annotations

from pathlib import Path

import torch
import torch.nn.functional as F
from torch import nn
from torchvision.transforms import v2

MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)  # ImageNet's, which these were trained with


class Block(nn.Module):
    """Two convolutions and a shortcut."""

    def __init__(self, inside: int, outside: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inside, outside, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(outside)
        self.conv2 = nn.Conv2d(outside, outside, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(outside)
        self.stride, self.pad = stride, (outside - inside) // 2

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.bn2(self.conv2(F.relu(self.bn1(self.conv1(x)))))
        if self.pad:
            x = F.pad(x[:, :, :: self.stride, :: self.stride], (0, 0, 0, 0, self.pad, self.pad))
        return F.relu(x + y)


class ResNet(nn.Module):
    """Logits of ten classes for 3x32x32 images, mean and std applied."""

    def __init__(self, blocks: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(3, 16, 3, 1, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(16)
        self.layer1, self.layer2, self.layer3 = (
            nn.Sequential(*(Block(inside if i == 0 else width, width, stride if i == 0 else 1) for i in range(blocks)))
            for inside, width, stride in [(16, 16, 1), (16, 32, 2), (32, 64, 2)]
        )
        self.linear = nn.Linear(64, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.layer3(self.layer2(self.layer1(F.relu(self.bn1(self.conv1(x))))))
        return self.linear(x.mean(dim=(2, 3)))


def resnet20() -> ResNet:
    return ResNet(3)


def resnet32() -> ResNet:
    return ResNet(5)


def published(folder: Path) -> dict[str, nn.Module]:
    """Both with their published weights, for images float32 (N, 3, 32, 32) in 0..1."""
    scale = v2.Normalize(MEAN, STD)
    networks: dict[str, nn.Module] = {"ResNet-20": resnet20(), "ResNet-32": resnet32()}
    for name, network in networks.items():
        file = folder / f"{name.replace('-', '').lower()}.state_dict.th"
        weights = torch.load(file, map_location="cpu", weights_only=True)["state_dict"]
        network.load_state_dict({key.removeprefix("module."): value for key, value in weights.items()})
    return {name: nn.Sequential(scale, network).eval().requires_grad_(False) for name, network in networks.items()}
