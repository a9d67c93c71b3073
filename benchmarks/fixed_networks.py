"""Networks and archive content for measurements of speed: made from seeds, nothing trained, no file read.

What is measured must not depend on how well something was trained, nor on how fast: a generator of fixed architecture,
two classifiers that disagree on a share of its pictures as real pairs do, and triggers that are pictures of strokes.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import nn

from benchmarks.lenet_pair import lenet5
from diffgen.features.vae import Vae
from diffgen.filters import DiscriminatorFilter, Filter, FilterPipeline, ReconstructionFilter, SsimFilter
from diffgen.gan_training.networks import DcganDiscriminator, DcganGenerator, folded, to_uint8
from diffgen.models import BlackBox
from diffgen.models import load as load_model
from diffgen.runs.triggers import TriggerTable
from diffgen.search.archive import Archive
from diffgen.sources.gan import DiscriminatorScorer, GanSource

LATENT_DIM = 100
CLASSES = 10
WIDTH = 32  # of the generator: as diffgen trains it
SHAPE = {"lenet5": (1, 28, 28), "resnet20": (3, 32, 32)}
_ACCEPTS_ALL = -1e6  # a threshold below every score
_AT_ONCE = 0.8  # of the triggers of searches of MNIST (0.78 to 0.82) and Fashion-MNIST (0.81)
_REAL, _HELD_OUT = 10_000, 1_000  # images that the filters know, and of these those that thresholds would come from
_DISTANCE = 0.1  # of the second classifier's weights from the first's, relative; about a third of pictures disagree


class _Block(nn.Module):
    """Basic block of ResNet-20 for CIFAR (He et al. 2016, section 4.2), identity shortcuts (option A)."""

    def __init__(self, before: int, after: int) -> None:
        super().__init__()
        self.stride = after // before
        self.first = nn.Conv2d(before, after, 3, stride=self.stride, padding=1, bias=False)
        self.first_norm = nn.BatchNorm2d(after)
        self.second = nn.Conv2d(after, after, 3, padding=1, bias=False)
        self.second_norm = nn.BatchNorm2d(after)
        self.added = after - before

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = torch.relu(self.first_norm(self.first(x)))
        shortcut = x[:, :, :: self.stride, :: self.stride]
        shortcut = nn.functional.pad(shortcut, (0, 0, 0, 0, 0, self.added))
        return torch.relu(self.second_norm(self.second(y)) + shortcut)


def resnet20(classes: int = CLASSES) -> nn.Module:
    """ResNet-20, logits for 3x32x32 images in 0..1; 270,000 weights."""
    blocks: list[nn.Module] = []
    before = 16
    for after in (16, 32, 64):
        for _ in range(3):
            blocks.append(_Block(before, after))
            before = after
    stem = [nn.Conv2d(3, 16, 3, padding=1, bias=False), nn.BatchNorm2d(16), nn.ReLU()]
    return nn.Sequential(*stem, *blocks, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, classes))


@dataclass(frozen=True)
class FixedNetworks:
    """A generator and two classifiers, as plain networks and as the search takes them."""

    draws: nn.Module
    classifiers: tuple[nn.Module, nn.Module]
    generator: GanSource
    black_boxes: tuple[BlackBox, BlackBox]

    def forward_only(self, latents: torch.Tensor) -> list[torch.Tensor]:
        """What the networks alone do for a batch: draw, round to bytes, both classifiers' probabilities."""
        images = to_uint8(self.draws(latents))
        return [torch.softmax(network(images.to(torch.float32) / 255), dim=1) for network in self.classifiers]


def make_networks(kind: str, device: torch.device) -> FixedNetworks:
    """The networks of ``lenet5`` or ``resnet20``; the same on every machine up to rounding."""
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(0)
        drawing = DcganGenerator(SHAPE[kind], latent_dim=LATENT_DIM, width=WIDTH)
        make = lenet5 if kind == "lenet5" else resnet20
        first, second = make(), make()
        z = torch.randn(512, LATENT_DIM)
        with torch.no_grad():
            last = [module for module in drawing.modules() if isinstance(module, nn.Conv2d)][-1]
            last.weight *= 8  # full contrast
            _settle(drawing, z)
            images = to_uint8(drawing(z)).to(torch.float32) / 255
            noise = {name: value.clone() for name, value in second.named_parameters()}
            for name, value in second.named_parameters():
                value.copy_(first.get_parameter(name) + _DISTANCE * noise[name])
            for network in (first, second):
                _settle(network, images)
                _spread(network, images)
    classifiers = (first.to(device), second.to(device))
    boxes = []
    for number, network in enumerate(classifiers):
        box = load_model(network, device=device, name=f"{kind} {'AB'[number]}")
        box.prepare((images[:64] * 255).to(torch.uint8).numpy())
        boxes.append(box)
    generator = GanSource(drawing, device=device)
    # alone they draw as the source does
    return FixedNetworks(folded(generator.network), classifiers, generator, (boxes[0], boxes[1]))


