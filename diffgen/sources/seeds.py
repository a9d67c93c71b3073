"""Real images with operators applied to them: the genes are the row of the image, the operators and their strengths."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray

from diffgen.config import CompareConfig, replace
from diffgen.config.schema import Many, Maybe, setting, settings
from diffgen.data.split import DataSplit
from diffgen.errors import UserError, did_you_mean
from diffgen.features.jury import Recogniser
from diffgen.features.shrinking import shrunk, shrunk_sides
from diffgen.features.vae import AutoEncoder
from diffgen.gan_training.augmentation import plain_background
from diffgen.origins import Origins, Step, recipe_text
from diffgen.parts import NOTHING, Needs
from diffgen.sampling import affordable_rows
from diffgen.sources.base import Family, FamilyContext, ImageSource
from diffgen.sources.calibration import KEPT, Ranges, prepare_ranges
from diffgen.sources.chains import applied
from diffgen.sources.draws import Draws
from diffgen.sources.operators import (
    OPERATORS,
    STRENGTHS,
    ImageRows,
    Operator,
    Scene,
    is_grey,
    step_of,
    usual_operators,
)
from diffgen.sources.preferences import prepare_clearness, seed_weights
from diffgen.sources.space import Box, Genes, LatentLayout, Mutating, Space, WithCategories
from diffgen.types import Int64Array, UInt8Array

Weights = NDArray[np.float64]

_BELIEF = 2.0  # pictures that the mean of all seeds speaks for, where a seed is judged by its own
PREVIEW_SIDE = 64  # pixels, as large as any filter looks at a picture
_KEPT_BYTES = 1 << 28  # of real images that are averaged down
_OTHER_SEED = 0.9  # share of what is mutated that gets another seed; more of seeds that promise less than the mean


class SeedsAndOperators(WithCategories):
    """Strengths, then the row of the seed, the row of another image, and the operator of every step.

    The strengths of every step are continuous from -1 to 1. Any step but the first may do nothing, its operator then
    is the number of operators; half of what is drawn does, so that single operators are as frequent as composed ones.

    Args:
        rows: number of seeds.
        operators: number of operators.
        steps: operators that are applied to an image, one after the other, at most.
        weights: float64 (rows,), how often each seed is drawn against the others, by a search; None: all alike.
    """

    real = True

    def __init__(self, rows: int, operators: int, steps: int, weights: Weights | None = None) -> None:
        super().__init__(Box(STRENGTHS * steps), (rows, rows, operators, *[operators + 1] * (steps - 1)))
        self.steps = steps
        self.operators = operators
        self._weights = np.ones(rows) if weights is None else weights
        self._worth = np.zeros(rows)
        self._tries = np.zeros(rows, dtype=np.int64)

    def _promise(self) -> Weights:
        """float64 (rows,): what the next picture of each seed is worth, as a multiple of the mean of all.

        The mean of a Beta posterior whose prior has that mean.
        """
        mean = (1 + self._worth.sum()) / (2 + self._tries.sum())
        return np.asarray((_BELIEF + self._worth / mean) / (_BELIEF + self._tries))

    def seeds_of(self, genes: Genes) -> Int64Array:
        return np.rint(genes[:, self.continuous]).astype(np.int64)

    def features(self, genes: Genes) -> NDArray[np.float32]:
        """See the base class: what is done to the image whatever the order, and what came of its pictures until now.

        That is the sum of each operator's first strengths, how many operators there are, the first two of them, and the
        tries and the worth of the seed.
        """
        operators = np.rint(genes[:, self.continuous + 2 :]).astype(np.int64)
        used = operators < self.operators
        strengths = np.zeros((len(genes), self.operators + 1))
        rows = np.arange(len(genes))
        for step, numbers in enumerate(operators.T):
            strengths[rows, numbers] += genes[:, STRENGTHS * step]
        seeds = self.seeds_of(genes)
        lately = [used.sum(axis=1), *operators[:, :2].T, self._tries[seeds], self._worth[seeds]]
        return np.column_stack([strengths[:, :-1], *lately]).astype(np.float32)

    def learn(self, genes: Genes, worth: NDArray[np.float64]) -> None:
        """A seed promises what it kept: some show new behaviours again and again, of others all pictures are alike."""
        rows, seeds = len(self._tries), self.seeds_of(genes)
        self._worth += np.bincount(seeds, worth, minlength=rows)
        self._tries += np.bincount(seeds, minlength=rows)

    def checkpoint(self) -> dict[str, Any]:
        return {"seed_worth": self._worth, "seed_tries": self._tries}

    def restore(self, state: Mapping[str, Any]) -> None:
        self._worth, self._tries = np.array(state["seed_worth"]), np.array(state["seed_tries"])

    def searched(self, prior: Literal["generator", "box"], bound: float) -> Space:
        """A search of its own: what it learns is no other's."""
        return SeedsAndOperators(self.categories[0], self.operators, self.steps, self._weights)

    def sample(self, count: int, draws: Draws) -> Genes:
        """Random genes; the draws say whether some seeds go before others."""
        values = self.inner.sample(count, draws)
        rows = draws.preferred(count, self._weights * self._promise())
        others = draws.categories(count, self.categories[1])
        # numbers beyond the operators' stand for none
        chosen = [draws.categories(count, self.operators)]
        chosen += [
            np.minimum(draws.categories(count, 2 * self.operators), self.operators) for _ in range(self.steps - 1)
        ]
        return np.column_stack([values, *(each.astype(values.dtype) for each in (rows, others, *chosen))])

    def mutate(self, genes: Genes, how: Mutating, rng: np.random.Generator) -> Genes:
        """As for any categories; but nearly all get another seed, one of those that are drawn often.

        Another strength on the same seed mostly gives a near-duplicate; what worked on one seed may work on another.
        """
        mutated = super().mutate(genes, how, rng)
        column, promise = self.continuous, self._promise()
        kept = (1 - _OTHER_SEED) * np.minimum(1, promise[self.seeds_of(genes)])
        other = rng.random(len(genes)) >= kept
        changed = np.flatnonzero(other | (mutated[:, column] != genes[:, column]))
        shares = self._weights * promise
        mutated[changed, column] = rng.choice(self.categories[0], size=len(changed), p=shares / shares.sum())
        return mutated

    def layout(self) -> LatentLayout:
        return LatentLayout(self.continuous, 0, "seeds")


