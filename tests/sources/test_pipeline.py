"""The family ``diffusers``: a tiny pipeline made on the spot, drawn from noise and over real images."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from scipy.fft import dctn, idctn

from diffgen.comparison.image_source import settled_generator
from diffgen.config import CompareConfig, replace
from diffgen.data import load
from diffgen.data.split import DataSplit
from diffgen.errors import UserError
from diffgen.events import Progress
from diffgen.features.encoder import DomainEncoder
from diffgen.origins import read_recipe
from diffgen.sources.base import EncodingSource, FamilyContext, ImageSource
from diffgen.sources.pipeline import WEIGHTS, DiffusersFamily, DiffusersSettings, read_pipeline
from diffgen.sources.space import random_genes
from diffgen.types import ImageSet

diffusers = pytest.importorskip("diffusers", reason="diffusers is not installed")
SHAPE = (1, 28, 28)


def made(folder: Path, *, predicts: str = "epsilon", safe: bool = True, **more: object) -> Path:
    """A pipeline with random weights, as a user saves it."""
    torch.manual_seed(0)
    network = diffusers.UNet2DModel(
        sample_size=28,
        in_channels=1,
        out_channels=1,
        block_out_channels=(8, 16),
        layers_per_block=1,
        norm_num_groups=4,
        down_block_types=("DownBlock2D", "DownBlock2D"),
        up_block_types=("UpBlock2D", "UpBlock2D"),
        **more,
    )
    scheduler = diffusers.DDIMScheduler(timestep_spacing="trailing", prediction_type=predicts)
    diffusers.DDIMPipeline(network, scheduler).save_pretrained(folder, safe_serialization=safe)
    return folder


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return made(tmp_path_factory.mktemp("pipeline") / "tiny")


@pytest.fixture(scope="module")
def digits() -> ImageSet:
    return load("digits:test")


def prepared(folder: Path, digits: ImageSet, **own: Any) -> ImageSource:
    config = CompareConfig()
    given = DiffusersSettings(folder=str(folder), **own)
    config = settled_generator(replace(config, source=replace(config.source.with_family(given), family="diffusers")))
    family = DiffusersFamily()
    family.check(config)
    assert family.encodes_with(config) == (given.start == "seeds")
    context = FamilyContext(DomainEncoder(SHAPE), torch.device("cpu"), Progress())
    return family.prepare(DataSplit(digits, config.split), config, context)


@pytest.mark.parametrize("predicts", ["epsilon", "sample", "v_prediction"])
def test_from_noise_it_draws_what_the_pipeline_itself_draws(predicts: str, tmp_path: Path, digits: ImageSet) -> None:
    made(tmp_path / "tiny", predicts=predicts)
    source = prepared(tmp_path / "tiny", digits, start="noise", restorations=5).source
    assert source is not None
    pipeline = diffusers.DDIMPipeline.from_pretrained(tmp_path / "tiny", local_files_only=True)
    pipeline.set_progress_bar_config(disable=True)
    genes = torch.randn(3, 1, 28, 28, generator=torch.Generator().manual_seed(4)).flatten(1)
    theirs = pipeline(
        batch_size=3,
        num_inference_steps=5,
        output_type="np",
        use_clipped_model_output=True,  # so that noise and clean image always make up the noisy one
        generator=torch.Generator().manual_seed(4),
    ).images
    ours = source.draw(genes).permute(0, 2, 3, 1).numpy()
    assert len(np.unique(ours)) > 50
    assert np.abs(ours.astype(float) - 255 * theirs).max() <= 1


@pytest.mark.parametrize("start", ["seeds", "noise"])
def test_an_image_is_a_function_of_its_genes_bit_for_bit(start: str, folder: Path, digits: ImageSet) -> None:
    source = prepared(folder, digits, start=start, restorations=1).source
    assert source is not None
    genes = random_genes(source.space, 6, torch.Generator().manual_seed(0))
    drawn = source.draw(genes)
    assert torch.equal(torch.cat([source.draw(part) for part in genes.split(4)]), drawn)
    assert torch.equal(source.draw(genes.flip(0)), drawn.flip(0))
    assert source.draw(genes[:0]).shape == (0, *SHAPE)


def test_seeds_are_restored_by_it_in_its_own_steps(folder: Path, digits: ImageSet) -> None:
    """The slow way: DDIM's equation 12 in its own terms, step by step."""
    source = prepared(folder, digits, strength="high", restorations=3).source
    assert isinstance(source, EncodingSource)
    genes = source.encode(torch.from_numpy(digits.images[5:8]))
    assert genes[:, -1].tolist() == [5, 6, 7]
    denoiser = read_pipeline(folder, SHAPE)
    kept = diffusers.DDIMScheduler().alphas_cumprod.double()
    first = int(((1 - kept) / kept).sqrt().sub(0.8).abs().argmin())
    times = [first, round((first + 1) * 2 / 3) - 1, round((first + 1) / 3) - 1]
    noise = torch.randn(1, *SHAPE, generator=torch.Generator().manual_seed(0)).double()
    waves = dctn(noise.numpy(), axes=(2, 3), norm="ortho")
    waves[:, :, :8, :8] = 0  # what genes say
    noise = torch.from_numpy(idctn(waves, axes=(2, 3), norm="ortho"))
    noisy = torch.from_numpy(digits.images[5:8]).double() / 127.5 - 1 + 0.8 * noise
    noisy = noisy / (1 + 0.8**2) ** 0.5
    with torch.no_grad():
        for place, time in enumerate(times):
            # the noise of the beginning lies between two times
            own = torch.tensor(1 / (1 + 0.8**2)).double() if place == 0 else kept[time]
            said = denoiser.network(noisy.float(), torch.full((3,), time)).sample.double()
            clean = ((noisy - (1 - own).sqrt() * said) / own.sqrt()).clamp(-1, 1)
            said = (noisy - own.sqrt() * clean) / (1 - own).sqrt()
            after = kept[times[place + 1]] if place < 2 else torch.tensor(1.0).double()
            noisy = after.sqrt() * clean + (1 - after).sqrt() * said
    wanted = (noisy + 1) * 127.5
    assert (source.draw(genes).double() - wanted).abs().max() <= 1
    origins = source.origins(genes)
    assert origins is not None
    assert origins.seeds.tolist() == [5, 6, 7]
    assert dict(read_recipe(origins.recipes[0])[0].strengths)["steps"] == 3


