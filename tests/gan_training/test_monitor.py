"""diffgen.gan_training.monitor"""

from __future__ import annotations

import pytest
import torch

from diffgen.config import GanConfig, replace
from diffgen.features import encoder as encoders
from diffgen.gan_training.monitor import GanMonitor, Measurement, collapse, draws_one_picture, stand_still
from diffgen.gan_training.trainer import SCHEDULES, Schedule, train
from diffgen.types import ImageSet


@pytest.fixture(scope="module")
def monitor(digits: ImageSet) -> GanMonitor:
    images, labels = torch.from_numpy(digits.images), torch.from_numpy(digits.labels)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("diffgen.features.encoder._STEPS_GREY", 150)  # what it is measured by tells classes apart
        encoder = encoders.train(images, labels)
    # every other image is held out: 449 of them, enough to be measured against
    return GanMonitor(encoder, images[::2], images[1::2], labels[::2], labels[1::2])


def test_real_images_pass(monitor: GanMonitor, digits: ImageSet) -> None:
    images, labels = torch.from_numpy(digits.images), torch.from_numpy(digits.labels)
    measurement = monitor.measure(1, lambda count, rng: (images[::2][:count], labels[::2][:count]))
    assert measurement.recognised > 0.8
    assert measurement.covered > 0.9
    assert measurement.least_covered > 0.6
    assert 0.7 < measurement.distance < 1.4
    assert collapse(measurement) is None and not draws_one_picture(measurement)


def test_one_fine_picture_of_each_class_is_a_collapse(monitor: GanMonitor, digits: ImageSet) -> None:
    images, labels = torch.from_numpy(digits.images), torch.from_numpy(digits.labels)
    first = torch.stack([torch.nonzero(labels == label)[0, 0] for label in range(10)])
    rows = first.repeat(100)
    measurement = monitor.measure(1, lambda count, rng: (images[rows][:count], labels[rows][:count]))
    assert measurement.recognised > 0.4
    assert measurement.covered < 0.2
    assert measurement.distance < 0.1
    assert "repeats itself" in str(collapse(measurement)) and draws_one_picture(measurement)


def test_a_class_that_is_never_drawn_is_noticed(monitor: GanMonitor, digits: ImageSet) -> None:
    images, labels = torch.from_numpy(digits.images), torch.from_numpy(digits.labels)
    kept = labels != 3
    measurement = monitor.measure(1, lambda count, rng: (images[kept][:count], labels[kept][:count]))
    assert measurement.covered > 0.7
    assert measurement.least_covered < 0.2


def test_noise_is_recognised_as_nothing(monitor: GanMonitor) -> None:
    noise = torch.randint(256, (449, 1, 28, 28), generator=torch.Generator().manual_seed(0), dtype=torch.uint8)
    asked = torch.arange(449) % 10
    measurement = monitor.measure(1, lambda count, rng: (noise[:count], asked[:count]))
    assert measurement.score < 0.1
    assert collapse(measurement) is not None


def test_of_real_images_that_repeat_themselves_no_collapse_is_said(digits: ImageSet) -> None:
    images = torch.from_numpy(digits.images)
    doubled = GanMonitor(encoders.train(images, None), images[:200].repeat(2, 1, 1, 1), images[:0])
    assert not draws_one_picture(doubled.measure(1, lambda count, rng: (images[:count], None)))


def test_the_wrong_class_is_not_recognised(monitor: GanMonitor, digits: ImageSet) -> None:
    images, labels = torch.from_numpy(digits.images), torch.from_numpy(digits.labels)
    measurement = monitor.measure(1, lambda count, rng: (images[:count], (labels[:count] + 1) % 10))
    assert measurement.recognised < 0.1


def test_without_labels(digits: ImageSet) -> None:
    images = torch.from_numpy(digits.images)
    unlabelled = GanMonitor(encoders.train(images, None), images[::2], images[1::2])
    measurement = unlabelled.measure(5, lambda count, rng: (images[::2][:count], None))
    assert measurement.step == 5
    assert measurement.recognised > 0.7
    assert measurement.least_covered == measurement.covered


