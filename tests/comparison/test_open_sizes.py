"""A model that declares no size is handed the one that real images show it to want, and nobody else's is changed."""

from __future__ import annotations

import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from diffgen.comparison.preflight import inspect_real_images, prepare_models
from diffgen.comparison.sizes import settle_sizes
from diffgen.models import BlackBox, load
from diffgen.types import ImageSet
from tests.recording import Recording

PERIODS = 6.25, 9.4, 14.1, 21.1  # pixels of the stripes in images of 100 x 100: at 64 x 64 each is the next but one's
REACH = 15


class Stripes(nn.Module):
    """How wide are the stripes, at 64 x 64 pixels? Of images of any size, as a network that ends in a mean."""

    def __init__(self) -> None:
        super().__init__()
        at = torch.arange(-REACH, REACH + 1) / 0.64
        waves = [wave(2 * torch.pi * at / period) for period in PERIODS for wave in (torch.cos, torch.sin)]
        bank = torch.stack(waves) * torch.hann_window(2 * REACH + 1, periodic=False)
        bank = bank - bank.mean(dim=1, keepdim=True)
        self.register_buffer("bank", (bank / bank.norm(dim=1, keepdim=True))[:, None, None])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        found = nn.functional.conv2d(x.mean(dim=1, keepdim=True), self.bank).square().mean(dim=(2, 3))
        return 4 * (found[:, ::2] + found[:, 1::2])


@pytest.fixture(scope="module")
def stripes() -> ImageSet:
    """300 pictures of 100 x 100 with stripes of four widths, and noise."""
    rng = np.random.default_rng(0)
    labels = np.arange(300) % 4
    angle = 2 * np.pi * np.arange(100) / np.array(PERIODS)[labels, None] + rng.uniform(0, 6, (300, 1))
    rows = 127 + 90 * np.sin(angle)[:, None, None] + rng.normal(0, 12, (300, 3, 100, 100))
    return ImageSet(rows.clip(0, 255).astype(np.uint8), labels, None, "stripes")


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """One network, in a file that declares 64 x 64 pixels and in two that declare no size."""
    folder, example = tmp_path_factory.mktemp("stripes"), torch.zeros(2, 3, 64, 64)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name, axes in (("fixed", {0: "n"}), ("open", {0: "n", 2: "h", 3: "w"})):
            path = str(folder / f"{name}.onnx")
            torch.onnx.export(
                Stripes(), (example,), path, dynamo=False, input_names=["x"], dynamic_axes={"x": axes}
            )
        torch.jit.save(torch.jit.trace(Stripes(), example), str(folder / "script.pt"))
    return {path.stem: path for path in folder.iterdir()}


def settled(files: dict[str, Path], names: tuple[str, ...], data: ImageSet) -> tuple[list[BlackBox], Recording]:
    models, heard = [load(files[name]) for name in names], Recording()
    prepare_models(models, data, heard.progress)
    settle_sizes(models, data, heard.progress)
    return models, heard


@pytest.mark.parametrize("labelled", [True, False])
@pytest.mark.parametrize("other", ["open", "script"])
def test_what_the_other_model_declares_is_tried(
    files: dict[str, Path], stripes: ImageSet, labelled: bool, other: str
) -> None:
    data = stripes if labelled else replace(stripes, labels=None)
    models, heard = settled(files, ("fixed", other), data)
    assert [model.preprocessing.size for model in models] == [(64, 64), (64, 64)]
    assert inspect_real_images(models, data, progress=heard.progress).summary.agreement == 1
    (warning,) = heard.warnings
    assert warning.startswith(f"Model B ({files[other].name}) declares no size and is handed images of 64x64, as model")
    assert ("it is right on" if labelled else "it agrees with model A on") in warning and "--b-size" in warning


def test_the_usual_sizes_are_tried_where_both_look_wrong(files: dict[str, Path], stripes: ImageSet) -> None:
    models, heard = settled(files, ("open", "script"), stripes)
    assert [model.preprocessing.size for model in models] == [(64, 64), (64, 64)]
    assert all("one of the usual sizes" in warning for warning in heard.warnings)


def test_a_size_that_was_said_is_kept_and_one_that_fits_too(files: dict[str, Path], stripes: ImageSet) -> None:
    small = replace(stripes, images=np.ascontiguousarray(stripes.images[:, :, 18:82, 18:82]))
    models, heard = settled(files, ("open", "script"), replace(small, labels=None))
    assert [model.preprocessing.size for model in models] == [(), ()] and not heard.warnings
    assert all(model.size_open for model in models)
    said = load(files["open"], preprocessing=replace(models[0].preprocessing, size=(100, 100)))
    prepare_models([said], stripes, heard.progress)
    settle_sizes([said, load(files["fixed"])], stripes, heard.progress)
    assert said.preprocessing.size == (100, 100) and not heard.warnings


def test_both_warnings_name_the_option(files: dict[str, Path], stripes: ImageSet) -> None:
    models = [load(files[name]) for name in ("fixed", "open")]
    for data, said in (
        (stripes, "of 100x100 pixels as the data has them (--size names another size)"),
        (replace(stripes, labels=None), "B declares no size and gets that of the data: name what it was made for"),
    ):
        prepare_models(models, data)
        (warning,) = inspect_real_images(models, data, progress=Recording().progress).summary.warnings
        assert said in warning and "--size" in warning
