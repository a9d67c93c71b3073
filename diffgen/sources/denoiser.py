"""The family ``denoiser``: real images with noise over them, restored by a network that was trained on the data."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Literal, Protocol

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

from diffgen.config import CompareConfig
from diffgen.config.schema import Maybe, setting, settings
from diffgen.data.split import DataSplit
from diffgen.gan_training.networks import to_uint8, to_unit
from diffgen.numerics import seeded
from diffgen.origins import Origins, Step, recipe_text
from diffgen.parts import Needs
from diffgen.sampling import affordable_rows
from diffgen.sources.base import FamilyContext, ImageSource
from diffgen.sources.draws import Draws
from diffgen.sources.learned.codes import NORMAL_BOUND, Codes
from diffgen.sources.learned.kept import LearnedFamily, Recipe, obtain, planned
from diffgen.sources.learned.networks import in_equal_parts
from diffgen.sources.learned.training import OneNetwork
from diffgen.sources.operators import ImageRows
from diffgen.sources.space import Genes, LatentLayout, Mutating, WithCategories
from diffgen.types import Int64Array, UInt8Array

_OTHER_SEED = 0.5  # share of what is mutated that gets another seed


class SeedsAndNoise(WithCategories):
    """Noise from N(0, 1), then which of the ``rows`` is the seed."""

    real = True

    def __init__(self, continuous: int, rows: int) -> None:
        super().__init__(Codes(np.full(continuous, -NORMAL_BOUND), np.full(continuous, NORMAL_BOUND), None), (rows,))

    def sample(self, count: int, draws: Draws) -> Genes:
        """(count, length): random genes."""
        values = self.inner.sample(count, draws)
        return np.column_stack([values, draws.categories(count, self.categories[0]).astype(values.dtype)])

    def mutate(self, genes: Genes, how: Mutating, rng: np.random.Generator) -> Genes:
        """As for any categories; but half of all get another seed: other noise on the same is mostly much the same."""
        mutated = super().mutate(genes, how, rng)
        changed = np.flatnonzero(rng.random(len(genes)) < _OTHER_SEED)
        mutated[changed, -1] = rng.integers(self.categories[0], size=len(changed))
        return mutated

    def seeds_of(self, genes: Genes) -> Int64Array:
        return np.rint(genes[:, -1]).astype(np.int64)

    def layout(self) -> LatentLayout:
        return LatentLayout(self.continuous, 0, "denoiser")


_WIDTHS = (64, 128)  # channels of the two maps
_TOLD = 64  # values that say how much noise there is
_LEARNING_RATE = 1e-3
_MOST_GRADIENT = 1.0  # norm
_REAL_DEVIATION = 0.5  # of pixels in [-1, 1], the paper's sigma_data
_LEAST_NOISE, _MOST_NOISE = 0.05, 1.2  # standard deviations in training, in the same unit
_LAST_NOISE = 0.05  # at the step before none
_MEASURED_NOISE = 0.3
DEVIATIONS = {"low": 0.3, "high": 0.8}  # of what is laid over real images
_COARSE = 8  # a side: the noise that genes hold are its so many lowest frequencies in both directions


class _Told(nn.Module):
    """A map with what two convolutions of it give added; how much noise there is scales and shifts the first."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(width, width, 3, padding=1)
        self.second = nn.Conv2d(width, width, 3, padding=1)
        self.told = nn.Linear(_TOLD, 2 * width)
        nn.init.zeros_(self.second.weight)

    def forward(self, maps: torch.Tensor, told: torch.Tensor) -> torch.Tensor:
        scale, shift = self.told(told)[:, :, None, None].chunk(2, dim=1)
        inner = self.first(F.silu(maps)) * (1 + scale) + shift
        added: torch.Tensor = maps + self.second(F.silu(inner))
        return added


