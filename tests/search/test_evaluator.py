"""The evaluator asks, counts and archives triggers, and nothing else."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch

from diffgen.metrics.near_duplicates import near_duplicate_of
from diffgen.origins import NO_SEED, Origins
from diffgen.search.archive import Archive
from diffgen.search.behaviours import Behaviours
from diffgen.search.evaluator import Evaluator, Examined
from diffgen.search.proposal import NEW_BEHAVIOUR, NEW_TRIGGER, NO_PAIR, NOT_ARCHIVED, Answers, Proposal
from diffgen.sources.gan import GanSource
from diffgen.tasks.classification import behaviours as behaviours_of
from diffgen.types import ImageSet, Int64Array


def latents(count: int, generator: GanSource) -> torch.Tensor:
    return torch.randn(count, generator.space.length, generator=torch.Generator().manual_seed(count))


def test_archives_exactly_the_disagreements(make_evaluator: Callable[..., Evaluator], generator: GanSource) -> None:
    evaluator = make_evaluator()
    z = latents(60, generator)
    images = generator.draw(z)
    answers = evaluator.ask(Proposal(images, generation=1, genes=z))
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


def test_nobody_is_asked_about_nothing(make_evaluator: Callable[..., Evaluator]) -> None:
    evaluator = make_evaluator()
    answers = evaluator.ask(Proposal(torch.empty(0, 1, 28, 28, dtype=torch.uint8), generation=1))
    assert (len(answers), answers.probabilities.shape, evaluator.queries) == (0, (0, 2, 10), 0)


def test_answers_in_parts_are_those_to_the_whole(
    make_evaluator: Callable[..., Evaluator], generator: GanSource
) -> None:
    images = generator.draw(latents(60, generator))
    whole = make_evaluator().ask(Proposal(images, generation=1))
    evaluator = make_evaluator()
    joined = Answers.joined([evaluator.ask(Proposal(part, generation=1)) for part in images.split(25)])
    assert (evaluator.queries, len(joined)) == (60, 60)
    for name in ("archive_numbers", "label_pairs", "cells"):
        assert torch.equal(getattr(joined, name), getattr(whole, name))
    torch.testing.assert_close(joined.divergence, whole.divergence)


@pytest.mark.parametrize("unchanged_count", [False, True])
def test_a_real_image_as_it_is_is_no_trigger(
    unchanged_count: bool, digits: ImageSet, make_evaluator: Callable[..., Evaluator]
) -> None:
    """What the models say of it was known before the search; one that is named wrongly as its origin is another."""
    plain = make_evaluator().ask(Proposal(torch.from_numpy(digits.images), generation=1))
    apart = np.flatnonzero(plain.archive_numbers.numpy() != NOT_ARCHIVED)[:6]
    assert len(apart) == 6
    images = torch.from_numpy(digits.images[apart])
    seeds = apart.astype(np.int64)
    seeds[4], seeds[5] = apart[0], NO_SEED
    evaluator = make_evaluator(real_images=digits.images, unchanged_count=unchanged_count)
    answers = evaluator.ask(Proposal(images, generation=1, origins=Origins(seeds, ("",) * 6)))
    found = (answers.archive_numbers != NOT_ARCHIVED).tolist()
    assert found == [unchanged_count] * 4 + [True] * 2
    assert (answers.label_pairs != NO_PAIR).tolist() == found
    assert (evaluator.archive.images(np.arange(sum(found))) == images.numpy()[found]).all()
    assert evaluator.queries == 6


def test_a_margin_leaves_out_answers_that_are_not_clear(
    make_evaluator: Callable[..., Evaluator], generator: GanSource
) -> None:
    images = generator.draw(latents(60, generator))
    strict = make_evaluator()
    strict.margin = 0.999
    for evaluator in (strict, lax := make_evaluator()):
        evaluator.ask(Proposal(images, generation=1))
    assert len(strict.archive) < len(lax.archive)


def brightness(images: torch.Tensor) -> np.ndarray:
    """Eight cells, by what is in the middle."""
    return images[:, 0, 14, 14].to(torch.int64).numpy() // 32


def too_dark(images: torch.Tensor) -> np.ndarray:
    """Stands for filters: about half of the pictures are rejected, by how much they are too dark."""
    return np.maximum(0, 60 - images.to(torch.float32).mean(dim=(1, 2, 3)).numpy())


def examined_for_darkness(images: torch.Tensor, seeds: Int64Array | None) -> Examined:
    """Stands for filters and jury: a third of the pictures cannot be named."""
    return Examined(too_dark(images), images[:, 0, 14, 14].to(torch.int64).numpy() % 3 > 0)


@pytest.mark.parametrize("asks_filters", [True, False])
def test_behaviours_are_counted_as_at_the_end(
    make_evaluator: Callable[..., Evaluator], generator: GanSource, asks_filters: bool
) -> None:
    evaluator = make_evaluator(
        behaviours=Behaviours(brightness, 0.8), examine=examined_for_darkness if asks_filters else None
    )
    assert evaluator.asks_filters is asks_filters
    first, second = generator.draw(latents(64, generator)), generator.draw(latents(300, generator))
    answers = evaluator.ask(Proposal(first, generation=1))
    again = evaluator.ask(Proposal(first, generation=1))  # the same again brings nothing
    assert not again.news.any()
    found = evaluator.behaviours
    assert found is not None
    assert found.latest_query == 64
    triggers = np.flatnonzero(answers.archive_numbers.numpy() >= 0)
    assert (answers.cells.numpy()[triggers] == brightness(first)[triggers]).all()
    expected = np.zeros(64)
    expected[triggers] = too_dark(first)[triggers] if asks_filters else 0
    np.testing.assert_array_equal(answers.violation.numpy(), expected.astype(np.float32))
    later = evaluator.ask(Proposal(second, generation=1))
    news = torch.cat([answers.news, later.news])
    # what is counted after a search, from the archive alone
    images, labels = evaluator.archive.images(np.arange(len(evaluator.archive))), evaluator.archive.labels()
    pictures = torch.from_numpy(images)
    valid = np.flatnonzero(too_dark(pictures) == 0) if asks_filters else np.arange(len(images))
    distinct = valid[near_duplicate_of(images[valid], labels[valid], threshold=0.8) == np.arange(len(valid))]
    keys = behaviours_of(labels, brightness(pictures))
    assert found.pictures == len(valid)
    assert len(found) == len(np.unique(keys[distinct], axis=0)) > 3
    assert int((news == NEW_BEHAVIOUR).sum()) == len(found)
    assert int((news == NEW_TRIGGER).sum()) == len(distinct) - len(found)
    at = np.flatnonzero(news.numpy())
    numbers = torch.cat([answers.archive_numbers, later.archive_numbers]).numpy()[at]
    np.testing.assert_array_equal(np.sort(numbers), distinct)
    assert found.label_pairs == len(np.unique(labels[distinct], axis=0))
    # the same among what can be named: a behaviour may be met on a picture that cannot before it is on one that can
    named = distinct[pictures[distinct, 0, 14, 14].numpy() % 3 > 0] if asks_filters else distinct
    named_news = torch.cat([answers.named_news, later.named_news])
    assert int((named_news == NEW_BEHAVIOUR).sum()) == len(np.unique(keys[named], axis=0))
    assert int((named_news != 0).sum()) == len(named)
    assert (len(named) < len(distinct)) == asks_filters
    # neither rejected triggers nor near-duplicates were counted, and both make a difference here
    assert len(distinct) < len(valid)
    assert len(found) < len(np.unique(keys, axis=0))


def test_behaviours_are_gone_on_with(make_evaluator: Callable[..., Evaluator], generator: GanSource) -> None:
    """A search that is taken up again counts what an unbroken one counts, near-duplicates of before included."""
    batches = [generator.draw(latents(count, generator)) for count in (64, 63, 62)]
    unbroken = make_evaluator(behaviours=Behaviours(brightness, 0.8))
    broken = make_evaluator(behaviours=Behaviours(brightness, 0.8), archive=unbroken.archive)
    unbroken.ask(Proposal(batches[0], generation=1))
    unbroken.ask(Proposal(batches[1], generation=1))
    assert unbroken.behaviours is not None and broken.behaviours is not None
    broken.behaviours.restore(unbroken.behaviours.checkpoint(), unbroken.archive)
    known = len(unbroken.archive)
    unbroken.ask(Proposal(batches[2], generation=1))
    fresh = np.arange(known, len(unbroken.archive))
    images = unbroken.archive.images(fresh)
    broken.behaviours.add(
        images, unbroken.archive.labels()[fresh], brightness(torch.from_numpy(images)), fresh, query=189
    )
    after, wanted = broken.behaviours.checkpoint(), unbroken.behaviours.checkpoint()
    assert after.keys() == wanted.keys()
    for name, value in wanted.items():
        np.testing.assert_array_equal(after[name], value, err_msg=name)


def test_no_behaviours_come_back_too() -> None:
    again = Behaviours(brightness, 0.8)
    again.restore(Behaviours(brightness, 0.8).checkpoint(), Archive((1, 28, 28)))
    assert len(again) == again.pictures == again.latest_query == again.label_pairs == 0
