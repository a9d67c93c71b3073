"""diffgen.features.shrinking, and that networks and filters of large pictures see small ones."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st

from diffgen.features import encoder as encoders
from diffgen.features import vae as vaes
from diffgen.features.shrinking import lesson_rows, lessons, shrunk, shrunk_shape, shrunk_sides
from diffgen.features.vae import AutoEncoder
from diffgen.filters import NeighborsFilter, ReconstructionFilter, SsimFilter

SIDES = st.integers(1, 1024)


@given(SIDES, SIDES, st.sampled_from([32, 64]))
def test_no_side_is_longer_and_the_proportion_stays(height: int, width: int, largest: int) -> None:
    h, w = shrunk_sides(height, width, largest)
    assert 1 <= h <= height
    assert 1 <= w <= width
    assert max(h, w) <= largest
    assert max(h, w) == min(largest, max(height, width))
    if min(h, w) > 8:
        share = largest / max(height, width)
        assert abs(h - height * min(1, share)) <= 0.5
        assert abs(w - width * min(1, share)) <= 0.5
    assert min(h, w) >= min(8, height, width)


def test_small_images_are_left_as_they_are_and_large_ones_averaged() -> None:
    rng = torch.Generator().manual_seed(0)
    small = torch.randint(256, (3, 1, 28, 32), generator=rng, dtype=torch.uint8)
    assert shrunk(small) is small
    large = torch.randint(256, (3, 3, 96, 48), generator=rng, dtype=torch.uint8)
    found = shrunk(large)
    assert found.shape == (3, *shrunk_shape((3, 96, 48))) == (3, 3, 32, 16)
    assert found.dtype == torch.float32
    exact = large.to(torch.float64).unfold(2, 3, 3).unfold(3, 3, 3).mean(dim=(4, 5))
    torch.testing.assert_close(found.to(torch.float64), exact, atol=1e-3, rtol=0)
    # an image depends on no other
    for row in range(3):
        assert torch.equal(shrunk(large[row : row + 1])[0], found[row])


def test_many_images_are_shrunk_some_at_once_and_none_otherwise() -> None:
    images = torch.randint(256, (20, 3, 224, 200), generator=torch.Generator().manual_seed(0), dtype=torch.uint8)
    assert torch.equal(shrunk(images), F.adaptive_avg_pool2d(images.to(torch.float32), shrunk_sides(224, 200)))
    assert shrunk(images[:0]).shape == (0, 3, *shrunk_sides(224, 200))


def test_the_spread_of_codes_is_that_of_images_encoded_together() -> None:
    torch.manual_seed(0)
    images = torch.randint(256, (40, 3, 96, 80), generator=torch.Generator().manual_seed(0), dtype=torch.uint8)
    found = AutoEncoder(vaes.Vae((3, 96, 80)).eval(), images)
    assert torch.equal(found.spread, found.encode(images.to(torch.float64)).std(dim=0))


def test_networks_learn_from_as_many_large_pictures_as_can_be_held_small() -> None:
    pictures = np.random.default_rng(0).integers(0, 256, (5, 3, 96, 80), dtype=np.uint8)
    large = np.broadcast_to(pictures[0], (30_000, 3, 96, 80))  # 691 MB as it is counted; one picture is held
    rows = lesson_rows(large)
    assert len(rows) == 192 * 2**20 // (4 * 3 * 32 * 27) and np.all(np.diff(rows) > 0)
    assert set(lesson_rows(large, np.arange(100, 400)).tolist()) == set(range(100, 400)), "fewer than there is room for"
    assert lesson_rows(pictures).tolist() == [0, 1, 2, 3, 4]


def test_lessons_of_a_large_set_are_shrunk_and_those_of_a_small_one_as_they_are() -> None:
    pictures = np.random.default_rng(0).integers(0, 256, (600, 3, 420, 300), dtype=np.uint8)
    rows = np.arange(0, 600, 2)
    found = lessons(pictures, rows)
    assert found.shape == (300, 3, 32, 23)
    for place in (0, 127, 128, 299):
        assert torch.equal(found[place], shrunk(torch.from_numpy(pictures[rows[place]])[None])[0])
    few = pictures[:50]
    assert torch.equal(lessons(few, np.array([3, 8])), torch.from_numpy(few[[3, 8]]))
    assert lessons(few, np.arange(50)).data_ptr() == few.ctypes.data, "no copy"


def test_an_encoder_that_learned_from_shrunk_pictures_takes_whole_ones(
    photographs: torch.Tensor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(encoders, "_STEPS_COLOUR", 3)
    small = encoders.train(shrunk(photographs), None, image_shape=(3, 96, 80))
    large = encoders.train(photographs, None)
    assert small.image_shape == large.image_shape == (3, 96, 80)
    assert torch.equal(small.encode(photographs), large.encode(photographs))


@pytest.fixture(scope="module")
def photographs() -> torch.Tensor:
    """Colour pictures of 96x80: a bright disc in one of four places, on dark ground."""
    rng = torch.Generator().manual_seed(0)
    down, across = torch.arange(96)[:, None, None], torch.arange(80)[None, :, None]
    place = torch.randint(4, (120,), generator=rng)
    disc = (down - 30 - 36 * (place // 2)) ** 2 + (across - 25 - 30 * (place % 2)) ** 2 < 300  # (96, 80, 120)
    ground = torch.randint(60, (120, 3, 96, 80), generator=rng)
    return (ground + 180 * disc.permute(2, 0, 1)[:, None]).to(torch.uint8)


def test_networks_of_large_pictures_are_those_of_small_ones(photographs: torch.Tensor) -> None:
    encoder, vae = encoders.DomainEncoder((3, 96, 80)), vaes.Vae((3, 96, 80))
    for big, little in ((encoder, encoders.DomainEncoder((3, 32, 27))), (vae, vaes.Vae((3, 32, 27)))):
        assert sum(each.numel() for each in big.parameters()) == sum(each.numel() for each in little.parameters())
    assert vae.reconstruct(photographs[:2]).shape == (2, 3, 32, 27)


def test_a_step_among_codes_keeps_the_size_and_the_detail(photographs: torch.Tensor) -> None:
    network = AutoEncoder(vaes.train(photographs, steps=60), photographs)
    pixels = photographs[:4].to(torch.float64)
    codes = network.encode(pixels)
    assert torch.equal(network.stepped(pixels, codes, codes), pixels)
    stepped = network.stepped(pixels, codes, codes + 3)
    assert stepped.shape == pixels.shape
    assert (stepped - pixels).abs().mean() > 1
    # each for itself
    torch.testing.assert_close(network.stepped(pixels[:1], codes[:1], codes[:1] + 3), stepped[:1], atol=1e-6, rtol=0)


def test_filters_tell_large_pictures_from_noise(photographs: torch.Tensor) -> None:
    noise = torch.randint(256, (20, 3, 96, 80), generator=torch.Generator().manual_seed(1), dtype=torch.uint8)
    # blocks, so that averaging leaves some
    noise = noise[:, :, ::16, ::16].repeat_interleave(16, 2).repeat_interleave(16, 3)
    vae = vaes.train(photographs[:100], steps=60)
    for each in (NeighborsFilter(), SsimFilter(), ReconstructionFilter(lambda real: vae)):
        each.fit(photographs[:100])
        real, other = each.score(photographs[100:]), each.score(noise)
        assert real.shape == other.shape == (20,)
        assert real.median() > other.median()
