"""Trains networks on the real images: the rate falls at the end, it is watched, and taken up where it was left off."""

from __future__ import annotations

import copy
import time
from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Generic, Protocol, TypeVar

import torch
from torch import nn

from diffgen.errors import RunError, Stopped
from diffgen.events import Progress
from diffgen.gan_training.trainer import autocast, has_bfloat16
from diffgen.runs.artifacts import read_tensors, restore_training, training_tensors, write_tensors
from diffgen.sampling import random_rows

_FORMAT = "diffgen-training-1"
_REPORT_EVERY = 10
_SECONDS_BETWEEN_SAVES = 60.0
_WARM_UP = 100  # steps
_FALLS_FOR = 0.4  # share of the steps over which the rate falls to zero
_CHECKS = 12
# Training that stands still: the latest readings together are hardly better than the best before. The rate falls then
# at once, because that alone still brings something.
_PATIENCE, _GAIN = 3, 0.02
_MEASURED = 512  # held-out images that a reading looks at


class Lesson(Protocol):
    """What is learnt: the networks, what one update does, and how far they are.

    Attributes:
        networks: all that training changes, by name.
        optimisers: those that change them, by name; their rates are those of the beginning.
    """

    @property
    def networks(self) -> Mapping[str, nn.Module]: ...

    @property
    def optimisers(self) -> Mapping[str, torch.optim.Optimizer]: ...

    def update(self, images: torch.Tensor, rng: torch.Generator) -> Mapping[str, torch.Tensor]:
        """One update of all networks; returns the losses by name.

        Args:
            images: uint8 (B, C, H, W) on the device.
            rng: on the CPU, where all random numbers come from.
        """
        ...

    def error(self, images: torch.Tensor) -> float:
        """How badly the networks do on held-out images uint8 (N, C, H, W); it computes without random numbers."""
        ...


_Network = TypeVar("_Network", bound=nn.Module)


class OneNetwork(Generic[_Network]):
    """What a :class:`Lesson` needs in which Adam changes one network.

    Args:
        name: of the network among those that training keeps.
        rate: of learning, at the beginning.
        most_gradient: norm that gradients are cut to.
    """

    def __init__(
        self, name: str, network: _Network, *, rate: float, most_gradient: float, device: torch.device
    ) -> None:
        # channels last: convolutions are quicker so
        self.network = network.to(memory_format=torch.channels_last)
        self.networks: dict[str, nn.Module] = {name: self.network}
        self._optimiser = torch.optim.Adam(network.parameters(), lr=rate)
        self.optimisers: dict[str, torch.optim.Optimizer] = {name: self._optimiser}
        self._most_gradient, self.device, self._half = most_gradient, device, has_bfloat16(device)

    def autocast(self) -> AbstractContextManager[object]:
        """bfloat16 where it is fast."""
        return autocast(self.device, enabled=self._half)

    def descend(self, loss: torch.Tensor) -> None:
        """One step down a loss, a scalar."""
        self._optimiser.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(self.network.parameters(), self._most_gradient)
        self._optimiser.step()


@dataclass(frozen=True)
class Plan:
    """How long something is trained.

    Attributes:
        what: name for sentences and the bar, "the auto-encoder".
        steps: updates at most.
        seed: of the order of images and of all noise; that of the weights is the lesson's.
        ends_early: whether training that stands still ends before all steps are made.
    """

    what: str
    steps: int
    batch: int
    seed: int
    ends_early: bool = True


@dataclass(frozen=True)
class Reading:
    """What a look at the networks found after so many steps."""

    step: int
    error: float


@dataclass
class Training:
    """How far training is.

    Attributes:
        step: updates made.
        falls_from: the step from which on the rate falls.
        ends: the step at which it is zero.
        readings: in the order of the steps.
    """

    step: int
    falls_from: int
    ends: int
    seconds: float = 0.0
    readings: list[Reading] = field(default_factory=list)

    def rate(self) -> float:
        """Factor of the learning rates at the next step."""
        rising = min(1.0, (self.step + 1) / _WARM_UP)
        falling = (self.ends - self.step) / max(1, self.ends - self.falls_from)
        return min(rising, 1.0, falling)


