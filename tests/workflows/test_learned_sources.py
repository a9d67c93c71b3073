"""Comparisons whose images come from sources that are trained on the real images besides the GAN."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from diffgen.comparison.requirements import check_settings
from diffgen.comparison.stages import CompareResult
from diffgen.config import CompareConfig, GeneratorConfig, SourceConfig, replace
from diffgen.data.split import DataSplit
from diffgen.errors import RunError, UserError
from diffgen.events import Progress
from diffgen.features.encoder import DomainEncoder
from diffgen.runs.folder import RunFolder
from diffgen.sources.base import FamilyContext
from diffgen.sources.denoiser import DenoiserSettings
from diffgen.sources.gan import GanFamily
from diffgen.sources.registry import family_named
from diffgen.sources.vae import VaeSettings
from diffgen.sources.vq import VqSettings
from diffgen.types import ImageSet
from diffgen.workflows.compare import compare
from diffgen.workflows.resume import resume
from tests.workflows.breaking import Fragile, assert_same

SMALL: dict[str, Any] = {
    "vae": VaeSettings(steps=100, latent_dim=12),
    "vq": VqSettings(steps=40),
    "denoiser": DenoiserSettings(steps=30),
}


@pytest.fixture(autouse=True)
def _no_gan(monkeypatch: pytest.MonkeyPatch) -> None:
    """A GAN that is trained or read fails the test."""

    def refuse(*arguments: object, **settings: object) -> None:
        raise AssertionError("a GAN was asked for")

    monkeypatch.setattr(GanFamily, "prepare", refuse)


@pytest.mark.usefixtures("checkpoint_after_every_generation")
@pytest.mark.parametrize(
    "family", [each if each == "vae" else pytest.param(each, marks=pytest.mark.slow) for each in SMALL]
)
def test_a_whole_run_broken_off_and_gone_on_with(
    family: str,
    model_files: dict[str, Path],
    digits: ImageSet,
    small_config: CompareConfig,
    start: Callable[..., CompareResult],
    arm: Callable[[Fragile], None],
    tmp_path: Path,
) -> None:
    def cut(images: np.ndarray) -> np.ndarray:
        raise OSError("the wire is cut")

    # without the jury, which would have to be trained too
    filters = replace(small_config.filters, names=("ssim",))
    config = replace(small_config, source=SourceConfig(family=family).with_family(SMALL[family]), filters=filters)
    model = Fragile(model_files["a"], cut, after=300)
    arm(model)
    with pytest.raises(RunError, match="the wire is cut"):
        start(model, config=config)
    done = resume(tmp_path / "run", model, None)
    whole = compare(model, model_files["b"], data=digits, config=config, output=tmp_path / "whole")
    assert whole.triggers > 0
    assert_same(done.run, whole.run)
    assert "held-out images, within" in (Path(whole.run) / "report.html").read_text()

    context = FamilyContext(DomainEncoder(digits.image_shape), torch.device("cpu"), Progress())
    source = family_named(family).prepare(DataSplit(digits, config.split), config, context).source
    found = RunFolder.open(whole.run).read_triggers()
    assert source is not None
    assert np.array_equal(source.draw(torch.from_numpy(found.genes)).numpy(), found.images)


@pytest.mark.parametrize("family", SMALL)
def test_a_generators_file_beside_it_is_refused(family: str, small_config: CompareConfig) -> None:
    own = GeneratorConfig(file="generator.pt", latent_dim=4)
    config = replace(small_config, source=SourceConfig(family=family), generator=own)
    with pytest.raises(UserError, match=f"--generator generator.pt and --source {family} both say"):
        check_settings(config)


def test_an_option_of_a_family_that_does_not_fit_is_refused(small_config: CompareConfig) -> None:
    given = SourceConfig(family="vae", families={"vae": {"codes": "flat"}})
    with pytest.raises(UserError, match=r"source\.vae\.codes"):
        check_settings(replace(small_config, source=given))
