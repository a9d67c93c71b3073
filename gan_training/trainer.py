"""Adversarial training with the hinge loss, and a moving average of the generator's weights.

Hinge loss: Lim and Ye 2017, Miyato et al. 2018. Moving average: Yazici et al. 2019; it is what is kept, because single
steps of the generator swing around the point they settle at. What each part is worth was measured:
docs/decisions/007-the-gan.md.
"""

from __future__ import annotations

import contextlib
import copy
import math
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import torch
import torch.nn.functional as F
from torch import nn
from torch.optim.swa_utils import update_bn

from diffgen.config import GanConfig
from diffgen.errors import RunError
from diffgen.events import Progress
from diffgen.gan_training import training_state
from diffgen.gan_training.augmentation import TRANSFORMATIONS, augment
from diffgen.gan_training.monitor import GanMonitor, Measurement, stand_still
from diffgen.gan_training.networks import (
    DcganDiscriminator,
    DcganGenerator,
    check_image_shape,
    to_uint8,
    to_unit,
)
from diffgen.gan_training.training_state import TrainingState
from diffgen.numerics import seeded


class Batches:
    """Draws rows at random; everything that is random comes from one generator of random numbers.

    Args:
        images: uint8 (N, C, H, W).
        labels: int64 (N,), or None for a GAN that is not conditional; they may have gaps, such as 3 and 7 alone.
        config: ``augment``, ``transformed``, ``batch_size`` and ``latent_dim`` are used.
        rng: on the CPU.
        device: where batches are wanted.

    Attributes:
        class_labels: int64 (classes,), ascending: the labels that there are; a conditional GAN knows each of them by
            its place here. Empty where the GAN is not conditional.
        images: how many there are, transformations included.
    """

    def __init__(
        self,
        images: torch.Tensor,
        labels: torch.Tensor | None,
        config: GanConfig,
        *,
        rng: torch.Generator,
        device: torch.device,
    ) -> None:
        self._config = config
        self._rng = rng
        self._device = device
        self._count = len(images)
        self._data = (augment(images, generator=rng) if config.augment else images).to(device)
        self.class_labels = torch.empty(0, dtype=torch.int64) if labels is None else labels.unique()
        self._classes = None if labels is None else torch.searchsorted(self.class_labels, labels).to(device)
        self.classes = len(self.class_labels)
        self.images = len(self._data)

    def draw(self) -> tuple[torch.Tensor, torch.Tensor | None]:
        """Real images float32 (batch_size, C, H, W) in [-1, 1], and their classes int64 (batch_size,) or None."""
        size = self._config.batch_size
        rows = torch.randint(self._count, (size,), generator=self._rng)
        chosen = rows
        if self._config.augment:
            transformed = torch.rand(size, generator=self._rng) < self._config.transformed
            which = torch.randint(1, len(TRANSFORMATIONS) + 1, (size,), generator=self._rng)
            # the images of each transformation stand behind the originals, in their order
            chosen = rows + self._count * which * transformed
        real = to_unit(self._data[chosen.to(self._device)]).contiguous(memory_format=torch.channels_last)
        return real, None if self._classes is None else self._classes[rows.to(self._device)]

    def latents(self, count: int, rng: torch.Generator | None = None) -> tuple[torch.Tensor, torch.Tensor | None]:
        """Latent vectors from the prior, as the generator takes them, and the classes in them, int64 (count,) or None.

        Args:
            rng: where random numbers come from, if not from the training's own.
        """
        rng = rng or self._rng
        values = torch.randn(count, self._config.latent_dim, generator=rng).to(self._device)
        if not self.classes:
            return values, None
        asked = torch.randint(self.classes, (count,), generator=rng).to(self._device)
        return self.with_class(values, asked), asked

    def with_class(self, values: torch.Tensor, labels: torch.Tensor | None) -> torch.Tensor:
        """Latent vectors float32 (N, latent_dim) with the class as one more value, where the GAN is conditional."""
        return values if labels is None else torch.cat([values, labels[:, None].to(values)], dim=1)


@dataclass(frozen=True)
class Schedule:
    """Passes over the training images, and the bounds of what they come to in updates."""

    passes: float
    fewest: int
    most: int


# Measured for MNIST's 10,000 test images: benchmarks/results/gan.md.
SCHEDULES: dict[str, Schedule] = {
    "quick": Schedule(passes=1.25, fewest=500, most=1_200),
    "default": Schedule(passes=2.25, fewest=1_800, most=8_000),
    "thorough": Schedule(passes=14, fewest=8_000, most=30_000),
}


