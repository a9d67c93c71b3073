"""Computes how long a GAN is trained: passes over its images, within a least and a largest number of updates."""

from __future__ import annotations

import math
from dataclasses import dataclass

from diffgen.config import GanConfig


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
