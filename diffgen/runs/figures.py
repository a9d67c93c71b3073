"""The figures of the parts of a run: models on real images, filters, jury. :mod:`diffgen.runs.results` keeps them.

The types say what results.json may hold, as if an enemy had written it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from diffgen.config import MAX_MODELS
from diffgen.runs.schema import LARGEST, LONGEST
from diffgen.types import Float32Array
from diffgen.wording import percent

BY_LABEL, BY_JURY, BY_NOBODY = "label", "jury", "nobody"  # who says what a real image shows

Count: TypeAlias = Annotated[int, Field(ge=0, le=LARGEST)]
Share: TypeAlias = Annotated[float, Field(ge=0, le=1)]
Number: TypeAlias = Annotated[float, Field(allow_inf_nan=False)]
Positive: TypeAlias = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Text: TypeAlias = Annotated[str, Field(max_length=LONGEST)]
_OF_MODELS = Field(min_length=2, max_length=MAX_MODELS)
SharesOfModels: TypeAlias = Annotated[tuple[Share, ...], _OF_MODELS]
TimesOfModels: TypeAlias = Annotated[tuple[Positive | None, ...], _OF_MODELS]
_Row: TypeAlias = Annotated[tuple[Count, ...], Field(min_length=3, max_length=MAX_MODELS)]
PairsOfModels: TypeAlias = Annotated[tuple[_Row, ...], Field(min_length=3, max_length=MAX_MODELS)]


@dataclass(frozen=True)
class Preflight:
    """What was seen on the real images before anything was trained.

    Attributes:
        images: number of real images asked.
        agreement: share on which all models give the same label, 0..1.
        accuracy: of each model, 0..1, or None without labels.
        outputs: what each model's raw outputs were taken for, one word each.
        numeric_noise: largest change of a probability when only batch size or repetition changes, worst of all models;
            see :func:`diffgen.models.noise.numeric_noise`.
        margin: smallest gap of the two highest probabilities that counts as an answer.
        warnings: one sentence each.
        calibration_error: expected calibration error of each model, or None without labels.
        known_scores: of each detector its mean average precision, of models that give maps the mean IoU with masks,
            0..1; None: no boxes or masks are known, or the models are classifiers.
    """

    images: Count
    agreement: Share
    accuracy: SharesOfModels | None
    outputs: Annotated[tuple[Text, ...], _OF_MODELS]
    numeric_noise: Positive
    margin: Positive
    warnings: tuple[Text, ...] = ()
    calibration_error: SharesOfModels | None = None
    known_scores: SharesOfModels | None = None

    @property
    def measure(self) -> str:
        """What ``known_scores`` are."""
        return "mean average precision" if self.outputs[0] == "boxes" else "mean IoU with masks"

    @property
    def flips_per_1000(self) -> float:
        """On how many of 1,000 real images not all models say the same."""
        return 1000 * (1 - self.agreement)


@dataclass(frozen=True, kw_only=True)
class FilterFigures:
    """What one validity filter did.

    Attributes:
        description: what it measures, and where its threshold comes from.
        false_alarm: share of the held-out real images that it rejects alone.
        threshold: lowest score that passes.
        rejected: confirmed triggers that it rejected.
    """

    name: Text
    description: Text
    false_alarm: Share
    threshold: Number
    rejected: Count


@dataclass(frozen=True)
class Calibration:
    """How the filters' thresholds came out together.

    Attributes:
        false_alarm: share of held-out real images that all filters together may reject.
        reached: share that they do reject, or None without filters.
        held_out: how many real images were held out.
    """

    false_alarm: Share
    reached: Share | None
    held_out: Count


@dataclass(frozen=True, kw_only=True)
class JuryFigures:
    """What the jury of a run learned from, and how good it is on real images that it has not seen.

    Attributes:
        members: how many classifiers it has.
        trained_on: real images that they learned from; 0: it is a classifier of the user's own.
        agreed: their labels are what all models agreed on; the user gave none.
        held_out: real images that the other figures are of.
        accuracy: share of them that it names right.
        threshold: lowest certainty, minus an entropy in nats, where the picture was made from an image with a label.
        unaided: lowest certainty where it was not.
        recognised: share of the held-out images that it recognises unaided.
        reliable: share of these that it names right, or None: it recognises none.
        helped: share of the held-out images that it would recognise knowing their label.
        helped_right: share named right of those of which it is as sure as it then has to be.
    """

    members: Count
    trained_on: Count
    agreed: bool
    held_out: Count
    accuracy: Share
    threshold: Number
    unaided: Number
    recognised: Share
    reliable: Share | None
    helped: Share
    helped_right: Share

    def __str__(self) -> str:
        """One sentence: who the jury is, and how good."""
        source = "real images, with the labels that the models agree on" if self.agreed else "labelled real images"
        helped = ""
        if self.needs_help:
            helped = (
                f" A known label it only has to confirm, from a lower certainty on, as it does of "
                f"{percent(self.helped)}; of those on which it is that sure it names {percent(self.helped_right)} "
                "right."
            )
        who = f"{self.members} small classifiers, trained on {self.trained_on:,} {source}; of {self.held_out:,} others"
        if not self.trained_on:
            who = f"the classifier that was given; of {self.held_out:,} {source}"
        return (
            f"The jury: {who} it names {percent(self.accuracy)} right and recognises "
            f"{percent(self.recognised)}"
            + ("." if self.reliable is None else f", of which it names {percent(self.reliable)} right.")
            + helped
        )

    @property
    def needs_help(self) -> bool:
        """Whether it asks for more certainty where no label is known."""
        return self.unaided > self.threshold


@dataclass(frozen=True)
class Alone:
    """The distinct valid triggers on which one model says something else than all others, who agree.

    Attributes:
        pictures: how many.
        behaviours: of these.
        wrong: of those that the jury recognises, where it says what the others say.
        right: where it says what this model says.
    """

    pictures: Count
    behaviours: Count
    wrong: Count
    right: Count


@dataclass(frozen=True, kw_only=True)
class ManyFigures:
    """Who stands alone, what the majority is worth as a second opinion, and which two models differ most.

    Attributes:
        alone: of each model, by its letter.
        majority: distinct valid triggers of which more than half of the models say the same.
        majority_recognised: those of them that the jury recognises.
        majority_right: those of these where the jury says what the majority says.
        found: (M, M), on how many distinct valid triggers each two models differ.
        recognised: the same among those that the jury recognises, or None: there is no jury.
        real: the same among the real images on which any two models disagree by more than the margin.
        spared: how many times a model was not asked about a picture that two others were asked about.
    """

    alone: Mapping[str, Alone]
    majority: Count
    majority_recognised: Count
    majority_right: Count
    found: PairsOfModels
    recognised: PairsOfModels | None
    real: PairsOfModels
    spared: Count = 0


@dataclass(frozen=True, eq=False)
class OperatorCurves:
    """P points of the curves, the strengths of each curve rising.

    Attributes:
        operators: bytes (P,), which operator.
        names: bytes (P,), which of its strengths.
        units: bytes (P,), of that strength; may be empty.
        strengths: float64 (P,).
        accuracy: float32 (P, M), share of the images on which each of M models is right; NaN where nobody knows.
        disagreement: float32 (P,), share of the images on which two models disagree by more than the margin.
        images: how many real images every share is of.
        judged_by: who says what they show.
    """

    operators: NDArray[np.bytes_]
    names: NDArray[np.bytes_]
    units: NDArray[np.bytes_]
    strengths: NDArray[np.float64]
    accuracy: Float32Array
    disagreement: Float32Array
    images: int
    judged_by: str

    def as_arrays(self) -> dict[str, Any]:
        """The arrays by name."""
        arrays = vars(self).copy()
        return {"about": {name: arrays.pop(name) for name in ("images", "judged_by")}, **arrays}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, Any]) -> OperatorCurves:
        """What :meth:`as_arrays` gave. TypeError if something is missing."""
        return cls(**{name: value for name, value in arrays.items() if name != "about"}, **arrays["about"])
