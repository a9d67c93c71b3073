"""A comparison whose pictures a jury must recognise, on real digits."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from diffgen.config import Budget, CompareConfig, FilterConfig
from diffgen.config.filters import JurySettings
from diffgen.data import load
from diffgen.errors import UserError
from diffgen.runs.folder import RunFolder
from diffgen.types import ImageSet
from diffgen.workflows.compare import compare


def test_a_comparison_asks_the_jury_where_it_is_named(
    model_files: dict[str, Path], tmp_path: Path, told: Callable[[str, str, object], None]
) -> None:
    config = CompareConfig(
        technique="real_data",
        budget=Budget(queries=600),
        device="cpu",
        filters=FilterConfig(names=("jury",), jury=JurySettings(shown=6_000)),
    )
    given = model_files["a"], model_files["b"]
    compare(*given, data="digits:test", config=config, output=tmp_path / "run")
    folder = RunFolder.open(tmp_path / "run")
    asked = folder.results()["filters"]
    assert [each["name"] for each in asked] == ["jury"]
    table = folder.read_judged()
    assert 0 < table.valid.sum() < len(table), "some are recognised, some are not"
    digits = load("digits:test")
    alike = ImageSet(digits.images, np.zeros(len(digits), dtype=np.int64), None, "digits of one label")
    with pytest.raises(UserError, match="one label only") as caught:
        compare(*given, data=alike, config=config, output=tmp_path / "none")
    told("`diffgen compare`", "the filter jury for images of one label", caught.value)
    assert not (tmp_path / "none").exists()
