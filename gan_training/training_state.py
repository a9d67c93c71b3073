"""Unfinished training: all that changes from step to step, in memory and on disk.

On disk it is one safetensors file with a JSON header, written whole. Opening one runs no code.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import nn

from diffgen.events import Progress
from diffgen.gan_training.monitor import Measurement
from diffgen.gan_training.networks import DcganDiscriminator, DcganGenerator
from diffgen.runs.artifacts import read_tensors, restore_training, training_tensors, under, write_tensors

_FORMAT = "diffgen-gan-training-2"


@dataclass
class TrainingState:
    """What training has come to.

    Attributes:
        generator, discriminator, averaged: the networks; the last is the moving average of the first.
        optimisers: role -> optimiser.
        rng: where all random numbers of the training come from.
        losses: float32 (steps, 2), filled up to ``step``.
        device: where the networks are.
        step: updates made.
        kept: weights at that step, of "averaged" and "discriminator".
    """

    generator: DcganGenerator
    discriminator: DcganDiscriminator
    averaged: DcganGenerator
    optimisers: dict[str, torch.optim.Adam]
    rng: torch.Generator
    losses: torch.Tensor
    device: torch.device
    step: int = 0
    seconds: float = 0.0
    readings: list[Measurement] = field(default_factory=list)
    kept_step: int = 0
    kept: dict[str, dict[str, torch.Tensor]] = field(default_factory=dict)

    @property
    def networks(self) -> dict[str, nn.Module]:
        """Role -> network."""
        return {"generator": self.generator, "discriminator": self.discriminator, "averaged": self.averaged}


def save(path: Path, state: TrainingState) -> None:
    """Write unfinished training in place of what was stored before."""
    tensors = {"rng": state.rng.get_state(), "losses": state.losses}
    tensors |= training_tensors(state.networks, state.optimisers)
    for role, kept in state.kept.items():
        tensors |= {f"kept.{role}.{name}": value for name, value in kept.items()}
    header = {
        "format": _FORMAT,
        "step": state.step,
        "seconds": state.seconds,
        "kept_step": state.kept_step,
        "readings": [measurement.as_dict() for measurement in state.readings],
    }
    # copies: the averaged network may share storage with what is kept
    write_tensors(path, {name: value.clone() for name, value in tensors.items()}, header)


def load(path: Path, state: TrainingState, progress: Progress) -> None:
    """Bring a fresh state to where training was left off; an unreadable file is reported and ignored."""
    try:
        header, tensors = read_tensors(path)
    except (OSError, ValueError) as error:
        progress.warn(f"The unfinished training in {path} cannot be read ({error}); it starts anew.")
        return
    if header.get("format") != _FORMAT or len(tensors["losses"]) != len(state.losses):
        progress.warn(f"The unfinished training in {path} is of another version; it starts anew.")
        return
    _restore(state, tensors, header)
    progress.say(f"The training of the GAN goes on after step {state.step:,} of {len(state.losses):,}.")


def _restore(state: TrainingState, tensors: dict[str, torch.Tensor], header: dict[str, Any]) -> None:
    restore_training(state.networks, state.optimisers, tensors)
    for role in ("averaged", "discriminator"):
        kept = under(tensors, f"kept.{role}.")
        if kept:
            state.kept[role] = {name: value.to(state.device) for name, value in kept.items()}
    state.rng.set_state(tensors["rng"])
    state.losses = tensors["losses"]
    state.step, state.seconds = header["step"], header["seconds"]
    state.kept_step = header["kept_step"]
    state.readings = [Measurement.from_dict(each) for each in header["readings"]]
