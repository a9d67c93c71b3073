"""What a program has set for torch and numpy changes nothing in a run, and holds again after it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import diffgen
from tests.workflows.breaking import columns

ASSETS = Path(__file__).parents[1] / "assets"
KEYWORDS = {"data": "digits:test", "budget": "200q", "seed": 3, "filters": [], "data_labels": "ignore"}


def found(run: Path, **settings: Any) -> dict[str, Any]:
    """The triggers of a search from changed real images."""
    diffgen.compare(ASSETS / "a.onnx", ASSETS / "b.onnx", output=run, technique="diffgan", **{**KEYWORDS, **settings})
    return columns(run)


@pytest.fixture(scope="module")
def usual(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return found(tmp_path_factory.mktemp("usual") / "run")


@pytest.fixture
def double() -> Iterator[None]:
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


@pytest.mark.usefixtures("double")
def test_another_default_of_torch_changes_nothing(usual: dict[str, Any], tmp_path: Path) -> None:
    now = found(tmp_path / "run")
    assert torch.get_default_dtype() == torch.float64
    assert len(usual["images"]) > 0
    for name, values in usual.items():
        np.testing.assert_array_equal(now[name], values, err_msg=name)


def test_errors_of_numpy_that_a_program_wants_raised_break_no_search(usual: dict[str, Any], tmp_path: Path) -> None:
    with np.errstate(all="raise"):
        now = found(tmp_path / "run")
        assert np.geterr()["under"] == "raise"
    np.testing.assert_array_equal(now["images"], usual["images"])
