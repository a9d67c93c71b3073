"""``diffgen train-gan``"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from diffgen.gan_training.checkpoint import read_header


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "images are missing"),
        (("digits:test", "--tune", "0"), "--tune"),
        (("digits:test", "--tune", "-2"), "--tune"),
        (("digits:test", "--storage", "study.log"), "add --tune"),
        (("digits:test", "--quick", "--thorough"), "not allowed with"),
        (("digits:test", "--steps", "0"), "--steps"),
        (("digits:test", "--seed", "-1"), "--seed"),
        (("digits:test", "--draws", "0"), "--draws"),
        (("digits:test", "--resize", "30"), "--resize"),
        (("digits:test", "--device", "abacus"), "abacus"),
        (("digits:test", "--output", "."), "is a folder"),
        (("digits:test", "--output", "gan.html"), ".safetensors"),
        (("digits:test", "--tune", "2", "--storage", "no/such/study.log"), "does not exist"),
        (("no-such-data",), "no-such-data"),
        (("digits:test", "--tune-seconds", "60"), "add --tune"),
        (("digits:test", "--preset", "papr"), "did you mean 'paper'"),
        (("digits:test", "--set", "gan.condtional=false"), "gan.conditional"),
    ],
)
def test_bad_input_is_said_in_one_sentence(
    words: tuple[str, ...],
    said: str,
    diffgen_command: Callable[..., object],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    outcome = diffgen_command("train-gan", *words)
    assert outcome.code == 2
    assert said in outcome.err
    assert len(outcome.err.strip().splitlines()) <= 2
    assert list(tmp_path.iterdir()) == []


def test_train_prints_readings_scores_and_where_things_are(
    diffgen_command: Callable[..., object], tmp_path: Path
) -> None:
    output = tmp_path / "deep" / "gan.safetensors"
    outcome = diffgen_command(
        "train-gan", "digits:test", "--steps", "3", "--seed", "11", "--draws", "1", "--json", "-o", output
    )
    assert outcome.code == 0, outcome.err
    *lines, last = outcome.out.splitlines()
    values = json.loads(last)
    assert lines[0].split() == ["updates", "recognised", "covered", "worst", "class", "distance"]
    assert sum(line.endswith("kept") for line in lines) == 1
    assert f"FID {values['scores']['fid']:.3f}" in outcome.out
    assert "compare has it with --source gan --gan-steps 3 --gan-seed 11" in lines
    assert lines[-1] == f"report: {output.with_suffix('.html')}"
    assert read_header(output)["scores"]["kid"]["mean"] == values["scores"]["kid"]
    assert values["tuning"] is None


def test_the_gan_of_a_preset_can_be_trained_and_any_of_its_settings_said(
    diffgen_command: Callable[..., object], tmp_path: Path
) -> None:
    output = tmp_path / "gan.safetensors"
    few = ("--steps", "2", "--draws", "1", "--set", "gan.width=8", "--set", "gan.monitor_checks=0", "-o", output)
    outcome = diffgen_command("train-gan", "digits:test", "--preset", "paper", *few)
    assert outcome.code == 0, outcome.err
    header = read_header(output)
    assert (header["latent_dim"], header["classes"], header["gan"]["width"]) == (100, 0, 8)
    words = "--preset paper --set gan.width=8 --gan-steps 2 --set gan.monitor_checks=0"
    assert f"compare has it with {words}" in outcome.out.splitlines()
