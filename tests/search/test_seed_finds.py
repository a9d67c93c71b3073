"""Pictures that look like a find made from the same real image are told before anybody is asked about them."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable

import numpy as np
import pytest
import torch

from diffgen.config import SearchConfig
from diffgen.gan_training.augmentation import plain_background
from diffgen.origins import NO_SEED
from diffgen.runs.triggers import TriggerTable
from diffgen.search.archive import Archive
from diffgen.search.behaviours import Behaviours
from diffgen.search.engine import Nsga2Search
from diffgen.search.loop import SearchLoop
from diffgen.search.proposal import NEW_BEHAVIOUR, NEW_TRIGGER, NOT_ARCHIVED, Answers, Proposal
from diffgen.search.seed_finds import SeedFinds
from diffgen.sources.operators import Scene
from diffgen.sources.seeds import SeedsSettings, SeedsSource
from diffgen.types import ImageSet, Int64Array, UInt8Array

THRESHOLD = 0.95


def _answers(numbers: list[int], news: list[int]) -> Answers:
    nothing, none = torch.zeros(len(numbers)), torch.zeros(len(numbers), dtype=torch.int64)
    told = torch.tensor(news)
    return Answers(nothing, nothing, torch.tensor(numbers), none, none, nothing, told, told)


def _archive(images: UInt8Array) -> Archive:
    archive = Archive(images.shape[1:])
    archive.add(TriggerTable.of(images, np.eye(2, dtype=np.float32)[None].repeat(len(images), axis=0)))
    return archive


def _correlation(one: UInt8Array, other: UInt8Array) -> float:
    """Of thumbnails: 28x28 pixels made 14x14, plainly."""
    small = [each.astype(float).reshape(14, 2, 14, 2).mean(axis=(1, 3)).ravel() for each in (one[0], other[0])]
    return float(np.corrcoef(*small)[0, 1])


@pytest.fixture
def finds(digits: ImageSet) -> SeedFinds:
    """One find of the seeds 3 and 5 each; what is no find of 4, of 6 and of no seed."""
    made = SeedFinds(_archive(digits.images[:5]), THRESHOLD)
    news = [NEW_TRIGGER, 0, NEW_BEHAVIOUR, 0, NEW_TRIGGER]
    made.learn(np.array([3, 4, 5, 6, NO_SEED]), _answers([0, 1, 2, NOT_ARCHIVED, 4], news))
    return made


def _alike(finds: SeedFinds, images: UInt8Array, seeds: list[int]) -> list[bool]:
    return [bool(each) for each in finds.alike(torch.from_numpy(images), np.array(seeds))]


def test_only_finds_of_the_same_real_image_count(finds: SeedFinds, digits: ImageSet) -> None:
    images, seeds = digits.images[[0, 2, 0, 1, 3, 4, 4]], [3, 5, 5, 4, 6, NO_SEED, 3]
    assert _alike(finds, images, seeds) == [True, True, False, False, False, False, False]


def test_a_picture_is_like_a_find_as_near_duplicates_are(finds: SeedFinds, digits: ImageSet) -> None:
    rng, found = np.random.default_rng(0), digits.images[0]
    noise = rng.normal(size=(200, *found.shape)) * np.linspace(0, 120, 200)[:, None, None, None]
    pictures = (found + noise).clip(0, 255).astype(np.uint8)
    plain = [_correlation(found, each) for each in pictures]
    assert _alike(finds, pictures, [3] * 200) == [each >= THRESHOLD for each in plain]
    assert 20 < sum(each >= THRESHOLD for each in plain) < 180


def test_it_goes_on_from_what_was_kept(finds: SeedFinds, digits: ImageSet) -> None:
    state = finds.checkpoint()
    again = SeedFinds(_archive(digits.images[:5]), THRESHOLD)
    again.learn(np.array([7]), _answers([1], [NEW_TRIGGER]))
    again.restore({name: np.array(json.loads(json.dumps(values.tolist()))) for name, values in state.items()})
    assert {name: values.tolist() for name, values in again.checkpoint().items()} == {
        name: values.tolist() for name, values in state.items()
    }
    assert _alike(again, digits.images[[0, 1]], [3, 7]) == [True, False]
    # as does a search that was kept before there was anything to keep
    again.restore({})
    assert _alike(again, digits.images[[0, 1]], [3, 7]) == [False, False]


def test_the_latest_finds_are_remembered(digits: ImageSet) -> None:
    finds = SeedFinds(_archive(digits.images[:40]), 0.9999)
    for number in range(40):
        finds.learn(np.array([3]), _answers([number], [NEW_TRIGGER]))
    assert _alike(finds, digits.images[:40], [3] * 40) == [number >= 24 for number in range(40)]


def _one_cell(images: torch.Tensor) -> Int64Array:
    return np.zeros(len(images), dtype=np.int64)


def test_a_search_asks_about_few_of_them(
    digits: ImageSet, make_search: Callable[..., tuple[Nsga2Search, SearchLoop]]
) -> None:
    images = torch.from_numpy(digits.images)
    source = SeedsSource(Scene(images, plain_background(images), None), SeedsSettings(), device=torch.device("cpu"))

    def near(skip: bool) -> float:
        """Share of what was asked about that looked like an earlier find of its seed."""
        config = SearchConfig(population=60, reducer="pca", skip_near_finds=skip)
        behaviours = Behaviours(_one_cell, THRESHOLD)
        _, loop = make_search(source, "1500q", config, behaviours=behaviours, near_duplicate=THRESHOLD)
        found: defaultdict[int, list[UInt8Array]] = defaultdict(list)
        like, ask = list[bool](), loop.evaluator.ask

        def counting(proposal: Proposal) -> Answers:
            answers = ask(proposal)
            assert proposal.origins is not None
            pictures, seeds = proposal.images.numpy(), proposal.origins.seeds.tolist()
            like.extend(
                any(_correlation(each, picture) >= THRESHOLD for each in found[seed])
                for picture, seed in zip(pictures, seeds, strict=True)
            )
            for row in np.flatnonzero(answers.news.numpy() > 0).tolist():
                found[seeds[row]].append(pictures[row])
            return answers

        loop.evaluator.ask = counting
        loop.run()
        assert len(like) == 1500 and sum(map(len, found.values())) > 100
        return sum(like) / len(like)

    # not none: of so few seeds some pictures are asked about when all that was made instead was no better
    assert near(True) < 0.5 * near(False), (near(True), near(False))
