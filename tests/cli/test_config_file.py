"""--config and --print-config."""

from __future__ import annotations

import argparse
import dataclasses
import re
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import tomli_w

from diffgen.cli import build_parser
from diffgen.comparison.named_settings import settled
from diffgen.comparison.requirements import with_own_settings
from diffgen.comparison.settings_file import load_settings, read_settings_file
from diffgen.config import (
    Budget,
    CompareConfig,
    FilterConfig,
    GanConfig,
    SearchConfig,
    replace,
)
from diffgen.config.schema import every_setting
from diffgen.errors import UserError
from diffgen.filters import SsimFilter
from diffgen.runs.folder import RunFolder
from diffgen.techniques import TECHNIQUES, preset, technique_class
from tests.cli.conftest import both_from


@pytest.fixture
def resolved(tmp_path: Path) -> Callable[..., CompareConfig]:
    """The settings that a file and a command line give."""

    def resolve(text: str, *words: str) -> CompareConfig:
        (tmp_path / "diffgen.toml").write_text(text)
        return both_from(["compare", "--config", str(tmp_path / "diffgen.toml"), *words])[0]

    return resolve


def test_no_option_has_a_default() -> None:
    """Else it could not be told from an option that was given, and would win over the file."""
    parser = build_parser().parse_args(["compare"]).options.parser
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
        [filters.ssim]
        threshold = 0.5
    """
    config = resolved(text, "--seed", "8", "--gan-steps", "200", "--batch-size", "auto")
    assert config.budget == Budget(seconds=300)
    assert (config.seed, config.gan.steps, config.batch_size) == (8, 200, None)
    assert (config.search.population, config.filters.filters["ssim"]["threshold"]) == (30, 0.5)
    assert type(config.gan.learning_rate_generator) is float
    rest = CompareConfig()
    assert (config.gan.width, config.filters.false_alarm, config.device) == (rest.gan.width, 0.02, "auto")


def test_set_reaches_every_setting(resolved: Callable[..., CompareConfig]) -> None:
    words = ("search.population=200", "search.cluster_sample=none", "search.niches=none", "gan.ema_decay=0.5")
    config = resolved("[search]\npopulation = 30", *(word for each in words for word in ("--set", each)))
    assert (config.search.population, config.search.cluster_sample, config.search.niches) == (200, None, "none")
    assert config.gan.ema_decay == 0.5
    config = resolved("", "--set", 'filters.names=["ssim"]', "--set", "budget=500q", "--seed", "4")
    assert (config.filters.names, config.budget, config.seed) == (("ssim",), Budget(queries=500), 4)


def test_the_settings_of_a_technique_are_reached_and_told(resolved: Callable[..., CompareConfig]) -> None:
    text = 'technique = "drfuzz"\n[search.drfuzz]\nfidelity = "none"\nmutants = 4\n[search.dflare]\nmutations = 9'
    config = resolved(text, "--set", "search.drfuzz.mutants=5")
    assert config.search.techniques == {"drfuzz": {"fidelity": "none", "mutants": 5}, "dflare": {"mutations": 9}}
    assert resolved("", "--set", "source.seeds.steps=3").source.families == {"seeds": {"steps": 3}}
    assert resolved("", "--technique", "dflare").search.techniques == {"dflare": {"mutations": 100}}
    with pytest.raises(UserError, match=r"configuration .*toml, the key search.dflare.mutations is 0; give a number"):
        resolved("[search.dflare]\nmutations = 0")


def test_a_source_takes_its_path_behind_a_colon(resolved: Callable[..., CompareConfig]) -> None:
    config = resolved("", "--source", "diffusers:mine/pipeline")
    assert config.source.family == "diffusers"
    assert config.source.families["diffusers"]["folder"] == "mine/pipeline"
    config = resolved("", "--source", "file:C:/g.onnx", "--latent-dim", "9")
    assert (config.source.family, config.generator.file) == ("file", "C:/g.onnx")
    for wrong in ("gan:x", "file:", ":x"):
        with pytest.raises(UserError, match=r"source.family \(--source\) is"):
            resolved("", "--source", wrong)
    with pytest.raises(UserError, match="There is no source called 'nope'"):
        resolved("", "--source", "nope")


@pytest.mark.parametrize(
    ("assignment", "sentence"),
    [
        ("search.populaton=3", "search.populaton is not known; did you mean search.population?"),
        ("search.population", "write NAME=VALUE"),
        ("search.population=3", "give a number from 4 to 1000000"),
        ("search.divergence=typo", "give one of 'euclidean+1'"),
        ("search.drfuzz.mutants=many", "search.drfuzz.mutants is 'many'; give a whole number"),
        ("search.drfuzz.mutant=3", "search.drfuzz.mutant is not known; did you mean search.drfuzz.mutants?"),
        ("search.drfuz.mutants=3", "search.drfuz is not known; did you mean search.drfuzz?"),
        ("search.population.size=3", "search.population.size is not known; did you mean search.population?"),
    ],
)
def test_what_set_cannot_take(
    assignment: str, sentence: str, diffgen_command: Callable[..., Any], told: Callable[..., None]
) -> None:
    outcome = diffgen_command("compare", "a.pt", "b.pt", "--data", "digits", "--set", assignment)
    assert outcome.code == 2
    assert sentence in outcome.err
    assert len(outcome.err.strip().splitlines()) == 1
    told("`--set`", f"`{assignment}`", outcome.err.removeprefix("diffgen: "))


def test_every_option_and_setting_is_in_one_help_or_the_other(capsys: pytest.CaptureFixture[str]) -> None:
    shown = {}
    for option in ("--help", "--help-all"):
        with pytest.raises(SystemExit):
            build_parser().parse_args(["compare", option])
        shown[option] = capsys.readouterr().out
    for each in every_setting(CompareConfig):
        name = each.option or each.key
        assert f"{name}" in shown["--help-all"]
        assert (f"  {name} " in shown["--help"]) == (each.option is not None and each.common), name
    assert "search.drfuzz.mutants=10" in shown["--help-all"] and "source.seeds.steps=2" in shown["--help-all"]
    assert len(re.findall(r"^  --?\w", shown["--help"], re.MULTILINE)) <= 26
    assert "examples:" in shown["--help"]


@pytest.mark.parametrize("verb", ["compare", "check"])
@pytest.mark.parametrize(
    "words",
    [
        ["--budget", "60s"],
        ["--seed", "0"],
        ["--technique", "dflare"],
        ["--set", "search.population=200"],
        ["--config", "mine.toml"],
        ["--filters", "none"],
        ["-o", "elsewhere"],
        ["--force"],
        ["--device", "cpu"],
        ["--print-config"],
        ["--gan-steps", "5"],
    ],
)
def test_nothing_is_passed_over_beside_resume(verb: str, words: list[str], diffgen_command: Callable[..., Any]) -> None:
    outcome = diffgen_command(verb, "--resume", "nowhere", *words)
    assert outcome.code == 2
    long = "--output" if words[0] == "-o" else words[0]
    assert f"leave {long} out (--resume goes only with" in outcome.err
    assert len(outcome.err.strip().splitlines()) == 1


def test_what_may_stand_beside_resume_does(diffgen_command: Callable[..., Any]) -> None:
    words = ("--data", "digits", "--arch", "nets:a", "--b-allow-pickle", "--a-timeout", "5", "-q", "--json")
    outcome = diffgen_command("compare", "--resume", "nowhere", "a.pt", "b.pt", *words)
    assert outcome.code == 2
    assert "nowhere is not a run folder" in outcome.err


def test_a_preset_and_what_the_file_says_of_the_search(resolved: Callable[..., CompareConfig]) -> None:
    paper = preset("diffgan", "paper").search
    assert resolved('preset = "paper"\n[search]\npopulation = 30').search == replace(paper, population=30)
    # a preset that the command line names brings its whole search
    assert resolved("[search]\npopulation = 30", "--preset", "paper").search == paper
    assert resolved('preset = "paper"\n[search]\npopulation = 30', "--preset", "paper").search.population == 30


def in_python(technique: str | None = None, *, below: CompareConfig | None = None, **named: Any) -> CompareConfig:
    """The settings of ``diffgen.compare`` with these."""
    with settled(below or CompareConfig(), named, technique=technique) as config:
        return config


def test_the_preset_paper_searches_a_hundred_genes_and_no_class(resolved: Callable[..., CompareConfig]) -> None:
    """Section 3.3.1 of the paper; from options, from a file and from Python."""
    for gan in (
        resolved("", "--preset", "paper").gan,
        resolved('preset = "paper"').gan,
        in_python(preset="paper").gan,
    ):
        assert gan == GanConfig(latent_dim=100, conditional=False)
    assert resolved("[gan]\nlatent_dim = 32", "--preset", "paper").gan == GanConfig(latent_dim=32, conditional=False)
    for preset_name in ("default", None):
        assert in_python("diffgan", preset=preset_name).gan == GanConfig()
    assert in_python("random_latent").gan == GanConfig()


def test_a_preset_brings_filters_and_selector_unless_others_are_named(resolved: Callable[..., CompareConfig]) -> None:
    """DiffGAN, section 3.6: SSIM of 0.4 in the one preset, thresholds that are found in the other."""
    for config in (resolved("", "--preset", "paper"), resolved('preset = "paper"'), in_python(preset="paper")):
        assert config.filters.names == ("discriminator", "ssim")
        assert SsimFilter.settings_among(config.filters.filters).threshold == 0.4 and not config.select
    for config in (resolved("", "--preset", "diffgan"), in_python(preset="diffgan")):
        assert config.filters.names == ("discriminator", "ssim") and config.select
        assert SsimFilter.settings_among(config.filters.filters).threshold is None
    default = resolved("", "--preset", "paper", "--filters", "default").filters
    assert default.names is None and SsimFilter.settings_among(default.filters).threshold is None
    own = resolved('preset = "diffgan"\n[filters]\nnames = ["ssim"]\n', "--set", "select=false")
    assert (own.filters.names, own.select) == (("ssim",), False)


def test_settings_that_name_a_preset_alone_have_its_search() -> None:
    """Made in Python by hand: nobody has put the search of the preset into them."""
    paper, sinvad = preset("diffgan", "paper").search, preset("sinvad", "paper").search
    for config in (
        in_python(below=CompareConfig(preset="paper")),
        in_python("diffgan", below=CompareConfig(preset="paper")),
    ):
        assert (config.search, config.gan) == (paper, GanConfig(latent_dim=100, conditional=False))
    assert in_python(below=CompareConfig(technique="sinvad", preset="paper")).search == sinvad
    for technique, unknown in (("diffgan", "nonsense"), ("dflare", "paper")):
        with pytest.raises(UserError, match=f"preset of {technique}"):
            in_python(below=CompareConfig(technique=technique, preset=unknown))


def test_what_is_named_again_keeps_the_search_below() -> None:
    own = replace(preset("diffgan", "paper").search, population=64)
    below = CompareConfig(preset="paper", search=own)
    assert in_python("diffgan", below=below) == in_python(preset="paper", below=below) == in_python(below=below)
    assert in_python(below=below).search == own
    # another one brings its own
    assert in_python(preset="default", below=below).search == preset("diffgan", "default").search
    assert in_python("sinvad", below=below).search == preset("sinvad", "default").search


def test_what_settings_were_given_goes_before_their_preset_also_where_it_is_the_default() -> None:
    assert in_python(below=CompareConfig(preset="diffgan")).select
    assert not in_python(below=CompareConfig(preset="diffgan", select=False)).select
    assert not in_python(below=replace(CompareConfig(preset="diffgan"), select=False)).select
    chain = in_python(below=CompareConfig(preset="diffgan", filters=FilterConfig(names=None))).filters
    assert chain == FilterConfig()
    usual = SearchConfig(population=500)  # as by default; the preset has another
    own = in_python(below=CompareConfig(preset="paper", search=usual, gan=GanConfig(conditional=True, steps=7)))
    assert own.search == replace(preset("diffgan", "paper").search, population=500)
    assert own.gan == GanConfig(latent_dim=100, conditional=True, steps=7)
    # a copy of the standard library hands on all values, so that those count that are not the default
    assert in_python(below=dataclasses.replace(CompareConfig(preset="paper"), seed=3)) == in_python(
        preset="paper", seed=3
    )


_WISHES = {"search": {"population": 500, "reducer": "pca"}, "gan": {"latent_dim": 64}, "select": False}


@pytest.mark.parametrize("name", sorted(TECHNIQUES.own()))
@pytest.mark.parametrize("wishes", [{}, _WISHES, {"filters": {"false_alarm": 0.05}}])
def test_settled_settings_stay_as_they_are(name: str, wishes: dict[str, Any]) -> None:
    """What ``load_settings`` and the command line settled is settled again by ``compare``."""
    for recipe in technique_class(name).presets:
        config = load_settings(technique=name, preset=recipe, **wishes)
        again = in_python(below=config)
        assert replace(again, source=config.source) == config


def test_none_is_written_as_none(resolved: Callable[..., CompareConfig]) -> None:
    config = resolved('batch_size = "auto"\n[search]\ncluster_sample = "none"\nmutation_gene_probability = "none"')
    assert (config.batch_size, config.search.cluster_sample, config.search.mutation_gene_probability) == (None,) * 3


def test_paths_are_seen_from_the_file(tmp_path: Path) -> None:
    (tmp_path / "images").mkdir()
    for data, expected in (
        ("images", str(tmp_path / "images")),
        ("images:test", f"{tmp_path / 'images'}:test"),
        ("digits", "digits"),
        ("torchvision:MNIST", "torchvision:MNIST"),
    ):
        (tmp_path / "c.toml").write_text(
            f'models = ["a.pt", {{path = "/b.pt"}}]\noutput = "runs/x"\ndata = "{data}"\ngenerator = "g.onnx"\n'
            '[filters]\nlearned_from = "labelled-run"\n'
        )
        file = read_settings_file(tmp_path / "c.toml")
        assert file.job == {"output": str(tmp_path / "runs" / "x"), "data": expected}
        assert file.settings == {
            "models": [{"path": str(tmp_path / "a.pt")}, {"path": "/b.pt"}],
            "generator": {"file": str(tmp_path / "g.onnx")},
            "filters": {"learned_from": str(tmp_path / "labelled-run")},
        }


def test_settings_from_a_file_in_python(tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text('preset = "paper"\nseed = 7\n[gan]\nsteps = 5\n')
    config = load_settings(tmp_path / "mine.toml", seed=8, budget="500q", filters="none")
    assert (config.seed, config.budget, config.filters.names) == (8, Budget(queries=500), ())
    assert (config.search, config.gan) == (
        preset("diffgan", "paper").search,
        GanConfig(latent_dim=100, conditional=False, steps=5),
    )


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
        ("[gan]\nema_decay = nan", ["gan.ema_decay", "a number"]),
        ("[gan]\nema_decay = inf", ["gan.ema_decay", "a number"]),
        (f"[gan]\nema_decay = 1{'0' * 400}", ["gan.ema_decay", "a number"]),
        ('[search]\nprior = "generatr"', ["search.prior", "did you mean 'generator'"]),
        ("[search]\nprior = [1]", ["search.prior", "'box'"]),
        ("[search]\npopulation = 1", ["search.population", "from 4 to 1000000"]),
        ("[filters]\nfalse_alarm = 2.0", ["filters.false_alarm", "0.02"]),
        ("[[models]]\n[models.preprocessing]\nmean = 0.5", ["preprocessing.mean", "list"]),
        ('[[models]]\n[models.preprocessing]\nmean = ["x"]', ["preprocessing.mean", "a number"]),
        ("[[models]]\npath = 5", ["path", "quotation marks"]),
        ("models = 5", ["models", "[[models]]"]),
        ("models = [5]", ["models", "[[models]]"]),
        ("gan-steps = 5", ["gan_steps", "steps in the table [gan]"]),
        ("filter_chain = 'none'", ["filter_chain", "did you mean filters"]),
        ("data = 5", ["data", "quotation marks"]),
        ('data = "a\\u0000b"', ["data"]),
        ("force = 1", ["force", "not known"]),
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


def test_a_comparison_from_a_file(files: dict[str, Path], diffgen_command: Callable[..., Any], tmp_path: Path) -> None:
    (tmp_path / "c.toml").write_text(
        tomli_w.dumps(
            {
                "models": [str(files["a.pt"]), str(files["b.onnx"])],
                "data": "digits:test",
                "output": "run",
                "budget": "50q",
                "gan": {"steps": 5},
                "filters": {"jury": {"shown": 640}, "reconstruction": {"training_steps": 20}},
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
    again = tomllib.loads(outcome.out)
    assert again["search"] == config["search"]
    assert [each["path"] for each in again["models"]] == [str(files["a.pt"]), str(files["b.onnx"])]


def test_an_empty_file_changes_nothing(resolved: Callable[..., CompareConfig]) -> None:
    assert resolved("") == with_own_settings(CompareConfig(search=preset("diffgan", "default").search))