def make_filters(kind: str, networks: FixedNetworks, device: torch.device) -> FilterPipeline:
    """The default filters with networks that learnt nothing: they cost what real ones cost.

    Discriminator and auto-encoder accept everything. The cost of SSIM hangs on how many pictures are like their nearest
    real image at once; its threshold makes that ``_AT_ONCE`` of what the generator draws.
    """
    shape = SHAPE[kind]
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(0)
        scorer = DiscriminatorScorer(DcganDiscriminator(shape, width=WIDTH, classes=CLASSES), device=device)
        auto_encoder = Vae(shape).eval().requires_grad_(False).to(device)
    real = torch.from_numpy(stroke_images(_REAL, shape))
    nearest = SsimFilter(neighbors=1, device=device)
    nearest.fit(real[_HELD_OUT:])
    drawn = networks.generator.draw(torch.randn(1000, LATENT_DIM, generator=torch.Generator().manual_seed(2)))
    chain: list[Filter] = [
        DiscriminatorFilter(scorer, threshold=_ACCEPTS_ALL),
        ReconstructionFilter(lambda real: auto_encoder, threshold=_ACCEPTS_ALL),
        SsimFilter(threshold=float(nearest.score(drawn).quantile(1 - _AT_ONCE)), device=device),
    ]
    pipeline = FilterPipeline(chain)
    pipeline.fit(real[_HELD_OUT:], real[:_HELD_OUT])
    return pipeline


def _settle(network: nn.Module, inputs: torch.Tensor) -> None:
    """Batch norm's statistics as they are for these inputs, and evaluation mode."""
    norms = [module for module in network.modules() if isinstance(module, nn.BatchNorm2d)]
    for module in norms:
        module.momentum = None
    network.train()
    network(inputs)
    network.eval()


def _spread(network: nn.Module, images: torch.Tensor) -> None:
    """Scale and shift the logits, so that all classes are given and probabilities are clear ones."""
    logits = network(images)
    last = [module for module in network.modules() if isinstance(module, nn.Linear)][-1]
    scale = 4 / logits.std(dim=0)
    last.weight *= scale[:, None]
    last.bias.copy_((last.bias - logits.mean(dim=0)) * scale)


def stroke_images(count: int, shape: tuple[int, int, int], *, seed: int = 0) -> np.ndarray:
    """uint8 (count, C, H, W): curved strokes, all different, of about twelve kinds."""
    rng = np.random.default_rng(seed)
    channels, height, width = shape
    kinds = rng.uniform(-0.7, 0.7, (12, 3, 2))  # three control points of a quadratic curve each
    t = np.linspace(0, 1, 9)
    basis = np.stack([(1 - t) ** 2, 2 * t * (1 - t), t**2], axis=1)
    ys, xs = np.mgrid[-1 : 1 : height * 1j, -1 : 1 : width * 1j].astype(np.float32)
    out = np.empty((count, *shape), dtype=np.uint8)
    for start in range(0, count, 2000):
        rows = min(2000, count - start)
        points = kinds[rng.integers(12, size=rows)] + rng.normal(0, 0.15, (rows, 3, 2))
        curve = np.einsum("tp,npc->ntc", basis, points).astype(np.float32)
        ink = np.zeros((rows, height, width), dtype=np.float32)
        for step in range(len(t)):
            y, x = curve[:, step, 0, None, None], curve[:, step, 1, None, None]
            np.maximum(ink, np.exp(-((ys - y) ** 2 + (xs - x) ** 2) / 0.02), out=ink)
        colour = rng.uniform(0.5, 1.0, (rows, channels, 1, 1)).astype(np.float32)
        out[start : start + rows] = (255 * colour * ink[:, None]).astype(np.uint8)
    return out


def fill_archive(archive: Archive, count: int, shape: tuple[int, int, int], *, seed: int = 0) -> None:
    """Put ``count`` triggers into an archive: strokes, with label pairs as uneven as real runs have them."""
    rng = np.random.default_rng(seed + 1)
    images = stroke_images(count, shape, seed=seed)
    weights = 1 / np.arange(1, CLASSES * (CLASSES - 1) + 1)
    pairs = rng.choice(len(weights), size=count, p=weights / weights.sum())
    first = pairs // (CLASSES - 1)
    second = (first + 1 + pairs % (CLASSES - 1)) % CLASSES
    for start in range(0, count, 5000):
        rows = slice(start, min(start + 5000, count))
        size = rows.stop - rows.start
        probabilities = np.full((size, 2, CLASSES), 0.01, dtype=np.float32)
        probabilities[np.arange(size), 0, first[rows]] = 0.91
        probabilities[np.arange(size), 1, second[rows]] = 0.91
        archive.add(
            TriggerTable.of(
                images[rows],
                probabilities,
                divergence=np.full(size, 2.27, dtype=np.float32),
                query=np.arange(rows.start + 1, rows.stop + 1),
            )
        )
        archive.flush(everything=True)
