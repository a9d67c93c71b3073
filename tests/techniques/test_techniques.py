"""Names, presets, and the baseline."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from diffgen.config import SearchConfig
from diffgen.errors import UserError
from diffgen.origins import read_recipe
from diffgen.search.loop import SearchLoop
from diffgen.techniques import TECHNIQUES, Technique, preset, technique_class
from diffgen.techniques.drfuzz import DrFuzzSettings
from diffgen.techniques.giftbench import GiftbenchSettings
from diffgen.techniques.sinvad import SinvadSettings
from tests.techniques.encoding_sources import BrightScorer, PixelSource


def test_every_technique_has_a_default_preset() -> None:
    assert {"as_is", "diffgan", "drfuzz"} <= TECHNIQUES.own().keys()
    for name in TECHNIQUES.names():
        assert preset(name, "default").search == SearchConfig()


def test_paper_preset_has_the_published_constants() -> None:
    paper = preset("diffgan", "paper").search
    assert (paper.population, paper.prior, paper.bound) == (100, "box", 1.0)
    assert (paper.crossover_probability, paper.crossover_eta) == (0.9, 15.0)
    assert (paper.mutation_probability, paper.mutation_gene_probability) == (0.1, None)
    assert (paper.reducer, paper.reducer_dim, paper.umap_neighbors, paper.umap_min_dist) == ("umap", 2, 5, 0.1)
    assert (paper.min_cluster_size, paper.cluster_sample, paper.cluster_growth) == (3, None, 0.0)


@pytest.mark.parametrize(
    ("technique", "name", "hint"),
    [
        ("difgan", "default", "did you mean 'diffgan'"),
        ("diffgan", "papr", "did you mean 'paper'"),
        ("zzz", "x", "give one of 'argus', 'as_is', 'dflare', 'diffchaser', 'diffgan', 'diverget', 'drfuzz'"),
    ],
)
def test_an_unknown_name_is_answered_with_the_known_ones(technique: str, name: str, hint: str) -> None:
    with pytest.raises(UserError, match=hint):
        preset(technique, name)


def test_only_diffgan_with_or_without_a_gan_asks_filters_in_the_search() -> None:
    able = [name for name in TECHNIQUES.names() if technique_class(name).asks_filters]
    assert able == ["diffgan"]


@pytest.fixture
def page_technique(repository: Path) -> type[Technique]:
    """The technique that docs/tutorials/technique.md shows."""
    text = (repository / "docs" / "tutorials" / "technique.md").read_text(encoding="utf-8")
    names: dict[str, Any] = {"__name__": __name__}
    code = re.search(r"<!-- technique -->\n```\{code-cell\} python\n(.*?)```", text, re.DOTALL)
    assert code is not None
    exec(compile(code[1], "tutorial", "exec", dont_inherit=True), names)
    kind = names["RandomNoise"]
    assert issubclass(kind, Technique)
    return kind


def test_the_technique_of_the_page_runs_and_resumes(
    start: Callable[..., SearchLoop], page_technique: type[Technique]
) -> None:
    whole = start(page_technique, "640q")
    states = []
    whole.run(on_generation=lambda: states.append((whole.technique.checkpoint(), whole.evaluator.queries)))
    assert len(states) == 10
    assert len(whole.evaluator.archive) > 0
    # what a resumed one proposes is what the whole one was asked about
    state, queries = states[4]
    again, other = start(page_technique, "640q"), start(page_technique, "640q")
    for _ in range(5):
        assert other.generation()
    again.technique.restore(state)
    again.start(queries=queries)
    first, second = again.technique.propose(64), other.technique.propose(64)
    assert first.generation == second.generation == 6
    assert torch.equal(first.images, second.images)


@pytest.mark.parametrize("name", ["real_data", "drfuzz", "dflare"])
def test_recipes_belong_to_the_pictures_and_survive_a_resumption(name: str, start: Callable[..., SearchLoop]) -> None:
    config = SearchConfig().with_technique(DrFuzzSettings(fidelity="none"))
    whole, other = start(name, "600q", config=config), start(name, "600q", config=config)
    for _ in range(6):
        assert whole.generation()
    # through JSON, as a checkpoint keeps what is no array
    state = {
        key: value.copy() if isinstance(value, np.ndarray) else json.loads(json.dumps(value))
        for key, value in whole.technique.checkpoint().items()
    }
    other.technique.restore(state)
    first, again = (loop.technique.propose(64).origins for loop in (whole, other))
    assert first is not None
    assert again is not None
    assert first.recipes == again.recipes
    np.testing.assert_array_equal(first.seeds, again.seeds)
    lengths = [len(read_recipe(recipe)) for recipe in first.recipes]
    assert min(lengths) == 1
    # what was kept is mutated on: its recipe grows
    assert (max(lengths) > 1) == (name != "real_data")


_LATENT = {
    "argus": SearchConfig(),
    "argus, ten seeds": preset("argus", "paper").search,
    "latte": SearchConfig(),
    "sinvad": SearchConfig().with_technique(SinvadSettings(population=20, generations=5)),
    "sinvad, one by one": SearchConfig().with_technique(
        SinvadSettings(search="escape", target="each", population=20, generations=5)
    ),
    "sinvad, climbing": SearchConfig().with_technique(SinvadSettings(search="climb", passes=1)),
    "giftbench": SearchConfig().with_technique(GiftbenchSettings(generations=5)),
}


@pytest.mark.parametrize("case", _LATENT)
def test_searches_from_encoded_images_are_the_same_for_any_room_and_when_resumed(
    case: str, start: Callable[..., SearchLoop]
) -> None:
    name = case.split(",")[0]
    made = {"config": _LATENT[case], "source": PixelSource(), "scorer": BrightScorer()}
    whole = start(name, "100000q", **made)
    again = start(name, "100000q", **made)
    for _ in range(12):
        assert whole.generation()
    state = {
        key: value.copy() if isinstance(value, np.ndarray) else json.loads(json.dumps(value))
        for key, value in whole.technique.checkpoint().items()
    }
    # a round was begun when the process was killed
    again.technique.propose(7)
    again.technique.restore(state)
    for _ in range(12):
        pictures = []
        for loop, room in ((whole, 64), (again, 13)):
            parts = []
            while True:
                proposal = loop.technique.propose(room)
                parts.append(proposal)
                loop.technique.learn(proposal, loop.evaluator.ask(proposal))
                if loop.technique.between_generations:
                    break
            assert {each.generation for each in parts} == {parts[0].generation}
            pictures.append((torch.cat([each.images for each in parts]), [each.origins.recipes for each in parts]))
        (first, texts), (second, other_texts) = pictures
        assert torch.equal(first, second)
        assert sum(texts, ()) == sum(other_texts, ())
    ours, theirs = whole.technique.outcomes(), again.technique.outcomes()
    assert ours.keys() == theirs.keys() != set()
    for key, value in ours.items():
        np.testing.assert_array_equal(value, theirs[key])
    with pytest.raises(ValueError, match=r"of (another number|other images)"):
        again.technique.restore(
            {key: value[1:] if isinstance(value, np.ndarray) else value for key, value in state.items()}
        )
