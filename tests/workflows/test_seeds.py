"""Comparisons whose images are real ones with operators: nothing is trained, and every image says how it was made."""

from __future__ import annotations

import functools
import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from diffgen.comparison.filter_chain import prepare_auto_encoder
from diffgen.comparison.image_source import prepare_source, settled_generator
from diffgen.comparison.jury import stored_jury
from diffgen.comparison.requirements import check_settings, filter_names, judge_of, uses_auto_encoder
from diffgen.comparison.stages import CompareResult
from diffgen.config import (
    CompareConfig,
    FilterConfig,
    GeneratorConfig,
    SearchConfig,
    SourceConfig,
    replace,
)
from diffgen.data.split import DataSplit
from diffgen.errors import UserError
from diffgen.events import Progress
from diffgen.features import cells
from diffgen.runs.folder import RunFolder
from diffgen.sources.base import FamilyContext
from diffgen.sources.gan import GanFamily
from diffgen.sources.operators import OPERATORS
from diffgen.sources.seeds import SeedsSource
from diffgen.techniques.drfuzz import DrFuzzSettings
from diffgen.types import ImageSet
from diffgen.workflows.compare import compare
from diffgen.workflows.resume import resume
from diffgen.workflows.shrink import shrink

SEEDS = SourceConfig(family="seeds", families={"seeds": {"operators": list(OPERATORS)}})


@pytest.fixture(autouse=True)
def _no_gan(monkeypatch: pytest.MonkeyPatch) -> None:
    """A GAN that is trained or read fails the test."""

    def refuse(*arguments: object, **settings: object) -> None:
        raise AssertionError("a GAN was asked for")

    monkeypatch.setattr(GanFamily, "prepare", refuse)


@pytest.fixture
def config(small_config: CompareConfig) -> CompareConfig:
    return replace(small_config, source=SEEDS)


def source_of_run(folder: RunFolder, config: CompareConfig, digits: ImageSet) -> SeedsSource:
    """The source as a run has it; auto-encoder, jury and ranges are in the cache."""
    cpu, silent = torch.device("cpu"), Progress()
    split = DataSplit(digits, config.split)
    network = functools.partial(prepare_auto_encoder, split, config, device=cpu, progress=silent)
    encoder = cells.prepare(digits, device=cpu, progress=silent).encoder
    jury = stored_jury(folder, split, config, device=cpu, progress=silent)
    source = prepare_source(split, config, FamilyContext(encoder, cpu, silent, jury, network)).source
    assert isinstance(source, SeedsSource)
    return source


@pytest.mark.parametrize("technique", ["diffgan", "random_latent"])
def test_a_run_to_its_end(
    technique: str, model_files: dict[str, Path], config: CompareConfig, digits: ImageSet, tmp_path: Path
) -> None:
    files = model_files["a"], model_files["b"]
    result = compare(
        *files, data="digits:test", technique=technique, config=replace(config, search=SearchConfig()), output=tmp_path
    )
    folder = RunFolder.open(result.run)
    triggers, results = folder.read_triggers(), folder.results()
    assert result.queries == 600
    assert result.triggers == len(triggers) > 5
    assert [each["name"] for each in results["filters"]] == ["neighbors", "jury", "ssim"]
    assert results["mutated"] is True
    assert folder.manifest["gan"] is None
    # genes draw the stored image again, from the seed and by the operators that are named
    source = source_of_run(folder, config, digits)
    assert triggers.genes is not None
    genes = torch.from_numpy(triggers.genes)
    np.testing.assert_array_equal(source.draw(genes).numpy(), triggers.images)
    for row, recipe in enumerate(source.origins(genes).recipes):
        origin = triggers.origin(row)
        assert origin.seed == int(genes[row, source.space.continuous])
        assert "; ".join(map(str, origin.recipe)) == recipe
    page = (Path(result.run) / "report.html").read_text(encoding="utf-8")
    assert "real images, with operators that keep their label" in page
    if technique == "diffgan":
        shrunk = shrink(result.run, limit=4)
        assert 0 < shrunk.tried <= 4


SCRIPT = """
import os, signal, sys
import diffgen
from diffgen.comparison import checkpoints
from diffgen.config import Budget, CompareConfig, FilterConfig, SearchConfig
from diffgen.events import StageAdvanced

checkpoints.SECONDS, checkpoints.SHARE = 0.0, 1e9

def listen(event):
    if isinstance(event, StageAdvanced) and event.name == "Searching for disagreements" and event.done >= 330:
        os.kill(os.getpid(), signal.SIGKILL)

if __name__ == "__main__":
    config = CompareConfig(
        budget=Budget(queries=600), seed=3, device="cpu",
        search=SearchConfig(population=50),
        filters=FilterConfig(filters={"reconstruction": {"training_steps": 80}, "jury": {"shown": 6_000}}),
    )
    diffgen.compare(sys.argv[1], sys.argv[2], data="digits:test", config=config, output=sys.argv[3], events=listen)
"""


