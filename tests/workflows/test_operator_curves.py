"""A run that changes real images says how the models answer as every operator gets stronger, on images of no search."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from diffgen.comparison.operator_curves import _missing, _plan
from diffgen.config import CompareConfig, FilterConfig, SourceConfig, replace
from diffgen.data import load
from diffgen.errors import UserError
from diffgen.report.from_run import write_report
from diffgen.report.reading import read_operators
from diffgen.runs.arrays import write_arrays
from diffgen.runs.folder import RunFolder
from diffgen.sources.operators import Range, Scene
from diffgen.sources.seeds import SeedsSettings, SeedsSource
from diffgen.workflows.compare import compare

FILTERS = FilterConfig(filters={"reconstruction": {"training_steps": 80}, "jury": {"shown": 6_000}})


def config_of(small: CompareConfig, **own: object) -> CompareConfig:
    source = SourceConfig(family="seeds").with_family(SeedsSettings(operators=("rotation", "noise"), **own))
    return replace(small, source=source, filters=FILTERS)


@pytest.fixture(scope="module")
def run(
    model_files: dict[str, Path], small_config: CompareConfig, tmp_path_factory: pytest.TempPathFactory
) -> RunFolder:
    files, folder = (model_files["a"], model_files["b"]), tmp_path_factory.mktemp("curves")
    config = config_of(small_config, explain=1.0)
    return RunFolder.open(compare(*files, data="digits:test", config=config, output=folder).run)


def test_the_curves(run: RunFolder) -> None:
    view = read_operators(run)
    assert view is not None
    assert view.judged_by == "label"
    assert view.images * 11 == view.asked <= 600
    turned, noisy = view.curves
    assert (turned.operator, turned.strength) == ("rotation", "degrees")
    assert (noisy.operator, noisy.strength) == ("noise", "grey levels")
    assert (len(turned.x), len(noisy.x)) == (7, 4)
    assert turned.x[3] == noisy.x[0] == 0
    assert list(turned.x) == sorted(turned.x)
    # nothing done is the same image, whatever the operator
    assert [each[3] for each in turned.accuracy] == [each[0] for each in noisy.accuracy]
    assert turned.disagreement[3] == noisy.disagreement[0]
    for each in view.curves:
        assert all(0 <= value <= 1 for line in (*each.accuracy, each.disagreement) for value in line)
    assert min(each[3] for each in turned.accuracy) > 0.7


def test_the_page_shows_them(run: RunFolder) -> None:
    page = write_report(run).read_text(encoding="utf-8")
    assert "What each change does to the models" in page
    assert 'id="operators"' in page
    assert page.count("accuracy and disagreement of the models by") == 4  # for the ear, and as a title


def test_damaged_curves_are_refused(run: RunFolder) -> None:
    arrays = run.read_arrays("operators")
    file = run.file("operators.npz")
    before = file.read_bytes()
    for damage in (
        {"strengths": arrays["strengths"][:-1]},
        {"accuracy": arrays["accuracy"].astype(np.int64)},
        {"about": {"images": 0, "judged_by": "label"}},
        {"about": {"images": 5, "judged_by": "<b>"}},
    ):
        write_arrays(file, {**arrays, **damage}, compress=True)
        with pytest.raises(UserError, match="damaged"):
            read_operators(run)
    file.write_bytes(before)
    assert read_operators(run) is not None


def test_none_where_the_jury_lets_no_operator_go_anywhere() -> None:
    images = torch.from_numpy(load("digits:test").images)
    still = {"rotation": {"degrees": Range(0, 0, 0)}, "noise": {"levels": Range(0, 0, 0)}}
    config = SeedsSettings(operators=("rotation", "noise"))
    source = SeedsSource(Scene(images, None), config, ranges=still, device=torch.device("cpu"))
    assert _plan(source, 10_000) == ([], 0)


@pytest.mark.parametrize(("pictures", "strengths", "images"), [(20_000, 153, 130), (2_300, 110, 20), (1_400, 67, 20)])
def test_colour_images_have_curves_of_fewer_strengths_before_they_have_none(
    pictures: int, strengths: int, images: int
) -> None:
    seeds = torch.zeros((2, 3, 64, 64), dtype=torch.uint8)
    source = SeedsSource(Scene(seeds, None), SeedsSettings(), device=torch.device("cpu"))
    points, count = _plan(source, pictures)
    assert (len(points), count) == (strengths, images)


@pytest.mark.parametrize("share", [pytest.param(0.0, marks=pytest.mark.slow), 0.1])
def test_none_where_they_are_not_wanted_or_would_cost_too_much(
    share: float, model_files: dict[str, Path], small_config: CompareConfig, tmp_path: Path
) -> None:
    """A tenth of 600 queries is too few images for each strength to say anything."""
    files = model_files["a"], model_files["b"]
    config = config_of(small_config, explain=share)
    run = RunFolder.open(compare(*files, data="digits:test", config=config, output=tmp_path).run)
    assert read_operators(run) is None
    assert 'id="operators"' not in run.file("report.html").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("count", "shown", "left", "said"),
    [
        (20, 20, [None, None], None),
        (20, 20, [40, None], None),
        (19, 19, [None, None], "they take 40 pictures after the search, more than source.seeds.explain leaves of"),
        (20, 19, [None, None], "they take 20 real images of which it is known what they show, and there are 19"),
        (20, 20, [None, 39], "they take 40 more pictures; a larger --query-budget makes room"),
    ],
)
def test_it_is_said_what_is_missing_for_curves(
    count: int, shown: int, left: list[int | None], said: str | None
) -> None:
    scene = Scene(torch.zeros((2, 1, 8, 8), dtype=torch.uint8), None)
    points = _plan(SeedsSource(scene, SeedsSettings(), device=torch.device("cpu")), 0)[0][:2]
    found = _missing(points, count, np.zeros((shown, 1, 8, 8), dtype=np.uint8), left)
    assert found is None if said is None else found is not None and found.startswith(said)
