"""The evaluator keeps the budget and archives triggers, and nothing else."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch

from diffgen.generators.gan import GanGenerator
from diffgen.search.behaviours import Behaviours
from diffgen.search.evaluator import NOT_ARCHIVED, BudgetExhausted, Evaluator


def latents(count: int, generator: GanGenerator) -> torch.Tensor:
    return torch.randn(count, generator.latent_dim, generator=torch.Generator().manual_seed(count))


def test_archives_exactly_the_disagreements(make_evaluator: Callable[..., Evaluator], generator: GanGenerator) -> None:
    evaluator = make_evaluator()
    evaluator.start()
    z = latents(60, generator)
    images = generator.generate(z)
    answers = evaluator.ask(images, latents=z)
    # a plain loop, one image and one model at a time
    expected = []
    for row in range(60):
        pair = [model.predict(images[row : row + 1])[0] for model in evaluator.black_boxes]
        expected.append(int(pair[0].argmax()) != int(pair[1].argmax()))
    assert 0 < sum(expected) < 60
    assert (answers.archive_numbers != NOT_ARCHIVED).tolist() == expected
    stored = evaluator.archive.images(np.arange(len(evaluator.archive)))
    assert (stored == images[torch.tensor(expected)].numpy()).all()
    assert evaluator.queries == 60


def test_a_margin_leaves_out_answers_that_are_not_clear(
    make_evaluator: Callable[..., Evaluator], generator: GanGenerator
) -> None:
    images = generator.generate(latents(60, generator))
    strict = make_evaluator()
    strict.margin = 0.999
    for evaluator in (strict, lax := make_evaluator()):
        evaluator.start()
        evaluator.ask(images)
    assert len(strict.archive) < len(lax.archive)


def test_query_budget_is_kept_to_the_image(make_evaluator: Callable[..., Evaluator], generator: GanGenerator) -> None:
    evaluator = make_evaluator("100q", batch_size=64)
    evaluator.start()
    sizes = []
    with pytest.raises(BudgetExhausted):
        while True:
            sizes.append(evaluator.allowance())
            evaluator.ask(generator.generate(latents(sizes[-1], generator)))
    assert sizes == [64, 36]
    assert evaluator.queries == 100


def test_time_budget_ends_between_batches(make_evaluator: Callable[..., Evaluator], generator: GanGenerator) -> None:
    now = [0.0]
    evaluator = make_evaluator("10s", clock=lambda: now[0])
    evaluator.start()
    now[0] = 9.9
    assert evaluator.allowance() == 64
    now[0] = 10.0
    with pytest.raises(BudgetExhausted):
        evaluator.allowance()


def test_time_used_before_a_resume_counts(make_evaluator: Callable[..., Evaluator]) -> None:
    evaluator = make_evaluator("10s", clock=lambda: 1000.0)
    evaluator.start(queries=7, seconds=10.0)
    assert evaluator.seconds == 10.0
    assert evaluator.queries == 7
    with pytest.raises(BudgetExhausted):
        evaluator.allowance()


def test_stop_ends_the_search_before_the_next_batch(make_evaluator: Callable[..., Evaluator]) -> None:
    evaluator = make_evaluator()
    evaluator.start()
    evaluator.stop()
    with pytest.raises(BudgetExhausted):
        evaluator.allowance()


def test_behaviours_are_counted_once_for_each_image(
    make_evaluator: Callable[..., Evaluator], generator: GanGenerator
) -> None:
    evaluator = make_evaluator("1000q", cells=lambda images: images[:, 0, 14, 14].to(torch.int64).numpy() // 128)
    evaluator.start()
    images = generator.generate(latents(64, generator))
    answers = evaluator.ask(images)
    evaluator.ask(images)  # the same again brings nothing
    assert evaluator.behaviours is not None
    assert evaluator.behaviours.latest_query == 64
    labels = answers.probabilities.argmax(dim=2).numpy()
    numbers = answers.archive_numbers.numpy()
    expected: dict[tuple[int, ...], set[int]] = {}
    for row in np.flatnonzero(numbers >= 0):
        cell = int(images[row, 0, 14, 14]) // 128
        assert answers.cells[row] == cell
        expected.setdefault((*labels[row].tolist(), cell), set()).add(int(numbers[row]))
    assert len(evaluator.behaviours) == len(expected) > 3
    again = Behaviours()
    state = evaluator.behaviours.checkpoint()
    again.restore(state)
    assert dict(zip(map(tuple, state["behaviours"].tolist()), state["behaviour_counts"].tolist(), strict=True)) == {
        key: len(found) for key, found in expected.items()
    }
    assert again.estimate() == evaluator.behaviours.estimate()
    assert (again.latest_query, len(again)) == (64, len(expected))


def test_no_behaviours_come_back_too() -> None:
    again = Behaviours()
    again.restore(Behaviours().checkpoint())
    assert len(again) == again.estimate() == again.latest_query == 0
