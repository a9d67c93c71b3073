"""One model twice among many is refused, since it would have two votes; of two it is said."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from diffgen.comparison.black_boxes import load_models
from diffgen.comparison.preflight import inspect_real_images, prepare_models
from diffgen.config import ModelSpec, Preprocessing
from diffgen.data import load as load_data
from diffgen.errors import UserError
from diffgen.events import Progress
from diffgen.workflows.demo import dense_classifier, save_torchscript

CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path, Path]:
    """Two files, and the first under another name."""
    folder = tmp_path_factory.mktemp("nets")
    for seed, name in enumerate("ab"):
        torch.manual_seed(seed)
        save_torchscript(dense_classifier(10), folder / f"{name}.pt")
    (folder / "copy.pt").write_bytes((folder / "a.pt").read_bytes())
    return folder / "a.pt", folder / "b.pt", folder / "copy.pt"


def test_one_content_under_two_names_is_one_model(files: tuple[Path, Path, Path]) -> None:
    with pytest.raises(UserError, match=r"Models A \(a.pt\) and C \(copy.pt\) are one and the same"):
        load_models(files, (ModelSpec(),) * 3, device=CPU, batch_size=8)


def test_one_file_fed_in_two_ways_is_two_models(files: tuple[Path, Path, Path]) -> None:
    inverted = ModelSpec(preprocessing=Preprocessing(invert=True))
    loaded = load_models(files, (ModelSpec(), ModelSpec(), inverted), device=CPU, batch_size=8)
    assert [each.name for each in loaded] == ["a.pt", "b.pt", "copy.pt"]


def test_of_two_models_one_may_be_tried_against_itself(files: tuple[Path, Path, Path]) -> None:
    digits = load_data("digits:test")
    for specs, told in (
        ((ModelSpec(),) * 2, True),
        ((ModelSpec(), ModelSpec(preprocessing=Preprocessing(invert=True))), False),
    ):
        models = load_models(files[::2], specs, device=CPU, batch_size=8)
        prepare_models(models, digits)
        warnings = inspect_real_images(models, digits, progress=Progress()).summary.warnings
        assert any("are one file, fed alike, so that they cannot disagree" in each for each in warnings) == told
