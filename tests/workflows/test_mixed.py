"""Comparisons over seeds and a GAN in one population: the GAN is there, joins in the search, or never comes."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from diffgen.comparison import joining
from diffgen.comparison.image_source import settled_generator
from diffgen.comparison.joining import with_time_of_gan
from diffgen.comparison.requirements import check_settings, filter_names, uses_gan
from diffgen.config import Budget, CompareConfig, FilterConfig, GeneratorConfig, SourceConfig, replace
from diffgen.errors import UserError
from diffgen.events import Event, Message, Progress
from diffgen.origins import NO_SEED
from diffgen.runs.folder import RunFolder
from diffgen.sources.gan_family import GanFamily
from diffgen.types import ImageSet
from diffgen.workflows.compare import compare
from diffgen.workflows.label import label_intended
from diffgen.workflows.resume import resume
from diffgen.workflows.shrink import shrink
from tests.recording import Recording

CPU = torch.device("cpu")


def mixed(config: CompareConfig, when: str, **changes: object) -> CompareConfig:
    source = SourceConfig(
        family="mixed", gan=when, families={"seeds": {"operators": ["rotation", "shift", "contrast"]}}
    )
    return replace(config, source=source, **changes)


def parts_of(run: Path) -> np.ndarray:
    genes = RunFolder.open(run).read_triggers().genes
    assert genes is not None
    return np.rint(genes[:, -1]).astype(int)


def test_both_parts_find_and_are_told_apart(
    model_files: dict[str, Path], small_config: CompareConfig, tmp_path: Path
) -> None:
    files = model_files["a"], model_files["b"]
    gan = replace(small_config.gan, steps=100, monitor_checks=0)
    config = mixed(small_config, "now", gan=gan, search=replace(small_config.search, inverted=30))
    result = compare(*files, data="digits:test", config=config, output=tmp_path / "run")
    folder = RunFolder.open(result.run)
    triggers = folder.read_triggers()
    part = parts_of(Path(result.run))
    assert set(part) == {0, 1}
    assert triggers.seeds is not None
    assert ((triggers.seeds == NO_SEED) == (part == 1)).all()
    assert all(recipe for recipe, of in zip(triggers.recipes, part, strict=True) if of == 0)
    assert folder.manifest["latents"]["parts"][1]["name"] == "gan"
    assert folder.manifest["gan"] is not None
    assert "discriminator" not in folder.config()["filters"]["names"]
    assert shrink(result.run, limit=3).tried > 0
    if result.valid_triggers and (part[folder.read_judged().valid] == 1).any():
        label_intended(result.run)


@pytest.mark.parametrize(("technique", "source"), [("diffgan", "mixed"), ("seeds", None)])
def test_without_a_gan(
    technique: str,
    source: str | None,
    model_files: dict[str, Path],
    small_config: CompareConfig,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(*arguments: object, **settings: object) -> None:
        raise AssertionError("a GAN was asked for")

    monkeypatch.setattr(GanFamily, "prepare", refuse)
    config = replace(small_config, technique=technique, source=SourceConfig(family=source, gan="auto"))
    if source is not None:
        config = mixed(config, "never")
    result = compare(model_files["a"], model_files["b"], data="digits:test", config=config, output=tmp_path)
    assert result.triggers > 0
    seeds = RunFolder.open(result.run).read_triggers().seeds
    assert seeds is not None
    assert (seeds != NO_SEED).all()


SCRIPT = """
import os, signal, sys
import diffgen
from diffgen.comparison import checkpoints, joining
from diffgen.config import Budget, CompareConfig, FilterConfig, GanConfig, SearchConfig, SourceConfig
from diffgen.config.filters import JurySettings
from diffgen.events import StageAdvanced

checkpoints.SECONDS, checkpoints.SHARE = 0.0, 1e9
joining.QUERIES = 200
stage, done = sys.argv[4], float(sys.argv[5])

def listen(event):
    if isinstance(event, StageAdvanced) and event.name == stage and event.done >= done:
        os.kill(os.getpid(), signal.SIGKILL)

if __name__ == "__main__":
    operators = {"seeds": {"operators": ["rotation", "shift", "contrast"]}}
    config = CompareConfig(
        budget=Budget(queries=400), seed=3, device="cpu",
        source=SourceConfig(family="mixed", gan="later", families=operators),
        gan=GanConfig(width=8, steps=60, batch_size=32, monitor_checks=0),
        search=SearchConfig(population=50, inverted=20),
        filters=FilterConfig(names=("ssim",), jury=JurySettings(shown=2_000)), verify_limit=20,
    )
    diffgen.compare(sys.argv[1], sys.argv[2], data="digits:test", config=config, output=sys.argv[3], events=listen)
