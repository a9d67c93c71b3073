"""The domain encoder: a small network trained on the real images, whose features say what an image of this kind shows.

Features of networks trained on photographs say little about digits; a small auto-encoder trained on the domain itself
does better there. When labels are known its features must also tell the classes apart. It shares nothing with the
models under test, nor with any judge of the results.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn

from diffgen.events import Progress
from diffgen.features.one_cycle import OneCycleAdam
from diffgen.features.shrinking import LARGEST_SIDE, shrunk, shrunk_by_products, shrunk_shape
from diffgen.numerics import seeded
from diffgen.sampling import random_rows

FORMAT = "diffgen-encoder-3"
FEATURES = 64
_STEPS_GREY, _STEPS_COLOUR = 600, 900
_EPOCHS = 50  # at most: nobody waits for an encoder to learn few images by heart
_BATCH = 32
# At the height of its one cycle. Of some few large photographs the first rate leaves an encoder whose first layer is
# silent, and which gives all of them the same features; then the next one is tried, from the beginning.
_LEARNING_RATES = (6e-3, 2e-3, 6e-4)
_LOOKED_AT = 512  # real images
_TOLD_APART = 0.9  # share of the real images that differ
_ON_CPU = 64  # images at once; larger feature maps leave the cache


class DomainEncoder(nn.Module):
    """uint8 (N, C, H, W) to features float32 (N, 64); see :class:`diffgen.features.base.FeatureExtractor`.

    It sees images of at most 32 pixels a side: larger ones are averaged down.
    """

    name = "domain"

    def __init__(self, image_shape: tuple[int, int, int]) -> None:
        super().__init__()
        self.image_shape = image_shape
        channels, height, width = shrunk_shape(image_shape)
        self.body = nn.Sequential(
            nn.Conv2d(channels, 24, 4, stride=2, padding=1),
            nn.ReLU(),
            nn.Conv2d(24, 48, 4, stride=2, padding=1),
            nn.ReLU(),
            nn.Flatten(),
            nn.Linear(48 * (height // 4) * (width // 4), FEATURES),
        )

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        features: torch.Tensor = self.body(self._seen(images).to(torch.float32) / 255)
        return features

    def _seen(self, images: torch.Tensor) -> torch.Tensor:
        # not asked of small images, so that an exported encoder has no shapes to compute
        if max(self.image_shape[1:]) <= LARGEST_SIDE:
            return images
        return shrunk_by_products(images, self.image_shape) if torch.onnx.is_in_onnx_export() else shrunk(images)

    @torch.inference_mode()
    def encode(self, images: torch.Tensor, *, batch_size: int = 512) -> torch.Tensor:
        """Features of many images, uint8 (N, C, H, W), as float32 (N, 64) on the encoder's device."""
        device = next(self.parameters()).device
        if len(images) == 0:
            return torch.empty(0, FEATURES, device=device)
        size = min(batch_size, _ON_CPU) if device.type == "cpu" else batch_size
        return torch.cat([self(batch.to(device)) for batch in images.split(size)])


def train(
    images: torch.Tensor,
    labels: torch.Tensor | None,
    *,
    image_shape: tuple[int, int, int] | None = None,
    seed: int = 0,
    device: torch.device | str = "cpu",
    progress: Progress | None = None,
) -> DomainEncoder:
    """Train an encoder on real images.

    Args:
        images: uint8 (N, C, H, W), or what :func:`diffgen.features.shrinking.shrunk` made of them.
        labels: int64 (N,), or None.
        image_shape: (C, H, W) of the images that it will be asked about; None: as those that are given.
        seed: of initial weights and the order of images.
        progress: told how far it is, and warned where the encoder tells few of the images apart.
    """
    image_shape = (images.shape[1], images.shape[2], images.shape[3]) if image_shape is None else image_shape
    images, progress = shrunk(images), progress or Progress()  # shrunk once, and not for every batch
    (first, *lower), stage = _LEARNING_RATES, "Learning the image domain"
    encoder = _trained(images, labels, image_shape, first, seed, device, progress, stage)
    for number, rate in enumerate(lower, 2):
        if tells_apart(encoder, images):
            return encoder
        again = f"{stage}, try {number} of at most {len(_LEARNING_RATES)}"
        encoder = _trained(images, labels, image_shape, rate, seed, device, progress, again)
    if not tells_apart(encoder, images):
        progress.warn(
            "The domain encoder learnt to tell few of the real images apart, so that behaviours are counted by labels "
            "rather than by what the pictures show; more real images, or more different ones, would mend that."
        )
    return encoder


def tells_apart(encoder: DomainEncoder, images: torch.Tensor) -> bool:
    """Whether images that differ, uint8 (N, C, H, W), have features that differ, but for a few; some are looked at."""
    some = images[torch.from_numpy(random_rows(len(images), _LOOKED_AT))]
    shown, told = (len(torch.unique(each.flatten(1), dim=0)) for each in (some, encoder.encode(some)))
    return told >= _TOLD_APART * shown


def _trained(
    images: torch.Tensor,
    labels: torch.Tensor | None,
    image_shape: tuple[int, int, int],
    learning_rate: float,
    seed: int,
    device: torch.device | str,
    progress: Progress,
    stage: str,
) -> DomainEncoder:
    rng = torch.Generator().manual_seed(seed)
    channels, height, width = shrunk_shape(image_shape)
    classes = 0 if labels is None else int(labels.max()) + 1
    with seeded(seed):
        encoder = DomainEncoder(image_shape).to(device)
        decoder = nn.Linear(FEATURES, channels * height * width).to(device)
        classifier = nn.Linear(FEATURES, max(classes, 1)).to(device)
    parameters = [*encoder.parameters(), *decoder.parameters(), *classifier.parameters()]
    steps = min(_STEPS_GREY if channels == 1 else _STEPS_COLOUR, -(-_EPOCHS * len(images) // _BATCH))
    encoder.to(memory_format=torch.channels_last)  # a quarter faster on a CPU
    cycle = OneCycleAdam(parameters, learning_rate, steps)
    with progress.stage(stage, total=steps) as task:
        for _ in range(steps):
            rows = torch.randint(len(images), (_BATCH,), generator=rng)
            batch = images[rows].to(device).contiguous(memory_format=torch.channels_last)
            features = encoder(batch)
            target = batch.flatten(1).to(torch.float32) / 255
            # summed over pixels, so that drawing and classifying weigh about the same
            loss = F.mse_loss(decoder(features), target, reduction="sum") / _BATCH
            if labels is not None:
                loss = loss + 10 * F.cross_entropy(classifier(features), labels[rows].to(device))
            cycle.update(loss)
            task.advance()
    # as one that is loaded from its file
    return encoder.eval().requires_grad_(False).to(memory_format=torch.contiguous_format)
