"""diffgen.sources.file: a generator's file with an encoder that really finds its latent vectors."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import nn

from diffgen.config import CompareConfig, GeneratorConfig, replace
from diffgen.data import load
from diffgen.data.split import DataSplit
from diffgen.errors import UserError
from diffgen.events import Progress
from diffgen.features.encoder import DomainEncoder
from diffgen.sources.base import EncodingSource, FamilyContext
from diffgen.sources.file import EncodingFileSource
from diffgen.sources.registry import family_named
from diffgen.sources.space import random_genes
from diffgen.types import ImageSet

CPU = torch.device("cpu")
DIM = 6
SHAPE = (1, 12, 12)


class Drawer(nn.Module):
    """Latent vectors to images in [0, 1], each pixel a sum of them."""

    def __init__(self) -> None:
        super().__init__()
        rows = torch.randn(DIM, 144, generator=torch.Generator().manual_seed(0))
        self.rows = nn.Parameter(torch.linalg.qr(rows.T)[0].T)

    def forward(self, latents: torch.Tensor) -> torch.Tensor:
        return (0.5 + 0.4 * latents @ self.rows).clamp(0, 1).reshape(-1, *SHAPE)


class Finder(nn.Module):
    """The way back, in one of the shapes that a latent vector has."""

    def __init__(self, drawer: Drawer, *, maps: bool = False) -> None:
        super().__init__()
        self.rows, self.maps = drawer.rows, maps

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        found = (images.flatten(1) - 0.5) @ self.rows.T / 0.4
        return found[:, :, None, None] if self.maps else found


class Wrong(nn.Module):
    def __init__(self, make: Callable[[torch.Tensor], torch.Tensor]) -> None:
        super().__init__()
        self.make = make

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return self.make(images)


def save(network: nn.Module, path: Path, shape: tuple[int, ...]) -> str:
    example = torch.rand(3, *shape)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if path.suffix == ".pt":
            torch.jit.save(torch.jit.trace(network, example, check_trace=False), str(path))
        else:
            axes = {"x": {0: "batch"}, "y": {0: "batch"}}
            torch.onnx.export(
                network, (example,), str(path), dynamo=False, input_names=["x"], output_names=["y"], dynamic_axes=axes
            )
    return str(path)


def files(folder: Path, encoder: nn.Module, ending: str = "pt") -> GeneratorConfig:
    return GeneratorConfig(
        file=save(Drawer(), folder / f"g.{ending}", (DIM,)),
        latent_dim=DIM,
        encoder=save(encoder, folder / f"e.{ending}", SHAPE),
    )


@pytest.mark.parametrize("ending", ["pt", "onnx"])
@pytest.mark.parametrize("maps", [False, True])
def test_it_finds_the_genes_of_what_was_drawn(ending: str, maps: bool, tmp_path: Path) -> None:
    source = EncodingFileSource(files(tmp_path, Finder(Drawer(), maps=maps), ending), SHAPE, device=CPU)
    assert isinstance(source, EncodingSource)
    genes = 0.5 * random_genes(source.space, 40, torch.Generator().manual_seed(0))
    images = source.draw(genes)
    found = source.encode(images)
    assert (found - genes).abs().max() < 0.05  # rounding to grey levels
    assert torch.equal(torch.cat([source.encode(part) for part in images.split(7)]), found)
    assert (source.draw(found).int() - images.int()).abs().max() <= 1
    assert source.encode(images[:0]).shape == (0, DIM)


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda images: images.flatten(1)[:, :5], r"gives an output of shape \(3, 5\) for 3 images; .* the 6 values"),
        (lambda images: images.flatten(1).sum(dim=1), r"gives an output of shape \(3,\) for 3 images"),
        (lambda images: images.flatten(1)[:, :6] / 0, "not finite"),
        (lambda images: images.reshape(-1, 100)[:, :6], "does not take images of"),
    ],
    ids=["another length", "one number for each", "not finite", "another shape"],
)
def test_what_is_no_encoder(make: Callable[[torch.Tensor], torch.Tensor], said: str, tmp_path: Path) -> None:
    config = files(tmp_path, Finder(Drawer()))
    wrong = torch.jit.trace(Wrong(make), torch.rand(25, *SHAPE), check_trace=False)
    torch.jit.save(wrong, config.encoder)
    with pytest.raises(UserError, match=said):
        EncodingFileSource(config, SHAPE, device=CPU)


class Noisy(Finder):
    """The encoder of a VAE as it is trained: it draws from the distribution of the codes."""

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        found = super().forward(images)
        return found + 0.1 * torch.randn_like(found)


class Centred(Finder):
    """As with batch normalisation in training mode."""

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        found = super().forward(images)
        return found - found.mean(dim=0)


@pytest.mark.parametrize(
    ("kind", "said"),
    [(Noisy, "another latent vector when it is handed the same"), (Centred, "the others in its batch")],
)
def test_latent_vectors_that_depend_on_more_than_the_image_are_refused(
    kind: type[Finder], said: str, tmp_path: Path
) -> None:
    with pytest.raises(UserError, match=said):
        EncodingFileSource(files(tmp_path, kind(Drawer())), SHAPE, device=CPU)


def test_the_family_encodes_where_an_encoder_is_named(tmp_path: Path) -> None:
    whole = load("digits:test")
    digits = ImageSet(whole.images[:, :, 8:20, 8:20].copy(), whole.labels, None, "pieces of digits")
    config = replace(CompareConfig(), generator=files(tmp_path, Finder(Drawer())))
    family = family_named("file")
    assert "encoder" in family.gives(config)
    assert "encoder" not in family.gives(replace(config, generator=replace(config.generator, encoder=None)))
    context = FamilyContext(DomainEncoder(SHAPE), CPU, Progress())
    made = family.prepare(DataSplit(digits, config.split), config, context)
    assert isinstance(made.source, EncodingFileSource) and made.facts["encoder"] == "e.pt"


def test_images_that_it_draws_again_are_counted_from_zero_to_255(tmp_path: Path) -> None:
    """An encoder is handed the pixels of its generator, here 0..1."""
    source = EncodingFileSource(files(tmp_path, Finder(Drawer())), SHAPE, device=CPU)
    images = torch.full((1, *SHAPE), 128, dtype=torch.uint8)
    expected = ((torch.full((1, 144), 128 / 255) - 0.5) @ Drawer().rows.T / 0.4).detach()
    torch.testing.assert_close(source.encode(images), expected, atol=1e-5, rtol=0)
