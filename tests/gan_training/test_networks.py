"""diffgen.gan_training.networks"""

from __future__ import annotations

import itertools

import pytest
import torch
from torch import nn
from torch.nn.utils.parametrizations import spectral_norm

from diffgen.errors import UserError
from diffgen.gan_training.networks import (
    DcganDiscriminator,
    DcganGenerator,
    check_image_shape,
    check_resize,
    to_uint8,
    to_unit,
)
from diffgen.gan_training.trainer import TrainedGan

SHAPES = [(channels, size, size) for size, channels in itertools.product((28, 32, 64), (1, 3))]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("count", [1, 5])
def test_shapes(shape: tuple[int, int, int], count: int) -> None:
    check_image_shape(shape)
    generator = DcganGenerator(shape, latent_dim=7, width=4).eval()
    discriminator = DcganDiscriminator(shape, width=4).eval()
    images = generator(torch.randn(count, 7))
    assert images.shape == (count, *shape)
    assert images.dtype == torch.float32
    assert images.abs().max() <= 1
    scores = discriminator(images)
    assert scores.shape == (count,)
    assert scores.dtype == torch.float32
    assert (generator.image_shape, generator.latent_dim) == (shape, 7)


@pytest.mark.parametrize(
    "shape",
    [
        (1, 48, 48),
        (1, 8, 8),
        (3, 224, 224),
        (1, 28, 32),
        (1, 32, 28),
        (2, 28, 28),
        (4, 32, 32),
        (1, 30, 30),
        (0, 28, 28),
    ],
)
def test_other_sizes_are_refused_by_name(shape: tuple[int, int, int]) -> None:
    with pytest.raises(UserError) as caught:
        check_image_shape(shape)
    message = str(caught.value)
    assert "x".join(map(str, shape)) in message
    assert "28x28" in message
    assert "32x32" in message
    assert "64x64" in message
    assert "resize" in message
    if shape[0] in (1, 3):
        check_resize(int(message.partition("--resize ")[2].partition(" ")[0]))


@pytest.mark.parametrize(
    ("shape", "named"), [((3, 224, 200), 64), ((3, 300, 50), 32), ((1, 30, 30), 28), ((1, 8, 8), 28)]
)
def test_the_named_size_adds_no_pixels_where_that_can_be(shape: tuple[int, int, int], named: int) -> None:
    with pytest.raises(UserError, match=f"--resize {named} "):
        check_image_shape(shape)


@pytest.mark.parametrize("side", [0, -28, 27, 48, 65, 224])
def test_a_size_to_resize_to_that_no_network_fits(side: int) -> None:
    with pytest.raises(UserError, match="28, 32, 64"):
        check_resize(side)


@pytest.mark.parametrize("side", [None, 28, 32, 64])
def test_sizes_to_resize_to(side: int | None) -> None:
    check_resize(side)


def _written_out(channels: int, side: int) -> tuple[nn.Sequential, nn.Sequential, nn.Sequential]:
    """Projection, rest of the generator, and discriminator, of width 8: the layers that checkpoints on disk hold."""
    base = side // 4
    project = nn.Sequential(
        nn.Linear(7, 32 * base**2, bias=False), nn.Unflatten(1, (32, base, base)), nn.BatchNorm2d(32), nn.ReLU()
    )
    draw = nn.Sequential(
        nn.ConvTranspose2d(32, 16, 4, stride=2, padding=1, bias=False),
        nn.BatchNorm2d(16),
        nn.ReLU(),
        nn.ConvTranspose2d(16, 8, 4, stride=2, padding=1, bias=False),
        nn.BatchNorm2d(8),
        nn.ReLU(),
        nn.Conv2d(8, channels, 3, padding=1),
        nn.Tanh(),
    )
    for layer in (*project, *draw):
        if isinstance(layer, nn.BatchNorm2d):
            nn.init.normal_(layer.weight, 1.0, 0.02)
        elif hasattr(layer, "weight"):
            nn.init.normal_(layer.weight, 0.0, 0.02)
    judge = nn.Sequential(
        spectral_norm(nn.Conv2d(channels, 8, 4, stride=2, padding=1)),
        nn.LeakyReLU(0.1),
        spectral_norm(nn.Conv2d(8, 16, 4, stride=2, padding=1)),
        nn.LeakyReLU(0.1),
        spectral_norm(nn.Conv2d(16, 32, 3, padding=1)),
        nn.LeakyReLU(0.1),
        nn.Flatten(),
        spectral_norm(nn.Linear(32 * base**2, 1)),
    )
    return project, draw, judge


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("side", [28, 32])
def test_the_small_sizes_are_what_they_were_before_64_pixels(channels: int, side: int) -> None:
    """Checkpoints stay readable, and the same seed gives the same weights and images."""
    shape = (channels, side, side)
    torch.manual_seed(5)
    generator, discriminator = DcganGenerator(shape, latent_dim=7, width=8), DcganDiscriminator(shape, width=8)
    torch.manual_seed(5)
    project, draw, judge = _written_out(channels, side)
    expected = {
        f"{part}.{name}": value
        for part, layers in (("project", project), ("draw", draw))
        for name, value in layers.state_dict().items()
    }
    expected |= {f"judge.{name}": value for name, value in judge.state_dict().items()}
    found = generator.state_dict() | discriminator.state_dict()
    assert list(found) == list(expected)
    assert all(torch.equal(found[name], expected[name]) for name in expected)
    with torch.inference_mode():
        latents = torch.randn(4, 7)
        images = generator.eval()(latents)
        assert torch.equal(images, draw.eval()(project.eval()(latents)))
        assert torch.equal(discriminator.eval()(images), judge.eval()(images).squeeze(1))