def steps_between_readings(config: GanConfig, steps: int) -> int:
    """Updates from one reading of the collapse guard to the next, in a training of so many; the last comes sooner."""
    return math.ceil(steps / max(1, config.monitor_checks))


def number_of_steps(config: GanConfig, training_images: int) -> int:
    """Updates for a training set of this size (transformations included)."""
    if config.steps is not None:
        return config.steps
    schedule = SCHEDULES[config.schedule]
    passes = math.ceil(schedule.passes * training_images / config.batch_size)
    return min(max(passes, schedule.fewest), schedule.most)


_BETA1, _BETA2 = 0.0, 0.9  # of Adam: decay of the mean of gradients, and of that of squared ones
# as the kernel of Linux names what the processor can
_CPU_FLAGS = ("avx512_bf16", "amx_bf16")


def has_bfloat16(device: torch.device) -> bool:
    """Whether bfloat16 is fast on a device; elsewhere it is emulated, and slower than float32."""
    if device.type == "cuda":
        return torch.cuda.is_bf16_supported(including_emulation=False)
    if device.type != "cpu":
        return False
    try:
        known = set(Path("/proc/cpuinfo").read_text().split())
    except OSError:  # not Linux: float32 is always right
        return False
    return not known.isdisjoint(_CPU_FLAGS)


def autocast(device: torch.device, *, enabled: bool) -> AbstractContextManager[object]:
    """bfloat16 for convolutions and matrix products, or nothing."""
    return torch.autocast(device.type, dtype=torch.bfloat16) if enabled else contextlib.nullcontext()


_Network = TypeVar("_Network", bound=nn.Module)

_REPORT_EVERY = 10
_SECONDS_BETWEEN_SAVES = 60.0
# batch norm's averages are gathered anew for the averaged weights, over this many batches
_BATCH_NORM_BATCHES = 5
_BATCH_NORM_BATCH_SIZE = 256
# Learning rates decay linearly to zero over the last (1 - share) of the steps, but never before step 2,000: shorter
# runs do better with constant rates (benchmarks/results/gan.md).
_DECAY_FROM = 0.5
_DECAY_AFTER = 2_000


@dataclass(frozen=True)
class TrainedGan:
    """What training gives.

    Attributes:
        generator: the averaged generator, in eval mode, as it was at ``kept_step``.
        discriminator: as it was at ``kept_step``, in eval mode.
        losses: float32 (steps, 2): discriminator's and generator's loss.
        steps: updates made.
        kept_step: the step with the best measurement, or the last one where nobody watched.
        readings: what the guard saw, in the order of the steps; empty where nobody watched.
        training_images: images trained on, transformations included.
        bfloat16: whether the layers computed in bfloat16.
        seconds: time that the updates took, guard included.
        class_labels: the label that each class of a conditional GAN stands for, ascending; they may have gaps.
    """

    generator: DcganGenerator
    discriminator: DcganDiscriminator
    losses: torch.Tensor
    steps: int
    kept_step: int
    readings: tuple[Measurement, ...]
    training_images: int
    bfloat16: bool
    seconds: float
    class_labels: tuple[int, ...] = ()

    @property
    def kept(self) -> Measurement | None:
        """The measurement of what was kept."""
        return next((measurement for measurement in self.readings if measurement.step == self.kept_step), None)


