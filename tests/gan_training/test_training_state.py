"""diffgen.gan_training.training_state: training that was broken off"""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from diffgen.config import GanConfig
from diffgen.events import Progress
from diffgen.features import encoder as encoders
from diffgen.gan_training import trainer, training_state
from diffgen.gan_training.monitor import GanMonitor
from diffgen.gan_training.trainer import TrainedGan, train
from diffgen.gan_training.training_state import TrainingState
from diffgen.types import ImageSet
from tests.recording import Recording

CONFIG = GanConfig(latent_dim=8, width=4, steps=24, batch_size=16, monitor_checks=6)


class PowerCut(BaseException):
    pass


@pytest.fixture(scope="module")
def monitor(digits: ImageSet) -> GanMonitor:
    images, labels = torch.from_numpy(digits.images), torch.from_numpy(digits.labels)
    return GanMonitor(encoders.train(images, labels), images[::2], images[1::2], labels[::2], labels[1::2])


def weights(trained: TrainedGan) -> dict[str, torch.Tensor]:
    networks = {"generator": trained.generator, "discriminator": trained.discriminator}
    return {f"{role}.{name}": v for role, network in networks.items() for name, v in network.state_dict().items()}


def training(digits: ImageSet, monitor: GanMonitor, state: Path | None, progress: Progress | None = None) -> TrainedGan:
    images, labels = torch.from_numpy(digits.images), torch.from_numpy(digits.labels)
    return train(images, CONFIG, labels=labels, monitor=monitor, state=state, progress=progress)


@pytest.fixture(scope="module")
def uninterrupted(digits: ImageSet, monitor: GanMonitor) -> TrainedGan:
    return training(digits, monitor, None)


@pytest.mark.parametrize("break_after", [5, *(pytest.param(each, marks=pytest.mark.slow) for each in (1, 13, 23))])
def test_resumed_training_ends_with_the_same_gan(
    digits: ImageSet,
    monitor: GanMonitor,
    uninterrupted: TrainedGan,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    break_after: int,
) -> None:
    path = tmp_path / "gan.unfinished"
    monkeypatch.setattr(trainer, "_SECONDS_BETWEEN_SAVES", -1.0)  # after every step
    save = training_state.save

    def save_and_break(to: Path, state: TrainingState) -> None:
        save(to, state)
        if state.step == break_after:
            raise PowerCut

    monkeypatch.setattr(training_state, "save", save_and_break)
    with pytest.raises(PowerCut):
        training(digits, monitor, path)
    monkeypatch.setattr(training_state, "save", save)
    progress = Recording()
    resumed = training(digits, monitor, path, progress.progress)
    assert any(f"after step {break_after} of 24" in line for line in progress.lines)
    for name, value in weights(uninterrupted).items():
        assert torch.equal(weights(resumed)[name], value), name
    assert torch.equal(resumed.losses, uninterrupted.losses)
    assert (resumed.readings, resumed.kept_step) == (uninterrupted.readings, uninterrupted.kept_step)
    assert not path.exists()


@pytest.mark.parametrize("content", [b"", b"PK not this", b"\x08\0\0\0\0\0\0\0{}      "])
def test_a_damaged_file_is_said_and_training_starts_anew(
    digits: ImageSet, monitor: GanMonitor, uninterrupted: TrainedGan, tmp_path: Path, content: bytes
) -> None:
    path = tmp_path / "gan.unfinished"
    path.write_bytes(content)
    progress = Recording()
    trained = training(digits, monitor, path, progress.progress)
    assert any("starts anew" in line for line in progress.warnings)
    assert torch.equal(trained.losses, uninterrupted.losses)
