"""Networks trained on ImageNet, as feature extractors: their weights, and how images are prepared for them."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.error import URLError

import torch
import torch.nn.functional as F
from torch import nn

from diffgen.errors import UserError
from diffgen.home import expanded
from diffgen.runs.opening import open_regular
from diffgen.wording import told_by

# of the colours of ImageNet, for red, green and blue in [0, 1], as torchvision's weights were trained with
MEAN = (0.485, 0.456, 0.406)
STD = (0.229, 0.224, 0.225)

_COUNTER = "num_batches_tracked"  # of batch norm's training; files of other programs leave it out
_NAMED = 3


def find_weights(name: str, published: Any, given: str | os.PathLike[str] | None) -> dict[str, torch.Tensor]:
    """The weights of a network: those of a file, or those that torchvision publishes.

    Args:
        name: of the network, for messages.
        published: member of one of torchvision's enumerations of weights; torchvision looks in its own cache first and
            downloads what is not there.
        given: a state_dict in a safetensors file or one of torch.save, or None. Nothing but tensors is read from it.

    Raises:
        UserError: the file cannot be read as weights, or torchvision cannot get at its own.
    """
    if given is not None:
        return _read(expanded(given))
    try:
        weights: dict[str, torch.Tensor] = published.get_state_dict(
            progress=False, check_hash=True, map_location="cpu", weights_only=True
        )
    except (URLError, OSError) as error:
        reason = getattr(error, "reason", None) or error
        raise UserError(
            f"The weights of {name} are not on this computer and cannot be downloaded ({reason}); fetch "
            f"{published.url} elsewhere and name the file with --features-weights."
        ) from error
    except Exception as error:  # a damaged file fails in many ways
        kept = Path(torch.hub.get_dir()) / "checkpoints" / Path(published.url).name
        raise UserError(
            f"The weights of {name} that torchvision keeps in {kept} cannot be read ({told_by(error)}); delete "
            "that file, and they are downloaded again."
        ) from error
    return weights


def _read(path: Path) -> dict[str, torch.Tensor]:
    from safetensors.torch import load_file

    try:
        with open_regular(path) as file:
            head = file.read(9)
        content = load_file(path) if head[8:] == b"{" else torch.load(path, map_location="cpu", weights_only=True)
    except OSError as error:
        raise UserError(
            f"The weights {path} cannot be read ({error.strerror or error}); give a safetensors or .pth file with "
            "--features-weights."
        ) from error
    except Exception as error:  # a damaged file fails in many ways
        raise UserError(
            f"The weights {path} cannot be read as a state_dict ({told_by(error)}); give a safetensors file, or "
            "one that torch.save(network.state_dict()) wrote."
        ) from error
    if not isinstance(content, dict) or not all(isinstance(value, torch.Tensor) for value in content.values()):
        raise UserError(f"{path} holds more than the weights of a network; save network.state_dict() alone.")
    return {str(name): value for name, value in content.items()}


def fill(network: nn.Module, weights: dict[str, torch.Tensor], *, prefix: str, name: str) -> nn.Module:
    """A network without weights (on the device "meta") with those weights, in evaluation mode and frozen.

    Args:
        network: all of it must be among the weights; what else they hold is left out.
        weights: names begin with ``prefix`` where the network's own do not.
        name: of the network, for messages.

    Raises:
        UserError: they are another network's, or hold NaN or infinite numbers.
    """
    wanted = network.state_dict()
    found = {
        each: weights.get(f"{prefix}{each}", torch.zeros((), dtype=torch.int64) if each.endswith(_COUNTER) else None)
        for each in wanted
    }
    wrong = [f"{prefix}{each}" for each, value in found.items() if value is None or value.shape != wanted[each].shape]
    if wrong:
        raise UserError(
            f"The weights are not those of {name} as torchvision builds it: {len(wrong)} are missing or have another "
            f"shape ({', '.join(wrong[:_NAMED])}{', ...' if len(wrong) > _NAMED else ''}); give its state_dict with "
            "--features-weights."
        )
    # of the whole file: torchvision's VGG16 for detection, which wants other pre-processing, has NaN in its classifier
    if not all(bool(value.isfinite().all()) for value in weights.values()):
        raise UserError(
            f"The weights hold numbers that are not finite; give those that torchvision publishes for {name} as "
            "IMAGENET1K_V1."
        )
    network.load_state_dict(found, assign=True)
    return network.float().eval().requires_grad_(False)


def rgb_pixels(images: torch.Tensor, side: int) -> torch.Tensor:
    """Red, green and blue in [0, 1], float32 (N, 3, side, side), of images uint8 (N, C, H, W); grey is copied."""
    pixels = images.to(torch.float32) / 255
    if pixels.shape[1] == 1:
        pixels = pixels.expand(-1, 3, -1, -1)
    if pixels.shape[2:] == (side, side):
        return pixels
    return F.interpolate(pixels, (side, side), mode="bilinear", align_corners=False, antialias=True)


def in_batches(
    encode: Callable[[torch.Tensor], torch.Tensor],
    images: torch.Tensor,
    *,
    batch_size: int,
    device: torch.device,
    features: int,
) -> torch.Tensor:
    """float32 (N, features) of images uint8 (N, C, H, W), ``batch_size`` of which are moved to the device at once."""
    if len(images) == 0:
        return torch.empty(0, features, device=device)
    with torch.inference_mode():
        return torch.cat([encode(batch.to(device)) for batch in images.split(batch_size)])


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


VGG_SIDE = 48
VGG_FEATURES = 512  # of its last pooling


class Vgg16:
    """Images uint8 (N, C, H, W) to features float32 (N, 512), or (N, 4608); see :class:`FeatureExtractor`.

    Args:
        weights: a state_dict of torchvision's VGG16, safetensors or .pth, of which ``features.*`` is enough; or None:
            those that torchvision finds or downloads (IMAGENET1K_V1).
        device: where it computes.

    Raises:
        UserError: there are no weights, or they are not VGG16's.

    Attributes:
        network: the layers, from normalised pixels float32 (N, 3, 48, 48).
    """

    name = "vgg16"

    def __init__(self, weights: str | os.PathLike[str] | None = None, *, device: torch.device | str = "cpu") -> None:
        from torchvision.models import VGG16_Weights, vgg16

        self._device = torch.device(device)
        state = find_weights(self.name, VGG16_Weights.IMAGENET1K_V1, weights)
        with torch.device("meta"):  # draws no random weights, of which there would be 138 million
            network = vgg16(weights=None, init_weights=False).features
        self.network = fill(network, state, prefix="features.", name=self.name).to(self._device)
        self._mean, self._std = (torch.tensor(each, device=self._device).reshape(3, 1, 1) for each in (MEAN, STD))

    def encode(self, images: torch.Tensor, *, batch_size: int = 64) -> torch.Tensor:
        """See :meth:`FeatureExtractor.encode`."""
        return in_batches(self._encode, images, batch_size=batch_size, device=self._device, features=VGG_FEATURES)

    def _encode(self, images: torch.Tensor) -> torch.Tensor:
        features: torch.Tensor = self.network((rgb_pixels(images, VGG_SIDE) - self._mean) / self._std)
        return features.flatten(1)