_CALIBRATED = f"as far as the jury gives {KEPT:.0%} of held-out real images the names that it gave them unchanged"


def _named(which: Callable[[Operator], bool]) -> str:
    """Operators, as a list in words."""
    return ", ".join(name for name, each in OPERATORS.items() if which(each))


def _limited() -> str:
    """Which operators are for some images alone, in words."""
    grey, colour = _named(lambda each: each.only == "grey"), _named(lambda each: each.only == "colour")
    return f"for grey images alone: {grey}; for colour: {colour}"


@settings("source.seeds")
class SeedsSettings:
    """Settings of the family ``seeds``.

    Raises:
        UserError: an operator that is not known, or none.
    """

    operators: Maybe[Many[str]] = setting(
        None,
        f"The operators that real images are changed by ({_limited()}); auto: all but those that ask an auto-encoder, "
        f"trained for them ({_named(lambda each: each.learned)}), and of grey images not those that happen to "
        f"photographs ({_named(lambda each: each.photographic)}).",
    )
    steps: int = setting(2, "How many operators are applied to an image at most, one after the other.", ge=1, le=8)
    explain: float = setting(
        0.25,
        "Pictures that the models are asked about after the search, for curves of each operator, as a share of the "
        "search's queries at most; 0 for no curves.",
        ge=0,
        le=1,
    )

    def __post_init__(self) -> None:
        for name in self.operators or ():
            if name not in OPERATORS:
                raise UserError(f"The operator {name!r} is not known; {did_you_mean(name, OPERATORS, quoted=True)}")
        if self.operators == ():
            raise UserError("The source seeds needs an operator; name one under source.seeds.operators.")

    def fitting(self, scene: Scene) -> tuple[str, ...]:
        """The operators that the images of a scene can be changed by. UserError if there is none."""
        channels = scene.seeds.shape[1]
        named = usual_operators(channels, grey=scene.grey) if self.operators is None else self.operators
        names = tuple(
            name
            for name in named
            if OPERATORS[name].fits(channels, grey=scene.grey)
            and (scene.auto_encoder is not None or not OPERATORS[name].learned)
        )
        if not names:
            raise UserError(
                f"The operator {named[0]} does not fit these images ({_limited()}); name another one under "
                "source.seeds.operators."
            )
        return names


