"""What a technique proposes is looked at before any model is asked."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from diffgen.data import load
from diffgen.errors import UserError
from diffgen.origins import Origins, Step, recipe_text
from diffgen.search.proposal import Proposal
from diffgen.sources.operators import Scene
from diffgen.sources.seeds import SeedsSettings, SeedsSource
from diffgen.sources.space import random_genes

IMAGES = torch.zeros(2, 1, 8, 8, dtype=torch.uint8)


@pytest.mark.parametrize("recipe", ["noise 10", "noise(strength=much)", "turned by 5 degrees; noise(strength=10)"])
def test_a_recipe_that_is_none_is_refused_at_once(recipe: str) -> None:
    with pytest.raises(UserError, match=r"not understood \(.*\); write one as noise\(strength=10, angle=5\)"):
        Proposal(IMAGES, generation=1, origins=Origins(np.arange(2), ("", recipe)))


@pytest.mark.parametrize("recipe", ["noise(a=1,b=2)", "noise(a=1,  b=2)", "noise(a=1, b=2);blur()"])
def test_a_recipe_that_only_lacks_spaces_is_told_so(recipe: str) -> None:
    with pytest.raises(UserError, match=r"needs one space behind each comma and semicolon.*: 'noise\(a=1, b=2\)"):
        Proposal(IMAGES, generation=1, origins=Origins(np.arange(2), ("", recipe)))


class _Misspelt(SeedsSource):
    """Tells recipes that are none."""

    def origins(self, genes: torch.Tensor) -> Origins:
        told = super().origins(genes)
        return Origins(told.seeds, tuple(f"turned {recipe}" for recipe in told.recipes))


def test_a_source_is_asked_about_some_rows_alone() -> None:
    seeds, rows, cpu = load("digits:test").images[:50], np.array([7, 2]), torch.device("cpu")
    scene, settings = Scene(torch.from_numpy(seeds), [0.0]), SeedsSettings()
    source = SeedsSource(scene, settings, device=cpu)
    genes = random_genes(source.space, 9, torch.Generator().manual_seed(0))
    proposal = Proposal(source.draw(genes), generation=1, genes=genes, source=source)
    told, every = proposal.origins_of(rows), source.origins(genes)
    assert told is not None
    assert (told.seeds.tolist(), told.recipes) == (every.seeds[rows].tolist(), every[rows].recipes)
    misspelt = Proposal(proposal.images, 1, genes, source=_Misspelt(scene, settings, device=cpu))
    with pytest.raises(UserError, match=r"The source tells a recipe .*; write one as noise\(strength=10, "):
        misspelt.origins_of(rows)


def test_without_a_source_a_proposal_knows_its_origins_itself() -> None:
    given = Origins(np.array([3, 4]), ("", "blur()"))
    told = Proposal(IMAGES, generation=1, origins=given).origins_of(np.array([1]))
    assert told is not None
    assert (told.seeds.tolist(), told.recipes) == ([4], ("blur()",))
    assert Proposal(IMAGES, generation=1).origins_of(np.array([1])) is None


def test_what_the_sentence_advises_is_taken() -> None:
    recipes = ("noise(strength=10, angle=5); blur()", recipe_text((Step("noise", (("strength", 10),)),)))
    assert len(Proposal(IMAGES, generation=1, origins=Origins(np.arange(2), recipes))) == 2
