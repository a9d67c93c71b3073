"""The figures of the parts of a run: models on real images, filters, jury. :mod:`diffgen.runs.results` keeps them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from diffgen.wording import percent


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
        calibration_error: expected calibration error of each model, 0..1, or None: without labels, or an early version
            wrote the run.
    """

    images: int
    agreement: float
    accuracy: tuple[float, ...] | None
    outputs: tuple[str, ...]
    numeric_noise: float
    margin: float
    warnings: tuple[str, ...] = ()
    calibration_error: tuple[float, ...] | None = None

    @classmethod
    def read(cls, entry: Mapping[str, Any]) -> Preflight:
        """What results.json says under "preflight"."""
        values = {each.name: entry[each.name] for each in fields(cls) if each.name != "calibration_error"}
        values["calibration_error"] = entry.get("calibration_error")
        of_each = {
            name: None if values[name] is None else tuple(values[name]) for name in ("accuracy", "calibration_error")
        }
        texts = {name: tuple(values[name]) for name in ("outputs", "warnings")}
        return cls(**{**values, **texts, **of_each})

    @property
    def flips_per_1000(self) -> float:
        """On how many of 1,000 real images not all models say the same."""
        return 1000 * (1 - self.agreement)


@dataclass(frozen=True, kw_only=True)
class FilterFigures:
    """What one validity filter did.

    Attributes:
        description: what it measures, and where its threshold comes from.
        false_alarm: share of the held-out real images that it rejects alone, or None: an early version wrote the run.
        threshold: lowest score that passes.
        rejected: confirmed triggers that it rejected.
    """

    name: str
    description: str
    false_alarm: float | None = None
    threshold: float
    rejected: int

    @classmethod
    def read(cls, entry: Mapping[str, Any]) -> FilterFigures:
        """One of what results.json says under "filters"."""
        wanted = {name: entry[name] for name in ("name", "description", "threshold", "rejected")}
        return cls(**wanted, false_alarm=entry.get("false_alarm"))


@dataclass(frozen=True)
class Calibration:
    """How the filters' thresholds came out together.

    Attributes:
        false_alarm: share of held-out real images that all filters together may reject.
        reached: share that they do reject, or None without filters.
        held_out: how many real images were held out.
    """

    false_alarm: float
    reached: float | None
    held_out: int

    @classmethod
    def read(cls, entry: Mapping[str, Any]) -> Calibration:
        """What results.json says under "calibration"."""
        return cls(entry["false_alarm"], entry["reached"], entry["held_out"])


@dataclass(frozen=True, kw_only=True)
class JuryFigures:
    """What the jury of a run learned from, and how good it is on real images that it has not seen.

    Attributes:
        members: how many classifiers it has.
        trained_on: real images that they learned from.
        agreed: their labels are what all models agreed on; the user gave none.
        held_out: real images that the other figures are of.
        accuracy: share of them that it names right.
        threshold: lowest certainty, minus an entropy in nats, where the picture was made from an image with a label.
        unaided: lowest certainty where it was not.
        recognised: share of the held-out images that it recognises unaided.
        reliable: share of these that it names right, or None: it recognises none.
        helped: share of the held-out images that it would recognise knowing their label, or None: not noted.
        helped_right: share named right of those of which it is as sure as it then has to be, or None: not noted.
    """

    members: int
    trained_on: int
    agreed: bool
    held_out: int
    accuracy: float
    threshold: float
    unaided: float
    recognised: float
    reliable: float | None
    helped: float | None = None
    helped_right: float | None = None

    @classmethod
    def read(cls, entry: Mapping[str, Any]) -> JuryFigures:
        """What results.json says under "jury"."""
        return cls(**{each.name: entry[each.name] for each in fields(cls) if each.name in entry})

    def __str__(self) -> str:
        """One sentence: who the jury is, and how good."""
        source = "real images, with the labels that the models agree on" if self.agreed else "labelled real images"
        helped = ""
        if self.needs_help and self.helped is not None and self.helped_right is not None:
            helped = (
                f" A known label it only has to confirm, from a lower certainty on, as it does of "
                f"{percent(self.helped)}; of those on which it is that sure it names {percent(self.helped_right)} "
                "right."
            )
        return (
            f"The jury: {self.members} small classifiers, trained on {self.trained_on:,} {source}; of "
            f"{self.held_out:,} others it names {percent(self.accuracy)} right and recognises "
            f"{percent(self.recognised)}"
            + ("." if self.reliable is None else f", of which it names {percent(self.reliable)} right.")
            + helped
        )

    @property
    def needs_help(self) -> bool:
        """Whether it asks for more certainty where no label is known."""
        return self.unaided > self.threshold
