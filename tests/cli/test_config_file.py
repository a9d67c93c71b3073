"""--config and --print-config."""

from __future__ import annotations

import argparse
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import tomli_w
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from diffgen.cli import compare, config_file
from diffgen.cli.config_file import ConfigFile
from diffgen.config import Budget, CompareConfig, GanConfig, replace, to_dict
from diffgen.errors import UserError
from diffgen.events import Progress
from diffgen.runs.folder import RunFolder
from diffgen.techniques import preset
from diffgen.workflows.compare import settled


@pytest.fixture
def parser() -> argparse.ArgumentParser:
    root = argparse.ArgumentParser()
    verbs = root.add_subparsers()
    compare.add_parser(verbs)
    made: argparse.ArgumentParser = verbs.choices["compare"]
    return made


@pytest.fixture
def resolved(parser: argparse.ArgumentParser, tmp_path: Path) -> Callable[..., CompareConfig]:
    """The settings that a file and a command line give."""

    def resolve(text: str, *words: str) -> CompareConfig:
        (tmp_path / "diffgen.toml").write_text(text)
        file = config_file.read(tmp_path / "diffgen.toml", parser)
        arguments = parser.parse_args(words)
        file.fill(arguments)
        return compare.config_from(arguments, file, Progress())[0]

    return resolve


def test_no_option_has_a_default(parser: argparse.ArgumentParser) -> None:
    """Else it could not be told from an option that was given, and would win over the file."""
    assert {a.dest: a.default for a in parser._actions if a.default not in (None, False, argparse.SUPPRESS)} == {}


def test_command_line_before_file_before_defaults(resolved: Callable[..., CompareConfig]) -> None:
    text = """
        budget = "5m"
        seed = 7
        batch_size = 64
        [gan]
        steps = 100
        learning_rate_generator = 1
        [search]
        population = 30
        [filters]
        ssim_threshold = 0.5
    """
    config = resolved(text, "--seed", "8", "--gan-steps", "200", "--batch-size", "auto")
    assert config.budget == Budget(seconds=300)
    assert (config.seed, config.gan.steps, config.batch_size) == (8, 200, None)
    assert (config.search.population, config.filters.ssim_threshold) == (30, 0.5)
    assert type(config.gan.learning_rate_generator) is float
    rest = CompareConfig()
    assert (config.gan.width, config.filters.false_alarm, config.device) == (rest.gan.width, 0.05, "auto")


def test_options_by_their_own_names(resolved: Callable[..., CompareConfig]) -> None:
    assert resolved("gan-steps = 5\nfalse_alarm_rate = 0.1").gan.steps == 5
    assert resolved("gan-steps = 5", "--gan-steps", "6").gan.steps == 6


def test_a_preset_and_what_the_file_says_of_the_search(resolved: Callable[..., CompareConfig]) -> None:
    paper = preset("diffgan", "paper")
    assert resolved('preset = "paper"\n[search]\npopulation = 30').search == replace(paper, population=30)
    # a preset that the command line names brings its whole search
    assert resolved("[search]\npopulation = 30", "--preset", "paper").search == paper
    assert resolved('preset = "paper"\n[search]\npopulation = 30', "--preset", "paper").search.population == 30


def test_the_preset_paper_searches_a_hundred_genes_and_no_class(resolved: Callable[..., CompareConfig]) -> None:
    """Section 3.3.1 of the paper; from options, from a file and from Python."""
    for gan in (
        resolved("", "--preset", "paper").gan,
        resolved('preset = "paper"').gan,
        settled(CompareConfig(), None, None, "paper", None, None, None).gan,
    ):
        assert gan == GanConfig(latent_dim=100, conditional=False)
    assert resolved("[gan]\nlatent_dim = 32", "--preset", "paper").gan == GanConfig(latent_dim=32, conditional=False)
    for preset_name in ("default", None):
        assert settled(CompareConfig(), None, "diffgan", preset_name, None, None, None).gan == GanConfig()
    assert settled(CompareConfig(), None, "random_latent", None, None, None, None).gan == GanConfig()


def test_none_is_written_as_none(resolved: Callable[..., CompareConfig]) -> None:
    config = resolved('batch_size = "auto"\n[search]\ncluster_sample = "none"\nmutation_gene_probability = "none"')
    assert (config.batch_size, config.search.cluster_sample, config.search.mutation_gene_probability) == (None,) * 3


