"""What a technique proposes is looked at before any model is asked."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from diffgen.errors import UserError
from diffgen.origins import Origins, Step, recipe_text
from diffgen.search.proposal import Proposal

IMAGES = torch.zeros(2, 1, 8, 8, dtype=torch.uint8)


@pytest.mark.parametrize("recipe", ["noise 10", "noise(strength=much)", "turned by 5 degrees; noise(strength=10)"])
def test_a_recipe_that_is_none_is_refused_at_once(recipe: str) -> None:
    with pytest.raises(UserError, match=r"not understood \(.*\); write one as noise\(strength=10\)"):
        Proposal(IMAGES, generation=1, origins=Origins(np.arange(2), ("", recipe)))


class _Telling:
    """A source that draws nothing, and tells of genes what they are."""

    def __init__(self, recipe: str = "noise(strength={})") -> None:
        self.recipe = recipe

    def origins(self, genes: torch.Tensor) -> Origins:
        rows = genes[:, 0].long()
        return Origins(rows.numpy(), tuple(self.recipe.format(row) for row in rows.tolist()))


def test_a_source_is_asked_about_some_rows_alone() -> None:
    genes = torch.tensor([[5.0], [7.0]])
    proposal = Proposal(IMAGES, 1, genes, source=_Telling())  # type: ignore[arg-type]
    told = proposal.origins_of(np.array([1]))
    assert told is not None
    assert (told.seeds.tolist(), told.recipes) == ([7], ("noise(strength=7)",))
    with pytest.raises(UserError, match=r"The source tells a recipe .*; write one as noise\(strength=10\)"):
        Proposal(IMAGES, 1, genes, source=_Telling("turned {}")).origins_of(np.array([0]))  # type: ignore[arg-type]


def test_without_a_source_a_proposal_knows_its_origins_itself() -> None:
    given = Origins(np.array([3, 4]), ("", "blur()"))
    told = Proposal(IMAGES, generation=1, origins=given).origins_of(np.array([1]))
    assert told is not None
    assert (told.seeds.tolist(), told.recipes) == ([4], ("blur()",))
    assert Proposal(IMAGES, generation=1).origins_of(np.array([1])) is None


def test_what_the_sentence_advises_is_taken() -> None:
    recipes = ("noise(strength=10); blur()", recipe_text((Step("noise", (("strength", 10),)),)))
    assert len(Proposal(IMAGES, generation=1, origins=Origins(np.arange(2), recipes))) == 2
