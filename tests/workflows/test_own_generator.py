"""Comparisons with a generator of the user's own: principal components of real digits, saved as a file.

The models under test are two functions that look at the same pixels in different ways, so that nothing is trained.
"""

from __future__ import annotations

import shutil
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from diffgen.comparison import checkpoints
from diffgen.comparison.stages import CompareResult
from diffgen.config import CompareConfig, GanConfig, GeneratorConfig, SourceConfig, SplitConfig, from_dict, replace
from diffgen.data import load
from diffgen.data.split import DataSplit
from diffgen.errors import RunError, UserError
from diffgen.events import Progress
from diffgen.features import cells as cell_store
from diffgen.features import encoder as encoders
from diffgen.runs.folder import RunFolder
from diffgen.sources.base import FamilyContext
from diffgen.sources.file import FileSource
from diffgen.sources.gan import train_and_save
from diffgen.types import ImageSet
from diffgen.workflows.compare import compare
from diffgen.workflows.label import label_intended, read_store, read_valid_triggers
from diffgen.workflows.replay import replay
from diffgen.workflows.resume import resume

DIM = 24


class Components(nn.Module):
    """Uniform latent vectors to pixels in [-1, 1]: the mean digit, and how digits differ from it the most."""

    def __init__(self, images: np.ndarray) -> None:
        super().__init__()
        pixels = torch.from_numpy(images).flatten(1) / 127.5 - 1
        mean = pixels.mean(dim=0)
        _, values, directions = torch.linalg.svd(pixels - mean, full_matrices=False)
        spread = values[:DIM] / len(pixels) ** 0.5 * 3**0.5  # U(-1, 1) has a variance of a third
        self.mean = nn.Parameter(mean)
        self.directions = nn.Parameter(spread[:, None] * directions[:DIM])
        self.shape = images.shape[1:]

    def forward(self, latents: torch.Tensor) -> torch.Tensor:
        return (self.mean + latents @ self.directions).clamp(-1, 1).reshape(-1, *self.shape)


def trace(network: nn.Module, example: torch.Tensor, path: Path) -> Path:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.jit.save(torch.jit.trace(network.eval(), example), str(path))
    return path


def likely(scores: np.ndarray) -> np.ndarray:
    powers = np.exp(20 * (scores - scores.max(axis=1, keepdims=True)))
    return np.asarray(powers / powers.sum(axis=1, keepdims=True))


def by_rows(pixels: np.ndarray) -> np.ndarray:
    """Which of ten bands of rows has the most ink."""
    bands = np.array_split(pixels.mean(axis=(1, 3)), 10, axis=1)
    return likely(np.stack([band.mean(axis=1) for band in bands], axis=1))


def by_columns(pixels: np.ndarray) -> np.ndarray:
    """Which of ten bands of columns has."""
    return by_rows(pixels.transpose(0, 1, 3, 2))


@pytest.fixture(scope="module", autouse=True)
def _short_training() -> Iterator[None]:
    """Ten steps of the domain encoder; what it learns does not matter here."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(encoders, "_STEPS_GREY", 10)
        patch.setattr(encoders, "_STEPS_COLOUR", 10)
        yield


@pytest.fixture(scope="module")
def small(digits: ImageSet) -> ImageSet:
    """Fewer digits, and a data set of their own: no other test takes its cells for those that are well trained."""
    assert digits.labels is not None
    return ImageSet(digits.images[:400], digits.labels[:400], None, "400 digits")


@pytest.fixture(scope="module")
def files(digits: ImageSet, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A generator, and a discriminator: minus the mean brightness far from the middle, where digits have no ink."""
    folder = tmp_path_factory.mktemp("generator")
    border = torch.ones(28, 28)
    border[4:24, 4:24] = 0
    ink = nn.Sequential(nn.Flatten(), nn.Linear(784, 1))
    with torch.no_grad():
        ink[1].weight.copy_(-border.flatten() / border.sum())
        ink[1].bias.zero_()
    return {
        "g": trace(Components(digits.images), torch.zeros(2, DIM), folder / "g.pt"),
        "d": trace(ink, torch.zeros(2, 1, 28, 28), folder / "d.pt"),
    }