def test_paths_are_seen_from_the_file(parser: argparse.ArgumentParser, tmp_path: Path) -> None:
    (tmp_path / "images").mkdir()
    for data, expected in (
        ("images", str(tmp_path / "images")),
        ("images:test", f"{tmp_path / 'images'}:test"),
        ("digits", "digits"),
        ("torchvision:MNIST", "torchvision:MNIST"),
    ):
        (tmp_path / "c.toml").write_text(f'model_a = "a.pt"\nmodel-b = "/b.pt"\noutput = "runs/x"\ndata = "{data}"')
        options = config_file.read(tmp_path / "c.toml", parser).options
        assert options == {
            "model_a": str(tmp_path / "a.pt"),
            "model_b": "/b.pt",
            "output": str(tmp_path / "runs" / "x"),
            "data": expected,
        }


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ('bugdet = "60s"', ["bugdet", "did you mean budget"]),
        ("[gan]\nstpes = 5", ["gan.stpes", "did you mean gan.steps"]),
        ("[serach]\npopulation = 5", ["serach", "did you mean search"]),
        ("zzz = 1", ["zzz", "known are"]),
        ("budget = 60", ["budget", '"60s"']),
        ('budget = "soon"', ["budget", "soon"]),
        ('seed = "7"', ["seed", "whole number"]),
        ("seed = 7.5", ["seed", "whole number"]),
        ("seed = true", ["seed", "whole number"]),
        ("seed = -1", ["seed", "0"]),
        ("seed = 4294967296", ["seed"]),
        ("gan = 5", ["gan", "[gan]"]),
        ("[gan]\naugment = 1", ["gan.augment", "true or false"]),
        ("[gan]\nlatent_dim = 0", ["gan.latent_dim", "from 1 to 65536"]),
        ("[gan]\nbeta1 = nan", ["gan.beta1", "a number"]),
        ("[gan]\nbeta1 = inf", ["gan.beta1", "a number"]),
        (f"[gan]\nbeta1 = 1{'0' * 400}", ["gan.beta1", "a number"]),
        ('[search]\nprior = "generatr"', ["search.prior", "did you mean 'generator'"]),
        ("[search]\nprior = [1]", ["search.prior", "'box'"]),
        ("[search]\npopulation = 1", ["search.population", "from 4 to 1000000"]),
        ("[filters]\nfalse_alarm = 2.0", ["filters.false_alarm", "0.05"]),
        ("[preprocessing_a]\nmean = 0.5", ["preprocessing_a.mean", "list"]),
        ('[preprocessing_a]\nmean = ["x"]', ["preprocessing_a.mean", "a number"]),
        ("model_a = 5", ["model_a", "path"]),
        ("data = 5", ["data", "quotation marks"]),
        ('data = "a\\u0000b"', ["data"]),
        ("force = 1", ["force", "true or false"]),
        ('resume = "x"', ["resume", "not known"]),
        ('config = "x"', ["config", "not known"]),
        ('preset = "papr"', ["did you mean 'paper'"]),
        ("seed = ", ["is not valid TOML"]),
        ("seed = 1\nseed = 2", ["is not valid TOML"]),
        ("a = " + "[" * 5000, ["is nested too deeply"]),
    ],
)
def test_errors_are_one_sentence(
    text: str, named: list[str], diffgen_command: Callable[..., Any], tmp_path: Path, told: Callable[..., None]
) -> None:
    file = tmp_path / "diffgen.toml"
    file.write_text(text)
    outcome = diffgen_command("compare", "--config", file, "--print-config")
    assert (outcome.code, outcome.out) == (2, "")
    assert len(outcome.err.strip().splitlines()) == 1 or "is not valid TOML" in outcome.err
    for word in named:
        assert word in outcome.err
    told("`--config`", f"`{text}`" if len(text) < 100 else f"`{text[:20]}` ...", outcome.err.removeprefix("diffgen: "))


def test_a_file_that_is_not_there_or_no_text(diffgen_command: Callable[..., Any], tmp_path: Path) -> None:
    (tmp_path / "binary.toml").write_bytes(b"\xff\xfe\x00")
    for path in (tmp_path / "missing.toml", tmp_path, tmp_path / "binary.toml"):
        outcome = diffgen_command("compare", "--config", path, "--print-config")
        assert outcome.code == 2
        assert str(path) in outcome.err
    outcome = diffgen_command("compare", "--resume", tmp_path, "--config", tmp_path / "missing.toml")
    assert outcome.code == 2
    assert "leave --config out" in outcome.err


