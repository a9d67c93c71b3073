"""diffgen.gan_training.trainer"""

from __future__ import annotations

import math

from hypothesis import given
from hypothesis import strategies as st

from diffgen.config import GanConfig
from diffgen.gan_training.trainer import SCHEDULES, number_of_steps, steps_between_readings

schedules = st.sampled_from(sorted(SCHEDULES))


@given(schedules, st.integers(1, 10**7), st.integers(2, 4096))
def test_steps_lie_within_bounds_and_grow_with_the_data(name: str, training_images: int, batch_size: int) -> None:
    config = GanConfig(schedule=name, batch_size=batch_size)  # type: ignore[arg-type]
    schedule = SCHEDULES[name]
    steps = number_of_steps(config, training_images)
    assert schedule.fewest <= steps <= schedule.most
    assert steps <= number_of_steps(config, training_images + 1000)
    if schedule.fewest < steps < schedule.most:
        assert (steps - 1) * batch_size < schedule.passes * training_images <= steps * batch_size


@given(st.integers(1, 10**7))
def test_a_longer_schedule_is_longer(training_images: int) -> None:
    quick, default, thorough = (
        number_of_steps(GanConfig(schedule=name), training_images)  # type: ignore[arg-type]
        for name in ("quick", "default", "thorough")
    )
    assert quick < default < thorough or training_images > 10**6


@given(schedules, st.integers(1, 10**6), st.integers(1, 10**7))
def test_steps_that_are_named_are_taken(name: str, steps: int, training_images: int) -> None:
    config = GanConfig(schedule=name, steps=steps)  # type: ignore[arg-type]
    assert number_of_steps(config, training_images) == steps


@given(steps=st.integers(1, 30_000), checks=st.integers(1, 40))
def test_readings_are_counted_one_after_the_other(steps: int, checks: int) -> None:
    every = steps_between_readings(GanConfig(monitor_checks=checks), steps)
    read = [*range(every, steps, every), steps]
    assert len(read) <= checks
    # as the tuning numbers them
    assert [math.ceil(step / every) - 1 for step in read] == list(range(len(read)))