@pytest.mark.parametrize(
    ("recognised", "covered", "score"), [(0.0, 0.0, 0.0), (1.0, 0.0, 0.0), (1.0, 1.0, 1.0), (0.9, 0.1, 0.18)]
)
def test_both_halves_count(recognised: float, covered: float, score: float) -> None:
    measurement = Measurement(1, recognised, covered, covered, 1.0)
    assert measurement.score == pytest.approx(score)
    assert Measurement.from_dict(measurement.as_dict()) == measurement


def test_the_best_step_is_kept_and_not_the_last(monitor: GanMonitor, images: torch.Tensor, digits: ImageSet) -> None:
    config = GanConfig(
        latent_dim=8, width=8, steps=90, batch_size=32, augment=False, monitor_checks=9, learning_rate_generator=1e-3
    )
    trained = train(images, config, labels=torch.from_numpy(digits.labels), monitor=monitor)
    assert [measurement.step for measurement in trained.readings] == list(range(10, 91, 10))
    best = max(trained.readings, key=lambda measurement: measurement.score)
    assert trained.kept == best
    # the same training, ended there, gives the same discriminator: what was kept belongs together
    assert trained.kept_step == best.step


def test_watching_does_not_change_what_is_trained(monitor: GanMonitor, images: torch.Tensor, digits: ImageSet) -> None:
    config = GanConfig(latent_dim=8, width=4, steps=12, batch_size=16, augment=False, monitor_checks=4)
    labels = torch.from_numpy(digits.labels)
    watched, alone = train(images, config, labels=labels, monitor=monitor), train(images, config, labels=labels)
    assert torch.equal(watched.losses, alone.losses)


def test_training_ends_when_the_marks_stand_still() -> None:
    def read(*scores: float) -> list[Measurement]:
        return [Measurement(100 * (n + 1), score, score, score, 1.0) for n, score in enumerate(scores)]

    rising = read(0.3, 0.5, 0.7, 0.8, 0.85, 0.88, 0.9, 0.92)
    assert not any(stand_still(rising[:n], 1_200) for n in range(1, 9))
    still = read(0.3, 0.95, 0.94, 0.95, 0.953, 0.951, 0.95, 0.951)
    # not in the first half of the plan; a gain that is too small is none
    assert [stand_still(still[:n], 1_200) for n in range(1, 9)] == [False] * 5 + [True] * 3
    assert not stand_still([*still[:6], *read(*[0.0] * 6, 0.956)[6:]], 1_200)
    late = read(0.3, 0.5, 0.7, 0.8, 0.95, 0.94, 0.95, 0.953, 0.951)
    assert [stand_still(late[:n], 1_200) for n in range(1, 10)] == [False] * 8 + [True]


class Unmoved(GanMonitor):
    """Sees the same whatever it is shown."""

    def measure(self, step: int, draw: object) -> Measurement:
        return Measurement(step, 0.9, 0.9, 0.9, 1.0)


def test_what_was_kept_when_it_stopped(images: torch.Tensor, digits: ImageSet, monkeypatch: pytest.MonkeyPatch) -> None:
    labels = torch.from_numpy(digits.labels)
    guard = Unmoved(encoders.train(images, labels), images[::2], images[1::2], labels[::2], labels[1::2])
    monkeypatch.setitem(SCHEDULES, "quick", Schedule(passes=1, fewest=24, most=24))
    config = GanConfig(latent_dim=8, width=4, batch_size=16, augment=False, monitor_checks=8, schedule="quick")
    trained = train(images, config, labels=labels, monitor=guard)
    assert (trained.steps, len(trained.losses), trained.kept_step) == (15, 15, 3)
    # who says how long shall have it
    asked = train(images, replace(config, steps=24), labels=labels, monitor=guard)
    assert (asked.steps, asked.kept_step) == (24, 3)
    assert torch.equal(asked.losses[:15], trained.losses)
