"""diffgen.gan_training.tuning: trials that are really trained, for a moment."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

import optuna
import pytest
import torch
from optuna.trial import FixedTrial

from diffgen.config import GanConfig, TuningConfig, replace
from diffgen.errors import RunError, UserError
from diffgen.events import Progress
from diffgen.features import cells
from diffgen.gan_training import tuning
from diffgen.gan_training import tuning_outcome as tuning_space
from diffgen.gan_training.monitor import GanMonitor, KidMonitor, Measurement
from diffgen.gan_training.networks import to_uint8
from diffgen.gan_training.scores import frechet_distance, squared_discrepancy
from diffgen.gan_training.study_storage import open_storage
from diffgen.gan_training.trainer import SCHEDULES, train
from diffgen.gan_training.tuning import SeededByTrial
from diffgen.gan_training.tuning_outcome import Tuned, outcome
from diffgen.types import ImageSet

SPACE = TuningConfig(trials=3)


class Trainer:
    """The trials: each is trained for 60 steps; ``spoil`` changes the settings of the n-th before that."""

    def __init__(self, digits: ImageSet, spoil: dict[int, dict[str, float]] | None = None) -> None:
        self.images, self.labels = torch.from_numpy(digits.images), torch.from_numpy(digits.labels)
        self.encoder = cells.prepare(digits).encoder
        self.monitor = KidMonitor(self.encoder, self.images, self.images[:0], self.labels, None)
        self.spoil = spoil or {}
        self.configs: list[GanConfig] = []

    def __call__(self, config: GanConfig, path: Path, report: Callable[[int, float], None]) -> dict[str, float]:
        config = replace(config, monitor_checks=2)
        for name, value in self.spoil.get(len(self.configs), {}).items():
            object.__setattr__(config, name, value)  # a learning rate that surely diverges is none that can be set
        self.configs.append(config)
        count = iter(range(10))
        trained = train(
            self.images,
            config,
            labels=self.labels,
            monitor=self.monitor,
            after_measurement=lambda measurement: report(next(count), self.monitor.kid),
        )
        path.write_bytes(b"weights")
        latents = torch.randn(300, config.latent_dim, generator=torch.Generator().manual_seed(0))
        latents = torch.cat([latents, torch.arange(300)[:, None] % 10], dim=1)
        with torch.inference_mode():
            drawn = to_uint8(trained.generator(latents))
        real, generated = (self.encoder.encode(each) for each in (self.images, drawn))
        return {"kid": squared_discrepancy(real, generated), "fid": frechet_distance(real, generated)}


def tune(trainer: tuning.Evaluate, config: GanConfig, folder: Path, **space: object) -> Tuned:
    wanted = replace(SPACE, **space)
    study = tuning.run_trials(
        trainer,
        config,
        wanted,
        made_from={"data": "digits"},
        images=6 * 898,
        folder=folder / "trials",
        journal=folder / "study.journal",
        progress=Progress(),
    )
    return outcome(study, config, 6 * 898)


def test_a_diverged_trial_fails_alone_and_a_hopeless_one_is_pruned(
    digits: ImageSet, gan_config: GanConfig, tmp_path: Path
) -> None:
    trainer = Trainer(
        digits, {1: {"learning_rate_generator": 1e30}, 2: {"learning_rate_generator": 1e-12, "ema_decay": 0.0}}
    )
    gan_config = replace(gan_config, monitor_checks=2)
    found = tune(trainer, gan_config, tmp_path)
    assert [trial.state for trial in found.trials] == ["complete", "failed", "pruned"]
    assert "diverged" in (found.trials[1].error or "")
    # where it was ended it was worse than the first trial at the same measurement
    worst = max(found.trials[2].readings)
    assert found.trials[2].readings[worst] > found.trials[0].readings[worst]
    assert found.best == 0
    assert found.config == gan_config
    assert list((tmp_path / "trials").rglob("gan.safetensors")) == [found.checkpoint]
    assert found.importance == {}


def test_when_every_trial_diverges_the_reason_is_said(digits: ImageSet, gan_config: GanConfig, tmp_path: Path) -> None:
    with pytest.raises(RunError, match=r"None of the 1 trials .* diverged"):
        tune(Trainer(digits, {0: {"learning_rate_generator": 1e30}}), gan_config, tmp_path, trials=1)


def test_a_collapsed_gan_is_the_best_only_where_all_have_collapsed(gan_config: GanConfig, tmp_path: Path) -> None:
    verdicts = iter([(0.1, 1.0), (0.6, 0.0), (0.5, 0.0), (0.05, 1.0)])

    def scored(config: GanConfig, path: Path, report: Callable[[int, float], None]) -> dict[str, float]:
        path.write_bytes(b"weights")
        kid, collapsed = next(verdicts)
        return {"kid": kid, "fid": 10 * kid, "collapsed": collapsed}

    assert tune(scored, gan_config, tmp_path, trials=1).best == 0
    found = tune(scored, gan_config, tmp_path, trials=4)
    assert found.best == 2
    assert list((tmp_path / "trials").rglob("gan.safetensors")) == [found.checkpoint]


def test_fid_and_kid_decide_together(gan_config: GanConfig, tmp_path: Path) -> None:
    """The lowest FID, the lowest KID, and less of both together than either: that one is the best."""
    scores = iter([{"fid": 1.0, "kid": 0.9}, {"fid": 9.0, "kid": 0.1}, {"fid": 2.0, "kid": 0.2}])

    def scored(config: GanConfig, path: Path, report: Callable[[int, float], None]) -> dict[str, float]:
        path.write_bytes(b"weights")
        return next(scores)

    assert tune(scored, gan_config, tmp_path, trials=3).best == 2


def test_when_the_time_is_up_no_trial_begins_and_the_one_that_runs_ends_at_its_next_reading(
    gan_config: GanConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = [0.0]
    monkeypatch.setattr(tuning.time, "monotonic", lambda: clock[0])

    def slow(config: GanConfig, path: Path, report: Callable[[int, float], None]) -> dict[str, float]:
        for number in range(3):
            clock[0] += 2
            report(number, 0.5)
        path.write_bytes(b"weights")
        return {"fid": 1.0, "kid": 0.1}

    # the first trial comes to its end however long it takes, or there would be no GAN
    assert [each.state for each in tune(slow, gan_config, tmp_path / "1", trials=5, seconds=1.0).trials] == ["complete"]
    clock[0] = 0.0
    found = tune(slow, gan_config, tmp_path / "2", trials=5, seconds=9.0)
    assert [(each.state, len(each.readings)) for each in found.trials] == [("complete", 3), ("pruned", 2)]


def test_a_full_disk_ends_the_study_and_the_trial_runs_again(
    digits: ImageSet, gan_config: GanConfig, tmp_path: Path
) -> None:
    def full(config: GanConfig, path: Path, report: Callable[[int, float], None]) -> dict[str, float]:
        raise RunError("The file cannot be written.") from OSError(28, "No space left on device")

    with pytest.raises(RunError, match="cannot be written"):
        tune(full, gan_config, tmp_path, trials=1)
    found = tune(Trainer(digits), gan_config, tmp_path, trials=1)
    assert [(trial.number, trial.state) for trial in found.trials] == [(1, "complete")]
    assert found.config == gan_config


def test_the_first_trial_is_the_configuration_itself(gan_config: GanConfig) -> None:
    own = tuning_space.own_values(gan_config)
    assert tuning_space.suggest(FixedTrial(own), gan_config, images=5_000) == gan_config


def test_another_point_changes_what_it_says_and_nothing_else(gan_config: GanConfig) -> None:
    base = replace(gan_config, steps=None, schedule="quick", batch_size=64)
    point = tuning_space.own_values(base) | {"batch_size": 128, "averaging": 0.004, "length": 0.5, "transformed": 0.25}
    found = tuning_space.suggest(FixedTrial(point), base, images=120_000)
    # half of as many updates as the schedule's passes come to in batches of 128
    steps = round(math.ceil(SCHEDULES["quick"].passes * 120_000 / 128) / 2)
    expected = replace(base, batch_size=128, ema_decay=1 - 0.004, transformed=0.25, steps=steps)
    assert asdict(found) == asdict(expected)


def resumed(parts: tuple[int, ...]) -> list[dict[str, object]]:
    """The settings of a study in parts; each part has a sampler of its own, as a process has."""
    storage = optuna.storages.InMemoryStorage()
    for part in parts:
        study = optuna.create_study(storage=storage, study_name="s", load_if_exists=True, sampler=SeededByTrial(7, 3))
        study.optimize(
            lambda trial: (trial.suggest_float("x", 0, 1) - 0.3) ** 2 + trial.suggest_categorical("y", [1, 2, 3]), part
        )
    return [trial.params for trial in study.trials]


def test_a_resumed_study_tries_what_an_uninterrupted_one_tries() -> None:
    whole = resumed((8,))
    assert whole == resumed((3, 5)) == resumed((1, 1, 6))
    assert len({str(params) for params in whole}) == 8


def test_a_kid_watch_reads_as_the_plain_one_and_notes_the_kid(digits: ImageSet) -> None:
    images, labels = torch.from_numpy(digits.images), torch.from_numpy(digits.labels)
    encoder = cells.prepare(digits).encoder
    given = (encoder, images[:400], images[400:], labels[:400], labels[400:])

    def draw(count: int, rng: torch.Generator) -> tuple[torch.Tensor, torch.Tensor]:
        rows = torch.randint(400, (count,), generator=rng)
        return images[rows], labels[rows]

    noting = KidMonitor(*given)
    measurement: Measurement = noting.measure(7, draw)
    assert measurement == GanMonitor(*given).measure(7, draw)
    again, _ = draw(noting.images, torch.Generator().manual_seed(0))
    real = encoder.encode(images[400:])
    # the watch takes them in another order, which does not matter
    assert noting.kid == pytest.approx(squared_discrepancy(real, encoder.encode(again)), rel=1e-4)


# -- storage ---------------------------------------------------------------------------------------------------------


def test_a_file_that_is_no_journal_is_refused_and_left_alone(tmp_path: Path) -> None:
    for text in ("my notes", "my notes\n", '{"a": 1}\n', "[1, 2]\n", "3"):
        path = tmp_path / "notes.txt"
        path.write_text(text)
        with pytest.raises(UserError, match="is no journal"):
            open_storage(str(path), tmp_path / "other")
        assert path.read_text() == text


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("{tmp}/missing/study.log", "does not exist"),
        ("{tmp}", "is a folder"),
        ("nosuch://host/study", "cannot be opened"),
        ("sqlite:////nowhere/at/all.db", "cannot be opened"),
    ],
)
def test_a_storage_that_cannot_be_is_said(given: str, said: str, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=said):
        open_storage(given.format(tmp=tmp_path), tmp_path / "other")


def test_a_database_holds_a_study_too(digits: ImageSet, gan_config: GanConfig, tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'study.db'}"
    found = tune(Trainer(digits), gan_config, tmp_path, trials=1, storage=url)
    assert found.trials[0].state == "complete"
    assert not (tmp_path / "study.journal").exists()
    assert tune(Trainer(digits), gan_config, tmp_path, trials=1, storage=url) == found