def test_64_pixels_begin_with_feature_maps_of_8() -> None:
    generator, discriminator = (
        DcganGenerator((3, 64, 64), latent_dim=7, width=4),
        DcganDiscriminator((3, 64, 64), width=4),
    )
    assert (generator.base, generator.widest) == (8, 32)
    assert discriminator.judge[-1].in_features == 32 * 8**2


def test_every_grey_level_survives_the_round_trip() -> None:
    levels = torch.arange(256, dtype=torch.uint8).reshape(1, 1, 16, 16)
    unit = to_unit(levels)
    assert unit.dtype == torch.float32
    assert (unit.min(), unit.max()) == (-1, 1)
    assert torch.equal(to_uint8(unit), levels)
    assert torch.equal(levels.flatten(), torch.arange(256, dtype=torch.uint8))


def test_to_uint8_rounds_and_stays_in_range() -> None:
    values = torch.tensor(
        [-3.0, -1.0, -1 + 0.49 / 127.5, -1 + 0.51 / 127.5, 1 - 0.51 / 127.5, 1 - 0.49 / 127.5, 1, 1.5]
    )
    before = values.clone()
    assert to_uint8(values).tolist() == [0, 0, 0, 1, 254, 255, 255, 255]
    assert torch.equal(values, before)


def test_scores_do_not_depend_on_the_neighbours(trained: TrainedGan, images: torch.Tensor) -> None:
    with torch.inference_mode():
        together = trained.discriminator(to_unit(images[:64]))
        alone = torch.cat([trained.discriminator(to_unit(images[n : n + 1])) for n in range(64)])
        others = trained.discriminator(to_unit(torch.cat([images[:1], 255 - images[100:163]])))
    torch.testing.assert_close(together, alone, rtol=0, atol=1e-5)
    torch.testing.assert_close(others[0], together[0], rtol=0, atol=1e-5)


def test_judging_leaves_the_discriminator_as_it_was(trained: TrainedGan, images: torch.Tensor) -> None:
    """Spectral norm goes on with its power iteration in training mode, and only there."""
    before = {name: value.clone() for name, value in trained.discriminator.state_dict().items()}
    with torch.inference_mode():
        first = trained.discriminator(to_unit(images[:50]))
        for _ in range(5):
            again = trained.discriminator(to_unit(images[:50]))
    assert torch.equal(first, again)
    assert all(torch.equal(value, before[name]) for name, value in trained.discriminator.state_dict().items())


def test_every_layer_of_the_discriminator_stretches_by_about_one(trained: TrainedGan) -> None:
    """Largest singular value of each weight matrix, computed exactly."""
    weights = [layer.weight for layer in trained.discriminator.judge if hasattr(layer, "weight")]
    assert len(weights) == 4
    for weight in weights:
        largest = torch.linalg.svdvals(weight.detach().flatten(1))[0].item()
        assert 0.9 < largest < 1.25
