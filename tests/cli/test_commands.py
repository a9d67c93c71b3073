"""The verbs as a user types them, in processes of their own."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from diffgen.runs.folder import RunFolder


def start(repository: Path, *words: object) -> subprocess.Popen[str]:
    environment = {**os.environ, "PYTHONPATH": str(repository), "PYTHONUNBUFFERED": "1"}
    command = [sys.executable, "-m", "diffgen", *map(str, words)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)


SMALL = ("--data", "digits:test", "--seed", "5", "--set", "filters.jury.shown=640")
SMALL += ("--set", "filters.reconstruction.training_steps=20")


@pytest.fixture(scope="module")
def run(files: dict[str, Path], repository: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str, str]:
    """A finished run with what it printed."""
    folder = tmp_path_factory.mktemp("cli") / "run"
    process = start(
        repository, "compare", files["a.pt"], files["b.onnx"], *SMALL, "--budget", "300q", "-o", folder, "--json"
    )
    out, err = process.communicate(timeout=1200)
    assert process.returncode == 0, err
    return folder, out, err


def test_compare_prints_a_table_and_one_json_object_last(run: tuple[Path, str, str]) -> None:
    folder, out, err = run
    lines = out.splitlines()
    values = json.loads(lines[-1])
    counts = ["triggers", "valid_triggers", "distinct_valid_triggers", "behaviours"]
    others = ["behaviours_at_least", "discovery", "label_pairs", "seconds", "saturated", "behaviours_of_agreement"]
    jury = ["recognised_triggers", "recognised_distinct_triggers", "recognised_behaviours", "faults"]
    jury += ["verdicts_rest_on", "no_jury"]
    real = ["flips_per_1000", "accuracy", "calibration_error", "milliseconds", "doubts", "cause", "answers"]
    assert list(values) == ["run", "queries", *counts, *others, *jury, *real]
    assert values["run"] == str(folder)
    assert values["queries"] == 300
    assert f"report: {folder / 'report.html'}" in lines
    assert (folder / "report.html").is_file()
    assert "Real images: A and B agree on" in err  # what is no result goes to stderr
    assert "\x1b" not in err  # no bars and colours in a log


@pytest.mark.slow
def test_idx_folder_without_labels(
    files: dict[str, Path], diffgen_command: Callable[..., object], tmp_path: Path
) -> None:
    words = ["--gan-steps", "5", "--set", "gan.monitor_checks=1", "--set", "gan.width=16", "--filters", "paper"]
    words += ["--data", files["idx"], "--budget", "50q", "-q", "-o", tmp_path / "run"]
    outcome = diffgen_command("compare", files["a.pt"], files["b.onnx"], *words)
    assert outcome.code == 0, outcome.err
    folder = RunFolder.open(tmp_path / "run")
    assert folder.results()["preflight"]["accuracy"] is None
    first, second = folder.results()["filters"]
    assert (first["name"], second["name"], second["threshold"]) == ("discriminator", "ssim", 0.4)


def test_replay_and_report(run: tuple[Path, str, str], diffgen_command: Callable[..., object]) -> None:
    folder, out, _ = run
    triggers = json.loads(out.splitlines()[-1])["triggers"]
    for words in ([], ["--images"]):
        outcome = diffgen_command("replay", folder, "--json", *words)
        assert outcome.code == 0
        values = json.loads(outcome.out.splitlines()[-1])
        assert values["reproduced"] == values["replayed"]
        assert values["replayed"] == triggers or words
    outcome = diffgen_command("report", folder)
    assert outcome.out == f"report: {folder / 'report.html'}\n"


def test_quiet_says_nothing_but_results(run: tuple[Path, str, str], diffgen_command: Callable[..., object]) -> None:
    outcome = diffgen_command("replay", run[0], "-q")
    assert outcome.err == ""


@pytest.mark.parametrize("number", [pytest.param(signal.SIGINT, marks=pytest.mark.slow), signal.SIGTERM])
def test_an_interrupted_search_reports_what_it_found_and_can_be_resumed(
    number: signal.Signals, files: dict[str, Path], repository: Path, tmp_path: Path, run: tuple[Path, str, str]
) -> None:
    folder = tmp_path / "run"
    state = tmp_path / "state"
    words = [*SMALL, "--budget", "30m", "-o", folder, "--state-file", state]
    process = start(repository, "compare", files["a.pt"], files["b.onnx"], *words)
    while not state.is_file() or "queries_per_s" not in json.loads(state.read_text())["figures"]:
        assert process.poll() is None, process.communicate()
        time.sleep(0.1)
    process.send_signal(number)
    out, err = process.communicate(timeout=1200)
    assert process.returncode == 130, err
    assert f"go on: diffgen compare --resume {folder}" in out.splitlines()
    results = RunFolder.open(folder).results()
    assert results["interrupted"] is True
    assert results["queries"] > 0
    assert (folder / "report.html").is_file()
    assert RunFolder.open(folder).manifest["status"] == "interrupted"


def test_help_has_examples_and_exit_codes(repository: Path) -> None:
    for words, expected in (([], "130 interrupted"), (["compare"], "--resume runs/mine"), (["replay"], "--images")):
        process = start(repository, *words, "--help")
        out, _ = process.communicate(timeout=1200)
        assert process.returncode == 0
        assert "examples:" in out
        assert expected in out


@pytest.mark.slow
def test_the_demonstration(repository: Path, tmp_path: Path) -> None:
    process = start(repository, "demo", "--budget", "500q", "-o", tmp_path / "demo", "--json")
    out, err = process.communicate(timeout=1200)
    assert process.returncode == 0, err
    values = json.loads(out.splitlines()[-1])
    assert values["valid_triggers"] > 20
    assert values["behaviours"] > 10
    assert "8x8" in err  # it says that the digits are scaled up
