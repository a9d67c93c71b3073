"""Techniques that make their pictures from real images: what they need, what they leave out, what a run says of it."""

from __future__ import annotations

import csv
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from diffgen.comparison.image_source import prepare_source, settled_generator
from diffgen.comparison.requirements import check_images, check_settings, unused_source
from diffgen.config import (
    Budget,
    CheckConfig,
    CompareConfig,
    FilterConfig,
    GeneratorConfig,
    SearchConfig,
    SourceConfig,
    replace,
)
from diffgen.data import load
from diffgen.data.split import DataSplit
from diffgen.errors import UserError
from diffgen.events import Progress
from diffgen.features.encoder import DomainEncoder
from diffgen.runs.folder import RunFolder
from diffgen.sources.base import FamilyContext
from diffgen.sources.gan import GanFamily
from diffgen.sources.registry import family_named
from diffgen.sources.vae import VaeSettings
from diffgen.techniques.drfuzz import DrFuzzSettings
from diffgen.techniques.real_data import RealData
from diffgen.types import ImageSet
from diffgen.workflows.check import check
from diffgen.workflows.compare import compare
from diffgen.workflows.export import export
from diffgen.workflows.label import label_intended
from diffgen.workflows.replay import replay
from diffgen.workflows.shrink import shrink
from tests.recording import Recording


@pytest.fixture
def no_gan(monkeypatch: pytest.MonkeyPatch) -> None:
    """A GAN that is trained or read fails the test."""

    def refuse(*arguments: object, **settings: object) -> None:
        raise AssertionError("a GAN was asked for")

    monkeypatch.setattr(GanFamily, "prepare", refuse)


@pytest.mark.usefixtures("no_gan")
def test_no_gan_is_trained_where_nothing_asks_for_one(
    model_files: dict[str, Path], small_config: CompareConfig, tmp_path: Path, told: Callable[..., None]
) -> None:
    config = replace(
        small_config,
        budget=Budget(queries=300),
        filters=replace(small_config.filters, names=("reconstruction", "ssim")),
    )
    shown = Recording()
    result = compare(
        model_files["a"],
        model_files["b"],
        data="digits:test",
        technique="dflare",
        config=config,
        output=tmp_path / "r",
        events=shown,
    )
    # it asks no filters in the search, so that its bar cannot count behaviours and does not say so
    assert int(shown.figures["kinds_of_triggers"]) >= result.behaviours
    assert shown.figures.keys().isdisjoint({"behaviours", "valid_share", "label_pairs"})
    folder, digits = RunFolder.open(result.run), load("digits:test")
    columns, results = folder.read_triggers(), folder.results()
    assert result.queries == 300
    assert result.triggers == len(columns.images) > 5
    assert columns.genes is None
    # mutants keep something of their seed
    sources = digits.images[columns.seeds].astype(float)
    assert np.corrcoef(columns.images.ravel(), sources.ravel())[0, 1] > 0.5
    assert [each["name"] for each in results["filters"]] == ["reconstruction", "ssim"]
    assert "no GAN was trained" in results["gan"]["discriminator"]
    page = (Path(result.run) / "report.html").read_text(encoding="utf-8")
    assert "Where the pictures come from" in page
    assert "Random pictures, not searched for" not in page

    assert replay(result.run).reproduced == result.triggers
    exported = export(result.run, tmp_path / "out", everything=True)
    with (Path(exported.folder) / "triggers.csv").open(encoding="utf-8") as file:
        assert [int(row["seed_row"]) for row in csv.DictReader(file)] == columns.seeds.tolist()
    with pytest.raises(UserError, match="without latent vectors") as shrunk:
        shrink(result.run)
    told("Techniques", "`diffgen shrink` of a run whose pictures no generator drew", shrunk.value)
    if result.valid_triggers:
        with pytest.raises(UserError, match="No generator drew") as intended:
            label_intended(result.run)
        told("Techniques", "`diffgen label --intended` for such a run", intended.value)


