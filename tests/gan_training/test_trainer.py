"""diffgen.gan_training.trainer"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from diffgen.config import GanConfig
from diffgen.errors import RunError, UserError
from diffgen.gan_training.networks import DcganDiscriminator, DcganGenerator, to_unit
from diffgen.gan_training.trainer import TrainedGan, _endless_rows, number_of_steps, train
from diffgen.types import Progress

SHORT = GanConfig(latent_dim=8, width=4, steps=5, batch_size=16, augment=False)


def weights(trained: TrainedGan) -> dict[str, torch.Tensor]:
    return {
        f"{role}.{name}": value
        for role, network in (("generator", trained.generator), ("discriminator", trained.discriminator))
        for name, value in network.state_dict().items()
    }


def all_finite(trained: TrainedGan) -> bool:
    return all(bool(torch.isfinite(value).all()) for value in weights(trained).values())


# -- the same again --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("augment", [False, True])
def test_same_seed_same_weights(images: torch.Tensor, augment: bool) -> None:
    config = replace(SHORT, augment=augment)
    first = train(images[:60], config)
    torch.rand(3)  # whatever else drew random numbers in between
    second = train(images[:60], config)
    assert weights(first).keys() == weights(second).keys()
    for name, value in weights(first).items():
        assert torch.equal(value, weights(second)[name]), name
    assert torch.equal(first.losses, second.losses)


def test_other_seed_other_weights(images: torch.Tensor) -> None:
    first, second = (train(images[:60], replace(SHORT, seed=seed)) for seed in (0, 1))
    for name, value in weights(first).items():
        if name.endswith("weight") or "original" in name:
            assert not torch.equal(value, weights(second)[name]), name


def test_the_global_random_numbers_are_left_alone(images: torch.Tensor) -> None:
    torch.manual_seed(11)
    before = torch.get_rng_state()
    train(images[:60], SHORT)
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_the_random_numbers_of_the_gpu_are_left_alone(images: torch.Tensor) -> None:
    torch.cuda.manual_seed_all(11)
    before = torch.cuda.get_rng_state_all()
    train(images[:60], SHORT, device="cuda")
    assert all(torch.equal(*pair) for pair in zip(torch.cuda.get_rng_state_all(), before, strict=True))


def test_the_images_are_left_as_they_were(images: torch.Tensor) -> None:
    some = images[:60].clone()
    train(some, SHORT)
    assert torch.equal(some, images[:60])


# -- what training gives ---------------------------------------------------------------------------------------------


def test_facts_and_modes(trained: TrainedGan, images: torch.Tensor) -> None:
    assert trained.steps == 60
    assert trained.training_images == 6 * len(images)
    assert trained.losses.shape == (60, 2)
    assert trained.losses.dtype == torch.float32
    assert (trained.losses.abs().sum(dim=1) > 0).all()
    assert not any(module.training for module in trained.generator.modules())
    assert not any(module.training for module in trained.discriminator.modules())
    assert all_finite(trained)


def test_training_without_transformations_sees_the_images_only(images: torch.Tensor) -> None:
    assert train(images[:60], SHORT).training_images == 60


def test_the_discriminator_learns_to_tell_digits_from_noise(trained: TrainedGan, images: torch.Tensor) -> None:
    noise = torch.randint(256, (200, 1, 28, 28), generator=torch.Generator().manual_seed(0), dtype=torch.uint8)
    with torch.inference_mode():
        real, false = trained.discriminator(to_unit(images[:200])), trained.discriminator(to_unit(noise))
    assert (real[:, None] > false).float().mean() > 0.95


def test_the_generator_learns_what_digits_look_like(trained: TrainedGan, images: torch.Tensor) -> None:
    """Nearer to the mean digit than it was before training: mid-grey everywhere."""
    with torch.inference_mode():
        made = trained.generator(torch.randn(200, 16, generator=torch.Generator().manual_seed(0))).mean(dim=0)
    mean = to_unit(images).mean(dim=0)
    assert (made - mean).abs().mean() < 0.5 * mean.abs().mean()


def test_batch_norm_holds_the_averages_of_the_averaged_weights(trained: TrainedGan) -> None:
    """The first one against algebra: W z has mean 0 and, for z from N(0, 1), variance sum of the squares of W's row."""
    linear, _, norm, _ = trained.generator.project
    expected = linear.weight.detach().square().sum(dim=1).reshape(norm.num_features, -1).mean(dim=1)
    torch.testing.assert_close(norm.running_var, expected, rtol=0.05, atol=0)
    assert (norm.running_mean.abs() < 0.05 * expected.sqrt()).all()
    assert norm.momentum == 0.1


def test_the_average_is_a_moving_average(images: torch.Tensor) -> None:
    """One step from the initial weights: averaged = decay * initial + (1 - decay) * new."""
    one = replace(SHORT, steps=1, seed=4)
    with torch.random.fork_rng():
        torch.manual_seed(4)
        initial = dict(DcganGenerator((1, 28, 28), latent_dim=8, width=4).named_parameters())
    kept, new, between = (
        dict(train(images[:60], replace(one, ema_decay=decay)).generator.named_parameters())
        for decay in (1.0, 0.0, 0.75)
    )
    for name, start in initial.items():
        assert torch.equal(kept[name], start), name
        assert not torch.equal(new[name], start), name
        torch.testing.assert_close(between[name], 0.75 * start + 0.25 * new[name])


