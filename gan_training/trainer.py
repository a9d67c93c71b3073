"""Adversarial training with the hinge loss, and a moving average of the generator's weights.

Hinge loss: Lim and Ye 2017, Miyato et al. 2018. Two learning rates: Heusel et al. 2017. Moving average: Yazici et al.
2019; it is what is kept, because single steps of the generator swing around the point they settle at.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Iterator
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import nn

from diffgen.config import GanConfig
from diffgen.errors import RunError
from diffgen.gan_training.augmentation import augment
from diffgen.gan_training.networks import DcganDiscriminator, DcganGenerator, check_image_shape, to_unit
from diffgen.types import Progress

# Steps when the user names none: enough passes over a small set, and a bound that 2 cores reach in some minutes.
_PASSES = 30
_FEWEST_STEPS = 1_000
_MOST_STEPS = 6_000
_REPORT_EVERY = 10
# batch norm's averages are gathered anew for the averaged weights, over this many batches
_BATCH_NORM_BATCHES = 50
_BATCH_NORM_BATCH_SIZE = 256


@dataclass(frozen=True)
class TrainedGan:
    """What training gives.

    Attributes:
        generator: the averaged generator, in eval mode.
        discriminator: as it was at the last step, in eval mode.
        losses: float32 (steps, 2): discriminator's and generator's loss.
        steps: updates made.
        training_images: images trained on, transformations included.
    """

    generator: DcganGenerator
    discriminator: DcganDiscriminator
    losses: torch.Tensor
    steps: int
    training_images: int


def number_of_steps(config: GanConfig, training_images: int) -> int:
    """Updates for a training set of this size (transformations included)."""
    if config.steps is not None:
        return config.steps
    passes = math.ceil(_PASSES * training_images / config.batch_size)
    return min(max(passes, _FEWEST_STEPS), _MOST_STEPS)


def train(
    images: torch.Tensor, config: GanConfig, *, device: torch.device | str = "cpu", progress: Progress | None = None
) -> TrainedGan:
    """Train generator and discriminator on images.

    Args:
        images: uint8 (N, C, H, W), the real images to train on (without those held out).
        config: sizes, rates and seed; the same seed gives the same weights on the same machine.
        device: where to train.
        progress: draws the bar.

    Raises:
        UserError: no network fits the image size.
        RunError: the losses or the weights are no longer finite.
    """
    progress = progress or Progress()
    image_shape = (images.shape[1], images.shape[2], images.shape[3])
    check_image_shape(image_shape)
    # one generator of random numbers on the CPU for everything: the order of draws is the same on every device
    rng = torch.Generator().manual_seed(config.seed)
    data = augment(images, generator=rng) if config.augment else images
    data = data.to(device)
    with torch.random.fork_rng(devices=[]):
        # not torch.manual_seed, which also seeds the generators of every GPU
        torch.default_generator.manual_seed(config.seed)
        generator = DcganGenerator(image_shape, latent_dim=config.latent_dim, width=config.width).to(device)
        discriminator = DcganDiscriminator(image_shape, width=config.width).to(device)
    averaged = copy.deepcopy(generator).requires_grad_(False)
    betas = (config.beta1, config.beta2)
    step_generator = torch.optim.Adam(generator.parameters(), lr=config.learning_rate_generator, betas=betas)
    step_discriminator = torch.optim.Adam(
        discriminator.parameters(), lr=config.learning_rate_discriminator, betas=betas
    )
    steps = number_of_steps(config, len(data))
    losses = torch.zeros(steps, 2)
    rows = _endless_rows(len(data), config.batch_size, rng)
    with progress.task("Training the GAN", total=steps) as task:
        for step in range(steps):
            real = to_unit(data[next(rows).to(device)])
            latents = torch.randn(config.batch_size, config.latent_dim, generator=rng).to(device)
            fake = generator(latents)

            loss_discriminator = (
                F.relu(1 - discriminator(real)).mean() + F.relu(1 + discriminator(fake.detach())).mean()
            )
            step_discriminator.zero_grad(set_to_none=True)
            loss_discriminator.backward()
            step_discriminator.step()

            discriminator.requires_grad_(False)
            loss_generator = -discriminator(fake).mean()
            step_generator.zero_grad(set_to_none=True)
            loss_generator.backward()
            step_generator.step()
            discriminator.requires_grad_(True)

            _average(averaged, generator, config.ema_decay)
            losses[step, 0], losses[step, 1] = loss_discriminator.detach(), loss_generator.detach()
            if step % _REPORT_EVERY == _REPORT_EVERY - 1 or step == steps - 1:
                if not torch.isfinite(losses[step]).all():
                    raise RunError(
                        f"The training of the GAN diverged at step {step + 1} of {steps}: its loss is no longer a "
                        "number; try smaller learning rates or another seed."
                    )
                task.reach(step + 1, d_loss=f"{losses[step, 0]:.2f}", g_loss=f"{losses[step, 1]:.2f}")
    _gather_batch_norm(averaged, config.latent_dim, rng, device)
    if not (_finite(averaged) and _finite(discriminator)):
        raise RunError(
            f"The training of the GAN diverged within {steps} steps: its weights are no longer finite numbers; "
            "try smaller learning rates or another seed."
        )
    return TrainedGan(
        generator=averaged.eval(),
        discriminator=discriminator.eval(),
        losses=losses,
        steps=steps,
        training_images=len(data),
    )


def _endless_rows(count: int, batch_size: int, rng: torch.Generator) -> Iterator[torch.Tensor]:
    """Row numbers of batches, for ever: every row once in each pass, a new order for each pass."""
    while True:
        order = torch.randperm(count, generator=rng)
        batches = [batch for batch in order.split(batch_size) if len(batch) == batch_size]
        yield from batches or [order.repeat(math.ceil(batch_size / count))[:batch_size]]


def _finite(network: nn.Module) -> bool:
    return all(bool(torch.isfinite(value).all()) for value in network.state_dict().values())


@torch.no_grad()
def _average(averaged: nn.Module, current: nn.Module, decay: float) -> None:
    torch._foreach_lerp_(list(averaged.parameters()), list(current.parameters()), 1 - decay)


@torch.no_grad()
def _gather_batch_norm(network: nn.Module, latent_dim: int, rng: torch.Generator, device: torch.device | str) -> None:
    """Means and variances of every batch norm for the averaged weights, which no training step ever ran with."""
    layers = [layer for layer in network.modules() if isinstance(layer, nn.BatchNorm2d)]
    for layer in layers:
        layer.reset_running_stats()
        layer.momentum = None  # a plain mean over all batches that follow
    network.train()
    for _ in range(_BATCH_NORM_BATCHES):
        network(torch.randn(_BATCH_NORM_BATCH_SIZE, latent_dim, generator=rng).to(device))
    for layer in layers:
        layer.momentum = 0.1
