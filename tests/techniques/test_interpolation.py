"""Argus and Latte: where their pictures lie, whom they lead towards whom, what they count."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable

import numpy as np
import pytest
import torch

from diffgen.config import SearchConfig
from diffgen.errors import RunError, UserError
from diffgen.origins import read_recipe
from diffgen.runs.triggers import TriggerTable
from diffgen.search.loop import SearchLoop
from diffgen.search.proposal import Proposal
from diffgen.tasks.classification import labels_of
from diffgen.techniques import RealImages, preset
from diffgen.techniques.argus import SHARES, Argus, ArgusSettings
from diffgen.techniques.latte import Latte, LatteSettings
from diffgen.types import ImageSet
from tests.techniques.encoding_sources import BrightScorer, PixelSource, PixelSourceWithClass

Start = Callable[..., SearchLoop]


def steps_of(proposal: Proposal) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Seeds, shares and the other images of the pictures that are proposed."""
    assert proposal.origins is not None
    found = [dict(read_recipe(each)[0].strengths) for each in proposal.origins.recipes]
    return (
        proposal.origins.seeds,
        np.array([each["share"] for each in found]),
        np.array([int(each["other"]) for each in found]),
    )


def everything(loop: SearchLoop, rounds: int) -> list[tuple[Proposal, np.ndarray]]:
    """What a technique asks about in some rounds, with the answers."""
    found = []
    for _ in range(rounds):
        while True:
            proposal = loop.technique.propose(loop.room())
            answers = loop.evaluator.ask(proposal)
            found.append((proposal, answers.probabilities.numpy()))
            loop.technique.learn(proposal, answers)
            if loop.technique.between_generations:
                break
    return found


@pytest.mark.parametrize("name", ["argus", "latte"])
def test_pictures_lie_on_the_way_from_a_seed_to_an_image_of_another_class(
    name: str, start: Start, digits: ImageSet, real: RealImages
) -> None:
    loop = start(name, "2000q", source=PixelSource())
    kind = type(loop.technique)
    classes = kind.classes_of(real)  # type: ignore[attr-defined]
    pixels = digits.images.reshape(len(digits.images), -1).astype(np.float64)
    for proposal, _ in everything(loop, 3):
        seeds, shares, others = steps_of(proposal)
        assert set(seeds) <= set(kind.seeds(real))
        assert (classes[seeds] != classes[others]).all()
        wanted = (1 - shares[:, None]) * pixels[seeds] + shares[:, None] * pixels[others]
        assert np.abs(proposal.images.flatten(1).numpy() - wanted).max() <= 0.51  # of rounding
        if name == "argus":
            assert set(shares) == set(SHARES)
        else:
            assert shares.min() >= 0.05
            assert shares.max() <= 0.3
            assert len(set(shares)) == len(shares)


@pytest.mark.parametrize("name", ["argus", "latte"])
def test_a_visit_leads_a_seed_towards_every_other_class_and_the_next_one_towards_other_images(
    name: str, start: Start, real: RealImages
) -> None:
    loop = start(name, "100000q", source=PixelSource(), batch_size=512)
    technique = loop.technique
    assert isinstance(technique, Argus | Latte)
    technique._seeds = technique._seeds[:2]
    classes = technique.classes_of(real)
    led: dict[int, set[int]] = defaultdict(set)
    met: dict[int, list[int]] = defaultdict(list)
    for proposal, _ in everything(loop, 2):
        seeds, _, others = steps_of(proposal)
        for seed, other in zip(seeds.tolist(), others.tolist(), strict=True):
            led[seed].add(int(classes[other]))
            met[seed].append(other)
    assert set(led) == set(technique._seeds.tolist())
    for seed, towards in led.items():
        assert towards == set(range(10)) - {int(classes[seed])}
        assert len(set(met[seed])) > 9 * 5  # of 10 anchors or 100 images a class


