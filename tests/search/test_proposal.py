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


def test_what_the_sentence_advises_is_taken() -> None:
    recipes = ("noise(strength=10); blur()", recipe_text((Step("noise", (("strength", 10),)),)))
    assert len(Proposal(IMAGES, generation=1, origins=Origins(np.arange(2), recipes))) == 2