class Denoiser(nn.Module):
    """Noisy images float32 (N, C, H, W) and standard deviations (N,) to the images that are to be expected.

    A U-Net of two sizes (Ronneberger et al. 2015) behind a map of half the side, on which every pixel's four neighbours
    are channels.
    """

    def __init__(self, image_shape: tuple[int, int, int]) -> None:
        super().__init__()
        channels, height, across = image_shape
        self._sides = (height, across)
        self._padding = (0, -across % 4, 0, -height % 4)
        fine, coarse = _WIDTHS
        self.told = nn.Sequential(nn.Linear(1, _TOLD), nn.SiLU(), nn.Linear(_TOLD, _TOLD), nn.SiLU())
        self.begin = nn.Sequential(nn.PixelUnshuffle(2), nn.Conv2d(4 * channels, fine, 3, padding=1))
        self.down = _Told(fine)
        self.halve = nn.Conv2d(fine, coarse, 4, stride=2, padding=1)
        self.inner = nn.ModuleList([_Told(coarse), _Told(coarse)])
        self.enlarge = nn.ConvTranspose2d(coarse, fine, 4, stride=2, padding=1)
        self.join = nn.Conv2d(2 * fine, fine, 1)
        self.up = _Told(fine)
        self.end = nn.Sequential(nn.SiLU(), nn.Conv2d(fine, 4 * channels, 3, padding=1), nn.PixelShuffle(2))

    def forward(self, noisy: torch.Tensor, deviation: torch.Tensor) -> torch.Tensor:
        spread = deviation[:, None, None, None]
        both = spread.square() + _REAL_DEVIATION**2
        kept = _REAL_DEVIATION**2 / both
        added = spread * _REAL_DEVIATION / both.sqrt()
        return kept * noisy + added * self.network(noisy / both.sqrt(), deviation)

    def network(self, scaled: torch.Tensor, deviation: torch.Tensor) -> torch.Tensor:
        """The trained part: images (N, C, H, W) of about unit variance to as many values of about unit variance."""
        told = self.told(deviation.log()[:, None] / 4)
        fine = self.down(self.begin(F.pad(scaled, self._padding, mode="replicate")), told)
        coarse = self.halve(fine)
        for block in self.inner:
            coarse = block(coarse, told)
        joined = self.up(self.join(torch.cat([fine, self.enlarge(coarse)], dim=1)), told)
        values: torch.Tensor = self.end(joined).float()[..., : self._sides[0], : self._sides[1]]
        return values

    def levels(self, deviation: float, steps: int) -> list[float]:
        """From a deviation down to none, in equal ratios but for the last step."""
        last = min(_LAST_NOISE, deviation)
        return [*np.geomspace(deviation, last, steps).tolist(), 0.0] if steps > 1 else [deviation, 0.0]

    def clean(self, noisy: torch.Tensor, deviation: float) -> torch.Tensor:
        clean: torch.Tensor = self(noisy, torch.full((len(noisy),), deviation, device=noisy.device))
        return clean


class Restoring(Protocol):
    """A network that restores noisy images step by step."""

    def levels(self, deviation: float, steps: int) -> list[float]:
        """Standard deviations of the noise before so many steps at most, the given one first, and 0 at the end."""
        ...

    def clean(self, noisy: torch.Tensor, deviation: float) -> torch.Tensor:
        """The images that are to be expected behind noise of one deviation, float32 (N, C, H, W) both.

        Pixels without their noise are in [-1, 1].
        """
        ...


def restored(denoiser: Restoring, noisy: torch.Tensor, levels: Sequence[float]) -> torch.Tensor:
    """Images float32 (N, C, H, W) without their noise; each step down the levels takes a part of it away.

    Args:
        denoiser: says what clean images are to be expected.
        noisy: with noise of the first level.
        levels: standard deviations, falling to 0.
    """
    for now, then in itertools.pairwise(levels):
        clean = denoiser.clean(noisy, now)
        noisy = clean + then / now * (noisy - clean)
    return noisy