def test_the_two_learning_rates_are_not_mixed_up(images: torch.Tensor) -> None:
    still = replace(SHORT, ema_decay=0.0, seed=4)
    with torch.random.fork_rng():
        torch.manual_seed(4)
        generator = DcganGenerator((1, 28, 28), latent_dim=8, width=4)
        discriminator = DcganDiscriminator((1, 28, 28), width=4)
    only_discriminator = train(images[:60], replace(still, learning_rate_generator=0.0))
    only_generator = train(images[:60], replace(still, learning_rate_discriminator=0.0))
    for role, moved, rested in (
        ("generator", only_generator, only_discriminator),
        ("discriminator", only_discriminator, only_generator),
    ):
        start = dict((generator if role == "generator" else discriminator).named_parameters())
        assert all(torch.equal(value, start[name]) for name, value in getattr(rested, role).named_parameters())
        # the gradients of the last bias may cancel out
        assert not any(
            torch.equal(value, start[name])
            for name, value in getattr(moved, role).named_parameters()
            if not name.endswith("bias")
        )


def test_a_batch_may_be_larger_than_the_data(images: torch.Tensor) -> None:
    trained = train(images[:10], replace(SHORT, batch_size=64))
    assert trained.training_images == 10
    assert all_finite(trained)


@given(st.integers(1, 40), st.integers(1, 50), st.integers(0, 5))
def test_batches_are_full_and_take_every_image_in_turn(count: int, batch_size: int, seed: int) -> None:
    rows = _endless_rows(count, batch_size, torch.Generator().manual_seed(seed))
    per_pass = max(1, count // batch_size)
    for _ in range(3):
        batches = [next(rows) for _ in range(per_pass)]
        assert all(len(batch) == batch_size for batch in batches)
        times = torch.bincount(torch.cat(batches), minlength=count)
        assert len(times) == count
        assert times.max() - times.min() <= 1


@pytest.mark.parametrize("count", [1, 16, 17, 31])
def test_any_number_of_images_will_do(images: torch.Tensor, count: int) -> None:
    assert all_finite(train(images[:count], replace(SHORT, steps=3)))


@pytest.mark.parametrize("shape", [(3, 28, 28), (1, 32, 32), (3, 32, 32)])
def test_other_shapes(shape: tuple[int, int, int]) -> None:
    noise = torch.randint(256, (40, *shape), generator=torch.Generator().manual_seed(0), dtype=torch.uint8)
    trained = train(noise, replace(SHORT, steps=2, augment=True))
    assert trained.generator(torch.randn(3, 8)).shape == (3, *shape)
    assert trained.training_images == 240


def test_unsupported_sizes_are_refused_before_anything_is_computed() -> None:
    with pytest.raises(UserError, match="1x48x48"):
        train(torch.zeros(50, 1, 48, 48, dtype=torch.uint8), GanConfig())


def test_progress_reaches_the_end(images: torch.Tensor) -> None:
    class Notes(Progress):
        def __init__(self) -> None:
            self.total: float | None = None
            self.reached: list[float] = []

        @contextmanager
        def task(self, description: str, total: float | None = None) -> Iterator[Any]:
            self.total = total
            yield self

        def reach(self, completed: float, **figures: Any) -> None:
            assert set(figures) == {"d_loss", "g_loss"}
            self.reached.append(completed)

    notes = Notes()
    train(images[:60], replace(SHORT, steps=23), progress=notes)
    assert notes.total == 23
    assert notes.reached == [10, 20, 23]


# -- how long --------------------------------------------------------------------------------------------------------


@given(st.integers(1, 10**7), st.integers(1, 4096))
def test_steps_lie_within_bounds_and_grow_with_the_data(training_images: int, batch_size: int) -> None:
    config = GanConfig(batch_size=batch_size)
    steps = number_of_steps(config, training_images)
    assert 1_000 <= steps <= 6_000
    assert steps <= number_of_steps(config, training_images + 1000)
    if 1_000 < steps < 6_000:
        assert (steps - 1) * batch_size < 30 * training_images <= steps * batch_size


@given(st.integers(1, 10**6), st.integers(1, 10**7))
def test_steps_that_are_named_are_taken(steps: int, training_images: int) -> None:
    assert number_of_steps(GanConfig(steps=steps), training_images) == steps


# -- divergence ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rate", [1e6, 1e10, 1e20])
@pytest.mark.parametrize("steps", [1, 3, 15])
def test_a_diverged_gan_is_never_handed_over(images: torch.Tensor, rate: float, steps: int) -> None:
    config = replace(SHORT, steps=steps, learning_rate_generator=rate, learning_rate_discriminator=rate)
    try:
        trained = train(images[:60], config)
    except RunError as error:
        assert "diverged" in str(error)
        assert "learning rate" in str(error)
        return
    assert rate < 1e20
    assert all_finite(trained)
    assert torch.isfinite(trained.losses).all()
    made = trained.generator(torch.randn(64, 8))
    assert torch.isfinite(made).all()
    assert torch.isfinite(trained.discriminator(made)).all()


def test_a_diverged_training_is_stopped_early(images: torch.Tensor) -> None:
    config = replace(SHORT, steps=1000, learning_rate_generator=1e20, learning_rate_discriminator=1e20)
    with pytest.raises(RunError, match="at step 10 of 1000"):
        train(images[:60], config)
