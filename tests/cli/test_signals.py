"""Signals while a model loops: the first asks to stop, the second ends the program, whatever the model does."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
import warnings
from pathlib import Path

import numpy as np
import pytest
import torch

from diffgen.cli.signals import INTERRUPTED, second_signal_ends, signals_stop
from diffgen.errors import Stopped
from diffgen.models import load
from diffgen.models.isolation.wall import walls
from diffgen.models.patience import impatient
from tests.models.isolation.isolated import Looping
from tests.recording import Recording


@pytest.fixture
def looping(tmp_path: Path) -> Path:
    file = tmp_path / "loop.pt"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.jit.save(torch.jit.script(Looping()), str(file))
    return file


def test_the_second_signal_ends_the_program_while_a_model_of_its_own_process_loops(looping: Path) -> None:
    program = (
        "import sys\n"
        "import numpy as np\n"
        "from diffgen.cli.signals import second_signal_ends\n"
        "from diffgen.models import load\n"
        "box = load(sys.argv[1], isolate='off')\n"
        "with second_signal_ends():\n"
        "    print('ready', flush=True)\n"
        "    box.prepare(np.zeros((2, 1, 8, 8), dtype=np.uint8))\n"
    )
    child = subprocess.Popen(
        [sys.executable, "-c", program, str(looping)],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert child.stdout is not None
    with child.stdout as lines:
        assert lines.readline() == "ready\n"
        time.sleep(1)  # it loops by now
        # one that is passed on by another program at once is not a second one
        for _ in range(2):
            child.send_signal(signal.SIGINT)
            time.sleep(0.05)
        with pytest.raises(subprocess.TimeoutExpired):
            child.wait(timeout=1)
        child.send_signal(signal.SIGINT)
        assert child.wait(timeout=1200) == INTERRUPTED


def test_one_signal_ends_nothing_by_itself_and_signals_are_as_before_afterwards() -> None:
    heard: list[int] = []
    before = signal.signal(signal.SIGTERM, lambda number, frame: heard.append(number))
    try:
        with second_signal_ends():
            os.kill(os.getpid(), signal.SIGTERM)
        assert signal.set_wakeup_fd(-1) == -1
    finally:
        signal.signal(signal.SIGTERM, before)
    assert heard == [signal.SIGTERM]


@pytest.mark.skipif(walls().missing is not None, reason="no model can be isolated here")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_isolated_model_that_loops_does_not_hold_up_a_search_that_is_to_stop(
    number: signal.Signals, looping: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("diffgen.models.patience.GRACE", 0.5)
    box = load(looping, model_timeout=100)
    recording = Recording()
    timer = threading.Timer(1.0, os.kill, (os.getpid(), number))
    with signals_stop(recording.progress), impatient(recording.progress.stop):
        timer.start()
        with pytest.raises(Stopped) as caught:
            box.prepare(np.zeros((2, 1, 8, 8), dtype=np.uint8))
    assert recording.progress.stop.stopped
    assert any("Stopping" in line for line in recording.warnings)
    assert "loop.pt was asked to stop, but did not come back" in caught.value.__notes__[0]


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_an_interrupt_that_is_lost_ends_the_work_at_its_next_stage() -> None:
    """What is raised while Python frees an object goes nowhere."""

    class Freed:
        def __del__(self) -> None:
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(0.01)  # here the handler is called

    recording = Recording()
    with signals_stop(recording.progress):
        freed = Freed()
        del freed
        with pytest.raises(Stopped), recording.progress.stage("anything"):
            pass
