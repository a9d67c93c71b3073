"""Pictures as a report shows them, and groups and pairs of them."""

from __future__ import annotations

from dataclasses import dataclass, field

from diffgen.types import Float32Array, Int64Array, UInt8Array


@dataclass(frozen=True)
class JuryOpinion:
    """What the jury says of one picture.

    Attributes:
        named: the label that it gives.
        recognised: it is sure enough, and contradicts no label of the image that the picture was made from.
        instead_of: that label where it does, or None.
        rests_on: what says what a recognised picture shows; see :meth:`diffgen.runs.triggers.TriggerTable.bases`. Empty
            where that is not known.
    """

    named: int
    recognised: bool
    instead_of: int | None = None
    rests_on: str = ""


@dataclass(frozen=True)
class Picture:
    """One image with what the models say of it.

    Attributes:
        image: uint8 (C, H, W).
        labels: predicted label of model A, of model B, and of those after them.
        probabilities: float32 (M, T), rows A, B, ..., of the classes that are kept.
        identifier: number of the trigger in the run, or index of the real image in the data set.
        true_label: label of a real image when it is known.
        scores: filter name -> score (higher is more real).
        rejected_by: name of the filter that rejected it, or None.
        nearest_real: uint8 (C, H, W), the real image with the highest SSIM, or None.
        origin: how it was made, in words; empty for a real image, or where it is not known.
        jury: what the jury says of it, or None: nobody asked one.
        classes: int64 (T,), which classes are kept, or None: all; see :mod:`diffgen.tasks.kept_answers`.
    """

    image: UInt8Array
    labels: tuple[int, ...]
    probabilities: Float32Array
    identifier: int
    true_label: int | None = None
    scores: dict[str, float] = field(default_factory=dict)
    rejected_by: str | None = None
    nearest_real: UInt8Array | None = None
    origin: str = ""
    jury: JuryOpinion | None = None
    classes: Int64Array | None = None

    @property
    def wrong(self) -> tuple[int, ...]:
        """The models that are wrong, by number; none of what a filter rejected or the jury cannot name."""
        if self.jury is None or not self.jury.recognised or self.rejected_by is not None:
            return ()
        return tuple(index for index, label in enumerate(self.labels) if label != self.jury.named)


@dataclass(frozen=True)
class BehaviourGroup:
    """The distinct valid triggers of one behaviour: what each model says, and a cell of the real images.

    Attributes:
        verdict: who is wrong on them, see :func:`diffgen.tasks.classification.by_verdict`; empty where the jury cannot
            name them, or where there was none.
        made_by: what made most of them, in words, or empty.
    """

    labels: tuple[int, ...]
    cell: int
    count: int
    pictures: tuple[Picture, ...]
    verdict: str = ""
    made_by: str = ""

    @property
    def label_a(self) -> int:
        """What A says."""
        return self.labels[0]

    @property
    def label_b(self) -> int:
        """What B says."""
        return self.labels[1]


@dataclass(frozen=True)
class ShrunkPair:
    """Two pictures that hardly differ: on one the models agree, on the other they do not.

    Attributes:
        agreeing, trigger: the pictures; ``trigger.identifier`` is the number of the trigger that was started from.
        start: that trigger as it was found.
        difference: root mean square difference of the two pictures, grey levels.
        before: the same between ``start`` and the agreeing picture first aimed at.
    """

    agreeing: Picture
    trigger: Picture
    start: Picture
    difference: float
    before: float
