"""diffgen.workflows.train_gan: real small trainings of the embedded digits."""

from __future__ import annotations

import dataclasses
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
import torchvision
from safetensors.torch import save_file

from diffgen.config import GanConfig, SplitConfig, TrainGanConfig, TuningConfig, replace
from diffgen.data import load
from diffgen.data.split import DataSplit, split_rows
from diffgen.errors import UserError
from diffgen.events import Listener
from diffgen.features import cells
from diffgen.gan_training.checkpoint import read_header
from diffgen.sources import gan as gan_loader
from diffgen.sources.base import FamilyContext
from diffgen.sources.gan import prepare_gan
from diffgen.types import ImageSet
from diffgen.workflows.gan_tuning import score
from diffgen.workflows.train_gan import TrainGanResult, train_gan
from tests.recording import Recording

CPU = torch.device("cpu")
GAN = GanConfig(
    latent_dim=16,
    width=8,
    steps=60,
    batch_size=32,
    learning_rate_generator=1e-3,
    learning_rate_discriminator=2e-3,
    ema_decay=0.9,
    monitor_checks=2,
    seed=3,
)
SPACE = TuningConfig(trials=3)
# what the tests compare with is made on the processor, too
SMALL = TrainGanConfig(gan=GAN, tuning=SPACE, draws=1, images=300, device="cpu")

# the same in another process: python -c SCRIPT STORAGE TRIALS
SCRIPT = """
import sys
from tests.workflows.test_train_gan import tuned_until
tuned_until(int(sys.argv[2]), sys.argv[1])
"""


def tuned_until(trials: int, storage: str, events: Listener | None = None) -> TrainGanResult:
    config = replace(SMALL, tuning=replace(SPACE, trials=trials, storage=storage))
    return train_gan("digits:test", config=config, events=events)


@pytest.fixture(scope="module")
def digits() -> ImageSet:
    return load("digits:test")


@pytest.fixture(scope="module")
def tuned(tmp_path_factory: pytest.TempPathFactory) -> TrainGanResult:
    output = tmp_path_factory.mktemp("gan") / "mine.safetensors"
    return train_gan("digits:test", config=SMALL, output=output)


def test_the_best_trial_is_kept_where_compare_looks(tuned: TrainGanResult, digits: ImageSet) -> None:
    header = read_header(Path(tuned.gan))
    study = header["tuning"]
    complete = {trial["number"]: trial["scores"] for trial in study["trials"] if trial["state"] == "complete"}
    assert tuned.tuning is not None and tuned.tuning["trials"] == len(study["trials"]) == 3
    # a GAN that the guard calls collapsed comes after all others
    together = {number: scores["fid"] * scores["kid"] for number, scores in complete.items()}
    assert study["best"] == min(complete, key=lambda number: (complete[number]["collapsed"], together[number]))
    assert {name: header["gan"][name] for name in study["settings"]} == study["settings"]
    said = Recording()
    context = FamilyContext(cells.prepare(digits).encoder, CPU, said.progress)
    found = prepare_gan(DataSplit(digits, SplitConfig()), GAN, context)
    assert str(found.artifact) == tuned.gan
    assert any("nothing to train" in line for line in said.lines)


def test_the_scores_are_the_kept_gans_own(tuned: TrainGanResult, digits: ImageSet) -> None:
    study = read_header(Path(tuned.gan))["tuning"]
    generator, _, _ = gan_loader.load(Path(tuned.gan), device=CPU)
    # 90 held-out images are too few, so the training images are measured against
    rows, held_out = split_rows(len(digits), SplitConfig())
    assert len(held_out) < 300 and not study["held_out"] and study["against"] == len(rows)
    again = score(generator, digits, rows, cells.prepare(digits).encoder, draws=2, images=len(digits))
    assert study["scores"]["kid"] == pytest.approx(again.kid.mean, rel=1e-4)
    assert study["scores"]["fid"] == pytest.approx(again.fid.mean, rel=1e-4)


def test_a_copy_with_its_page(tuned: TrainGanResult) -> None:
    assert tuned.copy is not None
    copy = Path(tuned.copy)
    assert copy.read_bytes() == Path(tuned.gan).read_bytes()
    assert Path(tuned.report) == copy.with_suffix(".html")
    assert copy.with_suffix(".html").read_bytes() == Path(tuned.gan).with_suffix(".html").read_bytes()
    assert {path.name for path in copy.parent.iterdir()} == {copy.name, copy.with_suffix(".html").name}