class DenoisingLesson(OneNetwork[Denoiser]):
    """See :class:`diffgen.sources.learned.training.Lesson`."""

    def __init__(self, denoiser: Denoiser, *, device: torch.device) -> None:
        super().__init__("denoiser", denoiser, rate=_LEARNING_RATE, most_gradient=_MOST_GRADIENT, device=device)

    def update(self, images: torch.Tensor, rng: torch.Generator) -> dict[str, torch.Tensor]:
        """One step down the pre-conditioned error, for noise of every strength."""
        pixels = to_unit(images)
        low, high = math.log(_LEAST_NOISE), math.log(_MOST_NOISE)
        deviation = (low + (high - low) * torch.rand(len(images), generator=rng)).exp().to(self.device)
        noise = torch.randn(pixels.shape, generator=rng).to(self.device)
        spread = deviation[:, None, None, None]
        noisy = pixels + spread * noise
        with self.autocast():
            clean = self.network(noisy, deviation)
        weight = (spread.square() + _REAL_DEVIATION**2) / (spread * _REAL_DEVIATION).square()
        loss = (weight * (clean - pixels).square()).mean()
        self.descend(loss)
        return {"loss": loss.detach()}

    def error(self, images: torch.Tensor) -> float:
        """Mean square of the difference in [-1, 1] between images and what is restored of them in one step."""
        pixels = to_unit(images.to(self.device))
        noise = torch.randn(pixels.shape, generator=torch.Generator().manual_seed(0)).to(self.device)
        with self.autocast():
            clean = self.network.clean(pixels + _MEASURED_NOISE * noise, _MEASURED_NOISE)
        return float((clean.clamp(-1, 1) - pixels).square().mean())


def _waves(side: int) -> torch.Tensor:
    """float32 (8, side): the lowest frequencies of the discrete cosine transform, orthonormal."""
    place = (torch.arange(side, dtype=torch.float64) + 0.5) / side
    waves = torch.cos(math.pi * torch.arange(_COARSE, dtype=torch.float64)[:, None] * place) * math.sqrt(2 / side)
    waves[0] = math.sqrt(1 / side)
    return waves.float()


def over_images(
    denoiser: Restoring, images: UInt8Array, *, deviation: float, steps: int, device: torch.device
) -> DenoisingSource:
    """The source over uint8 (N, C, H, W); of a large set some alone are what images are encoded to."""
    known = torch.from_numpy(affordable_rows(images))
    seeds = torch.from_numpy(images) if len(known) == len(images) else ImageRows(images)
    return DenoisingSource(denoiser, seeds, known, deviation=deviation, steps=steps, device=device)


class DenoisingSource:
    """See :class:`diffgen.sources.base.EncodingSource`.

    Genes are the coarse part of the noise and the row of the real image. What is finer is drawn once, the same for all:
    it is what restoring takes away, and noise of a gene for each pixel would have to be changed in hundreds of them
    before anything changes.

    Args:
        denoiser: trained, in eval mode, on ``device``.
        seeds: uint8 (N, C, H, W), real images.
        known: int64 (n,), rows of those that images are encoded to.
        deviation: of the noise, for pixels in [-1, 1].
        device: where it computes.
    """

    def __init__(
        self,
        denoiser: Restoring,
        seeds: torch.Tensor | ImageRows,
        known: torch.Tensor,
        *,
        deviation: float,
        steps: int,
        device: torch.device,
    ) -> None:
        count, channels, height, width = seeds.shape
        self.image_shape = (channels, height, width)
        self.space = SeedsAndNoise(channels * _COARSE**2, count)
        self._denoiser, self._seeds, self._known, self._device = denoiser, seeds, known, device
        self._deviation, self._levels = deviation, denoiser.levels(deviation, steps)
        self._down, self._across = _waves(height).to(device), _waves(width).to(device)
        noise = torch.randn(1, *self.image_shape, generator=torch.Generator().manual_seed(0)).to(device)
        self._fine = noise - self._coarse(self._down @ noise @ self._across.T)
        step = Step("restored_from_noise", (("levels", deviation * 127.5), ("steps", float(len(self._levels) - 1))))
        self._recipe = recipe_text((step,))

    def _coarse(self, values: torch.Tensor) -> torch.Tensor:
        """Noise (N, C, H, W) of values (N, C, 8, 8)."""
        return self._down.T @ values @ self._across

    @torch.inference_mode()
    def draw(self, genes: torch.Tensor) -> torch.Tensor:
        """uint8 (N, C, H, W) for float32 (N, length); bit for bit a function of each row."""
        if len(genes) == 0:
            return torch.empty(0, *self.image_shape, dtype=torch.uint8, device=self._device)
        return in_equal_parts(self._drawn, genes.to(torch.float32))

    def _drawn(self, genes: torch.Tensor) -> torch.Tensor:
        pixels = to_unit(self._seeds[self._rows(genes)].to(self._device))
        values = genes[:, :-1].to(self._device).reshape(len(genes), self.image_shape[0], _COARSE, _COARSE)
        noisy = pixels + self._deviation * (self._fine + self._coarse(values))
        return to_uint8(restored(self._denoiser, noisy, self._levels))

    def encode(self, images: torch.Tensor, labels: torch.Tensor | None = None) -> torch.Tensor:
        """float32 (N, length) on the CPU for uint8 (N, C, H, W): the nearest real image, and no coarse noise.

        The nearest of a real image is itself.
        """
        # of 64 bits, in which the sums of whole numbers are exact: of 32, an image was not the nearest to itself where
        # another differs in a few pixels, and which one was depended on its neighbours in the batch
        wanted = images.cpu().flatten(1).to(torch.float64)
        nearest = torch.empty(len(images), dtype=torch.int64)
        least = torch.full((len(images),), torch.inf, dtype=torch.float64)
        for rows in self._known.split(1_000):
            far = torch.cdist(wanted, self._seeds[rows].flatten(1).to(torch.float64)).min(dim=1)
            nearer = far.values < least
            least = torch.where(nearer, far.values, least)
            nearest = torch.where(nearer, rows[far.indices], nearest)
        genes = torch.zeros(len(images), self.space.length)
        genes[:, -1] = nearest
        return genes

    def origins(self, genes: torch.Tensor) -> Origins:
        """The real image of each."""
        return Origins(self._rows(genes).numpy(), (self._recipe,) * len(genes))

    def _rows(self, genes: torch.Tensor) -> torch.Tensor:
        """int64 (N,) on the CPU."""
        # as a run stores them: a picture is drawn again from stored genes
        return genes[:, -1].cpu().to(torch.float32).round().long()


