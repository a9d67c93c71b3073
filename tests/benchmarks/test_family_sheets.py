"""Sheets of what families find, from a small run."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from PIL import Image

from benchmarks.family_sheets import chosen, sheet
from diffgen.comparison.opened_run import OpenedRun
from diffgen.config import replace
from diffgen.data import load
from diffgen.runs.folder import RunFolder
from diffgen.sources.vae import VaeSettings
from diffgen.workflows.compare import compare
from tests.benchmarks.conftest import SMALL, Bench


def test_family_sheets(bench: Bench, models: tuple[Path, Path], tmp_path: Path) -> None:
    source = replace(SMALL.source.with_family(VaeSettings(steps=60)), family="vae")
    config = replace(SMALL, technique="latte", source=source, batch_size=16)
    compare(*models, data="digits:test", config=config, output=tmp_path / "latte")
    said = bench("family_sheets", tmp_path / "sheets", tmp_path / "latte")
    folder = RunFolder.open(tmp_path / "latte")
    table = folder.read_judged()
    rows, among = chosen(table)
    assert said == f"latte: {len(rows)} of {among}\n"
    if len(rows):
        assert Image.open(tmp_path / "sheets" / "latte.png").size == (len(rows) * 86 + 2, 3 * 86 + 2)
    # the jury may name none of what so rough a network draws
    finds = table[np.arange(min(len(table), 10))]
    count, digits = len(finds), torch.from_numpy(load("digits:test").images)
    assert count > 0
    drawn = sheet(OpenedRun(folder, "cpu"), finds)
    assert drawn.shape == (3 * count, 1, 28, 28)
    assert finds.seeds is not None
    assert torch.equal(drawn[:count], digits[finds.seeds])
    assert torch.equal(drawn[2 * count :], torch.from_numpy(finds.images))
    seeds, again = drawn[:count].float(), drawn[count : 2 * count].float()
    away = (again - seeds).square().mean(dim=(1, 2, 3))
    # drawn again from its genes, a seed is not quite itself, and nearer to itself than to all others on average
    assert (away > 0).all() and away.mean() < (again[:, None] - digits.float()).square().mean()
