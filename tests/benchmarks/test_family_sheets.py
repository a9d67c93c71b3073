"""Sheets of what families find, from a small run."""

from __future__ import annotations

from pathlib import Path

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
    rows, among = chosen(folder.read_judged())
    assert said == f"latte: {len(rows)} of {among}\n" and len(rows) > 0
    finds = folder.read_judged()[rows]
    drawn = sheet(OpenedRun(folder, "cpu"), finds)
    assert drawn.shape == (3 * len(rows), 1, 28, 28)
    assert finds.seeds is not None
    assert torch.equal(drawn[: len(rows)], torch.from_numpy(load("digits:test").images[finds.seeds]))
    assert torch.equal(drawn[2 * len(rows) :], torch.from_numpy(finds.images))
    seeds, again = drawn[: len(rows)].float(), drawn[len(rows) : 2 * len(rows)].float()
    away = (again - seeds).square().mean(dim=(1, 2, 3))
    # drawn again from its genes, a seed is not quite itself, and nearer to itself than to another
    assert (away > 0).all() and away.mean() < (again - seeds.roll(1, dims=0)).square().mean()
    assert Image.open(tmp_path / "sheets" / "latte.png").size == (len(rows) * 86 + 2, 3 * 86 + 2)