FORMAT = "diffgen-denoiser-source-1"
_BATCH, _STEPS = 64, 1_500
_RESTORATIONS = 2  # steps in which an image is restored
_PIXELS = _BATCH * 32 * 32  # of an update, at most: with 64 images of 64x64 a training takes 25 minutes of two cores


@settings("source.denoiser")
class DenoiserSettings:
    """Settings of the family ``denoiser``."""

    strength: Literal["low", "high"] = setting(
        "low", "How much noise is laid over a real image: low leaves what it shows, high its coarse forms."
    )
    steps: Maybe[int] = setting(None, "Updates of its training (default: 1,500, fewer for few images).", ge=1, le=10**7)


class DenoiserFamily(LearnedFamily):
    """The denoiser is trained on the data once, then found in the cache; the seeds are all real images."""

    name = "denoiser"
    Settings = DenoiserSettings

    def gives(self, config: CompareConfig) -> Needs:
        return frozenset({"encoder"})  # genes say which image it is: halfway between two there is none

    def prepare(self, split: DataSplit, config: CompareConfig, context: FamilyContext) -> ImageSource:
        own: DenoiserSettings = self.settings(config)
        shape, device = split.data.image_shape, context.device
        self.supports(shape)
        with seeded(0):
            denoiser = Denoiser(shape).to(device)
        batch = _batch(shape)
        kept = obtain(
            Recipe(FORMAT, {}, planned("the denoiser", split, own.steps, batch, _STEPS)),
            split,
            context,
            {"denoiser": denoiser},
            lambda: DenoisingLesson(denoiser, device=device),
            dict,
        )
        real = split.data.images
        source = over_images(denoiser, real, deviation=DEVIATIONS[own.strength], steps=_RESTORATIONS, device=device)
        facts = {
            "kind": "real images with noise, restored by a denoiser",
            "seeds": f"{len(real):,} real images",
            "latent vector": f"{source.space.continuous} values of coarse noise, normal, and the real image",
            "noise": f"{127.5 * DEVIATIONS[own.strength]:.0f} grey levels ({own.strength}), restored in "
            f"{_RESTORATIONS} steps",
            **kept.facts(split),
        }
        return ImageSource(source, artifact=kept.path, facts=facts, real=True)


def _batch(image_shape: tuple[int, int, int]) -> int:
    """Images of an update: fewer where they are larger than 32x32, since every pixel costs as much."""
    _, height, width = image_shape
    return min(_BATCH, _PIXELS // (height * width))
