"""diffgen.gan_training.trainer"""

from __future__ import annotations

import copy
from dataclasses import replace

import pytest
import torch

from diffgen.config import GanConfig
from diffgen.errors import RunError, UserError
from diffgen.gan_training.networks import DcganDiscriminator, DcganGenerator, to_unit
from diffgen.gan_training.trainer import TrainedGan, train
from tests.recording import Recording

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
    """After the second step: decay * (weights after the first) + (1 - decay) * (weights after the second)."""

    def parameters(steps: int, decay: float) -> dict[str, torch.Tensor]:
        trained = train(images[:60], replace(SHORT, steps=steps, ema_decay=decay))
        return dict(trained.generator.named_parameters())

    # the average begins with the weights after the first step, whatever the decay
    first, same, second = parameters(1, 0.0), parameters(1, 0.9), parameters(2, 0.0)
    slow, fast = parameters(2, 0.998), parameters(2, 0.05)
    for name in first:
        assert torch.equal(first[name], same[name]), name
        assert not torch.equal(first[name], second[name]), name
        torch.testing.assert_close(slow[name], first[name] / 11 + second[name] * 10 / 11)
        torch.testing.assert_close(fast[name], 0.05 * first[name] + 0.95 * second[name])


def _beyond(config: GanConfig, **values: float) -> GanConfig:
    """Settings that nobody can give: what the trainer makes of them shows what it does with each."""
    made = copy.copy(config)
    for name, value in values.items():
        object.__setattr__(made, name, value)
    return made


def test_the_two_learning_rates_are_not_mixed_up(images: torch.Tensor) -> None:
    still = replace(SHORT, ema_decay=0.0, seed=4)
    with torch.random.fork_rng():
        torch.manual_seed(4)
        generator = DcganGenerator((1, 28, 28), latent_dim=8, width=4)
        discriminator = DcganDiscriminator((1, 28, 28), width=4)
    only_discriminator = train(images[:60], _beyond(still, learning_rate_generator=0.0))
    only_generator = train(images[:60], _beyond(still, learning_rate_discriminator=0.0))
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
    notes = Recording()
    train(images[:60], replace(SHORT, steps=23), progress=notes.progress)
    assert notes.totals == {"Training the GAN": 23}
    assert notes.reached("Training the GAN") == [10, 20, 23]
    assert set(notes.figures) == {"d_loss", "g_loss"}


# -- divergence ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rate", [1e6, 1e10, 1e20])
@pytest.mark.parametrize("steps", [1, 3, 15])
def test_a_diverged_gan_is_never_handed_over(images: torch.Tensor, rate: float, steps: int) -> None:
    config = _beyond(replace(SHORT, steps=steps), learning_rate_generator=rate, learning_rate_discriminator=rate)
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
    config = _beyond(replace(SHORT, steps=1000), learning_rate_generator=1e20, learning_rate_discriminator=1e20)
    with pytest.raises(RunError, match="at step 10 of 1000"):
        train(images[:60], config)
