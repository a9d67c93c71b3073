"""The family ``denoiser``: noise over real images, restored; every image a function of its own genes bit for bit."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from diffgen.config import CompareConfig, replace
from diffgen.data import load
from diffgen.data.split import DataSplit
from diffgen.errors import UserError
from diffgen.events import Event, Message, Progress
from diffgen.features.encoder import DomainEncoder
from diffgen.origins import read_recipe
from diffgen.sources.base import EncodingSource, FamilyContext
from diffgen.sources.denoiser import (
    Denoiser,
    DenoiserFamily,
    DenoiserSettings,
    DenoisingSource,
    SeedsAndNoise,
    restored,
)
from diffgen.sources.draws import NumpyDraws
from diffgen.sources.learned.kept import Recipe
from diffgen.sources.registry import checked_source
from diffgen.sources.space import Mutating, random_genes
from diffgen.types import ImageSet

CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def digits() -> ImageSet:
    return load("digits:test")


def prepared(images: ImageSet, *, batch: int | None = 16, **given: object) -> tuple[DenoisingSource, str]:
    """A source that has learned to take noise away, and no more, and what was said."""
    config, events = CompareConfig(), list[Event]()
    own = DenoiserSettings(steps=60, **given)  # type: ignore[arg-type]
    config = replace(config, source=config.source.with_family(own))
    context = FamilyContext(DomainEncoder(images.image_shape), CPU, Progress(events.append))
    with pytest.MonkeyPatch.context() as patch:
        if batch is not None:
            patch.setattr("diffgen.sources.denoiser._BATCH", batch)
        source = DenoiserFamily().prepare(DataSplit(images, config.split), config, context).source
    assert isinstance(source, DenoisingSource) and isinstance(source, EncodingSource)
    return source, " ".join(each.text for each in events if isinstance(each, Message))


@pytest.fixture(scope="module")
def source(digits: ImageSet) -> DenoisingSource:
    return prepared(digits)[0]


def test_an_image_is_a_function_of_its_genes_bit_for_bit(source: DenoisingSource) -> None:
    genes = random_genes(source.space, 40, torch.Generator().manual_seed(0))
    drawn = source.draw(genes)
    for size in (7, 33):
        assert torch.equal(torch.cat([source.draw(part) for part in genes.split(size)]), drawn)
    assert torch.equal(torch.cat([source.draw(row) for row in genes[:3].split(1)]), drawn[:3])
    order = torch.randperm(40, generator=torch.Generator().manual_seed(1))
    assert torch.equal(source.draw(genes[order]), drawn[order])
    checked_source(source, "its own", source.image_shape)


def test_the_image_is_its_seed_but_for_the_noise(source: DenoisingSource, digits: ImageSet) -> None:
    genes = random_genes(source.space, 40, torch.Generator().manual_seed(0))
    seeds = torch.from_numpy(digits.images)[genes[:, -1].long()].float()
    drawn = source.draw(genes).float()
    far = torch.cdist(drawn.flatten(1), seeds.flatten(1))
    assert (far.argmin(dim=1) == torch.arange(40)).float().mean() > 0.9
    noise = torch.zeros_like(genes)
    noise[:, -1] = genes[:, -1]
    other = source.draw(noise).float()
    assert (other != drawn).flatten(1).any(dim=1).all()


def test_noise_as_a_whole_is_white(digits: ImageSet) -> None:
    """Coarse noise from N(0, 1) and the fine one together have the variance of N(0, 1) at every frequency."""
    images = torch.from_numpy(digits.images[:3])
    source = DenoisingSource(Denoiser((1, 28, 28)), images, torch.arange(3), deviation=0.3, steps=1, device=CPU)
    values = torch.randn(4_000, 1, 8, 8, generator=torch.Generator().manual_seed(0))
    coarse = source._coarse(values)
    again = source._down @ coarse @ source._across.T
    torch.testing.assert_close(again, values, rtol=0, atol=1e-4)
    assert float((source._down @ source._fine @ source._across.T).abs().max()) < 1e-4
    assert float(source._fine.square().sum()) == pytest.approx(28 * 28 - 64, rel=0.15)
    assert float(coarse.square().sum(dim=(1, 2, 3)).mean()) == pytest.approx(64, rel=0.05)


def test_a_real_image_is_found_again(source: DenoisingSource, digits: ImageSet) -> None:
    rows = torch.tensor([5, 800, 5, 17])
    genes = source.encode(torch.from_numpy(digits.images)[rows])
    assert torch.equal(genes[:, -1].long(), rows) and not genes[:, :-1].any()
    changed = torch.from_numpy(digits.images)[rows].clone()
    changed[:, :, 3, 3] += 5
    assert torch.equal(source.encode(changed), genes)
    assert source.encode(changed[:0]).shape == (0, source.space.length)
    assert source.draw(genes[:0]).shape == (0, 1, 28, 28)


def test_nearly_the_same_images_are_not_mistaken_for_each_other_in_any_batch() -> None:
    images = torch.randint(200, 256, (60, 3, 64, 64), generator=torch.Generator().manual_seed(0), dtype=torch.uint8)
    images[1::2] = images[::2]
    images[1::2, 0, 0, 0] ^= 1
    source = DenoisingSource(Denoiser((3, 64, 64)), images, torch.arange(60), deviation=0.3, steps=1, device=CPU)
    rows = source.encode(images)[:, -1].long()
    assert rows.tolist() == list(range(60))
    assert torch.cat([source.encode(each)[:, -1].long() for each in images.split(1)]).tolist() == rows.tolist()


def test_it_says_which_image_and_how(source: DenoisingSource) -> None:
    genes = random_genes(source.space, 5, torch.Generator().manual_seed(0))
    origins = source.origins(genes)
    assert origins.seeds.tolist() == genes[:, -1].long().tolist()
    (step,) = read_recipe(origins.recipes[0])
    assert step.operator == "restored_from_noise" and dict(step.strengths)["steps"] == 2


def test_strength_changes_what_is_drawn_but_not_what_is_trained(source: DenoisingSource, digits: ImageSet) -> None:
    genes = random_genes(source.space, 8, torch.Generator().manual_seed(0))
    seeds = torch.from_numpy(digits.images)[genes[:, -1].long()].float()
    drawn = {}
    for given in ({"strength": "low"}, {"strength": "high"}):
        other, said = prepared(digits, **given)
        assert "nothing to train" in said
        drawn[next(iter(given.values()))] = other.draw(genes).float()
    far = {name: float((each - seeds).square().mean()) for name, each in drawn.items()}
    assert far["high"] > far["low"]


@pytest.mark.parametrize(
    ("shape", "batch"), [((1, 28, 28), 64), ((3, 32, 32), 64), ((3, 32, 64), 32), ((3, 64, 64), 16)]
)
def test_an_update_sees_no_more_pixels_of_large_images_than_of_small_ones(
    shape: tuple[int, int, int], batch: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    batches = []

    def stop(recipe: Recipe, *others: object) -> None:
        batches.append(recipe.plan.batch)
        raise InterruptedError

    monkeypatch.setattr("diffgen.sources.denoiser.obtain", stop)
    images = np.random.default_rng(0).integers(0, 256, (20, *shape), dtype=np.uint8)
    with pytest.raises(InterruptedError):
        prepared(ImageSet(images, None, None, "random"), batch=None)
    assert batches == [batch]


def test_it_learns_to_take_noise_away(source: DenoisingSource, digits: ImageSet) -> None:
    from diffgen.sources.denoiser import DenoisingLesson

    split = DataSplit(digits, CompareConfig().split)
    torch.manual_seed(0)
    fresh = Denoiser((1, 28, 28))
    with torch.no_grad():
        before = DenoisingLesson(fresh, device=CPU).error(split.held_out)
    assert DenoisingLesson(source._denoiser, device=CPU).error(split.held_out) < 0.5 * before


def test_of_one_step_all_noise_goes_and_of_more_the_last_step_asks_again() -> None:
    """A denoiser that halves what it is shown, step by step by hand."""

    class Half(Denoiser):
        def forward(self, noisy: torch.Tensor, deviation: torch.Tensor) -> torch.Tensor:
            return noisy / 2

    network, noisy = Half((1, 8, 8)), torch.full((2, 1, 8, 8), 0.8)
    assert torch.equal(restored(network, noisy, network.levels(0.5, 1)), noisy / 2)
    kept = noisy / 2 + 0.05 / 0.5 * noisy / 2  # from 0.5 to 0.05, and then to nothing
    torch.testing.assert_close(restored(network, noisy, network.levels(0.5, 2)), kept / 2)


def test_the_space(digits: ImageSet) -> None:
    space = SeedsAndNoise(64, len(digits))
    rng = np.random.default_rng(0)
    genes = space.sample(300, NumpyDraws(rng))
    assert np.array_equal(space.repair(genes), genes)
    assert space.real and space.layout().prior == "denoiser"
    mutated = space.mutate(genes, Mutating(None, 0.1, 20), rng)
    assert 0.4 < (mutated[:, -1] != genes[:, -1]).mean() < 0.7
    assert np.array_equal(space.repair(mutated), mutated)


def test_it_refuses_what_it_cannot_draw() -> None:
    with pytest.raises(UserError, match="source denoiser can draw 8 to 64 pixels"):
        DenoiserFamily().supports((1, 65, 30))
