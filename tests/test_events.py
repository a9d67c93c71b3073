"""diffgen.events: what is sent, in which order, and what a stop does where."""

from __future__ import annotations

import pytest

from diffgen.errors import Stopped
from diffgen.events import Message, Progress, StageAdvanced, StageEnded, StageStarted, StopToken
from tests.recording import Recording


def test_a_stage_sends_its_beginning_its_way_and_its_end() -> None:
    recording = Recording()
    with recording.progress.stage("Reading", total=3) as stage:
        stage.advance()
        stage.advance(0.5, loss=1.5)
        stage.reach(3)
    assert recording.events == [
        StageStarted("Reading", 3),
        StageAdvanced("Reading", 1),
        StageAdvanced("Reading", 1.5, {"loss": 1.5}),
        StageAdvanced("Reading", 3),
        StageEnded("Reading"),
    ]


def test_a_stage_that_breaks_off_ends_too() -> None:
    recording = Recording()
    with pytest.raises(ZeroDivisionError), recording.progress.stage("Reading"):
        raise ZeroDivisionError
    assert recording.events[-1] == StageEnded("Reading")


def test_sentences_have_levels() -> None:
    recording = Recording()
    for speak in (recording.progress.say, recording.progress.detail, recording.progress.warn):
        speak("hello")
    levels = ("info", "detail", "warning")
    assert recording.events == [Message(level, "hello") for level in levels]


def test_without_a_listener_nothing_is_printed(capfd: pytest.CaptureFixture[str]) -> None:
    progress = Progress()
    with progress.stage("work", total=3) as stage:
        stage.advance(figure=1)
    progress.warn("hello")
    assert capfd.readouterr() == ("", "")


def test_a_stop_ends_work_at_its_next_step() -> None:
    recording = Recording()
    with pytest.raises(Stopped), recording.progress.stage("Training", total=10) as stage:
        stage.advance()
        recording.progress.stop.stop()
        stage.advance()
    assert recording.reached("Training") == [1, 2]
    with pytest.raises(Stopped), recording.progress.stage("Scoring"):
        pass
    assert "Scoring" not in recording.totals


def test_what_heeds_a_stop_is_not_broken_off_and_neither_is_what_comes_after_it() -> None:
    stop = StopToken()
    progress = Progress(None, stop)
    with progress.stage("Searching") as stage, stop.heeding():
        assert stop.heeded
        stop.stop()
        stage.advance()
    with progress.stage("Filtering") as stage:
        stage.advance()
    assert not stop.heeded


def test_a_stop_after_the_search_breaks_off_what_comes_after_it() -> None:
    stop = StopToken()
    with stop.heeding():
        pass
    stop.stop()
    with pytest.raises(Stopped), Progress(None, stop).stage("Filtering"):
        pass


def test_the_first_stop_counts() -> None:
    stop = StopToken()
    assert (stop.stopped, stop.stopped_at) == (False, None)
    stop.stop()
    first = stop.stopped_at
    stop.stop()
    assert (stop.stopped, stop.stopped_at) == (True, first)