def test_labels_are_asked_for_before_anything_runs(
    digits: ImageSet,
    model_files: dict[str, Path],
    small_config: CompareConfig,
    tmp_path: Path,
    told: Callable[..., None],
) -> None:
    with pytest.raises(UserError, match="needs labels") as missing:
        compare(
            model_files["a"],
            model_files["b"],
            data=digits.images,
            technique="drfuzz",
            config=small_config,
            output=tmp_path / "run",
        )
    told("Techniques", "DRfuzz on images without labels", missing.value)
    assert not (tmp_path / "run").exists()
    for name in ("argus", "giftbench"):
        with pytest.raises(
            UserError, match=f"{name} begins with images that both models get right, so it needs labels"
        ):
            check_images(replace(small_config, technique=name), replace(digits, labels=None))
    # the others take them
    for name in ("diffgan", "random_latent", "real_data", "dflare", "sinvad", "latte"):
        assert name in str(missing.value)
        check_images(replace(small_config, technique=name), replace(digits, labels=None))


@pytest.mark.usefixtures("no_gan")
def test_images_to_begin_with_are_asked_for_before_anything_is_trained(
    digits: ImageSet,
    model_files: dict[str, Path],
    small_config: CompareConfig,
    tmp_path: Path,
    told: Callable[..., None],
) -> None:
    def always(label: int) -> Callable[[np.ndarray], np.ndarray]:
        return lambda images: np.tile(np.eye(10, dtype=np.float32)[label] * 0.9 + 0.01, (len(images), 1))

    for technique in ("dflare", "drfuzz"):
        with pytest.raises(UserError, match=f"{technique} begins with") as missing:
            compare(
                always(2),
                always(3),
                data=(digits.images, digits.labels),
                technique=technique,
                config=small_config,
                output=tmp_path / "run",
            )
        told("Techniques", f"{technique} where no image can be begun with", missing.value)
        assert not (tmp_path / "run").exists()


def test_a_generator_of_ones_own_must_be_of_use(told: Callable[..., None]) -> None:
    own = GeneratorConfig(file="g.onnx", latent_dim=8)
    with pytest.raises(UserError, match="asks no generator") as useless:
        check_settings(settled_generator(CompareConfig(technique="real_data", generator=own)))
    told("Techniques", "a generator of one's own for a technique that asks none", useless.value)
    with pytest.raises(UserError, match="--discriminator") as incomplete:
        check_settings(settled_generator(CompareConfig(technique="drfuzz", generator=own)))
    told("Techniques", "DRfuzz with a generator without a discriminator", incomplete.value)
    plain = FilterConfig(names=("ssim",))
    with pytest.raises(UserError, match="leave --gan out") as unused:
        check_settings(settled_generator(CompareConfig(technique="dflare", gan_file="gan.safetensors", filters=plain)))
    told("Techniques", "a GAN's file that nothing asks for", unused.value)
    with pytest.raises(UserError, match="draws none") as checked:
        check("a.pt", "b.pt", data="digits", config=CheckConfig(compare=CompareConfig(technique="drfuzz")))
    told("Techniques", "`diffgen check` by a technique without a generator", checked.value)
    check_settings(settled_generator(CompareConfig(technique="drfuzz", generator=replace(own, discriminator="d.onnx"))))
    free = SearchConfig().with_technique(DrFuzzSettings(fidelity="none"))
    check_settings(settled_generator(CompareConfig(technique="drfuzz", search=free)))
    with pytest.raises(UserError, match="fidelity"):
        DrFuzzSettings(fidelity="perhaps")  # type: ignore[arg-type]


@pytest.mark.parametrize("technique", ["real_data", "dflare", "drfuzz", "as_is"])
def test_a_source_that_a_technique_draws_nothing_from_is_warned_of(technique: str) -> None:
    plain = CompareConfig(technique=technique)
    assert not unused_source(settled_generator(plain))
    for source in (SourceConfig(family="vae"), SourceConfig(family="denoiser"), SourceConfig(family="gan")):
        said = unused_source(settled_generator(replace(plain, source=source)))
        assert said.startswith(f"The technique {technique} makes its pictures from the real images itself")
        assert f"draws none from the source {source.family}; leave --source out" in said
    # a file's discriminator is of use
    own = GeneratorConfig(file="g.onnx", latent_dim=8, discriminator="d.onnx")
    assert not unused_source(settled_generator(replace(plain, generator=own)))
    check_settings(settled_generator(replace(plain, generator=own)))
    for other in ("sinvad", "diffgan"):
        assert not unused_source(CompareConfig(technique=other, source=SourceConfig(family="vae")))


