"""The collapse guard: what a GAN draws is measured during its training, and the best of it is kept, not the last.

Both halves of the measure are needed: a generator that draws one fine picture of each class again and again has every
picture recognised and covers nothing; one that draws blots of every shape covers much and is recognised in nothing.
The features are those of the data set's own encoder, never those of a judge of the results.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, fields

import torch

from diffgen.features.base import FeatureExtractor
from diffgen.gan_training.manifold import manifold_scores
from diffgen.gan_training.scores import squared_discrepancy
from diffgen.wording import percent

IMAGES = 2_000  # generated for one measurement, and real ones at most
MIN_HELD_OUT = 300  # with fewer, the training images are measured against instead
_NEIGHBOURS = 5
# Readings of a collapsed generator: far below those of any generator that was of use (benchmarks/results/gan.md).
_MIN_COVERED = 0.15
_MIN_RECOGNISED = 0.15
_MIN_DISTANCE = 0.3
_ONE_PICTURE = 0.01  # distance; a generator of ten updates is at 0.05, one whose weights ran away at 0
# With half as much patience Fashion-MNIST's default schedule ended too soon (benchmarks/results/gan-stops.md).
_PATIENCE, _GAIN = 4, 0.005
_MIN_OF_A_CLASS = 20  # of fewer real images, none may be covered by chance


@dataclass(frozen=True)
class Measurement:
    """What the guard saw after some steps; shares in [0, 1].

    Attributes:
        step: updates made.
        recognised: with labels, share of the generated images whose 5 nearest real ones all have one class (of a
            conditional generator, the one asked for); without, precision (Kynkäänniemi et al. 2019).
        covered: coverage of the held-out real images (Naeem et al. 2020, 5 neighbours).
        least_covered: coverage of the class that is covered least; without labels that of all.
        distance: mean distance from a generated image to the nearest other one, as a fraction of the same among as
            many real ones; near 0 when the generator repeats itself, 1 where each real one is there twice.
    """

    step: int
    recognised: float
    covered: float
    least_covered: float
    distance: float

    @property
    def score(self) -> float:
        """Recognised and covered, the harmonic mean, in [0, 1]; the step with the highest is kept."""
        both = self.recognised + self.covered
        return 2 * self.recognised * self.covered / both if both else 0.0

    def as_dict(self) -> dict[str, float]:
        """JSON values."""
        return {**asdict(self), "score": self.score}

    @classmethod
    def from_dict(cls, values: dict[str, float]) -> Measurement:
        """The reverse of :meth:`as_dict`."""
        return cls(int(values["step"]), *(values[each.name] for each in fields(cls) if each.name != "step"))


class GanMonitor:
    """Measures generators of one data set; always with the same latent vectors, so that readings can be compared.

    Args:
        training, held_out: uint8 (N, C, H, W), real images that the GAN is trained on, and others.
        training_labels, held_out_labels: int64, or None.
    """

    def __init__(
        self,
        extractor: FeatureExtractor,
        training: torch.Tensor,
        held_out: torch.Tensor,
        training_labels: torch.Tensor | None = None,
        held_out_labels: torch.Tensor | None = None,
    ) -> None:
        self._extractor = extractor
        self._known = extractor.encode(training).cpu()
        self._known_labels = training_labels
        apart = len(held_out) >= MIN_HELD_OUT
        real, labels = (held_out, held_out_labels) if apart else (training, training_labels)
        # the order of a data set may be that of its classes
        rows = torch.randperm(len(real), generator=torch.Generator().manual_seed(0))[:IMAGES]
        self._real = extractor.encode(real[rows]).cpu()
        self._real_labels = None if labels is None else labels[rows]
        self.images = len(rows)

    def measure(
        self, step: int, draw: Callable[[int, torch.Generator], tuple[torch.Tensor, torch.Tensor | None]]
    ) -> Measurement:
        """Measure a generator.

        Args:
            step: updates made so far.
            draw: makes that many random images, uint8 (n, C, H, W), and says the classes asked for, int64 (n,), if any.
        """
        images, asked = draw(self.images, torch.Generator().manual_seed(0))
        features = self._extractor.encode(images).cpu()
        scores = manifold_scores(self._real, features)
        recognised, least = scores.precision, scores.coverage
        if self._known_labels is not None:
            nearest = torch.cdist(features, self._known).topk(_NEIGHBOURS, dim=1, largest=False).indices
            around = self._known_labels[nearest]
            wanted = around[:, :1] if asked is None else asked[:, None].cpu()
            recognised = float((around == wanted).all(dim=1).double().mean())
        if self._real_labels is not None:
            kinds, counts = self._real_labels.unique(return_counts=True)
            shares = [
                float(scores.covered[self._real_labels == kind].double().mean())
                for kind, count in zip(kinds, counts, strict=True)
                if count >= _MIN_OF_A_CLASS
            ]
            least = min(shares, default=least)
        # where the real images repeat themselves, nothing can be said of it
        distance = scores.nearest_generated / scores.nearest_real if scores.nearest_real else 1.0
        return Measurement(step, recognised, scores.coverage, least, distance)


def stand_still(readings: Sequence[Measurement], steps: int) -> bool:
    """Whether training that was planned for so many steps has nothing more to gain, going by its readings so far.

    So it is when the latest ``_PATIENCE`` readings are no better than those before by ``_GAIN``, from the middle of the
    plan on: before it marks swing.
    """
    earlier, latest = readings[:-_PATIENCE], readings[-_PATIENCE:]
    if not earlier or readings[-1].step < steps / 2:
        return False
    return max(each.score for each in latest) < max(each.score for each in earlier) + _GAIN


def draws_one_picture(measurement: Measurement) -> bool:
    """Whether the generator draws the same picture, or one for each class, whatever its latent vector."""
    return measurement.distance < _ONE_PICTURE


def collapse(measurement: Measurement) -> str | None:
    """What is wrong with the generator that was kept, in words, or None."""
    if measurement.covered < _MIN_COVERED or measurement.distance < _MIN_DISTANCE:
        return (
            f"it repeats itself: its images cover {percent(measurement.covered, 0)} of the real ones and lie at "
            f"{percent(measurement.distance, 0)} of their distance from each other"
        )
    if measurement.recognised < _MIN_RECOGNISED:
        return f"what it draws is not like the real images: {percent(measurement.recognised, 0)} of it is recognised"
    if measurement.least_covered == 0:
        return "it has forgotten one class altogether"
    return None


class KidMonitor(GanMonitor):
    """See :class:`diffgen.gan_training.monitor.GanMonitor`.

    Attributes:
        kid: that of the last measurement, on all images of the measurement at once.
    """

    kid: float = float("nan")

    def measure(
        self, step: int, draw: Callable[[int, torch.Generator], tuple[torch.Tensor, torch.Tensor | None]]
    ) -> Measurement:
        """Measure a generator, see the base class, and note its KID."""
        images, asked = draw(self.images, torch.Generator().manual_seed(0))
        self.kid = squared_discrepancy(self._real, self._extractor.encode(images).cpu())
        return super().measure(step, lambda count, rng: (images, asked))
