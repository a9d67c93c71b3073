"""``diffgen check`` as a user types it."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from diffgen.cli import build_parser, compare
from diffgen.cli.check import config_from, print_verdict
from diffgen.config import CheckConfig, Limits
from diffgen.data import load
from diffgen.events import Progress
from diffgen.gate.conditions import UNMEASURED, evaluate
from diffgen.gate.measurements import AccuracyDrop
from diffgen.gate.result import CheckResult
from diffgen.gate.rules import overall
from diffgen.gate.values import GateValues, SearchState
from diffgen.runs.folder import RunFolder
from diffgen.workflows.demo import save_onnx
from tests.cli.conftest import classifier

# with filters nothing that so short a training draws would be valid
SMALL = ("--data", "digits:test", "--gan-steps", "30", "--seed", "5", "--budget", "200q", "--random-images", "60")
SMALL += ("--filters", "none", "-q")


def taught(network: torch.nn.Module) -> torch.nn.Module:
    """The same network, that has learnt the digits in some steps."""
    digits = load("digits:train")
    assert digits.labels is not None
    images, labels = torch.from_numpy(digits.images) / 255, torch.from_numpy(digits.labels)
    optimizer = torch.optim.Adam(network.parameters(), 0.01)
    for _ in range(60):
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(network(images), labels).backward()
        optimizer.step()
    return network


def test_a_failed_check_is_accepted_and_passes_then(diffgen_command: Callable[..., Any], tmp_path: Path) -> None:
    # the base, a little disturbed: other labels on some pictures, hardly worse on the real ones
    network = taught(classifier())
    save_onnx(network, tmp_path / "base.onnx")
    torch.manual_seed(7)
    with torch.no_grad():
        for weights in network.parameters():
            weights += 0.05 * weights.std() * torch.randn_like(weights)
    save_onnx(network, tmp_path / "near.onnx")
    store = tmp_path / "store"
    words = (
        "check",
        tmp_path / "base.onnx",
        tmp_path / "near.onnx",
        *SMALL,
        "--store",
        store,
        "--max-new-behaviours",
        "0",
    )
    first = diffgen_command(*words, "-o", tmp_path / "first", "--max-shift", "100%", "--json")
    assert first.code == 1, first.err
    lines = first.out.splitlines()
    assert json.loads(lines[-1])["status"] == "FAIL"
    assert lines[-2] == f"FAIL: {tmp_path / 'first' / 'report.html'}"
    assert any(line.startswith("FAIL   new behaviours") and line.endswith("limit 0") for line in lines)
    assert any(line.startswith("PASS   largest probability shift, real") for line in lines)
    assert any(line.startswith("-      disagreement on real images") for line in lines)
    # not only that, but why
    found = json.loads(lines[-1])["new_behaviours"]
    assert f"why: new behaviours: {found} behaviours that the store does not know; 0 allowed." in lines
    error = next(line for line in lines if "calibration error (ECE)" in line)
    assert re.search(r"  base [\d.]+%, candidate [\d.]+%$", error)
    new = [line for line in lines if line.startswith("new: ")]
    assert all(line.startswith("new: base says ") for line in new[:5])
    assert new[5:] == [f"new: and {found - 5} more, in the report"]
    accepted = diffgen_command("check", "--accept", tmp_path / "first", "--store", store)
    assert accepted.code == 0
    assert accepted.out.startswith(f"{json.loads(lines[-1])['new_behaviours']} behaviours added")
    held = next(line for line in accepted.out.splitlines() if line.startswith("Later checks against"))
    accuracy = next(line for line in lines if "accuracy drop on real images" in line)
    drop = " ".join(accuracy.split()[6:8])  # as in "PASS  accuracy drop on real images  0.22 points (...)"
    assert f"accuracy drop on real images {drop} accepted, up to " in held
    assert "disagreement on real images" in held
    assert f"The check {tmp_path / 'first'} had failed (new behaviours)" in accepted.err
    second = diffgen_command(*words, "-o", tmp_path / "second")
    assert second.code == 0, second.out
    assert second.out.splitlines()[-1].startswith(("PASS: ", "WARN ("))
    # drawing the report again keeps the verdict
    before = (tmp_path / "second" / "summary.md").read_text()
    (tmp_path / "second" / "summary.md").unlink()
    assert diffgen_command("report", tmp_path / "second").code == 0
    assert (tmp_path / "second" / "summary.md").read_text() == before
    assert RunFolder.open(tmp_path / "second").manifest["check"]["limits"] == {"max_new_behaviours": 0}
    again = diffgen_command("check", "--resume", tmp_path / "first", "--json")
    assert (again.code, again.out.splitlines()[-1]) == (1, lines[-1])
    advice = f"accept: diffgen check --accept {tmp_path / 'first'} --store {store}"
    assert [line for line in again.out.splitlines() if line.startswith("accept")] == [advice]


@pytest.mark.parametrize(
    ("case", "words", "parts"),
    [
        ("no candidate", ["check", "a.pt", "--data", "digits"], ["BASE CANDIDATE"]),
        ("no data", ["check", "a.pt", "b.pt"], ["--data"]),
        (
            "a percentage that is none",
            ["check", "a", "b", "--max-disagreement", "5"],
            ["--max-disagreement", "is 5; give a number from 0 to 1"],
        ),
        (
            "a configuration that is not there",
            ["check", "a", "b", "--config", "nosuch.toml"],
            ["nosuch.toml", "check the path"],
        ),
        ("half a behaviour", ["check", "a", "b", "--max-new-behaviours", "0.5"], ["is 0.5; give a whole number"]),
        ("no random images", ["check", "a", "b", "--data", "digits", "--random-images", "0"], ["random_images"]),
        (
            "a new limit for a check that is resumed",
            ["check", "--resume", "run", "--max-shift", "0.1"],
            ["--max-shift"],
        ),
        ("resuming what is no run", ["check", "--resume", "nowhere"], ["nowhere", "run folder"]),
        (
            "accepting beside a check",
            ["check", "a", "b", "--accept", "run", "--store", "s"],
            ["--accept", "leave BASE"],
        ),
        (
            "accepting beside an option",
            ["check", "--accept", "run", "--store", "s", "--variations", "0"],
            ["--accept", "leave --variations"],
        ),
        ("accepting into nowhere", ["check", "--accept", "run"], ["--store"]),
        ("accepting what is no run", ["check", "--accept", "nowhere", "--store", "s"], ["nowhere", "run folder"]),
        (
            "a GAN and a generator",
            ["check", "a", "b", "--data", "digits", "--gan", "g", "--generator", "h", "--latent-dim", "8"],
            ["--gan", "--generator"],
        ),
    ],
)
def test_wrong_usage(
    case: str,
    words: list[str],
    parts: list[str],
    diffgen_command: Callable[..., object],
    told: Callable[[str, str, object], None],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    outcome = diffgen_command(*words)
    assert outcome.code == 2
    assert len(outcome.err.splitlines()) == 1
    for part in parts:
        assert part in outcome.err
    assert list(tmp_path.iterdir()) == []
    told("Checks", case, outcome.err.removeprefix("diffgen: "))


def _config(*words: str, file: Path | None = None) -> CheckConfig:
    config = [] if file is None else ["--config", str(file)]
    arguments = build_parser().parse_args(["check", *config, *words])
    arguments.progress = Progress()
    return config_from(arguments, compare.job_from(arguments, CheckConfig))[0]


def test_shares_are_percentages_or_fractions() -> None:
    assert _config("--max-disagreement", "0.5%") == _config("--max-disagreement", "0.005")
    assert _config("--max-disagreement", "0.5%").limits == Limits(max_disagreement=0.005)
    assert _config("--max-disagreement", "0.7%").limits == Limits(max_disagreement=7 / 1000)
    # whatever its digits
    for tenths in (3, 7, 29, 57, 113, 999):
        assert Limits(max_shift=f"{tenths / 10}%").max_shift == tenths / 1000
    assert _config("--max-new-behaviours", "none").limits == Limits(max_new_behaviours=None)
    assert _config().limits == Limits()
    assert str(_config().compare.budget) == "20000q"  # so that a pipeline is repeatable


def test_limits_from_a_file(tmp_path: Path) -> None:
    file = tmp_path / "gate.toml"
    file.write_text(
        'store = "known"\nbudget = "500q"\nrandom-images = 50\nseed = 4\n[limits]\nmax-disagreement = "0.5%"\n'
        "max-shift = 0.3\nmax-new-behaviours = 2\nmax-regression-faults = 7\n"
    )
    config = _config("--max-new-behaviours", "0", file=file)
    assert config.limits == Limits(max_disagreement=0.005, max_new_behaviours=0, max_regression_faults=7, max_shift=0.3)
    assert (config.random_images, str(config.compare.budget), config.compare.seed) == (50, "500q", 4)
    arguments = build_parser().parse_args(["check", "--config", str(file)])
    compare.job_from(arguments, CheckConfig)
    assert arguments.store == str(tmp_path / "known")


def test_the_verdicts_own_line_says_what_warns(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """0.90 points, 0.47 to 1.32, beside a limit of 1 point that nobody set."""
    values = GateValues(
        {**UNMEASURED, "accuracy_drop": AccuracyDrop(2_910, 2_883, 34, 3_000)},
        drawn=100,
        accepted=100,
        search=SearchState(1_000),
    )
    conditions = evaluate(values, Limits())
    print_verdict(CheckResult(str(tmp_path), overall(conditions), conditions, values))
    verdict = capsys.readouterr().out.splitlines()[-1]
    assert verdict.startswith("WARN (accuracy drop on real images: Kept on these 3,000 images, but they are too few")
    assert "it may be up to 1.32 points; about" in verdict
    assert verdict.endswith(f" more images would decide.): {tmp_path / 'summary.md'}")


def test_what_a_check_prints_gives_the_same_again(diffgen_command: Callable[..., Any], tmp_path: Path) -> None:
    words = (
        "check",
        "a.pt",
        "b.pt",
        "--data",
        "digits",
        "--max-shift",
        "30%",
        "--random-images",
        "50",
        "--print-config",
    )
    first = diffgen_command(*words, "--print-config")
    assert first.code == 0, first.err
    (tmp_path / "gate.toml").write_text(first.out)
    again = diffgen_command("check", "--config", tmp_path / "gate.toml", "--print-config")
    assert (again.code, again.out) == (0, first.out)
    refused = diffgen_command("compare", "--config", tmp_path / "gate.toml", "--print-config")
    assert refused.code == 2
    assert "limits is not known" in refused.err or "random_images is not known" in refused.err


@pytest.mark.parametrize(
    "words",
    [
        ("--max-accuracy-drop", "1"),
        ("--set", "limits.bogus=3"),
        ("--technique", "nosuch"),
        ("--config", "nosuch.toml"),
        ("--nosuch",),
        ("--random-images",),
    ],
    ids=" ".join,
)
def test_a_mistake_beside_force_leaves_no_old_verdict(
    words: tuple[str, ...], diffgen_command: Callable[..., Any], tmp_path: Path
) -> None:
    for name, about in (("of a check", {"check": {}}), ("of a comparison", {})):
        run = RunFolder.create(tmp_path / name, config={}, manifest=about, force=False).path
        for file in ("junit.xml", "results.json", "summary.md", "report.html"):
            (run / file).write_text("PASS")
        begun = ("check", "a.pt", "b.pt", "--data", "digits", "-o", run, *words)
        assert diffgen_command(*begun).code == 2
        # what checks nothing replaces nothing
        assert diffgen_command(*begun, "--force", "--accept", run, "--store", tmp_path / "store").code == 2
        assert (run / "junit.xml").is_file()
        refused = diffgen_command(*begun[: -len(words)], "--force", *words)
        assert refused.code == 2
        assert len(refused.err.splitlines()) == 1
        assert (run / "manifest.json").is_file()
        for file in ("junit.xml", "results.json", "summary.md", "report.html"):
            assert (run / file).exists() == (name == "of a comparison"), file


def test_a_mistake_beside_force_and_a_folder_of_the_file(diffgen_command: Callable[..., Any], tmp_path: Path) -> None:
    run = RunFolder.create(tmp_path / "run", config={}, manifest={"check": {}}, force=False).path
    (run / "junit.xml").write_text("PASS")
    (tmp_path / "gate.toml").write_text('output = "run"\n')
    words = ("check", "a.pt", "b.pt", "--config", tmp_path / "gate.toml", "--force")
    assert diffgen_command(*words, "--print-config").code == 0
    assert (run / "junit.xml").is_file()
    assert diffgen_command(*words, "--data", "digits", "--max-accuracy-drop", "1").code == 2
    assert not (run / "junit.xml").exists()