def test_such_a_warning_is_said_before_the_models_are_opened(tmp_path: Path) -> None:
    listener = Recording()
    config = CompareConfig(technique="dflare", source=SourceConfig(family="vae"))
    with pytest.raises(UserError, match="does not exist"):
        compare("a.pt", "b.pt", data="digits", config=config, output=tmp_path / "run", events=listener)
    assert [each.split(";")[0] for each in listener.warnings] == [
        "The technique dflare makes its pictures from the real images itself and draws none from the source vae"
    ]


_SEARCHES_FROM_CODES = ("sinvad", "giftbench", "argus", "latte")


@pytest.mark.parametrize("technique", _SEARCHES_FROM_CODES)
def test_a_search_from_encoded_images_needs_a_source_that_encodes(technique: str) -> None:
    config = CompareConfig(technique=technique)
    family = settled_generator(config).source.family
    assert family is not None
    assert "encoder" in family_named(family).gives(config)
    check_settings(settled_generator(config))
    with pytest.raises(UserError, match="the source seeds has nothing for that; use --source"):
        check_settings(replace(config, source=SourceConfig(family="seeds")))


@pytest.mark.parametrize("technique", _SEARCHES_FROM_CODES)
def test_what_lies_between_two_images_needs_a_source_that_draws_something_there(technique: str) -> None:
    config = CompareConfig(technique=technique, source=SourceConfig(family="denoiser"))
    if technique in ("sinvad", "giftbench"):
        check_settings(config)
        return
    with pytest.raises(UserError, match=f"{technique} draws what lies between .* use --source gan or vae or vq"):
        check_settings(config)


