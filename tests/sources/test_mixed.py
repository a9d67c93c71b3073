"""Two sources as one: genes say which part draws, parts keep to themselves, and a part may join later."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from diffgen.data import load
from diffgen.errors import UserError
from diffgen.gan_training.augmentation import plain_background
from diffgen.gan_training.networks import DcganGenerator
from diffgen.labels.automatic import intended_labels
from diffgen.labels.store import UNLABELLED
from diffgen.origins import NO_SEED
from diffgen.sources.base import Source
from diffgen.sources.draws import NumpyDraws, TorchDraws, UnsearchedDraws
from diffgen.sources.gan import GanSource
from diffgen.sources.layout import LatentLayout
from diffgen.sources.mixed import MixedSource, MixedSpace
from diffgen.sources.operators import Scene
from diffgen.sources.seeds import SeedsSettings, SeedsSource
from diffgen.sources.space import Box, Crossing, Genes, Mutating, WithCategories, latent_space, random_genes

CPU = torch.device("cpu")
NUMBERS = st.integers(0, 10_000)


def two_parts(*, opened: tuple[int, ...] = (0, 1)) -> MixedSpace:
    first = WithCategories(Box(4), (50, 3, 3))
    return MixedSpace({"seeds": first, "gan": latent_space(6, "normal", 3, (2, 4, 6))}, list(opened))


def sampled(space: MixedSpace, count: int, seed: int) -> Genes:
    return space.repair(space.sample(count, NumpyDraws(np.random.default_rng(seed))))


def assert_canonical(space: MixedSpace, genes: Genes) -> None:
    """Only the columns of the part that draws are used, and they lie within its space."""
    part = space.part_of(genes)
    assert np.array_equal(genes[..., -1], part)
    for number, columns in enumerate(space.columns):
        others = np.setdiff1d(np.arange(space.length - 1), columns)
        own = genes[part == number]
        assert (own[:, others] == 0).all()
        inner = list(space.parts.values())[number]
        assert (own[:, columns] >= inner.low).all()
        assert (own[:, columns] <= inner.high).all()


@given(st.integers(1, 60), NUMBERS)
def test_samples_are_canonical_and_repair_leaves_them(count: int, seed: int) -> None:
    space = two_parts()
    assert space.length == 4 + 6 + 3 + 1 + 1 == len(space.low) == len(space.high)
    for draws in (
        NumpyDraws(np.random.default_rng(seed)),
        TorchDraws(torch.Generator().manual_seed(seed)),
        UnsearchedDraws(seed),
    ):
        assert_canonical(space, space.sample(count, draws))
    genes = sampled(space, count, seed)
    np.testing.assert_allclose(space.repair(genes), genes, atol=1e-12)
    wild = np.random.default_rng(seed).normal(0, 20, (count, space.length))
    assert_canonical(space, space.repair(wild))


@given(st.integers(1, 40), NUMBERS)
def test_parts_are_crossed_and_mutated_by_themselves(count: int, seed: int) -> None:
    space, rng = two_parts().searched("generator", 3.0), np.random.default_rng(seed)
    assert isinstance(space, MixedSpace)
    parents = np.stack([sampled(space, count, seed + n) for n in (0, 1)])
    before = parents.copy()
    children = space.crossover(parents, Crossing(0.9, 15.0), rng)
    assert_canonical(space, children.reshape(-1, space.length))
    apart = space.part_of(parents[0]) != space.part_of(parents[1])
    assert np.array_equal(children[:, apart], parents[:, apart])
    mutated = space.mutate(children[0], Mutating(0.5, 0.5, 20.0), rng)
    assert_canonical(space, space.repair(mutated))
    assert np.array_equal(space.part_of(mutated), space.part_of(children[0]))
    assert np.array_equal(parents, before)


@given(st.integers(1, 20), NUMBERS, st.floats(0, 1))
def test_there_is_no_way_from_part_to_part(count: int, seed: int, share: float) -> None:
    space = two_parts()
    start, end = (torch.from_numpy(sampled(space, count, seed + n)) for n in (0, 1))
    there = space.interpolate(start, end, torch.full((count, 1), share, dtype=torch.float64))
    same = start[:, -1] == end[:, -1]
    assert torch.equal(there[~same], (start if share < 0.5 else end)[~same])
    near = start if share < 0.5 else end
    assert torch.equal(there[same][:, space.continuous :], near[same][:, space.continuous :])
    like = space.others_like(start[0].float(), 5, torch.Generator().manual_seed(seed))
    assert torch.equal(like[:, space.continuous :], start[0, space.continuous :].float().expand(5, -1))
    assert_canonical(space, like.numpy())


def test_a_part_that_is_not_there_is_not_sampled() -> None:
    opened = [0]
    space = MixedSpace(two_parts().parts, opened)
    searched = space.searched("generator", 3.0)
    assert set(space.part_of(sampled(space, 200, 0))) == {0}
    opened.append(1)
    assert searched.opened == (0, 1)
    assert set(space.part_of(sampled(space, 200, 0))) == {0, 1}


def test_the_layout_is_kept_as_json_and_says_what_was_asked_for() -> None:
    space = two_parts()
    layout = space.layout()
    assert LatentLayout.read(json.loads(json.dumps(layout.as_dict()))) == layout
    assert layout.length == space.length
    genes = np.concatenate([space.sample_part(n, 6, NumpyDraws(np.random.default_rng(n))) for n in (0, 1)])
    said = intended_labels(genes.astype(np.float32), layout, 10)
    assert (said[:6] == UNLABELLED).all()
    assert said[6:].tolist() == [2 * int(number) + 2 for number in genes[6:, space.columns[1][-1]]]
    with pytest.raises(UserError, match="made from real images"):
        intended_labels(genes[:6].astype(np.float32), layout, 10)
    with pytest.raises(UserError, match="damaged"):
        intended_labels(genes[:, 1:].astype(np.float32), layout, 10)
    for wrong in ({"categories": [0]}, {"categories": ["3"]}, {"continuous": 0}, {"classes": 3, "categories": []}):
        entry = json.loads(json.dumps(layout.as_dict()))
        entry["parts"][1] |= wrong
        with pytest.raises((TypeError, ValueError)):
            LatentLayout.read(entry)


@pytest.fixture(scope="module")
def parts() -> dict[str, Source]:
    images = torch.from_numpy(load("digits:test").images)
    seeds = SeedsSource(Scene(images, plain_background(images), None), SeedsSettings(), device=CPU)
    torch.manual_seed(0)
    network = DcganGenerator((1, 28, 28), latent_dim=8, width=8, classes=10).eval().requires_grad_(False)
    for weights in network.parameters():
        if weights.dim() > 1:
            torch.nn.init.normal_(weights, std=0.1)  # as it begins, it draws grey
    return {"seeds": seeds, "gan": GanSource(network, device=CPU)}


@given(NUMBERS)
@settings(max_examples=10, deadline=None)
def test_an_image_is_that_of_its_part(parts: dict[str, Source], seed: int) -> None:
    source = MixedSource(dict(parts), device=CPU)
    assert isinstance(source, Source)
    genes = random_genes(source.space, 30, torch.Generator().manual_seed(seed))
    images, origins = source.draw(genes), source.origins(genes)
    assert torch.equal(source.draw(genes.flip(0)).flip(0), images)
    number = source.space.part_of(genes.numpy())
    assert (origins.seeds[number == 1] == NO_SEED).all()
    for row, (part, gene) in enumerate(zip(number.tolist(), genes, strict=True)):
        name = ("seeds", "gan")[part]
        own = gene[None, source.space.columns[part]]
        difference = images[row].int() - parts[name].draw(own)[0].int()
        # sums of a network may differ in their last digits with the size of the batch
        assert difference.abs().max() <= (part == 1)
        there = parts[name].origins(own)
        assert origins.recipes[row] == ("" if there is None else there.recipes[0])
        assert there is None or origins.seeds[row] == there.seeds[0]
    assert source.draw(genes[:0]).shape == (0, 1, 28, 28)


def test_a_part_joins(parts: dict[str, Source]) -> None:
    source = MixedSource({"seeds": parts["seeds"], "gan": parts["gan"].space}, device=CPU)
    genes = random_genes(source.space, 20, torch.Generator().manual_seed(0))
    before = source.draw(genes)
    with pytest.raises(ValueError, match="does not draw yet"):
        source.draw(torch.from_numpy(source.space.sample_part(1, 2, NumpyDraws(np.random.default_rng(0)))))
    with pytest.raises(ValueError, match="kept free"):
        source.join("gan", parts["seeds"])
    source.join("gan", parts["gan"])
    assert source.space.opened == (0, 1)
    assert torch.equal(source.draw(genes), before)


def test_images_are_turned_into_genes(parts: dict[str, Source]) -> None:
    """On what the generator drew itself: the descent comes nearer than the best random picture it begins with."""
    gan = parts["gan"]
    assert isinstance(gan, GanSource)
    wanted = gan.draw(random_genes(gan.space, 12, torch.Generator().manual_seed(5)))
    labels = random_genes(gan.space, 12, torch.Generator().manual_seed(5))[:, -1].long()
    genes = gan.encode(wanted, labels)
    assert genes.shape == (12, gan.space.length)
    assert torch.equal(genes[:, -1].long(), labels)
    assert torch.equal(genes, gan.encode(wanted, labels))
    begun = gan._nearest_random(wanted.float() / 127.5 - 1, labels)

    def distance(values: torch.Tensor) -> float:
        return float((gan.draw(values).float() - wanted.float()).square().mean())

    assert distance(genes) < 0.5 * distance(begun)
    assert gan.encode(wanted[:0]).shape == (0, gan.space.length)
    assert set(gan.encode(wanted)[:, -1].tolist()) <= set(range(10))
