"""The page of a GAN that was really trained, if only for a moment."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from diffgen.config import GanConfig, SplitConfig
from diffgen.data import load
from diffgen.data.split import DataSplit
from diffgen.events import Progress
from diffgen.features import cells
from diffgen.gan_training.checkpoint import add_to_header
from diffgen.report.charts import Curve, curves_chart, trials_chart
from diffgen.report.gan_page import GanReportData, render_gan_page
from diffgen.sources.base import FamilyContext
from diffgen.sources.gan import train_and_save
from diffgen.workflows.gan_tuning import score
from diffgen.workflows.train_gan import gan_report_data, write_gan_report
from tests.report.conftest import Page

CPU = torch.device("cpu")
TRIAL = {"readings": {}, "seconds": 61.0, "error": None}
TUNING = {
    "study": "gan-0123",
    "best": 1,
    "scores": {"kid": 0.125, "fid": 4.0},
    "held_out": True,
    "against": 1000,
    "importance": {"width": 0.75, "batch_size": 0.25},
    "settings": {"width": 48, "learning_rate_generator": 0.00125},
    "trials": [
        {**TRIAL, "number": 0, "state": "complete", "settings": {"width": 32}, "scores": {"kid": 0.5, "fid": 9.0}},
        {**TRIAL, "number": 1, "state": "complete", "settings": {"width": 48}, "scores": {"kid": 0.125, "fid": 4.0}},
        {**TRIAL, "number": 2, "state": "pruned", "settings": {"width": 16}, "scores": {}},
        {**TRIAL, "number": 3, "state": "failed", "settings": {"width": 16}, "scores": {}, "error": "<b>it diverged"},
    ],
}


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("gan") / "gan.safetensors"
    digits = load("digits:test")
    encoder = cells.prepare(digits).encoder
    config = GanConfig(latent_dim=16, width=8, steps=20, batch_size=32, monitor_checks=2)
    context = FamilyContext(encoder, CPU, Progress())
    train_and_save(DataSplit(digits, SplitConfig()), config, context, path)
    data = gan_report_data(path, digits, encoder, device=CPU)
    assert data.scores is None and data.tuning is None
    from diffgen.sources import gan as gan_loader

    found = score(gan_loader.load(path, device=CPU)[0], digits, None, encoder, draws=2, images=200)
    add_to_header(path, {"scores": found.as_dict(), "tuning": TUNING})
    return path


@pytest.fixture(scope="module")
def data(checkpoint: Path) -> GanReportData:
    digits = load("digits:test")
    return gan_report_data(checkpoint, digits, cells.prepare(digits).encoder, device=CPU)


def test_the_page_holds_the_figures(checkpoint: Path, data: GanReportData, read_page: type[Page]) -> None:
    digits = load("digits:test")
    written = write_gan_report(checkpoint, digits, cells.prepare(digits).encoder, device=CPU)
    assert written == checkpoint.with_suffix(".html")
    source = written.read_text(encoding="utf-8")
    assert source == render_gan_page(data)
    page = read_page(source)
    assert page.problems == []
    assert data.scores is not None
    for words in (
        f"after {data.kept_step} updates",
        f"{data.scores['precision']['mean'] * 100:.1f}%",
        "2 draws",
        "200 generated against 200 real images",
        "trials pruned1",
        "trials failed1",
        "best: width48",
        "75%",
        "1,000 held-out real images",
        "complete, best",
    ):
        assert words in page.flat_text, words
    assert "src=" in source and "://" not in source  # pictures are base64, which has no colon
    assert page.script == ""
    assert "<b>it diverged" not in source


def test_pictures_are_those_of_the_gan_by_class(data: GanReportData, read_page: type[Page]) -> None:
    assert [row.name for row in data.sheet] == [str(digit) for digit in range(10)]
    assert len({row.images.tobytes() for row in data.sheet}) == 10
    page = read_page(render_gan_page(data))
    assert len(page.all("img", alt="generated picture of 3")) == 12
    assert len(page.all("img", alt="nearest real image")) == len(data.pairs) == 20


def test_nearest_real_images_are_the_nearest(data: GanReportData) -> None:
    digits = load("digits:test")
    encoder = cells.prepare(digits).encoder
    known = encoder.encode(torch.from_numpy(digits.images)).numpy()
    for pair in data.pairs[:5]:
        generated, real = encoder.encode(torch.from_numpy(np.stack([pair.generated, pair.real]))).numpy()
        # one in ten is held out and not looked at
        closer = (np.linalg.norm(known - generated, axis=1) < np.linalg.norm(real - generated) - 1e-3).sum()
        assert closer <= 3


def test_the_warning_stands_in_plain_sight(data: GanReportData, read_page: type[Page]) -> None:
    bad = replace(data, wrong="The GAN is of little use: it repeats itself.")
    assert len(read_page(render_gan_page(bad)).all("div", class_="alerts")) == 1
    assert "it repeats itself" in read_page(render_gan_page(bad)).flat_text
    assert read_page(render_gan_page(replace(data, wrong=None))).all("div", class_="alerts") == []


def test_names_are_escaped(data: GanReportData, read_page: type[Page]) -> None:
    page = read_page(render_gan_page(replace(data, data_name="<script>1</script>")))
    assert page.script == "" and page.problems == []
    assert "<script>1</script>" in page.text


def test_without_guard_scores_study_and_classes(data: GanReportData, read_page: type[Page]) -> None:
    bare = replace(
        data,
        readings=(),
        scores=None,
        tuning=None,
        class_names=(),
        labelled=False,
        sheet=tuple(replace(row, name="") for row in data.sheet),
    )
    page = read_page(render_gan_page(bare))
    assert page.problems == []
    assert page.all("section", id="tuning") == []
    assert "has not been scored" in page.flat_text
    assert len(page.all("svg")) == 1


def test_curves_leave_out_what_is_not_finite_and_average_the_rest() -> None:
    many = [float(i) for i in range(10_000)]
    chart = curves_chart(
        [Curve("a", many, many, "real"), Curve("b", [1.0, 2.0], [float("nan"), 1.0], "ink")],
        x_label="updates",
        title="t",
        name="n",
        mark=5.0,
    )
    assert "nan" not in chart and ">kept<" in chart
    assert len(chart) < 30_000


def test_trials_on_a_logarithmic_axis_when_they_lie_far_apart() -> None:
    near = trials_chart([1, 2], [0.5, 0.4], title="t")
    far = trials_chart([1, 2, 3], [50.0, 0.4, -0.001], title="t")
    assert near.startswith("<svg") and far.startswith("<svg")