"""


@pytest.mark.slow
def test_a_run_killed_before_during_and_after_the_training_ends_as_a_whole_one(
    repository: Path, model_files: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(joining, "QUERIES", 200)
    search, training = "Searching for disagreements", "Training the GAN"
    found = {}
    for name, stage, done in (
        ("whole", "none", 0),
        ("before", search, 130),
        ("during", training, 30),
        ("after", search, 330),
    ):
        # a cache of its own: the GAN is trained in each
        cache = tmp_path / f"cache-{name}"
        if name != "whole":
            shutil.copytree(tmp_path / "cache-whole", cache, ignore=shutil.ignore_patterns("gan"))
        process = subprocess.run(
            [sys.executable, "-c", SCRIPT, model_files["a"], model_files["b"], tmp_path / name, stage, str(done)],
            env={**os.environ, "PYTHONPATH": str(repository), "DIFFGEN_CACHE": str(cache)},
            cwd=repository,
            check=False,
        )
        if name != "whole":
            assert process.returncode == -signal.SIGKILL
            monkeypatch.setenv("DIFFGEN_CACHE", str(cache))
            resume(tmp_path / name)
        run = RunFolder.open(tmp_path / name)
        assert run.manifest["status"] == "done"
        assert run.manifest["gan"] is not None
        found[name] = run.read_triggers().columns()
    part = parts_of(tmp_path / "whole")
    assert set(part) == {0, 1}
    assert found["whole"]["query"][part == 1].min() > 200
    for name in ("before", "during", "after"):
        for column, values in found["whole"].items():
            np.testing.assert_array_equal(found[name][column], values, err_msg=f"{name}: {column}")


def test_a_training_that_fails_in_the_search_does_not_end_it(
    model_files: dict[str, Path], small_config: CompareConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(joining, "QUERIES", 200)
    gan = replace(small_config.gan, steps=60, monitor_checks=0)
    for rate in ("learning_rate_generator", "learning_rate_discriminator"):
        object.__setattr__(gan, rate, 1e20)  # one that surely diverges is none that can be set
    config, recording = mixed(small_config, "later", gan=gan, budget=Budget(queries=400)), Recording()
    files = model_files["a"], model_files["b"]
    result = compare(*files, data="digits:test", config=config, output=tmp_path / "run", events=recording)
    (said,) = (each for each in recording.warnings if "diverged" in each)
    assert said.endswith("The search goes on without a GAN.")
    assert result.queries == 400
    assert set(parts_of(Path(result.run))) == {0}
    assert RunFolder.open(result.run).manifest["gan"] is None


def said_by(config: CompareConfig, images: ImageSet) -> tuple[str, str]:
    said: list[str] = []

    def listen(event: Event) -> None:
        if isinstance(event, Message):
            said.append(event.text)

    settled = with_time_of_gan(settled_generator(config), images, progress=Progress(listen))
    return settled.source.gan, " ".join(said)


def test_when_the_gan_comes(small_config: CompareConfig, digits: ImageSet) -> None:
    config = mixed(small_config, "auto")
    for budget in (Budget(queries=10**6), Budget(seconds=10**6)):
        assert said_by(replace(config, budget=budget), digits) == ("never", "")
    for word in ("now", "later", "never"):
        assert said_by(replace(config, gan_file=word), digits) == (word, "")
    assert said_by(replace(config, gan_file="my.gan"), digits) == ("now", "")
    assert said_by(replace(config, filters=FilterConfig(names=("ssim", "discriminator"))), digits) == ("now", "")
    assert settled_generator(replace(config, gan_file="./now")).gan_file == str(Path("now").absolute())
    odd = ImageSet(digits.images[:, :, 2:, 2:], digits.labels, None, "odd")
    when, said = said_by(replace(config, gan_file="later"), odd)
    assert when == "never"
    assert "No GAN fits images of this size" in said
    assert said_by(replace(config, source=SourceConfig(family="gan")), digits) == ("auto", "")


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        (
            {"source": SourceConfig(family="gan", gan="later")},
            "--gan later says when the GAN of the source mixed comes",
        ),
        (
            {"technique": "seeds", "source": SourceConfig(family="gan")},
            "draws from real images alone, not from the source gan",
        ),
        ({"technique": "real_data", "source": SourceConfig(family="mixed")}, "leave --source out"),
        ({"source": SourceConfig(family="mixed", gan="never"), "gan_file": "x.gan"}, "none shall be used"),
        (
            {"source": SourceConfig(family="mixed", gan="later"), "filters": FilterConfig(names=("discriminator",))},
            "has to be there before the search, but --gan is later",
        ),
    ],
)
def test_settings_that_do_not_fit(changes: dict[str, object], sentence: str) -> None:
    with pytest.raises(UserError, match=sentence):
        check_settings(settled_generator(replace(CompareConfig(), **changes)))


def test_what_each_technique_draws_from() -> None:
    for technique, preset, family in (
        ("diffgan", "default", "mixed"),
        ("diffgan", "paper", "gan"),
        ("seeds", "default", "seeds"),
        ("random_latent", "default", "gan"),
        ("real_data", "default", None),
    ):
        config = settled_generator(CompareConfig(technique=technique, preset=preset))
        assert config.source.family == family
    own = settled_generator(CompareConfig(generator=GeneratorConfig(file="g.onnx", latent_dim=3)))
    assert own.source.family is None
    asked = settled_generator(mixed(CompareConfig(), "auto", gan_file="my.gan"))
    assert uses_gan(asked)
    without = settled_generator(CompareConfig(technique="seeds"))
    assert filter_names(asked) == filter_names(without)