class SeedsSource:
    """See :class:`diffgen.sources.base.Source`.

    Args:
        scene: the seeds, and what else operators know.
        config: the operators, and how many are applied.
        ranges: of the operators' strengths, or None: as they are usual.
        weights: float64 (N,), how often a search draws each seed; None: all alike.
        device: where images are wanted.

    Attributes:
        operators: names of those that these images can be changed by.
        ranges: of the strengths of each.
    """

    def __init__(
        self,
        scene: Scene,
        config: SeedsSettings,
        *,
        ranges: Ranges | None = None,
        weights: Weights | None = None,
        device: torch.device,
    ) -> None:
        count, channels, height, width = scene.seeds.shape
        self.image_shape = (channels, height, width)
        self.scene = scene
        names = config.fitting(scene)
        every = {name: OPERATORS[name].usual((height, width)) for name in names} | dict(ranges or {})
        # what the jury lets go nowhere changes nothing
        self.operators = tuple(name for name in names if any(each.low < each.high for each in every[name].values()))
        self.operators = self.operators or names
        self.ranges = {name: every[name] for name in self.operators}
        self.space = SeedsAndOperators(count, len(self.operators), config.steps, weights)
        self._device = device
        self._small: dict[int, torch.Tensor] = {}  # row -> the real image, averaged down

    def previews(self, genes: torch.Tensor) -> torch.Tensor | None:
        """See :class:`diffgen.sources.base.PreviewingSource`: what is done to the images is done to them averaged down.

        Strengths in pixels are as much smaller as the image is. What an auto-encoder does, which was trained for images
        as large as they are, is not drawn small.
        """
        sides = self.image_shape[1:]
        small = shrunk_sides(*sides, PREVIEW_SIDE)
        if small == sides or any(OPERATORS[name].learned for name in self.operators):
            return None
        shares = {"height": small[0] / sides[0], "width": small[1] / sides[1], None: 1.0}
        ranges = {
            name: {
                axis.name: self.ranges[name][axis.name].times(shares[axis.percent_of]) for axis in OPERATORS[name].axes
            }
            for name in self.operators
        }
        rows, chains = self._read(genes, ranges)
        if missing := sorted(set(rows.tolist()) - self._small.keys()):
            averaged = shrunk(self.scene.seeds[missing], PREVIEW_SIDE).round().to(torch.uint8)
            self._small.update(zip(missing, averaged, strict=True))
        images = torch.stack([self._small[row] for row in rows.tolist()])
        while len(self._small) * images[0].numel() > _KEPT_BYTES:
            del self._small[next(iter(self._small))]
        return applied(chains, images, self.scene).to(self._device)

    def draw(self, genes: torch.Tensor) -> torch.Tensor:
        """uint8 (N, C, H, W) for float32 (N, space.length)."""
        rows, chains = self._read(genes, self.ranges)
        return applied(chains, self.scene.seeds[torch.from_numpy(rows)], self.scene).to(self._device)

    def origins(self, genes: torch.Tensor) -> Origins:
        """The seed of each image, and the operators with their strengths."""
        rows, chains = self._read(genes, self.ranges)
        return Origins(rows, tuple(map(recipe_text, chains)))

    def _read(self, genes: torch.Tensor, ranges: Ranges) -> tuple[Int64Array, list[tuple[Step, ...]]]:
        """The row of each seed, and its operators with strengths in these ranges."""
        # as a run stores them: a picture is drawn again from stored genes
        values = genes.cpu().to(torch.float32).numpy()
        continuous, steps = self.space.continuous, self.space.steps
        categories = np.rint(values[:, continuous:]).astype(np.int64)
        strengths = values[:, :continuous].reshape(len(values), steps, STRENGTHS).astype(np.float64)
        chains = [
            tuple(
                step_of(name, OPERATORS[name], (first, second), other, ranges[name])
                for name, (first, second) in (
                    (self.operators[number], pair)
                    for number, pair in zip(numbers, pairs, strict=True)
                    if number < len(self.operators)
                )
            )
            for (_, other, *numbers), pairs in zip(categories.tolist(), strengths.tolist(), strict=True)
        ]
        return categories[:, 0], chains