@pytest.mark.parametrize(
    "words",
    [
        (),
        ("--preset", "paper"),
        ("a.pt", "b.onnx", "--data", "digits:test", "-o", "runs/x", "--budget", "60s,500q", "--seed", "3"),
        ("--technique", "random_latent", "--device", "cpu", "--batch-size", "17", "--discriminator-threshold", "-0.5"),
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


def test_a_none_that_the_preset_has_not_is_printed(diffgen_command: Callable[..., Any], tmp_path: Path) -> None:
    (tmp_path / "c.toml").write_text('[search]\ncluster_sample = "none"\n')
    printed = diffgen_command("compare", "--config", tmp_path / "c.toml", "--print-config").out
    assert tomllib.loads(printed)["search"]["cluster_sample"] == "none"


def test_a_comparison_from_a_file(files: dict[str, Path], diffgen_command: Callable[..., Any], tmp_path: Path) -> None:
    (tmp_path / "c.toml").write_text(
        tomli_w.dumps(
            {
                "model_a": str(files["a.pt"]),
                "model_b": str(files["b.onnx"]),
                "data": "digits:test",
                "output": "run",
                "quiet": True,
                "budget": "50q",
                "gan": {"steps": 5},
                "search": {"population": 20},
            }
        )
    )
    outcome = diffgen_command("compare", "--config", tmp_path / "c.toml", "--seed", "9")
    assert outcome.code == 0, outcome.err
    config = RunFolder.open(tmp_path / "run").config()
    assert (config["seed"], config["budget"], config["search"]["population"]) == (9, "50q", 20)
    # what a run recorded is such a file too
    outcome = diffgen_command("compare", "--config", tmp_path / "run" / "config.toml", "--print-config")
    assert tomllib.loads(outcome.out)["search"] == config["search"]


scalars = st.one_of(
    st.booleans(),
    st.integers(-(10**20), 10**20),
    st.floats(),
    st.text(max_size=8),
    st.sampled_from(["60s", "500q", "paper", "none", "auto", "digits", "generator", "a.pt"]),
)
names = st.sampled_from(
    [
        "a",
        "path",
        "force",
        "gan-steps",
        "false_alarm_rate",
        "mean",
        "steps",
        "prior",
        "population",
        "arch",
        *to_dict(CompareConfig()),
    ]
) | st.text(max_size=8)
tables = st.dictionaries(names, scalars | st.lists(scalars, max_size=3), max_size=4)
documents = st.dictionaries(names, scalars | st.lists(scalars, max_size=3) | tables, max_size=6)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=400)
@given(document=documents)
def test_any_toml_gives_settings_or_a_user_error(
    document: dict[str, Any], parser: argparse.ArgumentParser, tmp_path: Path
) -> None:
    file = tmp_path / "any.toml"
    file.write_text(tomli_w.dumps(document), encoding="utf-8")
    try:
        found = config_file.read(file, parser)
        arguments = parser.parse_args([])
        found.fill(arguments)
        config, base = compare.config_from(arguments, found, Progress())
    except UserError as error:
        assert "\n" not in str(error) or "\n" in repr(document)
        return
    printed = config_file.to_toml(config, base, arguments)
    file.write_text(printed, encoding="utf-8")
    again = config_file.read(file, parser)
    arguments = parser.parse_args([])
    again.fill(arguments)
    assert compare.config_from(arguments, again, Progress())[0] == config


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=300)
@given(content=st.binary(max_size=60) | st.text(max_size=60).map(str.encode))
def test_any_bytes_give_settings_or_a_user_error(
    content: bytes, parser: argparse.ArgumentParser, tmp_path: Path
) -> None:
    (tmp_path / "any.toml").write_bytes(content)
    try:
        config_file.read(tmp_path / "any.toml", parser)
    except UserError as error:
        assert "any.toml" in str(error)


def test_an_empty_file_changes_nothing(resolved: Callable[..., CompareConfig]) -> None:
    assert resolved("") == CompareConfig(search=preset("diffgan", "default"))
    assert ConfigFile() == ConfigFile(settings={}, options={})


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
        'generator = "g.onnx"\nlatent-dim = 12\nprior = "uniform"\ngenerator-pixels = "0..1"\n',
    ):
        (tmp_path / "mine.toml").write_text(text)
        again = diffgen_command(*line, "--config", tmp_path / "mine.toml").out
        assert tomllib.loads(again)["generator"] == wanted, text
    refused = diffgen_command(*line, "--prior", "box")
    assert refused.code == 2
    assert "'normal', 'uniform'" in refused.err
