"""The encoder of a GAN: what it finds, what descent adds, and that it is trained once for a GAN's file."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from diffgen.config import CompareConfig, GanConfig, replace
from diffgen.data import load
from diffgen.data.split import DataSplit
from diffgen.events import Event, Message, Progress
from diffgen.features.encoder import DomainEncoder
from diffgen.gan_training import checkpoint
from diffgen.gan_training.networks import DcganGenerator, to_unit
from diffgen.gan_training.trainer import train as train_gan
from diffgen.numerics import seeded
from diffgen.sources import gan
from diffgen.sources.base import FamilyContext, ImageSource
from diffgen.sources.gan import GanFamily, GanSource
from diffgen.sources.learned.inversion import Inversion, InversionLesson, _in_any_order, descended
from diffgen.sources.learned.training import Plan, train
from diffgen.sources.space import random_genes
from diffgen.types import ImageSet

CPU = torch.device("cpu")
SHAPE, LATENT_DIM, LABELS = (1, 28, 28), 4, (2, 5, 9)


@pytest.fixture(scope="module")
def source() -> GanSource:
    """A generator of random weights, whose pictures differ much, with an encoder that has seen some of them."""
    with seeded(0):
        network = DcganGenerator(SHAPE, latent_dim=LATENT_DIM, width=8, classes=3)
        for each in network.parameters():
            each.data *= 3
        encoder = Inversion(SHAPE, latent_dim=LATENT_DIM, classes=3)
    made = GanSource(network, device=CPU, class_labels=LABELS)
    network.requires_grad_(False)
    images = pictures(made, 256)[0]
    lesson = InversionLesson(encoder, network, device=CPU)
    train(lesson, images, images[:64], Plan("it", 120, 32, 0, ends_early=False), device=CPU)
    made.encoder = encoder
    return made


def pictures(source: GanSource, count: int, seed: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    """Random pictures, and their genes."""
    genes = random_genes(source.space, count, torch.Generator().manual_seed(seed))
    return source.draw(genes), genes


def missed(source: GanSource, images: torch.Tensor, genes: torch.Tensor) -> torch.Tensor:
    """Mean square of the difference between each image and what is drawn from its genes."""
    return (to_unit(source.draw(genes)) - to_unit(images)).square().flatten(1).mean(dim=1)


def test_it_finds_where_pictures_come_from_and_descent_brings_them_nearer(source: GanSource) -> None:
    images, genes = pictures(source, 60, seed=1)
    assert source.encoder is not None
    with torch.no_grad():
        values, scores = source.encoder(to_unit(images))
    assert (scores.argmax(dim=1) == genes[:, -1]).float().mean() > 0.6
    random = missed(source, images, pictures(source, 60, seed=2)[1]).mean()
    at_once = missed(source, images, torch.cat([values, genes[:, -1:]], dim=1))
    labels = torch.tensor(LABELS)[genes[:, -1].long()]
    found = missed(source, images, source.encode(images, labels))
    assert at_once.mean() < 0.5 * random
    assert found.mean() < 0.8 * at_once.mean()


def test_genes_are_a_function_of_their_image_bit_for_bit(source: GanSource) -> None:
    images, genes = pictures(source, 9, seed=3)
    labels = torch.tensor(LABELS)[genes[:, -1].long()]
    found = source.encode(images, labels)
    assert torch.equal(torch.cat([source.encode(images[a:b], labels[a:b]) for a, b in ((0, 1), (1, 9))]), found)
    assert torch.equal(source.encode(images.flip(0), labels.flip(0)), found.flip(0))
    assert source.encode(images[:0]).shape == (0, source.space.length)
    assert found.dtype == torch.float32 and not found.requires_grad


def test_the_gradient_is_that_of_the_product_whatever_the_order_of_rows() -> None:
    layer = torch.nn.Linear(70, 900, bias=False)
    after = torch.randn(32, 900, generator=torch.Generator().manual_seed(0)) * torch.logspace(-6, 3, 32)[:, None]
    after[5] = 0
    hook = _in_any_order(layer)
    (found,) = hook(layer, (None,), (after,))
    exact = after.double() @ layer.weight.detach().double()
    assert ((found - exact).norm(dim=1) <= 1e-5 * exact.norm(dim=1)).all()
    turned = torch.randperm(32, generator=torch.Generator().manual_seed(1))
    assert torch.equal(hook(layer, (None,), (after[turned],))[0], found[turned])
    assert torch.equal(hook(layer, (None,), (after[7:8],))[0], found[7:8])


def test_the_class_is_that_of_the_label_where_one_stands_for_it(source: GanSource) -> None:
    images, _ = pictures(source, 4)
    assert source.encode(images, torch.tensor([9, 2, 5, 5]))[:, -1].tolist() == [2, 0, 1, 1]
    own = source.encode(images)
    assert torch.equal(source.encode(images, torch.tensor([0, 1, 3, -1])), own)  # labels of no class
    source.encoder, encoder = None, source.encoder
    try:
        assert source.encode(images, torch.tensor([9, 2, 5, 5]))[:, -1].tolist() == [2, 0, 1, 1]
        assert torch.equal(source.encode(images, torch.tensor([0, 1, 3, -1])), source.encode(images))
    finally:
        source.encoder = encoder


def test_descent_is_adam_on_the_squared_difference(source: GanSource) -> None:
    """The slow way: image by image, by hand."""
    images, genes = pictures(source, 2, seed=5)
    wanted, begin = to_unit(images), genes.clone()
    begin[:, :-1] += 0.3
    ours = descended(source.network, begin, wanted, steps=3, rate=0.05)
    for row in range(2):
        value, mean, square = begin[row, :-1].double(), torch.zeros(LATENT_DIM), torch.zeros(LATENT_DIM)
        for step in range(1, 4):
            point = value.float()[None].requires_grad_(True)
            drawn = source.network(torch.cat([point, begin[row : row + 1, -1:]], dim=1))
            (slope,) = torch.autograd.grad((drawn - wanted[row]).square().sum(), point)
            mean, square = 0.9 * mean + 0.1 * slope[0], 0.999 * square + 0.001 * slope[0].square()
            value = value - 0.05 * (mean / (1 - 0.9**step)) / ((square / (1 - 0.999**step)).sqrt() + 1e-8)
        torch.testing.assert_close(ours[row, :-1].double(), value, rtol=0, atol=1e-3)
        assert ours[row, -1] == genes[row, -1]


def test_a_generator_without_classes() -> None:
    with seeded(0):
        network = DcganGenerator(SHAPE, latent_dim=3, width=8)
        encoder = Inversion(SHAPE, latent_dim=3, classes=0)
    source = GanSource(network, device=CPU)
    images = pictures(source, 40)[0]
    train(InversionLesson(encoder, network, device=CPU), images, images, Plan("it", 3, 8, 0), device=CPU)
    source.encoder = encoder
    assert source.encode(images[:3]).shape == (3, 3)
    assert torch.equal(source.encode(images[:3], torch.tensor([1, 2, 3])), source.encode(images[:3]))


def test_it_is_trained_once_where_genes_are_asked_for(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(gan, "_STEPS", 4)
    digits: ImageSet = load("digits:test")
    path = tmp_path / "gan.safetensors"
    images, labels = torch.from_numpy(digits.images), torch.from_numpy(digits.labels)
    trained = train_gan(images, GanConfig(latent_dim=6, width=8, steps=4, batch_size=16), labels=labels)
    split = DataSplit(digits, CompareConfig().split)
    checkpoint.save(path, trained, width=8, about={"data": digits.digest, "wrong": None})
    config = replace(CompareConfig(), gan_file=str(path))

    def prepared(*, encoding: bool) -> tuple[ImageSource, str]:
        events: list[Event] = []
        context = FamilyContext(DomainEncoder(SHAPE), CPU, Progress(events.append), encoding=encoding)
        made = GanFamily().prepare(split, config, context)
        return made, " ".join(each.text for each in events if isinstance(each, Message))

    without, said = prepared(encoding=False)
    assert isinstance(without.source, GanSource) and without.source.encoder is None
    assert "encoder" not in without.facts and "Training" not in said
    made, said = prepared(encoding=True)
    assert "Training the GAN's encoder" in said
    assert "The GAN's encoder is of little use" in said and "--source vae or vq" in said
    assert "trained for 4 updates" in made.facts["encoder"]
    again, said = prepared(encoding=True)
    assert "encoder for this data set is in the cache" in said
    assert isinstance(made.source, GanSource) and isinstance(again.source, GanSource)
    assert torch.equal(made.source.encode(images[:5], labels[:5]), again.source.encode(images[:5], labels[:5]))