def _reason(ranges: Ranges | None, recogniser: Recogniser | None) -> str:
    """Why the ranges are as they are."""
    if ranges is None or recogniser is None:
        return "as they are usual: there is no small jury to find them"
    if recogniser.needs_help:
        return f"{_CALIBRATED}, and at least as far as is usual: alone it is not sure enough"
    return _CALIBRATED


def _first(*, answers: bool, clear: bool) -> str:
    """Which seeds come first."""
    if not answers:
        return ""
    named = ", of these the ones that show their label clearly" if clear else ""
    return f"; those near a margin, or on which the models differ, come first{named}"


def _described(source: SeedsSource) -> str:
    """The operators and how far each goes."""
    return "; ".join(
        f"{name.replace('_', ' ')} {', '.join(axis.text(own[axis.name]) for axis in OPERATORS[name].axes)}"
        for name, own in source.ranges.items()
    )


class SeedsFamily(Family):
    """Nothing is trained unless an operator asks the auto-encoder: the seeds are all real images that were given."""

    name = "seeds"
    Settings = SeedsSettings

    def supports(self, image_shape: tuple[int, int, int]) -> None:
        """See the base class; images of every size will do."""

    def gives(self, config: CompareConfig) -> Needs:
        return super().gives(config) | {"operators"}

    def needs(self, config: CompareConfig) -> Needs:
        learned = any(OPERATORS[name].learned for name in self.settings(config).operators or ())
        return frozenset({"auto_encoder"}) if learned else NOTHING

    def prepare(self, split: DataSplit, config: CompareConfig, context: FamilyContext) -> ImageSource:
        own: SeedsSettings = self.settings(config)
        real = split.data.images
        rows = affordable_rows(real)
        large = len(rows) < len(real)
        images = ImageRows(real) if large else torch.from_numpy(real)
        sample = torch.from_numpy(real[rows]) if large else torch.from_numpy(real)
        network = None
        if context.auto_encoder is not None and self.needs(config):
            network = AutoEncoder(context.auto_encoder(), split.reference)
        scene = Scene(images, plain_background(sample), network, is_grey(real))
        ranges, clear = None, None
        if context.recogniser is not None and context.recogniser.jury.small:
            names = own.fitting(scene)
            ranges = prepare_ranges(split, scene, names, context.recogniser, context.progress)
            if context.answers is not None and not large:
                clear = prepare_clearness(split, context.recogniser.jury, context.progress)
        weights = None if context.answers is None else seed_weights(context.answers, clear)
        source = SeedsSource(scene, own, ranges=ranges, weights=weights, device=context.device)
        facts = {
            "kind": "real images, with operators that keep their label",
            "seeds": f"{len(split.data):,} real images" + _first(answers=weights is not None, clear=clear is not None),
            "operators": f"at most {own.steps} for each image: {_described(source)}",
            "ranges": _reason(ranges, context.recogniser),
        }
        return ImageSource(source, facts=facts, real=True, mild=True)


def with_named_operators(config: CompareConfig, images: UInt8Array) -> CompareConfig:
    """Settings with the operators of this source by their names, where its settings are written out.

    Genes are numbers of that list, which other versions may have otherwise.

    Args:
        config: see :func:`diffgen.comparison.requirements.with_own_settings`.
        images: uint8 (N, C, H, W), the real ones.
    """
    own: SeedsSettings = SeedsFamily.settings_among(config.source.families)
    if SeedsFamily.table() not in config.source.families or own.operators is not None:
        return config
    named = replace(own, operators=usual_operators(images.shape[1], grey=is_grey(images)))
    return replace(config, source=config.source.with_family(named))
