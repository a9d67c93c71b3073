"""The options that say how models are opened and fed, and ``diffgen inspect`` as a user types it."""

from __future__ import annotations

import argparse
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from diffgen.cli import build_parser, compare, model_options
from diffgen.config import ModelSpec, Opening, Preprocessing, replace
from diffgen.errors import UserError


def parsed(*words: str) -> argparse.Namespace:
    return build_parser().parse_args(["compare", "a.pt", "b.pt", *words])


def test_options_for_both_and_for_one_alone() -> None:
    words = (
        "--mean 0.5 --std 0.5 0.25 --scale 0..255 --size 224 --channels bgr --b-mean 1 2 -3.5 --b-size 64x32 --a-invert"
    )
    a, b = model_options.specs_from(parsed(*words.split()), 2)
    assert a.preprocessing == Preprocessing(
        mean=(0.5,), std=(0.5, 0.25), scale="0..255", size=(224, 224), channels="bgr", invert=True
    )
    assert b.preprocessing == Preprocessing(
        mean=(1, 2, -3.5), std=(0.5, 0.25), scale="0..255", size=(64, 32), channels="bgr"
    )


@pytest.mark.parametrize("words", ["0.485 0.456 -0.4", "0.485,0.456,-0.4", "0.485, 0.456, -0.4"])
def test_numbers_stand_between_spaces_or_commas(words: str) -> None:
    (a,) = model_options.specs_from(parsed("--mean", *words.split()), 1)
    assert a.preprocessing.mean == (0.485, 0.456, -0.4)


@pytest.mark.parametrize("words", ["", ",", ",0.4", "0.4,,0.5"])
def test_an_empty_place_is_no_number(words: str) -> None:
    with pytest.raises(UserError, match=r"--mean.*give a number"):
        model_options.specs_from(parsed("--mean", words), 1)


def test_nothing_said_is_none() -> None:
    assert model_options.specs_from(parsed(), 2) == (ModelSpec(), ModelSpec())


def test_code_and_pickles() -> None:
    words = "--arch nets:a --b-arch nets:b --a-allow-pickle --no-antialias --b-output-name logits --layout nhwc"
    a, b = model_options.specs_from(parsed(*words.split(), "--outputs", "scores"), 2)
    assert a.opening == Opening(arch="nets:a", allow_pickle=True)
    assert b.opening == Opening(arch="nets:b", allow_pickle=False)
    assert b.preprocessing == Preprocessing(antialias=False, output="logits", layout="nhwc", outputs="scores")


def test_options_go_before_settings_from_a_file() -> None:
    before = ModelSpec(
        preprocessing=Preprocessing(mean=(0.1,), scale="0..255"),
        opening=Opening(arch="nets:a"),
        class_names=("x", "y"),
    )
    a, b = compare._models(parsed("--mean", "0.2"), (before, ModelSpec()))
    assert a == replace(before, path="a.pt", preprocessing=Preprocessing(mean=(0.2,), scale="0..255"))
    assert b == ModelSpec(path="b.pt", preprocessing=Preprocessing(mean=(0.2,)))


def test_classes_are_mapped_onto_those_of_the_first() -> None:
    a, b = model_options.specs_from(parsed("--label-map", "map.toml"), 2)
    assert (a.label_map, b.label_map) == (None, "map.toml")


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (["--size", "big"], "--size 'big'"),
        (["--size", "2x3x4"], "224x192"),
        (["--size", "0"], "from 1 to 4096"),
        (["--mean", "half"], "--mean"),
        (["--scale", "0-1"], "--scale"),
        (["--channels", "gray"], "--channels"),
        (["--a-layout", "hwc"], "--a-layout"),
    ],
)
def test_values_that_cannot_be(
    words: list[str],
    named: str,
    files: dict[str, Path],
    diffgen_command: Callable[..., Any],
    told: Callable[..., None],
) -> None:
    outcome = diffgen_command("compare", files["a.pt"], files["b.onnx"], "--data", "digits", *words)
    assert outcome.code == 2
    assert named in outcome.err
    assert len(outcome.err.splitlines()) == 1
    told("Pre-processing", f"`{' '.join(words)}`", outcome.err.removeprefix("diffgen: "))


