"""Bad input ends with one sentence that says what is wrong and how to mend it, exit code 2, nothing written."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from diffgen.runs import cache

GOOD = {"A": "@a.pt", "B": "@b.onnx", "--data": "digits", "--budget": "100q"}

CASES: list[tuple[str, dict[str, str | None], list[str]]] = [
    ("missing model", {"A": "@nowhere.pt"}, ["nowhere.pt"]),
    ("model is a folder", {"A": "@idx"}, ["idx"]),
    ("truncated TorchScript", {"A": "@truncated.pt"}, ["truncated.pt"]),
    ("truncated ONNX", {"B": "@truncated.onnx"}, ["truncated.onnx"]),
    ("empty model file", {"B": "@empty.onnx"}, ["empty.onnx", "empty"]),
    ("a text file for a model", {"A": "@notes.pt"}, ["notes.pt"]),
    ("other number of classes", {"B": "@seven.onnx"}, ["10 classes", "with 7"]),
    ("other channels", {"A": "@colour.pt"}, ["colour.pt", "3x28x28", "1x28x28"]),
    ("other size", {"A": "@large.pt"}, ["large.pt", "1x32x32", "1x28x28"]),
    ("--arch for files with networks of their own", {"--arch": "nets:build"}, ["a.pt and b.onnx", "leave --arch out"]),
    ("data missing", {"--data": "@nowhere"}, ["nowhere"]),
    ("data misspelt", {"--data": "digit"}, ["digits"]),
    ("data empty", {"--data": "@nothing"}, ["nothing"]),
    ("data truncated", {"--data": "@broken"}, ["t10k-images-idx3-ubyte"]),
    ("data is a model", {"--data": "@a.pt"}, ["a.pt"]),
    ("no data", {"--data": None}, ["--data"]),
    ("budget of nothing", {"--budget": "0s"}, ["budget", "60s"]),
    ("budget of no queries", {"--budget": "0q"}, ["budget", "20000q"]),
    ("budget of nonsense", {"--budget": "soon"}, ["'soon'", "60s"]),
    ("negative budget", {"--budget": "-5s"}, ["budget"]),
    ("unknown device", {"--device": "gpu"}, ["'gpu'", "cuda"]),
    ("batch size of nonsense", {"--batch-size": "many"}, ["'many'", "auto"]),
    ("batch size of nothing", {"--batch-size": "0"}, ["batch size", "auto"]),
    ("second model missing", {"B": None}, ["second model", "compare A B"]),
    ("both models missing", {"A": None, "B": None}, ["both models"]),
    ("unknown technique", {"--technique": "difgan"}, ["'difgan'", "did you mean 'diffgan'"]),
    ("a technique like none", {"--technique": "zzz"}, ["'zzz'", "give one of 'argus', 'as_is'"]),
    ("filters in the search of another technique", {"--technique": "dflare", "--validity": "constraint"}, ["diffgan"]),
    ("unknown preset", {"--preset": "papr"}, ["did you mean 'paper'"]),
    ("unknown option", {"--buget": "3"}, ["--buget", "'diffgen compare --help'"]),
    ("negative seed", {"--seed": "-1"}, ["seed"]),
    ("no share", {"--false-alarm-rate": "5"}, ["--false-alarm-rate", "0.02"]),
    ("no SSIM", {"--set": "filters.ssim.threshold=40"}, ["filters.ssim.threshold", "from -1 to 1"]),
    ("unknown filter", {"--filters": "ssim,lpips"}, ["'lpips'", "reconstruction"]),
    ("a filter twice", {"--filters": "ssim,ssim"}, ["name each once"]),
    ("no training", {"--gan-steps": "0"}, ["--gan-steps"]),
]


def arguments_for(changes: dict[str, str | None], files: dict[str, Path]) -> list[str]:
    folder = next(iter(files.values())).parent
    words = []
    for name, value in {**GOOD, **changes}.items():
        if value is None:
            continue
        value = str(folder / value[1:]) if value.startswith("@") else value
        words += [value] if len(name) == 1 else [f"{name}={value}"]
    return words


@pytest.mark.parametrize(("case", "changes", "named"), CASES, ids=[case[0] for case in CASES])
def test_one_sentence_exit_code_2_nothing_written(
    case: str,
    changes: dict[str, str | None],
    named: list[str],
    files: dict[str, Path],
    diffgen_command: Callable[..., object],
    tmp_path: Path,
    told: Callable[..., None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv(cache.ENVIRONMENT, str(tmp_path / "cache"))
    outcome = diffgen_command("compare", *arguments_for(changes, files), "-o", tmp_path / "run")
    assert outcome.code == 2
    assert outcome.out == ""
    # how long a slow machine took to open what came before is no part of it
    lines = [line for line in outcome.err.strip().splitlines() if not line.startswith("Opening the models: ")]
    assert len(lines) == 1, outcome.err
    assert lines[0].startswith("diffgen: ")
    for word in named:
        assert word in lines[0]
    told("`diffgen compare`", case, lines[0].removeprefix("diffgen: "))
    assert not (tmp_path / "run").exists()
    assert not (tmp_path / "cache").exists()


def test_an_output_folder_that_is_not_empty(
    files: dict[str, Path], diffgen_command: Callable[..., object], tmp_path: Path, told: Callable[..., None]
) -> None:
    mine = tmp_path / "run" / "thesis.txt"
    mine.parent.mkdir()
    mine.write_text("years of work")
    outcome = diffgen_command("compare", *arguments_for({}, files), "-o", mine.parent)
    assert outcome.code == 2
    assert "--force" in outcome.err
    told("`diffgen compare`", "an output folder that is not empty", outcome.err.removeprefix("diffgen: "))
    assert [path.name for path in mine.parent.iterdir()] == ["thesis.txt"]
    assert mine.read_text() == "years of work"


@pytest.mark.parametrize("verb", ["replay", "report"])
def test_a_run_that_is_none(verb: str, diffgen_command: Callable[..., object], tmp_path: Path) -> None:
    for folder in (tmp_path, tmp_path / "nowhere"):
        outcome = diffgen_command(verb, folder)
        assert outcome.code == 2
        assert "not a run folder" in outcome.err


def test_replay_with_one_model(diffgen_command: Callable[..., object], tmp_path: Path) -> None:
    outcome = diffgen_command("replay", tmp_path, "a.onnx")
    assert outcome.code == 2
    assert "second model" in outcome.err


def test_resume_of_what_is_no_run(diffgen_command: Callable[..., object], tmp_path: Path) -> None:
    outcome = diffgen_command("compare", "--resume", tmp_path)
    assert outcome.code == 2
    assert "not a run folder" in outcome.err