def test_a_killed_run_ends_as_a_whole_one(
    repository: Path, model_files: dict[str, Path], finished: CompareResult, tmp_path: Path
) -> None:
    """The script has the settings of the whole one."""
    files = model_files["a"], model_files["b"]
    broken = tmp_path / "broken"
    process = subprocess.run(
        [sys.executable, "-c", SCRIPT, *map(str, files), str(broken)],
        env={**os.environ, "PYTHONPATH": str(repository)},
        cwd=repository,
        check=False,
    )
    assert process.returncode == -signal.SIGKILL
    assert RunFolder.open(broken).manifest["status"] == "running"
    resume(broken)
    found, wanted = (RunFolder.open(run).read_triggers().columns() for run in (broken, finished.run))
    assert found.keys() == wanted.keys()
    assert {"genes", "seeds", "recipes"} <= found.keys()
    for name in wanted:
        np.testing.assert_array_equal(found[name], wanted[name], err_msg=name)


def test_an_auto_encoder_is_trained_for_those_alone_who_ask_it() -> None:
    def asked(operators: tuple[str, ...] | None = None, *, jury: bool = True, **filters: tuple[str, ...]) -> bool:
        families = {} if operators is None else {"seeds": {"operators": list(operators)}}
        source = SourceConfig(family="seeds", families=families)
        return uses_auto_encoder(CompareConfig(source=source, filters=FilterConfig(**filters)), jury=jury)

    assert not asked()
    assert asked(("rotation", "towards"))
    assert not asked(jury=False)
    assert asked(names=("reconstruction",))


def test_which_filters_there_are() -> None:
    def names(**settings: object) -> tuple[str, ...]:
        return filter_names(settled_generator(CompareConfig(**settings)), jury=False)

    def with_jury(**settings: object) -> tuple[str, ...]:
        return filter_names(settled_generator(CompareConfig(**settings)))

    three, two = ("discriminator", "reconstruction", "ssim"), ("reconstruction", "ssim")
    assert names(technique="random_latent") == names(technique="drfuzz") == three
    free = SearchConfig().with_technique(DrFuzzSettings(fidelity="none"))
    assert names(technique="drfuzz", search=free) == names(technique="real_data") == names(technique="dflare") == two
    assert names() == names(source=SEEDS) == ("neighbors", "ssim")
    own = GeneratorConfig(file="g.onnx", latent_dim=8)
    assert names(generator=own) == two
    assert names(generator=replace(own, discriminator="d.onnx")) == three
    # a GAN that is there already is asked
    assert names(technique="real_data", gan_file="gan.safetensors") == three
    # names that are written out keep their meaning
    written = FilterConfig(names=("discriminator", "ssim"))
    for each in (CompareConfig(technique="real_data", filters=written), CompareConfig(source=SEEDS, filters=written)):
        assert filter_names(each) == ("discriminator", "ssim")
        assert judge_of(each).name == "gan"  # type: ignore[union-attr]
    assert names(filters=FilterConfig(names=())) == ()
    # with a jury, a GAN that is there already and draws nothing is asked besides
    usual = ("neighbors", "jury", "ssim")
    assert with_jury() == with_jury(technique="random_latent") == usual
    assert with_jury(technique="real_data", gan_file="gan.safetensors") == ("discriminator", *usual)
    assert with_jury(generator=replace(own, discriminator="d.onnx"))[0] == "discriminator"
    assert with_jury(gan_file="gan.safetensors") == usual
    assert judge_of(CompareConfig(source=SEEDS)) is None


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"source": SourceConfig(family="file")}, "add --generator FILE"),
        ({"source": SEEDS, "generator": GeneratorConfig(file="g.pt", latent_dim=3)}, "leave one of them out"),
        (
            {"source": SourceConfig(family="gan"), "generator": GeneratorConfig(file="g.pt", latent_dim=3)},
            "leave one of them out",
        ),
    ],
)
def test_settings_that_contradict_each_other(settings: dict[str, object], words: str) -> None:
    with pytest.raises(UserError, match=words):
        check_settings(settled_generator(CompareConfig(**settings)))


def test_a_family_that_is_not_known() -> None:
    with pytest.raises(UserError, match="no source called 'seed'; did you mean 'seeds'"):
        check_settings(CompareConfig(source=SourceConfig(family="seed")))
