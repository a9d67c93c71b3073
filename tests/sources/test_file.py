"""diffgen.sources.file: real files in three formats, and everything that such a file may turn out to be."""

from __future__ import annotations

import re
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from diffgen.config import GeneratorConfig, replace
from diffgen.errors import RunError, UserError
from diffgen.sources.base import Source
from diffgen.sources.file import FileScorer, FileSource
from diffgen.sources.space import NormalShell, random_genes
from diffgen.types import Scorer

CPU = torch.device("cpu")
DIM = 6
SHAPE = (1, 12, 12)
FORMATS = ("pt", "pt2", "onnx")


class Drawer(nn.Module):
    """Latent vectors to images by transposed convolutions, with batch norm, in [0, 1], [-1, 1] or 0..255."""

    def __init__(self, *, maps: bool = False, low: float = 0.0, high: float = 1.0, channels: int = 1) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.maps = maps
        self.low, self.high = low, high
        self.first = nn.ConvTranspose2d(DIM, 8, 3)
        self.norm = nn.BatchNorm2d(8)
        self.last = nn.ConvTranspose2d(8, channels, 4, stride=4)
        with torch.no_grad():
            self.last.weight.mul_(6)
        nn.init.uniform_(self.norm.running_mean, -0.2, 0.2)

    def forward(self, latents: torch.Tensor) -> torch.Tensor:
        if not self.maps:
            latents = latents[:, :, None, None]
        drawn = torch.sigmoid(self.last(torch.relu(self.norm(self.first(latents)))))
        return self.low + (self.high - self.low) * drawn


def save(
    network: nn.Module, path: Path, *, shape: tuple[int, ...] = (DIM,), batch: int = 3, fixed: bool = False
) -> Path:
    """In the format that the file's ending names, with an open batch unless it shall be fixed."""
    example = torch.zeros(batch, *shape)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if path.suffix == ".pt":
            torch.jit.save(torch.jit.trace(network, example, check_trace=False), str(path))
        elif path.suffix == ".pt2":
            open_batch = None if fixed else {0: torch.export.Dim("batch", min=1, max=512)}
            torch.export.save(torch.export.export(network, (example,), dynamic_shapes=(open_batch,)), str(path))
        else:
            axes = None if fixed else {"latents": {0: "batch"}, "images": {0: "batch"}}
            torch.onnx.export(
                network,
                (example,),
                str(path),
                dynamo=False,
                input_names=["latents"],
                output_names=["images"],
                dynamic_axes=axes,
            )
    return path


def opened(path: Path, shape: tuple[int, int, int] = SHAPE, **settings: Any) -> FileSource:
    config = GeneratorConfig(file=str(path), **{"latent_dim": DIM, **settings})
    return FileSource(config, shape, device=CPU)


def latents(count: int = 20) -> torch.Tensor:
    return torch.randn(count, DIM, generator=torch.Generator().manual_seed(3))


