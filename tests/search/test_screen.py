"""Candidates are screened before any model is asked: their genes by a forest, their pictures by filters and jury."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from diffgen.config import SearchConfig
from diffgen.gan_training.augmentation import plain_background
from diffgen.search import screen as screening
from diffgen.search.archive import Archive
from diffgen.search.diversity import Diversity, PixelEmbedding
from diffgen.search.mating import Mating
from diffgen.search.problem import GeneProblem
from diffgen.search.proposal import NEW_BEHAVIOUR, NOT_ARCHIVED, Answers
from diffgen.search.screen import Screen
from diffgen.search.shares import Shares
from diffgen.sources.draws import NumpyDraws
from diffgen.sources.operators import Scene
from diffgen.sources.seeds import SeedsAndOperators, SeedsSettings, SeedsSource
from diffgen.tasks.kept_answers import KeptAnswers
from diffgen.types import BoolArray, ImageSet, Int64Array
from tests.search.on_tensors import population_of

_SEEDS = 40


def _said(count: int, models: int = 2, classes: int = 5, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).dirichlet(np.ones(classes), (count, models)).astype(np.float32)


def _genes(space: SeedsAndOperators, count: int, seed: int) -> np.ndarray:
    return space.sample(count, NumpyDraws(np.random.default_rng(seed)))


def _answers(pays: BoolArray, *, by: str = "behaviours") -> Answers:
    """What pays is a new behaviour, or has the second model all but undecided; of the rest both are sure."""
    nothing, none = torch.zeros(len(pays)), torch.zeros(len(pays), dtype=torch.int64)
    probabilities = torch.tensor([1.0, 0, 0]).repeat(len(pays), 2, 1)
    if by == "boundary":
        probabilities[torch.from_numpy(pays), 1] = torch.tensor([0.5, 0.48, 0.02])
    named = none if by == "boundary" else torch.from_numpy(np.where(pays, NEW_BEHAVIOUR, 0))
    return Answers(probabilities, nothing, none + NOT_ARCHIVED, none, none, nothing, named, named)


def _pays(space: SeedsAndOperators, genes: np.ndarray) -> BoolArray:
    """What a forest is to find out: the last quarter of the seeds under the first operator, pushed one way."""
    return np.asarray(
        (space.seeds_of(genes) >= 3 * _SEEDS // 4) & (genes[:, space.continuous + 2] == 0) & (genes[:, 0] > 0)
    )


@pytest.fixture(params=["behaviours", "boundary"])
def learned(request: pytest.FixtureRequest) -> tuple[Screen, SeedsAndOperators]:
    """A screen that was told a thousand answers: new behaviours, or none, but a model that wavers."""
    space = SeedsAndOperators(_SEEDS, 4, 2)
    made = Screen(space, KeptAnswers.of(_said(_SEEDS)), None, None)
    for seed in range(10):
        genes = _genes(space, 100, seed)
        made.learn(genes, torch.empty(0), _answers(_pays(space, genes), by=request.param))
    return made, space


@given(models=st.integers(2, 4), classes=st.integers(2, 200), seed=st.integers(0, 9))
def test_a_seed_is_described_by_what_the_models_said_of_it(models: int, classes: int, seed: int) -> None:
    said = _said(3, models, classes, seed)
    kept = KeptAnswers.of(said)
    described = screening._features_of(kept)
    for row, answers in zip(described, said, strict=True):
        ranked = [sorted(range(classes), key=lambda k, p=p: -p[k])[:2] for p in answers]
        probabilities = [p[k] for p, two in zip(answers, ranked, strict=True) for k in two]
        margin = min(p[two[0]] - p[two[1]] for p, two in zip(answers, ranked, strict=True))
        apart = max(answers[:, k].max() - answers[:, k].min() for k in range(classes))
        wanted = [*probabilities, *[k for two in ranked for k in two], margin, apart]
        np.testing.assert_allclose(row, np.array(wanted, dtype=np.float32), rtol=1e-6)


def test_strengths_of_an_operator_are_summed_wherever_it_stands() -> None:
    space = SeedsAndOperators(5, 3, 2)
    # strengths of two steps, seed, other image, operators; 3 stands for none
    genes = np.array([[0.5, 9, 0.25, 9, 4, 0, 1, 1], [0.5, 9, -1, 9, 4, 0, 2, 0], [0.5, 9, 1, 9, 4, 0, 2, 3]])
    assert space.features(genes)[:, :4].tolist() == [[0, 0.75, 0, 2], [-1, 0, 0.5, 2], [0, 0, 0.5, 1]]


def test_what_promises_most_is_drawn_first_and_something_by_lot(learned: tuple[Screen, SeedsAndOperators]) -> None:
    screen, space = learned
    assert screen.candidates == screening.CANDIDATES
    genes = _genes(space, 2000, 99)
    rows = screen.best(genes, 20, np.random.default_rng(0))
    assert len(np.unique(rows)) == 20
    pays = _pays(space, genes)
    assert pays.mean() < 0.1 and pays[rows[:18]].mean() > 0.8
    assert np.bincount(space.seeds_of(genes[rows[:18]])).max() <= 2
    lots = [screen.best(genes, 20, np.random.default_rng(seed)).tolist() for seed in range(2)]
    assert lots[0][:18] == lots[1][:18] and lots[0][18:] != lots[1][18:]


def test_nothing_is_left_out_before_anything_was_learned() -> None:
    space = SeedsAndOperators(_SEEDS, 4, 2)
    screen = Screen(space, KeptAnswers.of(_said(_SEEDS)), None, None)
    assert screen.candidates == 1
    assert screen.best(_genes(space, 5, 0), 5, np.random.default_rng(0)).tolist() == list(range(5))


def test_a_checkpoint_is_the_whole_state(
    learned: tuple[Screen, SeedsAndOperators], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also after the forest has forgotten, and between two of its lessons."""
    monkeypatch.setattr(screening, "_LATEST", 600)
    screen, space = learned

    def tell(each: Screen, seed: int) -> None:
        genes = _genes(space, 90, seed)
        each.learn(genes, torch.empty(0), _answers(_pays(space, genes)))

    for seed in range(20, 28):
        tell(screen, seed)
    assert 0 < screen._fitted < len(screen._new) <= 1200
    again = Screen(space, KeptAnswers.of(_said(_SEEDS)), None, None)
    again.restore(screen.checkpoint())
    candidates = _genes(space, 500, 7)
    for step in range(8):
        best = [each.best(candidates, 50, np.random.default_rng(step)).tolist() for each in (screen, again)]
        assert best[0] == best[1]
        tell(screen, 40 + step)
        tell(again, 40 + step)