def test_a_size_that_is_none() -> None:
    with pytest.raises(UserError, match="is not understood"):
        model_options.preprocessing_from(parsed("--size", "x"))


def test_help_names_them(diffgen_command: Callable[..., Any], capsys: pytest.CaptureFixture[str]) -> None:
    for verb in ("compare", "replay", "inspect"):
        with pytest.raises(SystemExit):
            diffgen_command(verb, "--help")
        shown = capsys.readouterr().out
        assert "--arch PACKAGE.MODULE:FACTORY" in shown
        assert ("--label-map" in shown) == (verb != "inspect")
        assert "--a-std" not in shown  # one sentence says it for all of them


def test_inspect_prints_a_table_and_writes_the_sidecar(
    files: dict[str, Path], diffgen_command: Callable[..., Any], tmp_path: Path
) -> None:
    model = Path(shutil.copy(files["b.onnx"], tmp_path / "b.onnx"))
    outcome = diffgen_command("inspect", model, "--data", "digits:test", "-q", "--json")
    (said,) = outcome.err.splitlines()  # the model has learned nothing
    assert (outcome.code, said.startswith("warning: However it is fed, model b.onnx is right on only ")) == (0, True)
    lines = outcome.out.splitlines()
    assert lines[0] == f"{model} is an ONNX file."
    assert "1x28x28" in lines[1]
    assert lines[2] == "classes  10"
    assert any(line.startswith("0..255, inverted ") for line in lines)
    assert any(line.startswith("options: ") and "--scale" in line for line in lines)
    assert json.loads(lines[-1])["classes"] == 10
    outcome = diffgen_command("inspect", model, "--data", "digits:test", "-q", "--write")
    assert (outcome.code, "Nothing is written; add --force" in outcome.err) == (2, True)
    outcome = diffgen_command("inspect", model, "--data", "digits:test", "-q", "--write", "--force")
    assert outcome.code == 0
    assert f"written: {model}.toml" in outcome.out
    outcome = diffgen_command("inspect", model, "--data", "digits:test", "--write")
    assert (outcome.code, "--force" in outcome.err) == (2, True)


def test_inspect_says_that_images_without_labels_prove_less(
    files: dict[str, Path], diffgen_command: Callable[..., Any]
) -> None:
    outcome = diffgen_command("inspect", files["a.pt"], "--data", files["idx"], "-q")
    assert outcome.code == 0
    assert "no labels" in outcome.out
    assert "weaker evidence" in outcome.out


def test_what_inspect_needs_is_told(files: dict[str, Path], diffgen_command: Callable[..., Any]) -> None:
    for words, named in (([files["a.pt"]], "--data"), ([files["notes.pt"], "--data", "digits"], "plain text")):
        outcome = diffgen_command("inspect", *words)
        assert outcome.code == 2
        assert named in outcome.err


@pytest.mark.slow
def test_the_size_that_the_error_offers_works(
    files: dict[str, Path], diffgen_command: Callable[..., Any], tmp_path: Path
) -> None:
    words = [
        "compare",
        files["large.pt"],
        files["b.onnx"],
        "--data",
        "digits:test",
        "--gan-steps",
        "5",
        "--budget",
        "50q",
    ]
    outcome = diffgen_command(*words, "-o", tmp_path / "run")
    assert outcome.code == 2
    assert "add --size 32 to convert them for it" in outcome.err
    outcome = diffgen_command(*words, "--a-size", "32", "-q", "-o", tmp_path / "run")
    assert outcome.code == 0, outcome.err
    outcome = diffgen_command("replay", tmp_path / "run", "-q")
    assert outcome.code == 0, outcome.err