def test_more_trials_go_on_with_the_study(tuned: TrainGanResult) -> None:
    before = read_header(Path(tuned.gan))["tuning"]["trials"]
    config = replace(SMALL, tuning=replace(SPACE, trials=4))
    train_gan("digits:test", config=config)
    after = read_header(Path(tuned.gan))["tuning"]["trials"]
    assert len(after) == 4
    assert after[:3] == before
    assert after[3]["settings"] not in [trial["settings"] for trial in before]


def test_only_the_best_trials_gan_is_left(tuned: TrainGanResult) -> None:
    assert len(list(Path(tuned.gan).with_suffix(".trials").rglob("*.safetensors"))) == 1


def test_without_tuning_a_gan_in_the_cache_is_only_scored(tuned: TrainGanResult) -> None:
    said = Recording()
    result = train_gan("digits:test", config=replace(SMALL, tuning=TuningConfig()), events=said)
    assert result.gan == tuned.gan
    assert any("--anew" in line for line in said.lines)
    assert set(result.scores) >= {"fid", "kid", "precision", "recall", "density", "coverage"}


def test_scores_by_a_published_networks_features(digits: ImageSet, tmp_path: Path) -> None:
    assert digits.labels is not None
    few = dataclasses.replace(digits, images=digits.images[:100], labels=digits.labels[:100])
    with torch.device("meta"):
        network = torchvision.models.vgg16(weights=None, init_weights=False).features
    network.to_empty(device="cpu")
    torch.manual_seed(0)
    for parameter in network.parameters():
        torch.nn.init.normal_(parameter, std=0.05)
    weights = tmp_path / "vgg16.safetensors"
    save_file({f"features.{name}": value for name, value in network.state_dict().items()}, weights)
    config = replace(SMALL, tuning=TuningConfig(), images=10)
    by_vgg16 = train_gan(few, config=replace(config, features="vgg16", features_weights=str(weights)))
    assert read_header(Path(by_vgg16.gan))["scores"]["features"] == "vgg16"
    by_encoder = train_gan(few, config=config)
    assert by_encoder.gan == by_vgg16.gan
    assert read_header(Path(by_vgg16.gan))["scores"]["features"] == "domain"
    assert by_encoder.scores["fid"] != pytest.approx(by_vgg16.scores["fid"], rel=0.01)


def test_weights_that_nobody_takes(tmp_path: Path) -> None:
    config = replace(SMALL, features_weights=str(tmp_path / "some.pth"))
    with pytest.raises(UserError, match="takes no weights"):
        train_gan("digits:test", config=config)


def start(repository: Path, storage: Path, trials: int) -> subprocess.Popen[str]:
    environment = {**os.environ, "PYTHONPATH": str(repository)}
    command = [sys.executable, "-c", SCRIPT, str(storage), str(trials)]
    return subprocess.Popen(command, text=True, env=environment, cwd=repository, stderr=subprocess.PIPE)


@pytest.mark.slow
def test_a_killed_study_goes_on(repository: Path, tmp_path: Path, digits: ImageSet) -> None:
    cells.prepare(digits)  # not in the process that is killed
    journal = tmp_path / "study.log"
    process = start(repository, journal, 2)
    while process.poll() is None and not (journal.is_file() and '"host"' in journal.read_text()):
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert process.returncode == -signal.SIGKILL
    with journal.open("a") as file:  # what a power cut leaves
        file.write('{"op_code": 6, "trial')
    said = Recording()
    result = tuned_until(2, str(journal), said)
    assert "Trial 1 was broken off; it runs again." in said.lines
    trials = read_header(Path(result.gan))["tuning"]["trials"]
    assert [trial["number"] for trial in trials] == [1, 2]
    assert trials[0]["settings"]["learning_rate_generator"] == GAN.learning_rate_generator


@pytest.mark.slow
def test_two_processes_share_one_journal(repository: Path, tmp_path: Path, digits: ImageSet) -> None:
    cells.prepare(digits)
    journal = tmp_path / "study.log"
    both = [start(repository, journal, 4) for _ in range(2)]
    for process in both:
        _, err = process.communicate(timeout=1200)
        assert process.returncode == 0, err
    result = tuned_until(4, str(journal))
    trials = read_header(Path(result.gan))["tuning"]["trials"]
    assert len(trials) == 4
    rates = [trial["settings"]["learning_rate_discriminator"] for trial in trials]
    sampled = [rate for rate in rates if rate != GAN.learning_rate_discriminator]
    assert len(sampled) >= 2
    assert len(set(sampled)) == len(sampled)
