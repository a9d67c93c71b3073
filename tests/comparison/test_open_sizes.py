"""A model that declares no size is handed the one that real images show it to want, and nobody else's is changed."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from diffgen.comparison.preflight import inspect_real_images, prepare_models
from diffgen.comparison.preprocessings import settle_sizes
from diffgen.config import ModelSpec, Preprocessing
from diffgen.models import BlackBox, load
from diffgen.types import ImageSet
from diffgen.workflows.inspect import inspect
from tests.comparison.stripes import save_all, striped_images
from tests.recording import Recording


@pytest.fixture(scope="module")
def stripes() -> ImageSet:
    return striped_images()


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return save_all(tmp_path_factory.mktemp("stripes"))


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


def test_inspect_finds_it_where_labels_tell(files: dict[str, Path], stripes: ImageSet) -> None:
    found = inspect(files["open"], data=stripes)
    assert found.chosen.preprocessing.size == (64, 64) and found.chosen.name.endswith(", 64x64")
    assert found.chosen.accuracy == 1
    fixed = inspect(files["fixed"], data=stripes)
    assert fixed.now is fixed.chosen and fixed.chosen.name == "0..1"
    assert inspect(files["open"], data=replace(stripes, labels=None)).chosen.preprocessing.size == ()
    said = ModelSpec(preprocessing=Preprocessing(size=(100, 100)))
    assert all(
        each.preprocessing.size == (100, 100) for each in inspect(files["open"], data=stripes, options=said).candidates
    )


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