def train(
    lesson: Lesson,
    images: torch.Tensor,
    held_out: torch.Tensor,
    plan: Plan,
    *,
    device: torch.device,
    state: Path | None = None,
    progress: Progress | None = None,
) -> Training:
    """Train the networks of a lesson in place.

    Args:
        lesson: brings the networks; they are left in eval mode and without gradients.
        images: uint8 (N, C, H, W), to train on.
        held_out: uint8 (n, C, H, W), to measure on.
        device: where the networks are.
        state: a file in which unfinished training is kept, and from which it is taken up; removed at the end.

    Raises:
        Stopped: the user said so; the state is kept.
        RunError: a loss is no longer finite.
    """
    progress = progress or Progress()
    rng = torch.Generator().manual_seed(plan.seed)
    training = Training(0, plan.steps - round(_FALLS_FOR * plan.steps), plan.steps)
    for optimiser in lesson.optimisers.values():
        for group in optimiser.param_groups:
            group["initial_lr"] = group["lr"]
    if state is not None and state.is_file():
        training = _taken_up(state, lesson, plan, rng, progress) or training
    looked_at = held_out[random_rows(len(held_out), _MEASURED)]
    every = max(1, plan.steps // _CHECKS)
    saved = time.monotonic()
    for network in lesson.networks.values():
        network.train()
    with progress.stage(f"Training {plan.what}", total=plan.steps) as task:
        try:
            while training.step < training.ends:
                progress.stop.check()
                started = time.monotonic()
                losses = _update(lesson, images, plan, training, rng, device)
                if training.step % every == 0 or training.step == training.ends:
                    _look(lesson, looked_at, training)
                    if plan.ends_early and _falls_now(training, plan):
                        progress.say(
                            f"The training of {plan.what} stands still; it ends after {training.ends:,} of "
                            f"{plan.steps:,} steps."
                        )
                training.seconds += time.monotonic() - started
                if training.step % _REPORT_EVERY == 0 or training.step == training.ends:
                    figures = {name: float(value) for name, value in losses.items()}
                    if not all(map(_finite, figures.values())):
                        raise RunError(
                            f"The training of {plan.what} diverged at step {training.step:,}: its loss is no longer a "
                            "number; give other images, or another --source."
                        )
                    task.reach(training.step, **figures)
                if state is not None and time.monotonic() - saved > _SECONDS_BETWEEN_SAVES:
                    _keep(state, lesson, plan, training, rng)
                    saved = time.monotonic()
        except Stopped:
            if state is not None:
                _keep(state, lesson, plan, training, rng)
            raise
    for network in lesson.networks.values():
        network.to(memory_format=torch.contiguous_format).eval().requires_grad_(False)
    if state is not None:
        state.unlink(missing_ok=True)
    return training


def _update(
    lesson: Lesson,
    images: torch.Tensor,
    plan: Plan,
    training: Training,
    rng: torch.Generator,
    device: torch.device,
) -> Mapping[str, torch.Tensor]:
    for optimiser in lesson.optimisers.values():
        for group in optimiser.param_groups:
            group["lr"] = group["initial_lr"] * training.rate()
    rows = torch.randint(len(images), (plan.batch,), generator=rng)
    losses = lesson.update(images[rows].to(device), rng)
    training.step += 1
    return losses


def _look(lesson: Lesson, held_out: torch.Tensor, training: Training) -> None:
    for network in lesson.networks.values():
        network.eval()
    with torch.no_grad():
        training.readings.append(Reading(training.step, lesson.error(held_out)))
    for network in lesson.networks.values():
        network.train()


def _falls_now(training: Training, plan: Plan) -> bool:
    """Let the rate fall from here on where training stands still; whether that was so."""
    earlier, latest = training.readings[:-_PATIENCE], training.readings[-_PATIENCE:]
    if not earlier or training.step >= training.falls_from:
        return False
    if min(each.error for each in latest) < (1 - _GAIN) * min(each.error for each in earlier):
        return False
    training.falls_from = training.step
    training.ends = min(plan.steps, training.step + round(_FALLS_FOR * plan.steps))
    return True


def _finite(value: float) -> bool:
    return value - value == 0


def _keep(path: Path, lesson: Lesson, plan: Plan, training: Training, rng: torch.Generator) -> None:
    """Write unfinished training in place of what was stored before."""
    tensors = {"rng": rng.get_state(), **training_tensors(lesson.networks, lesson.optimisers)}
    header = {"format": _FORMAT, "plan": asdict(plan), "training": asdict(training)}
    write_tensors(path, {name: value.detach().clone() for name, value in tensors.items()}, header)


def _taken_up(path: Path, lesson: Lesson, plan: Plan, rng: torch.Generator, progress: Progress) -> Training | None:
    """Bring a fresh lesson to where it was left off; None, and a warning, where the file is of no use."""
    fresh = {role: copy.deepcopy(network.state_dict()) for role, network in lesson.networks.items()}
    try:
        header, tensors = read_tensors(path)
        if header.get("format") != _FORMAT or header["plan"] != asdict(plan):
            raise ValueError("it is of another version")
        kept = header["training"]
        training = Training(**{**kept, "readings": [Reading(**each) for each in kept["readings"]]})
        restore_training(lesson.networks, lesson.optimisers, tensors)
        rng.set_state(tensors["rng"])
    except (OSError, KeyError, TypeError, ValueError, RuntimeError) as error:
        for role, network in lesson.networks.items():
            network.load_state_dict(fresh[role])
        reason = str(error).splitlines()[0]
        progress.warn(f"The unfinished training in {path} cannot be taken up ({reason}); it starts anew.")
        return None
    progress.say(f"The training of {plan.what} goes on after step {training.step:,} of {training.ends:,}.")
    return training