@pytest.mark.parametrize("scored", [False, True])
def test_argus_makes_every_picture_once_and_ends(
    scored: bool, start: Start, real: RealImages, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = SearchConfig().with_technique(ArgusSettings(seeds=3, others=4))
    scorer = BrightScorer() if scored else None
    loop = start("argus", "100000q", source=PixelSource(), config=config, scorer=scorer, batch_size=50)
    technique = loop.technique
    assert isinstance(technique, Argus)
    classes = technique.classes_of(real)
    # one class has fewer images than the others, the class of one seed more
    few, many = (int(classes[each]) for each in technique._seeds[:2])
    assert few != many
    technique._towards = {label: rows[: {few: 2, many: 4}.get(label, 3)] for label, rows in technique._towards.items()}
    proposed: list[Proposal] = []
    propose = technique.propose

    def kept(room: int) -> Proposal:
        proposed.append(propose(room))
        return proposed[-1]

    monkeypatch.setattr(technique, "propose", kept)
    loop.run()
    made = [each for proposal in proposed for each in zip(*(part.tolist() for part in steps_of(proposal)), strict=True)]
    wanted = {
        (seed, share, other)
        for seed in technique._seeds.tolist()
        for label, rows in technique._towards.items()
        if label != classes[seed]
        for other in rows.tolist()
        for share in SHARES
    }
    assert len(made) == len(set(made)) == loop.evaluator.queries
    assert set(made) < wanted if scored else set(made) == wanted
    assert technique.finished


def test_latte_draws_other_steps_when_all_anchors_were_met(start: Start) -> None:
    config = SearchConfig().with_technique(LatteSettings(anchors=1))
    loop = start("latte", "900q", source=PixelSource(), config=config)
    technique = loop.technique
    assert isinstance(technique, Latte)
    technique._seeds = technique._seeds[:20]
    loop.run()
    assert loop.evaluator.queries == 900
    assert technique._visits > 2 * len(technique._seeds)


def test_what_is_counted_is_what_an_own_count_gives(start: Start, real: RealImages) -> None:
    """The slow way: picture by picture."""
    loop = start("argus", "3000q", source=PixelSource())
    technique = loop.technique
    assert isinstance(technique, Argus)
    asked: dict[int, int] = defaultdict(int)
    errors: dict[tuple[int, int], int] = defaultdict(int)
    wrong = set()
    for proposal, probabilities in everything(loop, 8):
        seeds, shares, _ = steps_of(proposal)
        for seed, share, said in zip(seeds.tolist(), shares.tolist(), labels_of(probabilities).tolist(), strict=True):
            kind = SHARES.index(share)
            asked[kind] += 1
            for model, label in enumerate(said):
                if label != real.labels[seed]:  # type: ignore[index]
                    errors[kind, model] += 1
                    wrong.add((seed, kind, model, label))
    found = technique.outcomes()
    assert found["asked"].tolist() == [asked[kind] for kind in range(3)]
    assert found["errors"].tolist() == [[errors[kind, model] for model in range(2)] for kind in range(3)]
    assert set(map(tuple, found["wrong"].tolist())) == wrong
    assert len(wrong) > 10
    assert set(found["wrong"][:, 0]) <= set(found["seed_rows"].tolist())
    # the further, the more of them
    shares_wrong = found["errors"].sum(axis=1) / found["asked"]
    assert shares_wrong[0] < shares_wrong[2]


def test_a_scorer_turns_away_what_it_takes_for_less_real_than_the_seed(start: Start, digits: ImageSet) -> None:
    source, scorer = PixelSource(), BrightScorer()
    loop = start("argus", "2000q", source=source, scorer=scorer)
    kept = everything(loop, 4)
    for proposal, _ in kept:
        seeds, _, _ = steps_of(proposal)
        assert (scorer.score(proposal.images) >= scorer.score(torch.from_numpy(digits.images[seeds]))).all()
    free = SearchConfig().with_technique(ArgusSettings(fidelity="none"))
    all_of_them = everything(start("argus", "2000q", source=source, scorer=scorer, config=free), 4)
    assert 0 < sum(len(each) for each, _ in kept) < sum(len(each) for each, _ in all_of_them)


def test_a_scorer_that_lets_nothing_pass_ends_the_search_with_a_sentence(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Never:
        asked = 0

        def score(self, images: torch.Tensor) -> torch.Tensor:
            self.asked += 1
            return torch.full((len(images),), float(self.asked))

    monkeypatch.setattr("diffgen.techniques.latent.interpolation._STANDSTILL", 3)
    # its seeds are scored once, after the first pictures
    loop = start("argus", "2000q", source=PixelSource(), scorer=Never())
    with pytest.raises(RunError, match="takes no picture for as real as its seed"):
        for _ in range(9):
            loop.generation()


def test_a_class_among_the_genes_stays_that_of_the_seed(start: Start, real: RealImages) -> None:
    for proposal, _ in everything(start("argus", "500q", source=PixelSourceWithClass()), 2):
        assert proposal.genes is not None
        seeds, _, _ = steps_of(proposal)
        np.testing.assert_array_equal(proposal.genes[:, -1].numpy(), real.labels[seeds])  # type: ignore[index]


def test_images_are_encoded_once_and_only_when_they_are_needed(start: Start, digits: ImageSet) -> None:
    source = PixelSource()
    loop = start("latte", "100000q", source=source)
    assert source.encoded == 0
    everything(loop, 2)
    first = source.encoded
    assert 0 < first < len(digits.images) / 2
    everything(loop, 300)
    assert source.encoded <= len(digits.images)


def test_presets_are_the_published_figures() -> None:
    own = Argus.settings_in(preset("argus", "paper").search)
    assert (own.seeds, own.others, own.fidelity, SHARES) == (10, 3_333, "none", (0.1, 0.2, 0.3))
    with pytest.raises(UserError, match="no preset of latte"):
        preset("latte", "paper")
    with pytest.raises(UserError, match=r"search.latte.shortest is 0.5, more than search.latte.longest, 0.3; swap"):
        LatteSettings(shortest=0.5)


def test_preset_paper_keeps_to_ten_seeds(start: Start, found: Callable[..., TriggerTable]) -> None:
    parts: list[TriggerTable] = []
    columns = found(
        start("argus", "3000q", config=preset("argus", "paper").search, source=PixelSource(), parts=parts), parts
    )
    assert 1 < len(np.unique(columns.seeds)) <= 10


def test_counts_of_several_workers_are_those_of_one_who_asked_all() -> None:
    one = {
        "asked": np.array([5, 7]),
        "errors": np.array([[1, 0], [2, 3]]),
        "wrong": np.array([[4, 0, 1, 9], [6, 1, 0, 2]]),
        "seed_rows": np.array([4, 6]),
    }
    other = {
        "asked": np.array([10, 0]),
        "errors": np.array([[0, 4], [0, 0]]),
        "wrong": np.array([[6, 1, 0, 2]]),
        "seed_rows": np.array([8, 6, 1]),
    }
    for kind in (Argus, Latte):
        joined = kind.joined_outcomes([one, other])
        assert joined.keys() == one.keys()
        assert joined["asked"].tolist() == [15, 7]
        assert joined["errors"].tolist() == [[1, 4], [2, 3]]
        assert joined["wrong"].tolist() == [[4, 0, 1, 9], [6, 1, 0, 2]]
        assert joined["seed_rows"].tolist() == [1, 4, 6, 8]
