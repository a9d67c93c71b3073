"""The verbs doctor and export, and what main makes of errors."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from diffgen import api
from diffgen.cli import doctor
from diffgen.errors import RunError
from diffgen.runs.cache import ENVIRONMENT
from tests.labels.conftest import TRIGGERS, make_run, truth_of


def test_doctor(diffgen_command: Callable[..., Any], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv(ENVIRONMENT, str(tmp_path))
    outcome = diffgen_command("doctor")
    assert outcome.code == 0
    for word in ("diffgen", "torch", "devices", "cores", "memory", "free disk", str(tmp_path), "no problems found"):
        assert word in outcome.out
    examined = api.doctor()
    monkeypatch.setattr(doctor.api, "doctor", lambda: examined)
    values = json.loads(diffgen_command("doctor", "--json").out)
    assert values["devices"][0] == "cpu"
    assert values["cache_sizes"] == {}


def test_clearing_says_what_was_removed(
    diffgen_command: Callable[..., Any], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv(ENVIRONMENT, str(tmp_path))
    (tmp_path / "gan").mkdir()
    (tmp_path / "gan" / f"{'0a' * 16}.safetensors").write_bytes(bytes(3 * 2**20))
    assert diffgen_command("doctor", "--clear-cache").out == "removed gan: 3 MiB\nfreed 3 MiB\n"
    assert json.loads(diffgen_command("doctor", "--clear-cache", "--json").out) == {"freed": {}}
    (tmp_path / "mine").touch()
    outcome = diffgen_command("doctor", "--clear-cache")
    assert (outcome.code, outcome.out) == (2, "")


def test_sizes() -> None:
    assert [doctor._size(size) for size in (None, 0, 1023, 1024, 5 * 2**20, 3 * 2**30)] == [
        "unknown",
        "0 bytes",
        "1023 bytes",
        "1 KiB",
        "5 MiB",
        "3.0 GiB",
    ]


def test_export(files: dict[str, Path], diffgen_command: Callable[..., Any], tmp_path: Path) -> None:
    words = ("--data", "digits:test", "--gan-steps", "5", "--budget", "50q", "-q", "-o", tmp_path / "run")
    assert diffgen_command("compare", files["a.pt"], files["b.onnx"], *words).code == 0
    outcome = diffgen_command("export", tmp_path / "run", "--all", "--json")
    assert outcome.code == 0
    values = json.loads(outcome.out.splitlines()[-1])
    assert values["pictures"] == len(list((tmp_path / "run-export").rglob("*.png")))
    assert values["tables"][0] == "triggers.csv"
    assert diffgen_command("export", tmp_path / "run").code == 2
    assert diffgen_command("export", tmp_path / "run", "--force").code == 0
    assert diffgen_command("export", tmp_path / "nowhere").code == 2


def test_export_for_training(diffgen_command: Callable[..., Any], tmp_path: Path) -> None:
    run = make_run(
        tmp_path / "run",
        verdicts={
            "named": truth_of(TRIGGERS),
            "certainty": np.zeros(TRIGGERS, np.float32),
            "recognised": np.ones(TRIGGERS, np.bool_),
        },
    ).path
    outcome = diffgen_command("export", run, "--for-training", tmp_path / "set", "--test-share", "0.4", "--json")
    assert outcome.code == 0
    values = json.loads(outcome.out.splitlines()[-1])
    assert values["train"] + values["test"] == TRIGGERS - 1 == len(list((tmp_path / "set").rglob("*.png")))
    assert "labelled by people and 59 by the jury" in outcome.out
    other = diffgen_command("export", run, "--for-training", tmp_path / "other", "--test-share", "0.4", "--seed", "1")
    assert other.code == 0
    assert (tmp_path / "set" / "pictures.csv").read_text() != (tmp_path / "other" / "pictures.csv").read_text()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--for-training", "set", "-o", "other"), "leave -o out"),
        (("--for-training", "set", "--all"), "leave --all out"),
        (("--test-share", "0.3"), "--test-share goes with --for-training; leave it out"),
        (("--seed", "3"), "--seed goes with --for-training; leave it out"),
        (("--for-training", "set", "--test-share", "1"), "test_share"),
    ],
)
def test_options_that_do_not_go_together(
    words: tuple[str, ...], said: str, diffgen_command: Callable[..., Any], tmp_path: Path
) -> None:
    outcome = diffgen_command("export", tmp_path, *words)
    assert (outcome.code, outcome.out) == (2, "")
    assert said in outcome.err


def test_settings_of_a_label_sheet_where_none_is_written(diffgen_command: Callable[..., Any], tmp_path: Path) -> None:
    outcome = diffgen_command("label", tmp_path, "--oracle", "c.pt", "--count", "5")
    assert (outcome.code, outcome.out) == (2, "")
    assert "--count goes with --export; leave it out" in outcome.err


@pytest.mark.parametrize(
    ("error", "code", "said"),
    [
        (RunError("the disk is full"), 3, "diffgen: the disk is full\ndiffgen: a note"),
        (KeyboardInterrupt(), 130, "diffgen: interrupted\ndiffgen: a note"),
        (ZeroDivisionError("a bug"), 3, "Traceback"),
        (MemoryError(), 3, "diffgen: the memory is used up (MemoryError); close other programs.\ndiffgen: a note"),
    ],
)
def test_what_breaks_a_run_off_never_looks_like_a_failed_gate(
    error: BaseException,
    code: int,
    said: str,
    diffgen_command: Callable[..., Any],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    def broken(*arguments: object) -> None:
        error.add_note("a note")
        raise error

    monkeypatch.setattr("diffgen.workflows.listing.draw_report", broken)
    outcome = diffgen_command("report", tmp_path)
    assert outcome.code == code
    assert said in outcome.err