# -- what it draws ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("ending", FORMATS)
@pytest.mark.parametrize("maps", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_it_draws_what_the_network_draws(ending: str, maps: bool, tmp_path: Path) -> None:
    network = Drawer(maps=maps).eval()
    path = save(network, tmp_path / f"g.{ending}", shape=(DIM, 1, 1) if maps else (DIM,))
    generator = opened(path)
    assert isinstance(generator, Source)
    assert isinstance(generator.space, NormalShell) and generator.space.length == DIM
    assert (generator.image_shape, generator.pixels, generator.detected) == (SHAPE, "0..1", True)
    z = latents()
    with torch.inference_mode():
        wanted = (network(z.reshape(-1, DIM, 1, 1) if maps else z) * 255).round().to(torch.uint8)
    found = generator.draw(z)
    assert found.dtype == torch.uint8
    assert (found.int() - wanted.int()).abs().max() <= 1
    assert found.float().std() > 10
    assert generator.draw(z[:0]).shape == (0, *SHAPE)


@pytest.mark.parametrize("ending", ["pt2", "onnx"])
def test_a_batch_that_the_file_fixes(ending: str, tmp_path: Path) -> None:
    network = Drawer().eval()
    generator = opened(save(network, tmp_path / f"g.{ending}", batch=7, fixed=True))
    anybatch = opened(save(network, tmp_path / f"open.{ending}"))
    for count in (1, 7, 20):
        z = latents(count)
        assert (generator.draw(z).int() - anybatch.draw(z).int()).abs().max() <= 1


@pytest.mark.parametrize(("low", "high", "pixels"), [(0, 1, "0..1"), (-1, 1, "-1..1"), (0, 255, "0..255")])
def test_the_range_is_found_out(low: float, high: float, pixels: str, tmp_path: Path) -> None:
    """The same network in three ranges draws the same images."""
    generator = opened(save(Drawer(low=low, high=high).eval(), tmp_path / "g.pt"))
    assert generator.pixels == pixels
    wanted = opened(save(Drawer().eval(), tmp_path / "plain.pt")).draw(latents())
    assert (generator.draw(latents()).int() - wanted.int()).abs().max() <= 1


def test_a_range_that_is_said_is_taken(tmp_path: Path) -> None:
    path = save(Drawer(low=-3, high=3).eval(), tmp_path / "g.pt")
    with pytest.raises(UserError, match=r"fits none .*--generator-pixels"):
        opened(path)
    generator = opened(path, pixels="-1..1")
    assert not generator.detected
    found = generator.draw(latents())
    assert found.min() == 0  # what lies outside is cut off
    assert found.max() == 255


def test_uint8_and_half_precision_too(tmp_path: Path) -> None:
    class Bytes(Drawer):
        def forward(self, latents: torch.Tensor) -> torch.Tensor:
            return (super().forward(latents) * 255).round().to(torch.uint8)

    class Half(Drawer):
        def forward(self, latents: torch.Tensor) -> torch.Tensor:
            return super().forward(latents).to(torch.float16)

    wanted = opened(save(Drawer().eval(), tmp_path / "plain.pt")).draw(latents())
    for network, pixels in ((Bytes(), "0..255"), (Half(), "0..1")):
        generator = opened(save(network.eval(), tmp_path / "g.pt"))
        assert generator.pixels == pixels
        assert (generator.draw(latents()).int() - wanted.int()).abs().max() <= 1


def test_latents_come_from_its_prior(tmp_path: Path) -> None:
    path = save(Drawer().eval(), tmp_path / "g.pt")
    uniform = random_genes(opened(path, prior="uniform").space, 5000, torch.Generator().manual_seed(0))
    assert uniform.min() >= -1
    assert uniform.max() <= 1
    assert uniform.std() == pytest.approx(3**-0.5, rel=0.02)
    normal = random_genes(opened(path).space, 5000, torch.Generator().manual_seed(0))
    assert normal.abs().max() > 2.5


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("ending", FORMATS)
def test_on_a_gpu(ending: str, tmp_path: Path) -> None:
    path = save(Drawer().eval(), tmp_path / f"g.{ending}")
    config = GeneratorConfig(file=str(path), latent_dim=DIM)
    found = FileSource(config, SHAPE, device=torch.device("cuda")).draw(latents())
    assert (found.cpu().int() - opened(path).draw(latents()).int()).abs().max() <= 1


# -- what cannot be used ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("ending", FORMATS)
def test_another_latent_length(ending: str, tmp_path: Path) -> None:
    path = save(Drawer().eval(), tmp_path / f"g.{ending}")
    with pytest.raises(UserError, match=r"5.*check --latent-dim"):
        opened(path, latent_dim=5)


def test_images_of_another_shape(tmp_path: Path) -> None:
    path = save(Drawer().eval(), tmp_path / "g.pt")
    with pytest.raises(UserError, match=r"draws 1x12x12 images but the data has 1x28x28; add --resize 12"):
        opened(path, (1, 28, 28))
    with pytest.raises(UserError, match=r"draws 1x12x12 images but the data has 3x12x12; give data"):
        opened(path, (3, 12, 12))
    flat = nn.Sequential(nn.Linear(DIM, 144), nn.Sigmoid())
    with pytest.raises(UserError, match=r"shape \(16, 144\).*1x12x12"):
        opened(save(flat.eval(), tmp_path / "flat.pt"))


def test_an_image_must_not_depend_on_its_neighbours(tmp_path: Path) -> None:
    """Batch norm in training mode, as a network has it that was traced without eval()."""
    with pytest.raises(UserError, match=r"depends on the others in its batch.*eval\(\)"):
        opened(save(Drawer().train(), tmp_path / "g.pt2"))


def test_an_image_must_not_depend_on_chance(tmp_path: Path) -> None:
    class Noisy(Drawer):
        def forward(self, latents: torch.Tensor) -> torch.Tensor:
            drawn = super().forward(latents)
            return (drawn + 0.2 * torch.randn_like(drawn)).clamp(0, 1)

    for ending in FORMATS:
        with pytest.raises(UserError, match="handed the same latent vector"):
            opened(save(Noisy().eval(), tmp_path / f"g.{ending}"))


def test_a_batch_that_was_traced_in(tmp_path: Path) -> None:
    class Stuck(Drawer):
        def forward(self, latents: torch.Tensor) -> torch.Tensor:
            return super().forward(latents.reshape(16, DIM))

    with pytest.raises(UserError, match="batches of any size"):
        opened(save(Stuck().eval(), tmp_path / "g.pt", batch=16))


def test_the_same_image_again_and_again(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="the same image for every latent vector"):
        opened(save(Drawer(low=0.5, high=0.5001).eval(), tmp_path / "g.pt"))


def test_values_that_are_not_finite(tmp_path: Path) -> None:
    class Fragile(Drawer):
        """Fails on latent vectors far from the prior alone."""

        def forward(self, latents: torch.Tensor) -> torch.Tensor:
            drawn = super().forward(latents)
            return torch.where(latents[:, :1, None, None] > 50, torch.full_like(drawn, torch.nan), drawn)

    generator = opened(save(Fragile().eval(), tmp_path / "g.pt"))
    with pytest.raises(RunError, match="not finite"):
        generator.draw(torch.full((2, DIM), 60.0))
    broken = Drawer().eval()
    nn.init.constant_(broken.last.bias, torch.nan)
    with pytest.raises(UserError, match="not finite"):
        opened(save(broken, tmp_path / "broken.pt"))


def test_several_inputs_and_outputs(tmp_path: Path) -> None:
    class Two(Drawer):
        def forward(self, latents: torch.Tensor, more: torch.Tensor) -> torch.Tensor:  # type: ignore[override]
            return super().forward(latents + more)

    class Pair(Drawer):
        def forward(self, latents: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:  # type: ignore[override]
            drawn = super().forward(latents)
            return drawn, drawn.flatten(1)

    z = torch.zeros(3, DIM)
    torch.export.save(torch.export.export(Two().eval(), (z, z)), str(tmp_path / "two.pt2"))
    with pytest.raises(UserError, match="takes 2 inputs"):
        opened(tmp_path / "two.pt2")
    for ending in FORMATS:
        with pytest.raises(UserError, match="gives 2 outputs"):
            opened(save(Pair().eval(), tmp_path / f"pair.{ending}"))


def test_files_that_are_no_networks(tmp_path: Path) -> None:
    torch.save(Drawer().state_dict(), tmp_path / "weights.pt")
    torch.save(Drawer(), tmp_path / "whole.pt")
    whole = save(Drawer().eval(), tmp_path / "g.pt").read_bytes()
    (tmp_path / "cut.pt").write_bytes(whole[:500])
    for name in ("weights.pt", "whole.pt", "cut.pt"):
        with pytest.raises(UserError, match=re.escape("give a TorchScript, torch.export (.pt2) or ONNX file")):
            opened(tmp_path / name)
    with pytest.raises(UserError, match="does not exist"):
        opened(tmp_path / "none.pt")


def test_settings_that_cannot_be() -> None:
    for settings in ({"prior": "box"}, {"pixels": "0..2"}):
        with pytest.raises(UserError, match=r"did you mean|give "):
            replace(GeneratorConfig(), **settings)


# -- its discriminator -----------------------------------------------------------------------------------------------


def scored(path: Path) -> FileScorer:
    return FileScorer(path, pixels="-1..1", image_shape=SHAPE, device=CPU)


@pytest.mark.parametrize("ending", FORMATS)
def test_a_discriminator_is_handed_the_pixels_of_its_generator(ending: str, tmp_path: Path) -> None:
    torch.manual_seed(0)
    network = nn.Sequential(nn.Conv2d(1, 4, 3, stride=2), nn.LeakyReLU(), nn.Flatten(), nn.Linear(100, 1)).eval()
    scorer = scored(save(network, tmp_path / f"d.{ending}", shape=SHAPE))
    assert isinstance(scorer, Scorer)
    images = torch.from_numpy(np.random.default_rng(0).integers(0, 256, (9, *SHAPE), dtype=np.uint8))
    with torch.inference_mode():
        wanted = network(images.float() / 127.5 - 1)[:, 0]
    found = scorer.score(images)
    assert found.shape == (9,)
    assert found.dtype == torch.float32
    torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-5)


def test_what_is_no_discriminator(tmp_path: Path) -> None:
    path = save(nn.Sequential(nn.Flatten(), nn.Linear(144, 10)).eval(), tmp_path / "classifier.pt", shape=SHAPE)
    with pytest.raises(UserError, match="one finite score"):
        scored(path)
    path = save(nn.Sequential(nn.Flatten(), nn.Linear(784, 1)).eval(), tmp_path / "d.pt", shape=(1, 28, 28))
    with pytest.raises(UserError, match="does not take images of 1x12x12"):
        scored(path)
