"""--print-config: what is printed gives the same settings again, wherever it lies."""

from __future__ import annotations

import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from diffgen.config import CompareConfig


@pytest.mark.parametrize(
    "words",
    [
        (),
        ("--preset", "paper"),
        ("a.pt", "b.onnx", "--data", "digits:test", "-o", "runs/x", "--budget", "60s,500q", "--seed", "3"),
        (
            "--technique",
            "random_latent",
            "--device",
            "cpu",
            "--batch-size",
            "17",
            "--set",
            "filters.discriminator.threshold=-0.5",
        ),
    ],
)
def test_what_is_printed_gives_the_same_again(
    words: tuple[str, ...], diffgen_command: Callable[..., Any], tmp_path: Path
) -> None:
    first = diffgen_command("compare", *words, "--print-config")
    assert first.code == 0
    # the preset paper has 100 genes
    assert tomllib.loads(first.out)["gan"]["latent_dim"] == (
        100 if "paper" in words else CompareConfig().gan.latent_dim
    )
    (tmp_path / "printed.toml").write_text(first.out)
    again = diffgen_command("compare", "--config", tmp_path / "printed.toml", "--print-config")
    assert (again.code, again.out) == (0, first.out)


def test_paths_are_printed_whole(diffgen_command: Callable[..., Any], tmp_path: Path) -> None:
    """So that the file means the same wherever it lies."""
    words = ("--gan", "g.safetensors", "--learned-from", "answers.npz", "--class-names", "names.txt")
    words += ("--generator-encoder", "encoder.onnx", "--source", "diffusers:pipeline")
    first = diffgen_command("compare", "a.pt", "b.onnx", *words, "--print-config")
    assert first.code == 0, first.err
    values = tomllib.loads(first.out)
    said = {
        "g.safetensors": values["gan_file"],
        "answers.npz": values["filters"]["learned_from"],
        "encoder.onnx": values["generator"]["encoder"],
        "pipeline": values["source"]["diffusers"]["folder"],
        "names.txt": values["models"][0]["class_names_file"],
        "a.pt": values["models"][0]["path"],
    }
    assert said == {name: str(Path(name).absolute()) for name in said}
    (tmp_path / "elsewhere.toml").write_text(first.out)
    again = diffgen_command("compare", "--config", tmp_path / "elsewhere.toml", "--print-config")
    assert (again.code, again.out) == (0, first.out)


def test_the_store_of_a_check_is_printed_whole(diffgen_command: Callable[..., Any]) -> None:
    done = diffgen_command("check", "a.onnx", "b.onnx", "--data", "digits", "--store", "known", "--print-config")
    assert tomllib.loads(done.out)["store"] == str(Path("known").absolute())


def test_a_none_that_the_preset_has_not_is_printed(diffgen_command: Callable[..., Any], tmp_path: Path) -> None:
    (tmp_path / "c.toml").write_text('[search]\ncluster_sample = "none"\n')
    printed = diffgen_command("compare", "--config", tmp_path / "c.toml", "--print-config").out
    assert tomllib.loads(printed)["search"]["cluster_sample"] == "none"


def test_a_generator_of_ones_own(diffgen_command: Callable[..., Any], files: dict[str, Path], tmp_path: Path) -> None:
    """By options, by a table, by the options' names; what is printed gives the same settings again."""
    line = ("compare", files["a.pt"], files["b.onnx"], "--data", "digits", "--print-config")
    options = (
        "--generator",
        tmp_path / "g.onnx",
        "--latent-dim",
        12,
        "--prior",
        "uniform",
        "--generator-pixels",
        "0..1",
    )
    printed = diffgen_command(*line, *options).out
    wanted = {"file": str(tmp_path / "g.onnx"), "latent_dim": 12, "prior": "uniform", "pixels": "0..1"}
    assert tomllib.loads(printed)["generator"] == wanted
    for text in (
        printed,
        '[generator]\nfile = "g.onnx"\nlatent_dim = 12\nprior = "uniform"\npixels = "0..1"\n',
    ):
        (tmp_path / "mine.toml").write_text(text)
        again = diffgen_command(*line, "--config", tmp_path / "mine.toml").out
        assert tomllib.loads(again)["generator"] == wanted, text
    refused = diffgen_command(*line, "--prior", "box")
    assert refused.code == 2
    assert "'normal', 'uniform'" in refused.err or "normal, uniform" in refused.err
