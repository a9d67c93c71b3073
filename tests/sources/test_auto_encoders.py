"""The families ``vae`` and ``vq``: trained, kept, and drawing images as functions of their own genes bit for bit."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from sklearn.datasets import load_sample_image

from diffgen.config import CompareConfig, replace
from diffgen.data import load
from diffgen.data.split import DataSplit
from diffgen.errors import UserError
from diffgen.events import Event, Message, Progress
from diffgen.features.encoder import DomainEncoder
from diffgen.sources.base import EncodingSource, FamilyContext, ImageSource
from diffgen.sources.draws import NumpyDraws
from diffgen.sources.learned.kept import Kept
from diffgen.sources.registry import checked_source, family_named
from diffgen.sources.space import random_genes
from diffgen.sources.vae import VaeSettings
from diffgen.sources.vq import AdversarialLesson, QuantisedCoder, VqSettings
from diffgen.types import ImageSet

CPU = torch.device("cpu")


def colours() -> ImageSet:
    """120 pieces of a photograph, of 24x20 pixels: sides that a map of cells does not divide."""
    image = load_sample_image("china.jpg").transpose(2, 0, 1)
    pieces = [image[:, y : y + 24, x : x + 20] for y in range(0, 400, 40) for x in range(0, 600, 50)]
    return ImageSet(np.stack(pieces), None, None, "colours")


def said(events: list[Event]) -> str:
    return " ".join(each.text for each in events if isinstance(each, Message))


def prepared(images: ImageSet, own: VaeSettings | VqSettings) -> tuple[ImageSource, str]:
    """The source, and what was said."""
    config = CompareConfig()
    config = replace(config, source=config.source.with_family(own))
    family = family_named("vq" if isinstance(own, VqSettings) else "vae")
    events: list[Event] = []
    context = FamilyContext(DomainEncoder(images.image_shape), CPU, Progress(events.append))
    return family.prepare(DataSplit(images, config.split), config, context), said(events)


@pytest.fixture(scope="module")
def digits() -> ImageSet:
    return load("digits:test")


@pytest.fixture(scope="module")
def dense(digits: ImageSet) -> ImageSource:
    return prepared(digits, VaeSettings(steps=100, latent_dim=20))[0]


@pytest.fixture(scope="module")
def spatial() -> ImageSource:
    return prepared(colours(), VaeSettings(steps=40))[0]


@pytest.fixture(scope="module")
def quantised(digits: ImageSet) -> ImageSource:
    """With its discriminators, of which the last few updates are."""
    return prepared(digits, VqSettings(steps=24, discriminators=True))[0]


@pytest.fixture(params=["dense", "spatial", "quantised"])
def source(request: pytest.FixtureRequest) -> EncodingSource:
    found = request.getfixturevalue(request.param).source
    assert isinstance(found, EncodingSource)
    return found


def test_it_draws_held_out_digits_again(dense: ImageSource, digits: ImageSet) -> None:
    source = dense.source
    assert isinstance(source, EncodingSource)
    held_out = DataSplit(digits, CompareConfig().split).held_out
    genes = source.encode(held_out)
    assert genes.shape == (len(held_out), 20)
    error = (source.draw(genes).float() - held_out.float()).square().mean()
    assert error < 0.5 * (held_out.float() - held_out.float().mean(dim=0)).square().mean()


def test_an_image_is_a_function_of_its_genes_bit_for_bit(source: EncodingSource) -> None:
    genes = random_genes(source.space, 40, torch.Generator().manual_seed(0))
    drawn = source.draw(genes)
    for size in (7, 33):
        assert torch.equal(torch.cat([source.draw(part) for part in genes.split(size)]), drawn)
    assert torch.equal(torch.cat([source.draw(row) for row in genes[:3].split(1)]), drawn[:3])
    order = torch.randperm(40, generator=torch.Generator().manual_seed(1))
    assert torch.equal(source.draw(genes[order]), drawn[order])
    assert torch.equal(source.draw(genes.double()), drawn)
    checked_source(source, "its own", source.image_shape)


def test_genes_are_a_function_of_their_image_bit_for_bit(source: EncodingSource) -> None:
    images = source.draw(random_genes(source.space, 40, torch.Generator().manual_seed(0)))
    genes = source.encode(images)
    assert torch.equal(torch.cat([source.encode(part) for part in images.split(7)]), genes)
    assert torch.equal(torch.cat([source.encode(image) for image in images[:3].split(1)]), genes[:3])
    assert torch.equal(source.encode(images.flip(0)), genes.flip(0))


def test_nothing_asked_nothing_made(source: EncodingSource) -> None:
    none = source.draw(torch.empty(0, source.space.length))
    assert (none.shape, none.dtype) == ((0, *source.image_shape), torch.uint8)
    assert source.encode(none).shape == (0, source.space.length)


def test_real_images_lie_in_the_space(source: EncodingSource, digits: ImageSet) -> None:
    images = digits if source.image_shape[0] == 1 else colours()
    genes = source.encode(DataSplit(images, CompareConfig().split).reference).double().numpy()
    assert np.array_equal(source.space.repair(genes), genes)
    drawn = source.space.sample(200, NumpyDraws(np.random.default_rng(0)))
    assert np.array_equal(source.space.repair(drawn), drawn)


def test_genes_of_a_map_are_drawn_between_real_ones(spatial: ImageSource) -> None:
    """As an independent look at it: each is on the way from one known code to another, nearer to the first."""
    source = spatial.source
    assert source is not None
    known = source.space._known  # type: ignore[attr-defined]
    for genes in source.space.sample(5, NumpyDraws(np.random.default_rng(0))):
        misses = [
            np.abs(np.outer(share, end - start) + start - genes).max(axis=1).min()
            for start in known
            for end in known
            for share in [np.linspace(0, 0.5, 21)]
        ]
        assert min(misses) < 0.05 * np.abs(known).max()


@pytest.mark.parametrize("kind", ["dense", "spatial", "quantised"])
def test_it_is_trained_once_and_computes_the_same_from_the_cache(
    kind: str, digits: ImageSet, request: pytest.FixtureRequest
) -> None:
    """The order of weights in memory decides on last digits, and on whether they follow the number of images."""
    first: ImageSource = request.getfixturevalue(kind)
    own = {
        "dense": VaeSettings(steps=100, latent_dim=20),
        "spatial": VaeSettings(steps=40),
        "quantised": VqSettings(steps=24, discriminators=True),
    }[kind]
    again, said = prepared(colours() if kind == "spatial" else digits, own)
    assert "in the cache" in said
    assert again.artifact == first.artifact
    one, other = first.source, again.source
    assert isinstance(one, EncodingSource) and isinstance(other, EncodingSource)
    genes = random_genes(one.space, 40, torch.Generator().manual_seed(2))
    images = one.draw(genes)
    assert torch.equal(other.draw(genes), images)
    assert torch.equal(torch.cat([other.draw(part) for part in genes.split(7)]), images)
    assert torch.equal(other.encode(images), one.encode(images))
    assert torch.equal(torch.cat([other.encode(part) for part in images.split(7)]), one.encode(images))
    assert [each.scorer is None for each in (first, again)] == [kind != "quantised"] * 2
    if first.scorer is not None and again.scorer is not None:
        scores = first.scorer.score(images)
        assert torch.equal(again.scorer.score(images), scores)
        assert torch.equal(torch.cat([again.scorer.score(part) for part in images.split(7)]), scores)


def test_a_damaged_file_is_made_anew(digits: ImageSet) -> None:
    own = VaeSettings(steps=20, latent_dim=3)
    made, _ = prepared(digits, own)
    assert made.artifact is not None
    whole = made.artifact.read_bytes()
    made.artifact.write_bytes(whole[:1000])
    _, said = prepared(digits, own)
    assert "cannot be read" in said and "made anew" in said
    assert made.artifact.read_bytes() == whole


def test_what_has_learnt_nothing_is_warned_about(digits: ImageSet) -> None:
    assert "of little use" in prepared(digits, VaeSettings(steps=1, latent_dim=1))[1]


@pytest.mark.parametrize("name", ["vae", "vq"])
def test_sizes_that_it_cannot_draw(name: str) -> None:
    family = family_named(name)
    for shape in ((1, 8, 8), (3, 64, 64), (1, 28, 20)):
        family.supports(shape)
    for shape, mend in (((1, 7, 20), "--resize 32"), ((3, 65, 64), "--resize 64"), ((2, 28, 28), "grey or RGB")):
        with pytest.raises(UserError, match=mend):
            family.supports(shape)


def test_grey_images_may_have_a_map_too(digits: ImageSet) -> None:
    made, _ = prepared(digits, VaeSettings(steps=2, codes="spatial"))
    assert made.source is not None and made.source.space.length == 16 * 7 * 7


def test_drawing_rounds_the_genes(quantised: ImageSource) -> None:
    """A step changes the image, and what stays at the same step does not."""
    source = quantised.source
    assert isinstance(source, EncodingSource)
    genes = random_genes(source.space, 4, torch.Generator().manual_seed(0)).reshape(4, 4, 49)
    half = torch.tensor([4.0, 2.0, 2.0, 2.0])[:, None]  # of 8, 5, 5 and 5 steps
    rounded = (genes * half).round() / half
    drawn = source.draw(genes.flatten(1))
    assert torch.equal(source.draw(rounded.flatten(1)), drawn)
    aside = (rounded + 0.4 / half * torch.sign(genes - rounded)).flatten(1)
    assert torch.equal(source.draw(aside), drawn)
    moved = torch.where(rounded < 0, rounded + 1 / half, rounded - 1 / half)
    assert (source.draw(moved.flatten(1)) != drawn).flatten(1).any(dim=1).all()


@given(st.lists(st.integers(3, 16), min_size=1, max_size=6), st.integers(0, 2**32 - 1))
def test_rounding_reaches_every_step_and_no_other(levels: list[int], seed: int) -> None:
    coder = QuantisedCoder((1, 8, 8), levels=levels)
    rng = torch.Generator().manual_seed(seed)
    values = torch.cat([9 * torch.randn(60, *coder.map, generator=rng), torch.full((2, *coder.map), 99.0)])
    values[-1] *= -1
    codes = coder.rounded(coder.bounded(values))
    low, high = (each.reshape(coder.map) for each in coder.bounds())
    assert (codes.amin(dim=0) == low).all() and (codes.amax(dim=0) == high).all()
    for number, count in enumerate(levels):
        steps = codes[:, number] * (count // 2)
        assert torch.equal(steps, steps.round())
        assert high[number].unique() * (count // 2) - low[number].unique() * (count // 2) == count - 1


def test_the_gradient_of_rounding_is_that_of_nothing() -> None:
    coder = QuantisedCoder((1, 8, 8), levels=(8, 5))
    codes = torch.linspace(-0.9, 0.7, 32).reshape(1, 2, 4, 4).requires_grad_(True)
    coder.rounded(codes).sum().backward()
    assert codes.grad is not None and torch.equal(codes.grad, torch.ones_like(codes))


def test_its_discriminator_is_a_scorer(quantised: ImageSource, digits: ImageSet) -> None:
    scorer = quantised.scorer
    assert scorer is not None
    images = torch.from_numpy(digits.images[:40])
    scores = scorer.score(images)
    assert scores.shape == (40,) and scores.dtype == torch.float32
    assert torch.equal(torch.cat([scorer.score(part) for part in images.split(7)]), scores)
    # a grey image has one order of its values, and more than one set of strides
    assert torch.equal(scorer.score(images.as_strided(images.shape, (784, 1, 28, 1))), scores)
    noise = torch.randint(256, images.shape, generator=torch.Generator().manual_seed(0), dtype=torch.uint8)
    assert not torch.equal(scorer.score(noise), scores)
    assert scorer.score(images[:0]).shape == (0,)


def test_the_discriminators_join_half_way(digits: ImageSet, monkeypatch: pytest.MonkeyPatch) -> None:
    joined: list[int] = []
    update = AdversarialLesson.update

    def watched(self: AdversarialLesson, images: torch.Tensor, rng: torch.Generator) -> dict[str, torch.Tensor]:
        losses = update(self, images, rng)
        joined.append(len(losses))
        return losses

    monkeypatch.setattr(AdversarialLesson, "update", watched)
    made, _ = prepared(digits, VqSettings(steps=8, discriminators=True, levels=(5, 5)))
    assert joined == [1] * 4 + [3] * 4
    assert made.scorer is not None


def test_without_discriminators_there_is_no_scorer(digits: ImageSet) -> None:
    assert prepared(digits, VqSettings(steps=2))[0].scorer is None


@pytest.mark.parametrize("levels", [(8, 2), (0,), (300,), (5,) * 65])
def test_levels_that_nothing_can_be_rounded_to(levels: tuple[int, ...]) -> None:
    with pytest.raises(UserError, match="from 3 to 256"):
        VqSettings(levels=levels)


def test_of_images_that_are_all_alike_figures_stay_figures(digits: ImageSet) -> None:
    twice = replace(digits, images=np.zeros((2, 1, 28, 28), np.uint8), labels=None)
    made, said = prepared(twice, VaeSettings(steps=2, latent_dim=1))
    assert "it draws 0% again of what tells real images apart" in said
    assert made.artifact is not None
    header = {"steps": 2, "error": 0.0, "explained": 1.0}
    facts = Kept(made.artifact, header, {}).facts(DataSplit(twice, CompareConfig().split))
    assert facts["drawn again"] == "held-out images, within 96.0 dB of themselves"
