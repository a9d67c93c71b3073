"""A DCGAN in a wheel, made on the spot in the form of the published one, as the source of a search."""

from __future__ import annotations

import itertools
import subprocess
import zipfile
from io import BytesIO
from pathlib import Path

import pytest
import torch
from torch import nn

from tests.benchmarks.conftest import Bench


@pytest.fixture
def wheel(tmp_path: Path) -> Path:
    """With random weights of narrow layers."""
    torch.manual_seed(0)
    widths = (12, 16, 12, 8, 8, 3)
    weights = {}
    for number, (before, after) in enumerate(itertools.pairwise(widths)):
        layer = nn.ConvTranspose2d(before, after, 4, bias=False)
        weights[f"main.{3 * number}.weight"] = 4 * layer.weight.detach()
        if number < 4:
            norm = nn.BatchNorm2d(after).state_dict()
            weights |= {f"main.{3 * number + 1}.{name}": value for name, value in norm.items()}
    stored, path = BytesIO(), tmp_path / "gan_face_generate-1.1.1-py3-none-any.whl"
    torch.save({"netG_state_dict": weights}, stored)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("gan_face_generate/weights.tar", stored.getvalue())
    return path


@pytest.mark.slow
def test_packaged_generator(bench: Bench, wheel: Path, tmp_path: Path) -> None:
    said = bench("packaged_generator", tmp_path / "out", "--wheel", wheel, "--budget", "100q")
    assert "latent vectors of 12, pixels -1..1" in said
    assert "differ by 0 grey levels" in said or "differ by 1 grey levels" in said
    assert "images asked about           100" in said
    assert (tmp_path / "out" / "pictures.png").is_file()


def test_where_pip_cannot_bring_it_nothing_is_measured(
    bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failed(words: list[str], *, check: bool) -> subprocess.CompletedProcess[bytes]:
        assert words[2:4] == ["pip", "download"]
        return subprocess.CompletedProcess(words, 1)

    monkeypatch.setattr(subprocess, "run", failed)
    said = bench("packaged_generator", tmp_path / "out")
    assert said == "pip cannot bring gan-face-generate==1.1.1 here; nothing was measured.\n"
    assert not list((tmp_path / "out").iterdir())