def test_what_a_report_says(folder: Path, digits: ImageSet) -> None:
    seeds, noise = prepared(folder, digits), prepared(folder, digits, start="noise")
    assert seeds.real and not noise.real
    assert seeds.artifact == noise.artifact == folder / WEIGHTS
    assert seeds.facts["noise"] == "38 grey levels (low), restored in 4 steps"
    assert noise.facts["kind"].endswith("from noise in 20 steps")
    assert noise.facts["latent vector"] == "784 values of noise, normal"


def refused(folder: Path) -> str:
    with pytest.raises(UserError) as raised:
        read_pipeline(folder, SHAPE)
    return str(raised.value)


def changed(folder: Path, copy: Path, file: str, **values: object) -> Path:
    """A copy of a pipeline with other values in one of its tables."""
    shutil.copytree(folder, copy)
    path = copy / file
    path.write_text(json.dumps(json.loads(path.read_text()) | values))
    return copy


def test_nothing_that_the_folder_names_is_imported_or_run(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A foreign module beside the weights, named wherever diffusers would look for one."""
    here = changed(folder, tmp_path / "evil", "model_index.json", unet=["evil", "Network"])
    (here / "evil.py").write_text("raise SystemExit('run')")
    monkeypatch.syspath_prepend(here)
    assert "UNet2DModel" in refused(here)
    other = changed(folder, tmp_path / "mapped", "unet/config.json", auto_map={"AutoModel": "evil.Network"}, evil="x")
    (other / "unet" / "evil.py").write_text("raise SystemExit('run')")
    monkeypatch.syspath_prepend(other / "unet")
    read_pipeline(other, SHAPE)


def test_pipelines_that_cannot_be_used(folder: Path, tmp_path: Path) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    assert "save_pretrained" in refused(empty)
    classes = changed(folder, tmp_path / "classes", "unet/config.json", num_class_embeds=10)
    assert "not conditional" in refused(classes)
    for side, mend in ((32, "add --resize 32"), ((32, 28), "give data of that shape")):
        other = changed(folder, tmp_path / str(side), "unet/config.json", sample_size=side)
        assert mend in refused(other)
    latent = changed(folder, tmp_path / "latent", "unet/config.json", out_channels=2)
    assert "takes other images than it gives" in refused(latent)
    other = changed(folder, tmp_path / "other", "unet/config.json", block_out_channels=[8, 32])
    assert "cannot be read" in refused(other)
    for place, values in enumerate(
        (
            {"num_train_timesteps": 10**9},
            {"num_train_timesteps": "many"},
            {"beta_schedule": "none such"},
            {"trained_betas": [0.0] * 1000},
            {"prediction_type": "x"},
        )
    ):
        noise = changed(folder, tmp_path / f"noise{place}", "scheduler/scheduler_config.json", **values)
        assert "cannot be read" in refused(noise)


def test_damaged_weights(folder: Path, tmp_path: Path) -> None:
    here = tmp_path / "cut"
    shutil.copytree(folder, here)
    whole = (here / WEIGHTS).read_bytes()
    for size in (0, 4, len(whole) // 2):
        (here / WEIGHTS).write_bytes(whole[:size])
        assert "cannot be read" in refused(here)
    tensors = load_file(folder / WEIGHTS)
    name = next(iter(tensors))
    save_file({**tensors, name: tensors[name][:1].clone()}, here / WEIGHTS)
    assert "cannot be read" in refused(here)


def test_what_a_user_is_told(folder: Path, tmp_path: Path, told: Callable[[str, str, object], None]) -> None:
    group = "Sources"
    family, config = DiffusersFamily(), CompareConfig()
    with pytest.raises(UserError) as raised:
        family.check(config)
    told(group, "`--source diffusers` without a folder", raised.value)
    with pytest.raises(UserError) as raised:
        family.check(replace(config, source=config.source.with_family(DiffusersSettings(folder="nowhere"))))
    told(group, "`--source diffusers:nowhere`", raised.value)
    for case, file, values in (
        ("a diffusers pipeline that is told a text", "model_index.json", {"_class_name": "StableDiffusionPipeline"}),
        ("one that is told a class", "unet/config.json", {"num_class_embeds": 10}),
        ("one that draws larger images", "unet/config.json", {"sample_size": 32}),
        ("one whose scheduler has too many times", "scheduler/scheduler_config.json", {"num_train_timesteps": 10**9}),
    ):
        told(group, case, refused(changed(folder, tmp_path / case, file, **values)))
    told(group, "one whose weights are pickled", refused(made(tmp_path / "pickled", safe=False)))