@pytest.fixture(scope="module")
def config(small_config: CompareConfig) -> CompareConfig:
    filters = replace(small_config.filters, filters={"reconstruction": {"training_steps": 20}})
    own = replace(small_config, source=SourceConfig())
    return replace(own, budget=replace(small_config.budget, queries=300), filters=filters)


@pytest.fixture(scope="module")
def start(small: ImageSet, files: dict[str, Path], config: CompareConfig) -> Callable[..., CompareResult]:
    def start(output: Path, **settings: Any) -> CompareResult:
        given = {"data": small, "generator": files["g"], "latent_dim": DIM, "prior": "uniform", "config": config}
        return compare(by_rows, by_columns, output=output, **{**given, **settings})

    return start


@pytest.fixture(scope="module")
def own(start: Callable[..., CompareResult], tmp_path_factory: pytest.TempPathFactory) -> CompareResult:
    """A finished comparison; not to be changed."""
    return start(tmp_path_factory.mktemp("runs") / "own")


def test_what_such_a_run_writes(own: CompareResult, files: dict[str, Path]) -> None:
    folder = RunFolder.open(own.run)
    parts, results = folder.read_triggers(), folder.results()
    assert own.queries == 300
    assert own.triggers > 10
    # the box of the prior is searched, all of it
    assert parts.genes.shape == (own.triggers, DIM)
    assert np.abs(parts.genes).max() <= 1
    assert np.abs(parts.genes).max() > 0.95
    # a stored latent vector draws the stored picture again
    stored: CompareConfig = from_dict(CompareConfig, folder.config())
    generator = FileSource(stored.generator, (1, 28, 28), device=torch.device("cpu"))
    again = generator.draw(torch.from_numpy(parts.genes)).numpy()
    assert np.abs(again.astype(int) - parts.images).max() <= 1
    assert stored.generator.file == str(files["g"])
    assert "discriminator" not in [each["name"] for each in results["filters"]]
    assert results["gan"]["pixels"] == "-1..1 (found out)"
    report = (Path(own.run) / "report.html").read_text()
    assert "no discriminator filter" in report
    assert "24 values, uniform" in report


def test_it_is_replayed(own: CompareResult) -> None:
    result = replay(own.run, by_rows, by_columns)
    assert result.reproduced == result.replayed == own.triggers


