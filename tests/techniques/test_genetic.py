"""SINVAD and GIFTbench: their rules against slow loops of one search, what they keep, what they count."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from diffgen.config import SearchConfig
from diffgen.models import BlackBox
from diffgen.origins import read_recipe
from diffgen.search.loop import SearchLoop
from diffgen.tasks.classification import labels_of
from diffgen.techniques import RealImages, preset
from diffgen.techniques.giftbench import Giftbench, GiftbenchSettings
from diffgen.techniques.latent import EVERY_MODEL, changed, margins, shortfall, still_named
from diffgen.techniques.latent.genetic import GeneticTechnique, one_point
from diffgen.techniques.sinvad import Sinvad, SinvadSettings
from tests.techniques.encoding_sources import PixelSource, PixelSourceWithClass
from tests.techniques.test_interpolation import everything

Start = Callable[..., SearchLoop]
_KEPT, _POPULATION = 3, 8


def some_answers(count: int = 200, models: int = 3, classes: int = 4) -> np.ndarray:
    values = np.random.default_rng(0).random((count, models, classes)) ** 6
    return (values / values.sum(axis=2, keepdims=True)).astype(np.float32)


def test_aims_are_what_a_loop_over_pictures_says() -> None:
    probabilities = some_answers()
    rng = np.random.default_rng(1)
    expected, aims = rng.integers(0, 4, len(probabilities)), rng.integers(-1, 3, len(probabilities))
    labels, values = labels_of(probabilities), margins(probabilities, expected)
    far = shortfall(values, aims)
    found, named = changed(labels, expected, aims), still_named(labels, expected, aims)
    for row, answers in enumerate(probabilities):
        said = [int(np.argmax(each)) for each in answers]
        own = [
            np.log(each[expected[row]]) - max(np.log(p) for k, p in enumerate(each) if k != expected[row])
            for each in answers.astype(np.float64)
        ]
        np.testing.assert_allclose(values[row], own, rtol=1e-6)
        right = [label == expected[row] for label in said]
        if aims[row] == EVERY_MODEL:
            assert found[row] == (len(set(said)) > 1)
            assert named[row] == all(right)
            assert (far[row] < 0) == (any(right) and not all(right))
            assert far[row] == pytest.approx(min(own) if all(right) else -max(own) if not any(right) else far[row])
        else:
            assert found[row] == (not right[aims[row]])
            assert named[row] == right[aims[row]]
            assert far[row] == pytest.approx(own[aims[row]])
    assert 10 < found.sum() < 190


def test_margins_of_certain_answers_are_finite() -> None:
    certain = np.array([[[1.0, 0.0, 0.0]]], dtype=np.float32)
    assert 0 < margins(certain, np.array([0]))[0, 0] < 100
    assert -100 < margins(certain, np.array([1]))[0, 0] < 0


@given(st.integers(1, 12), st.integers(0, 2**32 - 1))
def test_children_of_a_crossing_have_the_first_ones_genes_up_to_a_place(length: int, seed: int) -> None:
    first, second = np.zeros((20, length)), np.ones((20, length))
    children = one_point(first, second, np.random.default_rng(seed))
    assert (np.diff(children, axis=1) >= 0).all()
    if length > 1:
        assert (children[:, 0] == 0).all()
        assert (children[:, -1] == 1).all()


def slow_search(
    loop: SearchLoop, asked: list[np.ndarray], answers: list[np.ndarray], seed: np.ndarray, rounds: int
) -> list[np.ndarray]:
    """What a search has to ask about, generation by generation, gene by gene, from the answers to the ones before."""
    technique = loop.technique
    assert isinstance(technique, Sinvad | Giftbench)
    rng = np.random.default_rng([0, 0])
    own, expected = technique.settings, int(technique._lanes.expected[0])
    sinvad = isinstance(technique, Sinvad)
    low, high = (0.0, 0.0) if sinvad else (float(technique._low), float(technique._high))
    low, high = min(low, float(seed.min())), max(high, float(seed.max()))
    step = np.float32(own.spread if sinvad else 2 * technique._step)

    def cut(value: np.float32) -> np.float32:
        return value if sinvad else np.float32(min(max(value, np.float32(low)), np.float32(high)))

    def value_of(genes: np.ndarray, said: np.ndarray) -> float:
        labels = [int(np.argmax(each)) for each in said]
        if sinvad:
            return float(np.abs(genes.astype(np.float64) - seed).sum()) if labels[0] != labels[1] else np.inf
        own_margins = [
            np.log(each[expected]) - max(np.log(p) for k, p in enumerate(each) if k != expected)
            for each in said.astype(np.float64)
        ]
        return max(min(own_margins), -max(own_margins))

    wanted = [seed[None]]
    noise = rng.standard_normal((_POPULATION, len(seed)), dtype=np.float32)
    wanted.append(np.array([[cut(a + b * step) for a, b in zip(seed, each, strict=True)] for each in noise]))
    kept: list[tuple[float, np.ndarray]] = []
    size = step if not sinvad else np.float32(own.step)
    before = np.inf
    for number in range(1, rounds):
        pool = kept + [(value_of(g, p), g) for g, p in zip(asked[number], answers[number], strict=True)]
        kept = sorted(pool, key=lambda each: each[0])[:_KEPT]
        best = kept[0][0]
        if sinvad:
            size = np.float32(float(size) * own.shrinking if best == before else own.step)
        else:
            size = np.float32(2 * float(size) if best == before else 2 * technique._step)
        before = best
        count = _POPULATION - _KEPT
        first = rng.integers(0, _KEPT, count)
        second = (first + rng.integers(1, _KEPT, count)) % _KEPT
        places = rng.integers(1, len(seed), count)
        noise = rng.standard_normal((count, len(seed)), dtype=np.float32)
        restored = rng.random((count, len(seed))) if sinvad else np.ones((count, len(seed)))
        children = []
        for child in range(count):
            genes = np.empty_like(seed)
            for place in range(len(seed)):
                parent = kept[first[child]] if place < places[child] else kept[second[child]]
                gene = parent[1][place]
                if gene != seed[place]:
                    gene = gene + noise[child, place] * size
                if sinvad and restored[child, place] < own.restored:
                    gene = seed[place]
                genes[place] = cut(gene)
            children.append(genes)
        wanted.append(np.array(children))
    return wanted


@pytest.mark.parametrize(
    ("name", "own"),
    [
        ("sinvad", SinvadSettings(population=_POPULATION, kept=_KEPT, spread=0.5, smallest_step=1e-9)),
        ("giftbench", GiftbenchSettings(population=_POPULATION, kept=_KEPT, generations=9)),
    ],
)
def test_one_search_asks_about_what_the_published_loop_would(
    name: str, own: SinvadSettings | GiftbenchSettings, start: Start
) -> None:
    config = SearchConfig().with_technique(own)
    loop = start(name, "10000q", source=PixelSource(), config=config, batch_size=_POPULATION)
    technique = loop.technique
    assert isinstance(technique, GeneticTechnique)
    found = everything(loop, 6)
    assert technique._taken == 1, "the search ended sooner than the test looks"
    asked = [proposal.genes.numpy() for proposal, _ in found if proposal.genes is not None]
    assert [len(each) for each in asked] == [1, _POPULATION, *[_POPULATION - _KEPT] * 4]
    seed = technique._lanes.seed[0]
    np.testing.assert_array_equal(asked[0][0], seed)
    for ours, slow in zip(asked, slow_search(loop, asked, [each for _, each in found], seed, 5), strict=False):
        np.testing.assert_allclose(ours, slow, rtol=0, atol=1e-6)


def watched(loop: SearchLoop, rounds: int) -> dict[tuple[int, int], list[tuple[float, list[int]]]]:
    """For every seed and model: distance of each picture that was asked about, and what the models say of it."""
    technique = loop.technique
    assert isinstance(technique, GeneticTechnique)
    found: dict[tuple[int, int], list[tuple[float, list[int]]]] = {}
    for _ in range(rounds):
        technique._round = technique.begin()
        rows, aims = (getattr(technique._lanes, each)[technique._owner].tolist() for each in ("row", "aim"))
        for proposal, probabilities in everything(loop, 1):
            assert proposal.origins is not None
            away = [dict(read_recipe(each)[0].strengths)["distance"] for each in proposal.origins.recipes]
            for row, aim, by, said in zip(rows, aims, away, labels_of(probabilities).tolist(), strict=True):
                found.setdefault((row, aim), []).append((by, said))
    return found


@pytest.mark.parametrize("target", ["each", "disagreement"])
def test_outcomes_are_the_nearest_pictures_that_were_asked_about(target: str, start: Start, real: RealImages) -> None:
    own = SinvadSettings(population=_POPULATION, kept=_KEPT, spread=0.4, generations=6, target=target)  # type: ignore[arg-type]
    loop = start("sinvad", "10000q", source=PixelSource(), config=SearchConfig().with_technique(own))
    technique = loop.technique
    assert isinstance(technique, Sinvad)
    seen = watched(loop, 16)
    outcomes = technique.outcomes()
    assert len(outcomes["row"]) > 10
    assert outcomes["reached"].sum() > 0
    assert set(outcomes["aim"].tolist()) == ({0, 1} if target == "each" else {-1})
    labels = real.answers.labels
    for place, (row, aim) in enumerate(zip(outcomes["row"].tolist(), outcomes["aim"].tolist(), strict=True)):
        expected = outcomes["expected"][place]
        assert labels[row].tolist() == [expected] * 2
        first, *rest = seen[row, aim]
        assert outcomes["queries"][place] == 1 + len(rest)
        assert first[0] == 0
        assert outcomes["viable"][place]  # pictures come back as they were
        reached = [by for by, said in rest if (said[0] != said[1] if aim < 0 else said[aim] != expected)]
        assert outcomes["reached"][place] == bool(reached)
        if reached:
            assert outcomes["distance"][place] == pytest.approx(min(reached), rel=1e-4)


def test_escape_counts_only_the_target(start: Start, real: RealImages) -> None:
    own = SinvadSettings(search="escape", target="each", population=_POPULATION, kept=_KEPT, spread=0.6, generations=4)
    loop = start("sinvad", "100000q", source=PixelSource(), config=SearchConfig().with_technique(own))
    technique = loop.technique
    assert isinstance(technique, Sinvad)
    seen = watched(loop, 30)
    outcomes = technique.outcomes()
    assert (outcomes["target"] != outcomes["expected"]).all()
    assert outcomes["target"].min() >= 0
    for row, aim, target, reached in zip(
        *(outcomes[each].tolist() for each in ("row", "aim", "target", "reached")), strict=True
    ):
        assert reached == any(said[aim] == target for _, said in seen[row, aim][1:])
    assert 0 < outcomes["reached"].sum() < len(outcomes["reached"])


def test_climbing_goes_gene_by_gene_and_never_up(start: Start, real: RealImages) -> None:
    own = SinvadSettings(search="climb", passes=1)
    loop = start("sinvad", "100000q", source=PixelSource(), config=SearchConfig().with_technique(own), batch_size=64)
    technique = loop.technique
    assert isinstance(technique, Sinvad)
    assert technique.context.side_by_side == len(technique._lanes.row) == 16
    everything(loop, 1)
    before, values = technique._lanes.kept[:, 0].copy(), technique._lanes.fitness[:, 0].copy()
    moved = 0
    for number in range(40):
        rows = technique._lanes.row.copy()
        (proposal, _), *_ = everything(loop, 1)
        genes = proposal.genes
        assert genes is not None
        same = technique._lanes.row == rows  # those that were not ended
        different = genes.numpy() != before
        assert (different.sum(axis=1) <= 1).all()
        assert (np.flatnonzero(different[0]) == number).all()
        now, after = technique._lanes.fitness[:, 0], technique._lanes.kept[:, 0]
        assert (now[same] <= values[same]).all()
        moved += int((now[same] < values[same]).sum())
        if not same.all():
            break
        before, values = after.copy(), now.copy()
    assert moved > 0


def test_climbing_ends_with_a_change_or_after_its_passes(start: Start, black_boxes: tuple[BlackBox, ...]) -> None:
    config = SearchConfig().with_technique(SinvadSettings(search="climb", target="each", passes=1))
    loop = start("sinvad", "300000q", source=PixelSource(), config=config, batch_size=16)
    technique = loop.technique
    assert isinstance(technique, Sinvad)
    while len(technique._found) < 5:
        assert loop.generation()
    outcomes = technique.outcomes()
    ended = outcomes["reached"] == 0
    assert (outcomes["queries"][ended] == 785).all()
    assert (outcomes["queries"][~ended] < 785 + 1).all()


def test_a_walk_ends_with_a_failure_and_its_steps_keep_to_the_range(start: Start, real: RealImages) -> None:
    own = GiftbenchSettings(target="each", generations=250)
    loop = start("giftbench", "20000q", source=PixelSource(), config=SearchConfig().with_technique(own), batch_size=256)
    technique = loop.technique
    assert isinstance(technique, Giftbench)
    assert technique._step == pytest.approx(float(technique._high - technique._low) / 1000)
    technique._step *= 20  # pixels need larger ones than latent values
    for proposal, _ in everything(loop, 60):
        assert proposal.genes is not None
        assert proposal.genes.min() >= min(0.0, float(technique._low))
        assert proposal.genes.max() <= max(1.0, float(technique._high))
    outcomes = technique.outcomes()
    assert (
        outcomes["reached"][outcomes["generations"] < 250] == outcomes["viable"][outcomes["generations"] < 250]
    ).all()
    assert outcomes["reached"].sum() > 0


@pytest.mark.filterwarnings("error")
def test_steps_that_double_for_as_long_as_a_search_may_last_stay_numbers(start: Start) -> None:
    own = GiftbenchSettings(target="each", generations=250)
    technique = start("giftbench", source=PixelSource(), config=SearchConfig().with_technique(own)).technique
    assert isinstance(technique, Giftbench)
    technique.begin()
    lanes = technique._lanes
    lanes.generation[:], lanes.best[:] = 1, 3.0
    owner = np.arange(len(lanes.row))
    for _ in range(250):
        lanes.generation += 1
        lanes.step[:] = [technique.next_step(lane, 3.0) for lane in owner]
        walked = technique._walked(np.zeros((len(owner), 784), dtype=np.float32), owner)
        assert np.isfinite(walked).all()
    assert lanes.step.min() > 1e6 * (technique._high - technique._low)


def test_low_steps_are_a_tenth_of_high_ones(start: Start) -> None:
    steps = []
    for each in ("low", "high"):
        config = SearchConfig().with_technique(GiftbenchSettings(steps=each))  # type: ignore[arg-type]
        technique = start("giftbench", source=PixelSource(), config=config).technique
        assert isinstance(technique, Giftbench)
        steps.append(technique._step)
    assert steps[1] == pytest.approx(10 * steps[0])


def test_a_seed_that_encoding_has_changed_is_left_out(start: Start) -> None:
    class Blank(PixelSource):
        """Draws every picture the same."""

        def draw(self, genes):  # type: ignore[no-untyped-def]
            return super().draw(genes * 0)

    loop = start("giftbench", "2000q", source=Blank(), batch_size=100)
    technique = loop.technique
    assert isinstance(technique, Giftbench)
    everything(loop, 5)
    outcomes = technique.outcomes()
    left_out = outcomes["viable"] == 0
    assert left_out.sum() > 5
    assert (outcomes["queries"][left_out] == 1).all()
    assert not outcomes["reached"].any()
    # blank pictures are a digit to the models, and some seeds are that digit
    assert (outcomes["viable"].any() or outcomes["under_way"].any()) == (technique.remark(outcomes) == "")
    spoiled = {name: values[left_out] for name, values in outcomes.items() if name != "under_way"}
    remark = technique.remark({**spoiled, "under_way": np.zeros(1)})
    assert f"none of the {len(np.unique(spoiled['row']))} images" in remark
    assert technique.remark({name: values[:0] for name, values in outcomes.items()}) == ""


@pytest.mark.parametrize("kind", [Sinvad, Giftbench])
def test_one_spoiled_seed_is_not_every_seed(kind: type[Sinvad | Giftbench], start: Start, real: RealImages) -> None:
    """The other searches have passed theirs, and none has come to its end."""

    class SpoilsFirst(PixelSource):
        def draw(self, genes):  # type: ignore[no-untyped-def]
            first, other = (self.encode(torch.from_numpy(real.images[row][None])) for row in (spoiled, another))
            return super().draw(torch.where((genes == first).all(dim=1, keepdim=True), other, genes))

    loop = start(kind, "2000q", source=SpoilsFirst(), batch_size=200)
    assert isinstance(loop.technique, kind)
    assert loop.technique.outcomes()["under_way"].tolist() == [0]
    spoiled = loop.technique._order[0]
    another = next(
        row for row in loop.technique._order if real.answers.labels[row, 0] != real.answers.labels[spoiled, 0]
    )
    everything(loop, 1)
    outcomes = loop.technique.outcomes()
    assert outcomes["viable"].tolist() == [0]
    assert outcomes["under_way"][0] > 0
    assert loop.technique.remark(outcomes) == ""
    assert "none of the 1 images" in loop.technique.remark({**outcomes, "under_way": np.zeros(1)})


@pytest.mark.parametrize("name", ["sinvad", "giftbench"])
def test_a_class_among_the_genes_stays_that_of_the_seed(name: str, start: Start, real: RealImages) -> None:
    for proposal, _ in everything(start(name, "2000q", source=PixelSourceWithClass()), 4):
        assert proposal.genes is not None
        assert proposal.origins is not None
        np.testing.assert_array_equal(
            proposal.genes[:, -1].numpy(),
            real.labels[proposal.origins.seeds],  # type: ignore[index]
        )


def test_searches_of_several_workers_say_whose_they_are() -> None:
    parts = [{"number": np.arange(3), "row": np.array([7, 8, 9])}, {"number": np.arange(2), "row": np.array([7, 5])}]
    for kind in (Sinvad, Giftbench):
        joined = kind.joined_outcomes(parts)
        assert joined["number"].tolist() == [0, 1, 2, 0, 1]
        assert joined["row"].tolist() == [7, 8, 9, 7, 5]
        assert joined["worker"].tolist() == [0, 0, 0, 1, 1]
    assert len(Sinvad.joined_outcomes([{"number": np.empty(0, dtype=np.int64)}])["worker"]) == 0


def test_presets_are_the_published_figures() -> None:
    own = Sinvad.settings_in(preset("sinvad", "paper").search)
    assert (own.population, own.kept, own.generations, own.target, own.search) == (50, 10, 500, "each", "boundary")
    assert (own.spread, own.step, own.shrinking, own.smallest_step, own.restored) == (1.0, 0.1, 0.7, 0.001, 0.5)
    other = Giftbench.settings_in(preset("giftbench", "paper").search)
    assert (other.population, other.kept, other.generations, other.target) == (25, 10, 250, "each")