def train(
    images: torch.Tensor,
    config: GanConfig,
    *,
    labels: torch.Tensor | None = None,
    monitor: GanMonitor | None = None,
    device: torch.device | str = "cpu",
    state: Path | None = None,
    progress: Progress | None = None,
    after_measurement: Callable[[Measurement], None] | None = None,
) -> TrainedGan:
    """Train generator and discriminator on images.

    It ends when the guard's marks stand still, unless ``config.steps`` says how long it takes.

    Args:
        images: uint8 (N, C, H, W), the real images to train on (without those held out).
        config: sizes, rates and seed; the same seed gives the same weights on the same machine.
        labels: int64 (N,); with ``config.conditional`` the GAN is conditional on them.
        monitor: the collapse guard, or None: the last step is kept.
        device: where to train.
        state: a file in which unfinished training is kept, and from which it is taken up; removed at the end.
        after_measurement: is told every measurement of the guard, and may raise to end a training that leads nowhere.

    Raises:
        UserError: no network fits the image size.
        RunError: the losses or the weights are no longer finite.
    """
    progress = progress or Progress()
    device = torch.device(device)
    image_shape = (images.shape[1], images.shape[2], images.shape[3])
    check_image_shape(image_shape)
    # one generator of random numbers on the CPU for everything: the order of draws is the same on every device
    rng = torch.Generator().manual_seed(config.seed)
    batches = Batches(images, labels if config.conditional else None, config, rng=rng, device=device)
    steps = number_of_steps(config, batches.images)
    half = config.bfloat16 if config.bfloat16 is not None else has_bfloat16(device)
    training = _begin(image_shape, batches.classes, config, steps, rng, device)
    if state is not None and state.is_file():
        training_state.load(state, training, progress)
    every = steps_between_readings(config, steps) if monitor is not None and config.monitor_checks else None
    saved = time.monotonic()
    with progress.stage("Training the GAN", total=steps) as task:
        while training.step < steps:
            started = time.monotonic()
            _update(training, batches, config, steps, half)
            if training.step % _REPORT_EVERY == 0 or training.step == steps:
                _check_finite(training, steps)
                task.reach(training.step, **_figures(training))
            measurement = None
            if monitor is not None and every and (training.step % every == 0 or training.step == steps):
                measurement = _read(training, monitor, batches)
            training.seconds += time.monotonic() - started
            if measurement is not None:
                if after_measurement is not None:
                    after_measurement(measurement)
                task.reach(training.step, **_figures(training))
                if config.steps is None and stand_still(training.readings, steps):
                    progress.say(
                        f"The GAN's marks stand still; its training ends after {training.step:,} of {steps:,} steps."
                    )
                    break
            if state is not None and time.monotonic() - saved > _SECONDS_BETWEEN_SAVES and training.step < steps:
                training_state.save(state, training)
                saved = time.monotonic()
    trained = _trained(training, batches, rng, steps, half)
    if state is not None:
        state.unlink(missing_ok=True)
    return trained


def _trained(training: TrainingState, batches: Batches, rng: torch.Generator, steps: int, half: bool) -> TrainedGan:
    """The networks at their best, where the guard measured them, else as they are. RunError if not finite."""
    if training.kept:
        training.averaged.load_state_dict(training.kept["averaged"])
        training.discriminator.load_state_dict(training.kept["discriminator"])
    else:
        training.kept_step = training.step
        _gather_batch_norm(training.averaged, batches, rng)
    if not (_finite(training.averaged) and _finite(training.discriminator)):
        raise _diverged(f"within {steps} steps: its weights are no longer finite numbers")
    # back from channels last, as they will be when read from a checkpoint: sums in another order differ a little
    return TrainedGan(
        generator=training.averaged.to(memory_format=torch.contiguous_format).eval(),
        discriminator=training.discriminator.to(memory_format=torch.contiguous_format).eval(),
        losses=training.losses[: training.step],
        steps=training.step,
        kept_step=training.kept_step,
        readings=tuple(training.readings),
        training_images=batches.images,
        bfloat16=half,
        seconds=training.seconds,
        class_labels=tuple(batches.class_labels.tolist()),
    )


def _begin(
    image_shape: tuple[int, int, int],
    classes: int,
    config: GanConfig,
    steps: int,
    rng: torch.Generator,
    device: torch.device,
) -> TrainingState:
    with seeded(config.seed):
        generator = _placed(
            DcganGenerator(image_shape, latent_dim=config.latent_dim, width=config.width, classes=classes), device
        )
        discriminator = _placed(DcganDiscriminator(image_shape, width=config.width, classes=classes), device)
    betas = (_BETA1, _BETA2)
    optimisers = {
        "generator": torch.optim.Adam(generator.parameters(), lr=config.learning_rate_generator, betas=betas),
        "discriminator": torch.optim.Adam(
            discriminator.parameters(), lr=config.learning_rate_discriminator, betas=betas
        ),
    }
    averaged = copy.deepcopy(generator).requires_grad_(False)
    return TrainingState(generator, discriminator, averaged, optimisers, rng, torch.zeros(steps, 2), device)


def _placed(network: _Network, device: torch.device) -> _Network:
    # channels last: the convolutions of both kinds of processor are quicker so
    return network.to(device).to(memory_format=torch.channels_last)