@pytest.mark.parametrize("accepted", ["some", "none"])
def test_the_models_are_asked_about_accepted_pictures_while_there_are_any(accepted: str, digits: ImageSet) -> None:
    """Where nothing is accepted the search goes on with what there is."""
    seeds = torch.from_numpy(digits.images[:_SEEDS])
    source = SeedsSource(Scene(seeds, plain_background(seeds), None), SeedsSettings(), device=torch.device("cpu"))
    config, archive = SearchConfig(), Archive(digits.image_shape)
    diversity = Diversity(archive, config, space=PixelEmbedding(), seed=0, device=torch.device("cpu"))
    problem = GeneProblem(source, archive, diversity, config)

    def accepts(images: torch.Tensor, rows: Int64Array) -> BoolArray:
        assert len(images) == len(rows)
        return np.asarray(rows % 4 > 0) if accepted == "some" else np.zeros(len(rows), dtype=np.bool_)

    accepts.any_size = True
    screen = Screen(problem.space, KeptAnswers.of(_said(_SEEDS)), accepts, None)
    shares = Shares(problem, Mating(problem.operators, config), screen)
    nobody = {"X": torch.empty((0, problem.space.length), dtype=torch.float64)}
    for parents in (nobody, population_of(problem.space, 20, "cpu")):
        made = shares.offspring(parents, 30, np.random.default_rng(0))
        assert len(made["X"]) == len(made["arm"]) == 30
        assert torch.equal(made["images"], source.draw(made["X"].to(torch.float32)))
        passes = problem.space.seeds_of(made["X"].numpy()) % 4 > 0
        assert passes.all() if accepted == "some" else not passes.all()
