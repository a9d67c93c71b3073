"""Real images with operators applied to them: the genes are the row of the image, the operators and their strengths."""

from __future__ import annotations

import numpy as np
import torch

from diffgen.config import CompareConfig
from diffgen.config.schema import Many, setting, settings
from diffgen.config.tables import settings_among
from diffgen.data.split import DataSplit
from diffgen.errors import UserError, did_you_mean
from diffgen.gan_training.augmentation import plain_background
from diffgen.origins import Origins, Step, recipe_text
from diffgen.sources.base import Family, FamilyContext, ImageSource
from diffgen.sources.layout import LatentLayout
from diffgen.sources.operators import OPERATORS, STRENGTHS, step_of
from diffgen.sources.space import Box, WithCategories


@settings("source.seeds")
class SeedsSettings:
    """Settings of the family ``seeds``.

    Raises:
        UserError: an operator that is not known, or none.
    """

    operators: Many[str] = setting(tuple(OPERATORS), "The operators that real images are changed by.")
    steps: int = setting(2, "How many operators are applied to an image, one after the other.", ge=1, le=8)

    def __post_init__(self) -> None:
        for name in self.operators:
            if name not in OPERATORS:
                raise UserError(f"The operator {name!r} is not known; {did_you_mean(name, OPERATORS, quoted=True)}")
        if not self.operators:
            raise UserError("The source seeds needs an operator; name one under source.seeds.operators.")


class SeedsAndOperators(WithCategories):
    """The strengths of every step, continuous from -1 to 1, then the row of the seed, then the operator of every step.

    Args:
        rows: number of seeds.
        operators: number of operators.
        steps: operators that are applied to an image, one after the other.
    """

    def __init__(self, rows: int, operators: int, steps: int) -> None:
        super().__init__(Box(STRENGTHS * steps), (rows, *[operators] * steps))
        self.steps = steps

    def layout(self) -> LatentLayout:
        return LatentLayout(self.continuous, 0, "seeds")


class SeedsSource:
    """See :class:`diffgen.sources.base.Source`.

    Args:
        images: uint8 (N, C, H, W), the seeds.
        config: the operators, and how many are applied.
        device: where images are wanted.
    """

    def __init__(self, images: torch.Tensor, config: SeedsSettings, *, device: torch.device) -> None:
        self._images = images
        self._background = plain_background(images)
        self._operators = config.operators
        self._device = device
        self.space = SeedsAndOperators(len(images), len(config.operators), config.steps)
        _, channels, height, width = images.shape
        self.image_shape = (channels, height, width)

    def draw(self, genes: torch.Tensor) -> torch.Tensor:
        """uint8 (N, C, H, W) for float32 (N, space.length)."""
        rows, chains = self._read(genes)
        images = self._images[torch.from_numpy(rows)].clone()
        for number in range(self.space.steps):
            steps = [chain[number] for chain in chains]
            for name in dict.fromkeys(step.operator for step in steps):
                which = [row for row, step in enumerate(steps) if step.operator == name]
                strengths = [dict(steps[row].strengths) for row in which]
                images[which] = OPERATORS[name].apply(images[which], self._background, strengths)
        return images.to(self._device)

    def origins(self, genes: torch.Tensor) -> Origins:
        """The seed of each image, and the operators with their strengths."""
        rows, chains = self._read(genes)
        return Origins(rows, tuple(map(recipe_text, chains)))

    def _read(self, genes: torch.Tensor) -> tuple[np.ndarray[tuple[int], np.dtype[np.int64]], list[tuple[Step, ...]]]:
        """The row of each seed, and its operators."""
        # as a run stores them: a picture is drawn again from stored genes
        values = genes.cpu().to(torch.float32).numpy()
        continuous, sides = self.space.continuous, self.image_shape[1:]
        categories = np.rint(values[:, continuous:]).astype(np.int64)
        strengths = values[:, :continuous].reshape(len(values), self.space.steps, STRENGTHS).astype(np.float64)
        chains = [
            tuple(
                step_of(self._operators[operator], first, second, sides)
                for operator, (first, second) in zip(operators, pairs, strict=True)
            )
            for operators, pairs in zip(categories[:, 1:].tolist(), strengths.tolist(), strict=True)
        ]
        return categories[:, 0], chains


class SeedsFamily(Family):
    """Nothing is trained: the seeds are all real images that were given."""

    name = "seeds"
    Settings = SeedsSettings

    def supports(self, image_shape: tuple[int, int, int]) -> None:
        """See the base class; images of every size will do."""

    def prepare(self, split: DataSplit, config: CompareConfig, context: FamilyContext) -> ImageSource:
        """See the base class."""
        own = settings_among(SeedsSettings, config.source.families)
        facts = {
            "kind": "real images, with operators that keep their label",
            "seeds": f"{len(split.data):,} real images",
            "operators": f"{', '.join(own.operators)}; {own.steps} for each image",
        }
        source = SeedsSource(torch.from_numpy(split.data.images), own, device=context.device)
        return ImageSource(source, facts=facts, real=True)
