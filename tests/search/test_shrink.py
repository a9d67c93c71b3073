"""diffgen.search.shrink with a real generator and real models."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from diffgen.models import BlackBox
from diffgen.search.shrink import smallest_steps
from diffgen.sources.operators import Scene
from diffgen.sources.seeds import SeedsSettings, SeedsSource
from diffgen.sources.space import random_genes
from diffgen.types import ImageSet


def answers(black_boxes: tuple[BlackBox, BlackBox], images: torch.Tensor) -> torch.Tensor:
    return torch.stack([model.predict(images).argmax(dim=1) for model in black_boxes], dim=1)


def shrunk(
    generator: Any, black_boxes: tuple[BlackBox, BlackBox], tries: int = 400, **settings: Any
) -> tuple[torch.Tensor, Any]:
    """Some triggers of random latent vectors, and what becomes of them."""

    def judge(images: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        labels = answers(black_boxes, images)
        same = labels[:, 0] == labels[:, 1]
        return same, ~same

    latents = random_genes(generator.space, tries, torch.Generator().manual_seed(0))
    latents = latents[judge(generator.draw(latents))[1]][:12]
    assert len(latents) == 12
    return latents, smallest_steps(latents, generator, judge, **{"seed": 0, "batch_size": 64, **settings})


def test_a_pair_lies_on_both_sides_and_close(generator: Any, black_boxes: tuple[BlackBox, BlackBox]) -> None:
    latents, steps = shrunk(generator, black_boxes)
    assert steps.found.all()
    start = generator.draw(latents).numpy()
    agreeing, trigger = (answers(black_boxes, torch.from_numpy(each)) for each in (steps.agreeing, steps.trigger))
    assert (agreeing[:, 0] == agreeing[:, 1]).all()
    assert (trigger[:, 0] != trigger[:, 1]).all()

    def apart(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        return np.abs(a.astype(float) - b.astype(float)).mean(axis=(1, 2, 3))

    before, after = apart(start, steps.first_agreeing), apart(steps.trigger, steps.agreeing)
    assert (after <= before + 1e-9).all()
    # 12 halvings: the latent vectors are 4,096 times as close as at first, the pictures nearly the same
    assert np.median(after) < np.median(before) / 50


def test_grain_that_is_drawn_anew_makes_no_pair_wider(digits: ImageSet, black_boxes: tuple[BlackBox, BlackBox]) -> None:
    """Strengths may be as close as can be while each draws other grain: the narrowest pair that was met counts."""
    scene = Scene(torch.from_numpy(digits.images), 0)
    source = SeedsSource(scene, SeedsSettings(operators=("noise", "elastic"), steps=2), device=torch.device("cpu"))
    genes, steps = shrunk(source, black_boxes, tries=1000)
    start = source.draw(genes).numpy()[steps.found]

    def apart(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        return np.linalg.norm((a.astype(float) - b.astype(float)).reshape(len(a), -1), axis=1)

    assert steps.found.sum() > 5
    before = apart(start, steps.first_agreeing[steps.found])
    after = apart(steps.trigger[steps.found], steps.agreeing[steps.found])
    assert (after <= before + 1e-3).all()
    said = answers(
        black_boxes, torch.from_numpy(np.concatenate([steps.agreeing, steps.trigger])[np.tile(steps.found, 2)])
    )
    assert (said[:, 0] == said[:, 1]).tolist() == [True] * len(start) + [False] * len(start)
    for vectors, images in ((steps.agreeing_genes, steps.agreeing), (steps.trigger_genes, steps.trigger)):
        assert np.array_equal(source.draw(torch.from_numpy(vectors)).numpy(), images)


def test_the_latent_vectors_draw_the_pictures(generator: Any, black_boxes: tuple[BlackBox, BlackBox]) -> None:
    _, steps = shrunk(generator, black_boxes)
    for vectors, images in ((steps.agreeing_genes, steps.agreeing), (steps.trigger_genes, steps.trigger)):
        assert np.array_equal(generator.draw(torch.from_numpy(vectors)).numpy(), images)


def test_a_conditional_generator_stays_in_its_class(conditional: Any, black_boxes: tuple[BlackBox, BlackBox]) -> None:
    latents, steps = shrunk(conditional, black_boxes)
    assert np.array_equal(steps.trigger_genes[:, -1], latents[:, -1].numpy())
    assert np.array_equal(steps.agreeing_genes[:, -1], latents[:, -1].numpy())


def test_what_is_neither_is_walked_around(generator: Any, black_boxes: tuple[BlackBox, BlackBox]) -> None:
    """Triggers that are no valid pictures count for nothing, and the pair still lies on both sides."""

    def judge(images: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        labels = answers(black_boxes, images)
        same = labels[:, 0] == labels[:, 1]
        return same, ~same & (images.float().mean(dim=(1, 2, 3)) > 40)

    latents = random_genes(generator.space, 600, torch.Generator().manual_seed(0))
    latents = latents[judge(generator.draw(latents))[1]][:12]
    steps = smallest_steps(latents, generator, judge, seed=0, batch_size=64)
    assert judge(torch.from_numpy(steps.agreeing[steps.found]))[0].all()
    assert judge(torch.from_numpy(steps.trigger[steps.found]))[1].all()


def test_where_nothing_agrees_nothing_is_found(generator: Any) -> None:
    def judge(images: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return torch.zeros(len(images), dtype=torch.bool), torch.ones(len(images), dtype=torch.bool)

    latents = random_genes(generator.space, 3, torch.Generator().manual_seed(0))
    steps = smallest_steps(latents, generator, judge, seed=0, batch_size=64)
    assert not steps.found.any()
    assert np.array_equal(steps.trigger, generator.draw(latents).numpy())


@pytest.mark.parametrize("batch_size", [7, 1000])
def test_the_batch_size_changes_nothing_but_the_last_digits(
    generator: Any, black_boxes: tuple[BlackBox, BlackBox], batch_size: int
) -> None:
    """A last digit can decide on which side a picture on the border lies, but not how close a pair is."""
    _, one = shrunk(generator, black_boxes)
    _, other = shrunk(generator, black_boxes, batch_size=batch_size)
    assert np.array_equal(one.found, other.found)
    np.testing.assert_allclose(one.trigger_genes, other.trigger_genes, atol=0.05)


def test_no_triggers(generator: Any) -> None:
    steps = smallest_steps(
        torch.empty(0, 16), generator, lambda images: (torch.empty(0), torch.empty(0)), seed=0, batch_size=8
    )
    assert steps.trigger.shape == (0, 1, 28, 28)
    assert steps.found.shape == (0,)
