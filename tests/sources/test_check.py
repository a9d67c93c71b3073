"""diffgen.sources.registry: a generator of the user's own is tried out before a search rests on it."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from diffgen.comparison.named_settings import settled
from diffgen.comparison.requirements import check_settings
from diffgen.config import CompareConfig
from diffgen.errors import UserError
from diffgen.origins import Origins
from diffgen.sources.base import Source
from diffgen.sources.registry import checked_source
from diffgen.sources.space import Box
from tests.techniques.encoding_sources import PixelSource


class Bad:
    """A generator with one fault."""

    def __init__(self, fault: str) -> None:
        self.space, self.fault, self._calls = Box(3), fault, 0
        self.image_shape = (1, 8, 9) if fault == "shape" else (1, 8, 8)

    def draw(self, genes: torch.Tensor) -> torch.Tensor:
        self._calls += 1
        grey = (genes.abs().mean(dim=1) * 100).reshape(-1, 1, 1, 1).expand(-1, 1, 8, 8)
        if self.fault == "random":
            grey = grey + self._calls * 5
        if self.fault == "batch":
            grey = grey + 5 * len(genes)
        return grey if self.fault == "type" else grey.to(torch.uint8)

    def origins(self, genes: torch.Tensor) -> Origins | None:
        return Origins(np.zeros(len(genes), int), ("blur(a=1,b=2)",) * len(genes)) if self.fault == "recipe" else None


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        ("shape", "draws 1x8x9 images but the data has 1x8x8"),
        ("type", "let it draw torch.uint8"),
        ("random", "draws another image when it is handed the same genes again"),
        ("batch", "depends on the others in its batch"),
        ("recipe", "The generator bad tells a recipe that is not understood .*one space behind each comma"),
    ],
)
def test_a_generator_is_tried_out(fault: str, said: str) -> None:
    with pytest.raises(UserError, match=said):
        checked_source(Bad(fault), "bad", (1, 8, 8))
    assert checked_source(Bad(""), "good", (1, 8, 8)).image_shape == (1, 8, 8)
    with pytest.raises(UserError, match="The generator list has no space"):
        checked_source([], "list", (1, 8, 8))


class ShortSighted(PixelSource):
    """Finds too few genes."""

    def encode(self, images: torch.Tensor, labels: torch.Tensor | None = None) -> torch.Tensor:
        return super().encode(images, labels)[:, :3]


def test_a_search_from_real_images_needs_genes_that_are_found() -> None:
    def check(source: Source) -> None:
        with settled(CompareConfig(technique="sinvad"), {}, generator=source) as config:
            check_settings(config)

    check(PixelSource())
    with pytest.raises(UserError, match=r"check:Bad has nothing for that; .*, or give the generator a method encode"):
        check(Bad(""))
    with pytest.raises(UserError, match=r"finds genes of shape \(8, 3\) for 8 images; let it find 784 for each"):
        checked_source(ShortSighted(), "short-sighted", (1, 28, 28))
