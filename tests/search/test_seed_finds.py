"""Pictures that look like a find made from the same real image are recognised before anybody is asked about them."""

from __future__ import annotations

import copy
import json
from collections import defaultdict
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from diffgen.config import SearchConfig
from diffgen.gan_training.augmentation import plain_background
from diffgen.origins import NO_SEED
from diffgen.runs.triggers import TriggerTable
from diffgen.search import seed_finds
from diffgen.search.archive import Archive
from diffgen.search.behaviours import Behaviours
from diffgen.search.loop import SearchLoop
from diffgen.search.nsga2 import Nsga2Search
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
    images = torch.from_numpy(digits.images[:5])
    made.learn(np.array([3, 4, 5, 6, NO_SEED]), images, _answers([0, 1, 2, NOT_ARCHIVED, 4], news))
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
    again.learn(np.array([7]), torch.from_numpy(digits.images[1:2]), _answers([1], [NEW_TRIGGER]))
    again.restore({name: np.array(json.loads(json.dumps(values.tolist()))) for name, values in state.items()})
    assert {name: values.tolist() for name, values in again.checkpoint().items()} == {
        name: values.tolist() for name, values in state.items()
    }
    assert _alike(again, digits.images[[0, 1]], [3, 7]) == [True, False]
    # as does a search of before it was kept how many of each are remembered
    again.restore({name: values for name, values in state.items() if name != "finds_latest"})
    assert _alike(again, digits.images[[0, 1]], [3, 7]) == [True, False]
    # and one that was kept before there was anything to keep
    again.restore({})
    assert _alike(again, digits.images[[0, 1]], [3, 7]) == [False, False]


def test_the_latest_finds_are_remembered(digits: ImageSet, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(seed_finds, "_LATEST", 16)
    finds = SeedFinds(_archive(digits.images[:40]), 0.9999)
    for some in (range(30), range(30, 40)):
        images = torch.from_numpy(digits.images[list(some)])
        finds.learn(np.array([3] * len(some)), images, _answers(list(some), [NEW_TRIGGER] * len(some)))
    latest = [number >= 24 for number in range(40)]
    assert _alike(finds, digits.images[:40], [3] * 40) == latest
    again = SeedFinds(_archive(digits.images[:40]), 0.9999)
    again.restore(finds.checkpoint())
    assert _alike(again, digits.images[:40], [3] * 40) == latest
    again.learn(np.array([3]), torch.from_numpy(digits.images[:1]), _answers([0], [NEW_TRIGGER]))
    assert _alike(again, digits.images[:40], [3] * 40) == [number == 0 or number >= 25 for number in range(40)]


def test_fewer_of_each_real_image_are_remembered_where_thumbnails_are_too_many(
    digits: ImageSet, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(seed_finds, "_BYTES", 12 * 4 * (14 * 14 + 1))  # twelve
    finds = SeedFinds(_archive(digits.images[:40]), 0.9999)
    for seed, some in ((3, range(10)), (5, range(10, 20))):
        images = torch.from_numpy(digits.images[list(some)])
        finds.learn(np.full(len(some), seed), images, _answers(list(some), [NEW_TRIGGER] * len(some)))
    # 64, 32, 16 and 8 are still more than twelve together
    assert _alike(finds, digits.images[:20], [3] * 10 + [5] * 10) == [number % 10 >= 6 for number in range(20)]
    again = SeedFinds(_archive(digits.images[:40]), 0.9999)
    again.restore(finds.checkpoint())
    later = torch.from_numpy(digits.images[20:26])
    for each in (finds, again):
        each.learn(np.full(6, 3), later, _answers(list(range(20, 26)), [NEW_TRIGGER] * 6))
        assert _alike(each, digits.images[20:26], [3] * 6) == [False] * 2 + [True] * 4


def _one_cell(images: torch.Tensor) -> Int64Array:
    return np.zeros(len(images), dtype=np.int64)


def _source(images: UInt8Array) -> SeedsSource:
    seeds = torch.from_numpy(images)
    return SeedsSource(Scene(seeds, plain_background(seeds), None), SeedsSettings(), device=torch.device("cpu"))


def test_a_resumed_search_asks_what_it_would_have_asked(
    digits: ImageSet, make_search: Callable[..., tuple[Nsga2Search, SearchLoop]]
) -> None:
    """And every picture that was looked at beforehand is that of its genes."""
    source, config = _source(digits.images[:60]), SearchConfig(population=40, reducer="pca")
    parts, states = list[TriggerTable](), list[dict[str, Any]]()

    def search_of(archive: Archive) -> tuple[Nsga2Search, SearchLoop, list[UInt8Array], list[int]]:
        behaviours = Behaviours(_one_cell, THRESHOLD)
        made = make_search(source, "800q", config, behaviours=behaviours, near_duplicate=THRESHOLD, archive=archive)
        search, loop = made
        asked, passed = list[UInt8Array](), list[int]()
        ask, alike = loop.evaluator.ask, search._shares._screen._finds.alike

        def asking(proposal: Proposal) -> Answers:
            assert torch.equal(source.draw(proposal.genes), proposal.images)
            asked.append(proposal.images.numpy())
            return ask(proposal)

        def looking(images: torch.Tensor, seeds: Int64Array) -> Any:
            found = alike(images, seeds)
            passed.append(int(found.sum()))
            return found

        loop.evaluator.ask, search._shares._screen._finds.alike = asking, looking
        return search, loop, asked, passed

    first = Archive(digits.image_shape, sink=parts.append)
    whole, loop, asked, _ = search_of(first)

    def remember() -> None:
        first.flush(everything=True)
        kept = {**whole.checkpoint(), **loop.evaluator.behaviours.checkpoint()}
        states.append({**copy.deepcopy(kept), "queries": loop.evaluator.queries, "parts": len(parts)})

    loop.run(on_generation=remember)
    state = states[8]
    archive = Archive(digits.image_shape)
    archive.restore(TriggerTable.joined(parts[: state["parts"]]))
    again, resumed, later, passed = search_of(archive)
    again.restore(state)
    resumed.start(queries=state["queries"])
    resumed.evaluator.behaviours.restore(state, archive)
    resumed.run()
    assert sum(passed) > 20  # what the search knew before the break matters
    assert np.array_equal(np.concatenate(later), np.concatenate(asked)[state["queries"] :])


def test_a_search_asks_about_few_of_them(
    digits: ImageSet, make_search: Callable[..., tuple[Nsga2Search, SearchLoop]]
) -> None:
    source = _source(digits.images)

    def near(skip: bool) -> float:
        """Share of what was asked about that looked like an earlier find of its seed."""
        config, behaviours = SearchConfig(population=60, reducer="pca"), Behaviours(_one_cell, THRESHOLD)
        threshold = THRESHOLD if skip else None
        _, loop = make_search(source, "1500q", config, behaviours=behaviours, near_duplicate=threshold)
        found: defaultdict[int, list[UInt8Array]] = defaultdict(list)
        like, ask = list[bool](), loop.evaluator.ask

        def counting(proposal: Proposal) -> Answers:
            answers = ask(proposal)
            origins = proposal.origins_of(np.arange(len(proposal)))
            assert origins is not None
            pictures, seeds = proposal.images.numpy(), origins.seeds.tolist()
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