def _update(training: TrainingState, batches: Batches, config: GanConfig, steps: int, half: bool) -> None:
    """One update of the discriminator and one of the generator."""
    begin = max(_DECAY_FROM * steps, _DECAY_AFTER)
    fall = 1.0 if training.step <= begin else (steps - training.step) / (steps - begin)
    for role, rate in (
        ("generator", config.learning_rate_generator),
        ("discriminator", config.learning_rate_discriminator),
    ):
        training.optimisers[role].param_groups[0]["lr"] = rate * fall
    generator, discriminator = training.generator, training.discriminator
    device = training.device
    real, labels = batches.draw()
    latents, asked = batches.latents(config.batch_size)
    with autocast(device, enabled=half):
        fake = generator(latents)
        loss_discriminator = discriminator_loss(discriminator(real, labels), discriminator(fake.detach(), asked))
    training.optimisers["discriminator"].zero_grad(set_to_none=True)
    loss_discriminator.backward()
    training.optimisers["discriminator"].step()

    discriminator.requires_grad_(False)
    with autocast(device, enabled=half):
        loss_generator = generator_loss(discriminator(fake, asked))
    training.optimisers["generator"].zero_grad(set_to_none=True)
    loss_generator.backward()
    training.optimisers["generator"].step()
    discriminator.requires_grad_(True)

    # a short average at first, or it would hold the initial weights for long
    _average(training.averaged, generator, min(config.ema_decay, training.step / (training.step + 10)))
    training.losses[training.step, 0] = loss_discriminator.detach()
    training.losses[training.step, 1] = loss_generator.detach()
    training.step += 1


def discriminator_loss(real: torch.Tensor, fake: torch.Tensor) -> torch.Tensor:
    """Hinge loss of the scores (N,) of real and of generated images (Lim and Ye 2017)."""
    return F.relu(1 - real).mean() + F.relu(1 + fake).mean()


def generator_loss(fake: torch.Tensor) -> torch.Tensor:
    """What goes with the hinge loss: the scores (N,) of the generated images shall rise."""
    return -fake.mean()


def _figures(training: TrainingState) -> dict[str, float]:
    d_loss, g_loss = training.losses[training.step - 1].tolist()
    figures = {"d_loss": d_loss, "g_loss": g_loss}
    if training.readings:
        last = training.readings[-1]
        figures |= {"recognised_share": last.recognised, "covered_share": last.covered}
    return figures


def _check_finite(training: TrainingState, steps: int) -> None:
    if not torch.isfinite(training.losses[training.step - 1]).all():
        raise _diverged(f"at step {training.step} of {steps}: its loss is no longer a number")


def _diverged(where: str) -> RunError:
    return RunError(f"The training of the GAN diverged {where}; try smaller learning rates or another seed.")


def _read(training: TrainingState, monitor: GanMonitor, batches: Batches) -> Measurement:
    """Measure the averaged generator, and keep it if it is the best so far."""
    candidate = copy.deepcopy(training.averaged)
    # numbers of its own: whether somebody watches must not change what is trained
    _gather_batch_norm(candidate, batches, torch.Generator().manual_seed(training.step))
    candidate.eval()

    @torch.inference_mode()
    def draw(count: int, rng: torch.Generator) -> tuple[torch.Tensor, torch.Tensor | None]:
        latents, asked = batches.latents(count, rng)
        images = torch.cat([to_uint8(candidate(part)) for part in latents.split(_BATCH_NORM_BATCH_SIZE)])
        return images, None if asked is None else batches.class_labels[asked.cpu()]

    measurement = monitor.measure(training.step, draw)
    if not training.kept or measurement.score > max(each.score for each in training.readings):
        training.kept_step = training.step
        training.kept = {
            "averaged": _copied(candidate.state_dict()),
            "discriminator": _copied(training.discriminator.state_dict()),
        }
    training.readings.append(measurement)
    return measurement


def _copied(state: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    return {name: value.detach().clone() for name, value in state.items()}


def _finite(network: nn.Module) -> bool:
    return all(bool(torch.isfinite(value).all()) for value in network.state_dict().values())


@torch.no_grad()
def _average(averaged: nn.Module, current: nn.Module, decay: float) -> None:
    torch._foreach_lerp_(list(averaged.parameters()), list(current.parameters()), 1 - decay)


def _gather_batch_norm(network: nn.Module, batches: Batches, rng: torch.Generator) -> None:
    """Means and variances of every batch norm for the averaged weights, which no training step ever ran with."""
    update_bn((batches.latents(_BATCH_NORM_BATCH_SIZE, rng)[0] for _ in range(_BATCH_NORM_BATCHES)), network)
