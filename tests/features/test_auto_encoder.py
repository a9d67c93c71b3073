"""The auto-encoder takes images of any size, and its step keeps the detail of the image."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from diffgen.data import load
from diffgen.features import vae as vaes
from diffgen.features.shrinking import shrunk
from diffgen.features.vae import AutoEncoder
from diffgen.runs.artifacts import read_network, write_tensors


@pytest.mark.parametrize("sides", [(28, 28), (30, 29), (9, 35)])
def test_images_of_any_size_are_drawn_as_they_are_seen(sides: tuple[int, int], tmp_path: Path) -> None:
    images = torch.randint(0, 256, (20, 3, *sides), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
    network = vaes.train(images, steps=2)
    assert network.reconstruct(images).shape == shrunk(images).shape
    file = tmp_path / "vae.safetensors"
    write_tensors(file, network.state_dict())
    again = read_network(lambda: vaes.Vae((3, *sides)), file, "The auto-encoder", device="cpu")
    assert torch.equal(again.reconstruct(images), network.reconstruct(images))


def test_a_step_keeps_the_detail_that_plain_decoding_loses() -> None:
    images = torch.from_numpy(load("digits:test").images)
    network = AutoEncoder(vaes.train(images, steps=150), images)
    pixels = images[:40].to(torch.float64)
    codes = network.encode(pixels)
    assert network.spread.shape == codes.shape[1:]
    assert torch.equal(network.stepped(pixels, codes, codes), pixels)
    after = codes + 0.3 * (codes.flip(0) - codes)
    kept = (network.stepped(pixels, codes, after) - pixels).square().mean()
    plain = (network.decode(after) - pixels).square().mean()
    assert 0 < kept < plain / 2


def test_a_code_does_not_depend_on_its_neighbours() -> None:
    images = torch.from_numpy(load("digits:test").images)[:33]
    network = AutoEncoder(vaes.train(images, steps=5), images)
    pixels = images.to(torch.float64)
    together = network.decode(network.encode(pixels))
    alone = torch.cat([network.decode(network.encode(each)) for each in pixels.split(1)])
    assert (together - alone).abs().max() < 1e-8