def test_it_is_resumed(
    own: CompareResult,
    start: Callable[..., CompareResult],
    small: ImageSet,
    files: dict[str, Path],
    config: CompareConfig,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its generator breaks down in the fourth generation; the file must be the same when the run goes on."""
    monkeypatch.setattr(checkpoints, "SECONDS", 0.0)
    monkeypatch.setattr(checkpoints, "SHARE", 1e9)
    file = Path(shutil.copy(files["g"], tmp_path / "g.pt"))
    draw, generations = FileSource.draw, []

    def breaks_down(self: FileSource, latents: torch.Tensor) -> torch.Tensor:
        if len(latents) == config.search.population:
            generations.append(len(latents))
            if len(generations) == 4:
                raise RunError("the generator broke down")
        return draw(self, latents)

    with monkeypatch.context() as patch:
        patch.setattr(FileSource, "draw", breaks_down)
        with pytest.raises(RunError, match="broke down"):
            start(tmp_path / "run", generator=file)
    whole = file.read_bytes()
    shutil.copy(files["d"], file)
    with pytest.raises(UserError, match="has changed since the run"):
        resume(tmp_path / "run", by_rows, by_columns, data=small)
    file.unlink()
    with pytest.raises(UserError, match="does not exist"):
        resume(tmp_path / "run", by_rows, by_columns, data=small)
    file.write_bytes(whole)
    found = RunFolder.open(resume(tmp_path / "run", by_rows, by_columns, data=small).run).read_triggers().columns()
    wanted = RunFolder.open(own.run).read_triggers().columns()
    for name, column in wanted.items():
        np.testing.assert_array_equal(found[name], column, err_msg=name)


def test_a_discriminator_of_its_own_filters(
    start: Callable[..., CompareResult],
    files: dict[str, Path],
    config: CompareConfig,
    tmp_path: Path,
) -> None:
    settings = GeneratorConfig(file=str(files["g"]), latent_dim=DIM, prior="uniform", discriminator=str(files["d"]))
    folder = RunFolder.open(start(tmp_path / "run", config=replace(config, generator=settings)).run)
    results, verdicts, images = folder.results(), folder.read_arrays("verdicts"), folder.read_triggers().images
    column = [each["name"] for each in results["filters"]].index("discriminator")
    border = np.ones((28, 28), dtype=bool)
    border[4:24, 4:24] = False
    asked = ~np.isnan(verdicts["scores"][:, column])
    brightness = (images[asked, 0][:, border] / 127.5 - 1).mean(axis=1)
    np.testing.assert_allclose(verdicts["scores"][asked, column], -brightness, atol=1e-4)
    assert results["gan"]["discriminator"] == "d.pt"


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"generator": "g.pt"}, "add --latent-dim"),
        ({"latent_dim": 5}, "--generator"),
        ({"prior": "uniform"}, "--generator"),
        ({"generator": "g.pt", "latent_dim": 0}, "from 1 to 65536"),
        ({"generator": "none.pt", "latent_dim": DIM}, "does not exist"),
        ({"generator": "g.pt", "latent_dim": DIM + 1}, "check --latent-dim"),
        ({"generator": "d.pt", "latent_dim": DIM}, "check --latent-dim"),
        ({"generator": "g.pt", "latent_dim": DIM, "resize": 32}, "but the data has 1x32x32; add --resize 28"),
        ({"generator": "g.pt", "latent_dim": DIM, "discriminator": "g.pt"}, "The discriminator g.pt"),
    ],
)
def test_what_cannot_be(
    settings: dict[str, Any],
    message: str,
    files: dict[str, Path],
    config: CompareConfig,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def asked(*arguments: object, **settings: object) -> None:
        raise AssertionError("something was trained, or the models were asked")

    monkeypatch.chdir(files["g"].parent)
    monkeypatch.setattr("diffgen.comparison.stages.look", asked)
    with pytest.raises(UserError, match=message):
        compare(by_rows, by_columns, data="digits:test", config=config, output=tmp_path / "run", **settings)
    assert not (tmp_path / "run").exists()


def test_images_of_a_size_that_no_gan_draws(start: Callable[..., CompareResult], tmp_path: Path) -> None:
    images = load("digits:test", resize=20).images[:400]
    file = trace(Components(images), torch.zeros(2, DIM), tmp_path / "g.pt")
    result = start(tmp_path / "run", data=ImageSet(images, None, None, "small digits"), generator=file)
    assert result.triggers > 0
    assert RunFolder.open(result.run).read_triggers().images.shape[1:] == (1, 20, 20)


def test_classes_that_a_gan_from_a_file_was_asked_for(
    small: ImageSet, config: CompareConfig, start: Callable[..., CompareResult], tmp_path: Path
) -> None:
    """Its latent vectors are shorter than the settings say, as those of a tuned GAN may be."""
    settings = GanConfig(latent_dim=12, width=8, steps=5, monitor_checks=0)
    encoder = cell_store.prepare(small).encoder
    cpu = torch.device("cpu")
    context = FamilyContext(encoder, cpu, Progress())
    train_and_save(DataSplit(small, SplitConfig()), settings, context, tmp_path / "gan.safetensors")
    given = replace(
        config,
        gan_file=str(tmp_path / "gan.safetensors"),
        source=SourceConfig(family="gan"),
        budget=replace(config.budget, queries=100),
        filters=replace(config.filters, names=()),
    )
    result = start(tmp_path / "run", generator=None, latent_dim=None, prior=None, config=given)
    folder = RunFolder.open(result.run)
    assert folder.manifest["latents"] == {
        "latent_dim": 12,
        "classes": 10,
        "prior": "normal",
        "class_labels": list(range(10)),
    }
    assert label_intended(folder.path).labelled == result.valid_triggers > 0
    finds = read_valid_triggers(folder)
    labels, _ = read_store(folder, finds).of(finds.hashes)
    assert finds.genes is not None and finds.genes.shape[1] == 13
    assert np.array_equal(labels, finds.genes[:, 12])


def test_an_own_generator_was_asked_for_no_class(own: CompareResult) -> None:
    with pytest.raises(UserError, match="no class was intended"):
        label_intended(own.run)