@pytest.mark.parametrize("technique", ["argus", "latte"])
def test_images_of_one_class_can_be_led_nowhere(
    technique: str, digits: ImageSet, small_config: CompareConfig, tmp_path: Path, no_gan: None
) -> None:
    def threes(images: np.ndarray) -> np.ndarray:
        return np.tile(np.eye(10, dtype=np.float32)[3] * 0.9 + 0.01, (len(images), 1))

    assert digits.labels is not None
    rows = np.flatnonzero(digits.labels == 3)
    with pytest.raises(UserError, match=f"{technique} begins with .*, beside images of another"):
        compare(
            threes,
            threes,
            data=(digits.images[rows], digits.labels[rows]),
            technique=technique,
            config=small_config,
            output=tmp_path / "run",
        )
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("technique", _SEARCHES_FROM_CODES)
def test_images_of_one_label_are_refused_before_a_source_is_trained(
    technique: str, digits: ImageSet, small_config: CompareConfig, tmp_path: Path, no_gan: None
) -> None:
    def always(label: int) -> Callable[[np.ndarray], np.ndarray]:
        return lambda images: np.tile(np.eye(10, dtype=np.float32)[label] * 0.9 + 0.01, (len(images), 1))

    with pytest.raises(UserError, match=f"{technique} begins with"):
        compare(always(2), always(3), data=digits, technique=technique, config=small_config, output=tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_a_run_of_such_a_search_keeps_genes_seeds_and_what_it_counted(
    model_files: dict[str, Path], small_config: CompareConfig, tmp_path: Path
) -> None:
    source = SourceConfig(family="vae").with_family(VaeSettings(steps=60))
    result = compare(
        model_files["a"],
        model_files["b"],
        data="digits:test",
        technique="argus",
        config=replace(small_config, source=source, budget=Budget(queries=300)),
        output=tmp_path / "r",
    )
    folder = RunFolder.open(result.run)
    columns, counted = folder.read_triggers(), folder.read_arrays("outcomes")
    assert result.queries == counted["asked"].sum() == 300
    assert len(columns.images) > 0
    assert columns.genes is not None
    assert (columns.seeds >= 0).all()
    assert counted["errors"].sum() >= len(columns.images)  # one of the models is wrong, at least
    assert replay(result.run).reproduced == result.triggers
    shrink(result.run)


class Careless(RealData):
    """Counts what no run folder can hold."""

    def outcomes(self) -> dict[str, Any]:
        return {"model": object()}


def test_what_a_technique_counts_wrongly_loses_no_finds(
    model_files: dict[str, Path], small_config: CompareConfig, tmp_path: Path
) -> None:
    """Most finds wait in memory for a part to be full."""
    given: dict[str, Any] = {"data": "digits:test", "config": replace(small_config, budget=Budget(queries=150))}
    models = model_files["a"], model_files["b"]
    whole = compare(*models, technique=RealData, output=tmp_path / "whole", **given)
    with pytest.raises(TypeError, match="object"):
        compare(*models, technique=Careless, output=tmp_path / "careless", **given)
    assert len(RunFolder.open(tmp_path / "careless").read_triggers()) == whole.triggers > 0


def test_a_source_that_spoils_every_seed_is_said(digits: ImageSet, small_config: CompareConfig, tmp_path: Path) -> None:
    def by_brightness(limit: float) -> Callable[[np.ndarray], np.ndarray]:
        """0 for plain pictures, which no digit is, 1 for dark and 2 for bright ones; pixels are from 0 to 1."""

        def answer(images: np.ndarray) -> np.ndarray:
            flat = images.reshape(len(images), -1)
            labels = np.where(flat.std(axis=1) < 0.01, 0, 1 + (flat.mean(axis=1) > limit))
            return np.eye(3, dtype=np.float32)[labels] * 0.9 + 0.03

        return answer

    plain = nn.Sequential(nn.Linear(8, 784), nn.Sigmoid(), nn.Unflatten(1, (1, 28, 28)))
    with torch.no_grad():  # another grey for every latent vector
        plain[0].weight[:], plain[0].bias[:] = 0.5, 0.0
    codes = nn.Sequential(nn.Flatten(), nn.Linear(784, 8))
    torch.jit.save(torch.jit.trace(plain, torch.zeros(2, 8)), str(tmp_path / "g.pt"))
    torch.jit.save(torch.jit.trace(codes, torch.zeros(2, 1, 28, 28)), str(tmp_path / "e.pt"))
    own = GeneratorConfig(file=str(tmp_path / "g.pt"), latent_dim=8, encoder=str(tmp_path / "e.pt"))
    shown = Recording()
    config = replace(
        small_config,
        source=SourceConfig(),
        generator=own,
        budget=Budget(queries=60),
        filters=replace(small_config.filters, names=()),
    )
    result = compare(
        by_brightness(0.12),
        by_brightness(0.16),
        data=digits.images,
        technique="sinvad",
        config=config,
        output=tmp_path / "r",
        events=shown,
    )
    assert result.queries == 60
    assert result.triggers == 0
    assert any("spoils every seed: none of the 60 images" in each for each in shown.warnings), shown.warnings


def test_an_auto_encoder_beside_the_filter_discriminator_stays_what_draws_the_pictures(
    digits: ImageSet, small_config: CompareConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DIFFGEN_CACHE", str(tmp_path))
    source = SourceConfig(family="vae").with_family(VaeSettings(steps=5))
    filters = replace(small_config.filters, names=("discriminator",))
    gan = replace(small_config.gan, steps=10, monitor_checks=1)
    config = replace(small_config, technique="sinvad", source=source, filters=filters, gan=gan)
    split, device = DataSplit(digits, config.split), torch.device("cpu")
    encoder = DomainEncoder(digits.image_shape).eval().requires_grad_(False)
    made = prepare_source(split, config, FamilyContext(encoder, device, Progress(), encoding=True))
    assert made.scorer is not None
    assert made.artifact is not None
    assert made.artifact.name == made.facts["checkpoint"]
    assert made.artifact.parent.name == "sources"
    # of the GAN nothing but its discriminator is asked for
    assert len(list(made.artifact.parent.glob("*.safetensors"))) == 1
    assert "encoder" not in made.facts
