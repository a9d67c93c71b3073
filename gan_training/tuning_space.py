"""Defines and checks the search space of a GAN's settings."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from optuna.trial import BaseTrial

from diffgen.config import GanConfig, TuningConfig
from diffgen.gan_training.schedule import number_of_steps


def suggest(trial: BaseTrial, base: GanConfig, space: TuningConfig, *, images: int) -> GanConfig:
    """The settings of a trial.

    Args:
        images: training images, transformations included; the number of updates follows from it.
    """
    own = own_values(base)

    def between(name: str, low: float, high: float, *, log: bool = False) -> float:
        return trial.suggest_float(name, min(low, own[name]), max(high, own[name]), log=log)

    def one_of(name: str, values: tuple[int, ...]) -> int:
        return trial.suggest_categorical(name, sorted({*values, own[name]}))

    changed: dict[str, Any] = {
        name: between(name, *space.learning_rates, log=True)
        for name in ("learning_rate_generator", "learning_rate_discriminator")
    }
    changed["batch_size"] = one_of("batch_size", space.batch_sizes)
    changed["width"] = one_of("width", space.widths)
    changed["latent_dim"] = one_of("latent_dim", space.latent_dims)
    averaging = between("averaging", *space.ema_complement, log=True)
    changed["ema_decay"] = base.ema_decay if averaging == own["averaging"] else 1 - averaging
    if base.augment:
        changed["transformed"] = between("transformed", *space.transformed)
    asked = replace(base, **changed)
    length = between("length", space.shortest, 1.0)
    # the batch size alone changes how many updates a schedule has; only a shorter one is written down as a number
    return asked if length == 1 else replace(asked, steps=max(1, round(length * number_of_steps(asked, images))))


def own_values(base: GanConfig) -> dict[str, Any]:
    """The point of the space at which a trial has the base's settings."""
    names = ["learning_rate_generator", "learning_rate_discriminator", "batch_size", "width", "latent_dim"]
    values = {name: getattr(base, name) for name in names}
    values |= {"averaging": 1 - base.ema_decay, "length": 1.0}
    return values | ({"transformed": base.transformed} if base.augment else {})
