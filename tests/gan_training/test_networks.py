"""diffgen.gan_training.networks"""

from __future__ import annotations

import itertools

import pytest
import torch

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
@pytest.mark.parametrize("classes", [0, 3])
def test_shapes(shape: tuple[int, int, int], count: int, classes: int) -> None:
    check_image_shape(shape)
    generator = DcganGenerator(shape, latent_dim=7, width=4, classes=classes).eval()
    discriminator = DcganDiscriminator(shape, width=4, classes=classes).eval()
    latents = torch.randn(count, 7)
    if classes:
        latents = torch.cat([latents, torch.randint(classes, (count, 1)).float()], dim=1)
    images = generator(latents)
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


def test_64_pixels_begin_with_feature_maps_of_8() -> None:
    generator, discriminator = (
        DcganGenerator((3, 64, 64), latent_dim=7, width=4),
        DcganDiscriminator((3, 64, 64), width=4),
    )
    assert (generator.base, generator.widest) == (8, 32)
    assert discriminator.judge.in_features == 32 * 8**2


def test_every_grey_level_survives_the_round_trip() -> None:
    levels = torch.arange(256, dtype=torch.uint8).reshape(1, 1, 16, 16)
    unit = to_unit(levels)
    assert unit.dtype == torch.float32
    assert (unit.min(), unit.max()) == (-1, 1)
    assert torch.equal(to_uint8(unit), levels)
    assert torch.equal(levels.flatten(), torch.arange(256, dtype=torch.uint8))


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
    weights = [
        layer.weight for layer in (*trained.discriminator.look, trained.discriminator.judge) if hasattr(layer, "weight")
    ]
    assert len(weights) == 4
    for weight in weights:
        largest = torch.linalg.svdvals(weight.detach().flatten(1))[0].item()
        assert 0.9 < largest < 1.25


def test_the_class_decides_what_is_drawn_and_how_it_is_scored() -> None:
    torch.manual_seed(0)
    generator = DcganGenerator((1, 28, 28), latent_dim=7, width=4, classes=5).eval()
    discriminator = DcganDiscriminator((1, 28, 28), width=4, classes=5).eval()
    values = torch.randn(1, 7).repeat(5, 1)
    labels = torch.arange(5)
    images = generator(torch.cat([values, labels[:, None].float()], dim=1))
    assert len({image.detach().numpy().tobytes() for image in images}) == 5
    one = images[:1].repeat(5, 1, 1, 1)
    scores = discriminator(one, labels)
    assert len(set(scores.tolist())) == 5
    # without a class, the one that suits best
    torch.testing.assert_close(discriminator(one[:1])[0], scores.max())
