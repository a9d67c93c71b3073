"""``diffgen shrink``: pairs of pictures on both sides of the border, from a real run."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest
import torch

from diffgen.comparison.filter_chain import make_pipeline
from diffgen.comparison.image_source import prepare_source
from diffgen.comparison.opened_run import OpenedRun
from diffgen.comparison.stages import CompareResult
from diffgen.config import CompareConfig, from_dict
from diffgen.data.split import DataSplit
from diffgen.errors import UserError
from diffgen.events import Progress
from diffgen.features import cells as cell_store
from diffgen.report.reading import report_data
from diffgen.runs.folder import RunFolder
from diffgen.runs.results import FinishedRun
from diffgen.runs.triggers import TriggerTable
from diffgen.sources.base import FamilyContext
from diffgen.sources.operators import Range, Scene
from diffgen.sources.seeds import SeedsSettings, SeedsSource
from diffgen.sources.space import random_genes
from diffgen.types import ImageSet
from diffgen.workflows.shrink import ShrinkResult, check_drawn_again, shrink


@pytest.fixture(scope="module")
def shrunk(finished: CompareResult, tmp_path_factory: pytest.TempPathFactory) -> ShrinkResult:
    run = tmp_path_factory.mktemp("shrink") / "run"
    shutil.copytree(finished.run, run)
    return shrink(run, limit=6)


def test_pairs_hold_when_asked_one_at_a_time(shrunk: ShrinkResult) -> None:
    folder = RunFolder.open(shrunk.run)
    arrays = folder.read_arrays("shrunk")
    assert shrunk.tried == 6
    assert shrunk.shrunk == len(arrays["numbers"]) > 0
    models = OpenedRun(folder).models()
    for model in models:
        model.prepare(arrays["triggers"])
    for image in arrays["triggers"]:
        assert len({int(model.predict(image[None]).argmax()) for model in models}) == 2
    for image in arrays["agreeing"]:
        assert len({int(model.predict(image[None]).argmax()) for model in models}) == 1


def test_no_filter_rejects_either_picture_of_a_pair(shrunk: ShrinkResult, digits: ImageSet) -> None:
    folder, cpu, silent = RunFolder.open(shrunk.run), torch.device("cpu"), Progress()
    config = from_dict(CompareConfig, folder.config())
    encoder = cell_store.prepare(digits, device=cpu, progress=silent).encoder
    split = DataSplit(digits, config.split)
    made = prepare_source(split, config, FamilyContext(encoder, cpu, silent))
    recogniser = OpenedRun(folder).recogniser(split, silent)
    pipeline = make_pipeline(
        split, made.scorer, config, recogniser=recogniser, batch_size=64, device=cpu, progress=silent
    )
    arrays = folder.read_arrays("shrunk")
    for name in ("agreeing", "triggers"):
        margin = pipeline.scores(torch.from_numpy(arrays[name])) - pipeline.calibration.thresholds
        assert margin.min() > -1e-4, name  # filtered in other batches, a last digit may differ


def test_the_difference_is_what_is_said(shrunk: ShrinkResult) -> None:
    arrays = RunFolder.open(shrunk.run).read_arrays("shrunk")
    change = arrays["triggers"].astype(float) - arrays["agreeing"].astype(float)
    np.testing.assert_allclose(arrays["difference"], np.sqrt((change**2).mean(axis=(1, 2, 3))), rtol=1e-4)
    assert (arrays["difference"] <= arrays["before"]).all()
    assert shrunk.after == pytest.approx(np.median(arrays["difference"]))
    assert shrunk.before is not None and shrunk.after is not None
    assert shrunk.after < shrunk.before


def test_the_report_shows_the_pairs(shrunk: ShrinkResult) -> None:
    data = report_data(FinishedRun.open(shrunk.run))
    assert len(data.shrunk) == shrunk.shrunk
    text = Path(shrunk.report).read_text(encoding="utf-8")
    assert 'id="shrunk"' in text
    assert text.count("as found</span>") == shrunk.shrunk
    for pair in data.shrunk:
        assert pair.agreeing.labels[0] == pair.agreeing.labels[1]
        assert pair.trigger.labels[0] != pair.trigger.labels[1]


def test_one_trigger_is_shrunk_beside_those_from_before(shrunk: ShrinkResult, tmp_path: Path) -> None:
    run = tmp_path / "run"
    shutil.copytree(shrunk.run, run)
    before = RunFolder.open(run).read_arrays("shrunk")
    again, new = int(before["numbers"][0]), _other_than(run, before["numbers"])
    result = shrink(run, triggers=[again, new])
    after = RunFolder.open(run).read_arrays("shrunk")
    assert (result.tried, result.shrunk) == (2, np.isin([again, new], after["numbers"]).sum())
    assert len(set(after["numbers"].tolist())) == len(after["numbers"])
    rows = np.flatnonzero(np.isin(after["numbers"], before["numbers"][1:]))
    for name, values in before.items():
        assert np.array_equal(after[name][rows], values[1:]), name
    assert {*before["numbers"][1:].tolist()} <= {*after["numbers"].tolist()} <= {*before["numbers"].tolist(), new}
    with pytest.raises(UserError, match="reported no trigger 999999"):
        shrink(run, triggers=[999_999])
    assert np.array_equal(RunFolder.open(run).read_arrays("shrunk")["numbers"], after["numbers"])


def _other_than(run: Path, numbers: np.ndarray) -> int:
    shown = RunFolder.open(run).read_arrays("report")["shown"]
    return int(shown[~np.isin(shown, numbers)][0])


def test_a_run_that_was_not_shrunk_has_no_such_part(finished: CompareResult) -> None:
    assert 'id="shrunk"' not in (Path(finished.run) / "report.html").read_text(encoding="utf-8")


def test_what_cannot_be_shrunk(finished: CompareResult, tmp_path: Path, digits: ImageSet) -> None:
    with pytest.raises(UserError, match="not a run folder"):
        shrink(tmp_path)
    with pytest.raises(UserError, match="number of triggers from 1"):
        shrink(finished.run, limit=0)
    other = ImageSet(255 - digits.images, digits.labels, digits.class_names, "inverted")
    with pytest.raises(UserError, match="is not what the run"):
        shrink(finished.run, data=other)
    run = tmp_path / "run"
    shutil.copytree(finished.run, run)
    RunFolder.open(run).save_manifest(gan="0" * 64)
    with pytest.raises(UserError, match="run the comparison again"):
        shrink(run)


def test_a_source_that_draws_other_pictures_than_the_run_had_is_refused(digits: ImageSet, tmp_path: Path) -> None:
    """As one whose operators go elsewhere, or whose auto-encoder is another."""
    seeds, cpu = torch.from_numpy(digits.images), torch.device("cpu")
    config = SeedsSettings(operators=("rotation",), steps=1)
    reach = {"rotation": {"degrees": Range(-20, 0, 20)}}
    source = SeedsSource(Scene(seeds, [0.0]), config, ranges=reach, device=cpu)
    genes = random_genes(source.space, 30, torch.Generator().manual_seed(0))
    answers = np.zeros((30, 2, 10), dtype=np.float32)
    triggers = TriggerTable.of(source.draw(genes).numpy(), answers, genes=genes.numpy())
    check_drawn_again(source, triggers, batch_size=7, path=tmp_path)
    check_drawn_again(source, triggers[np.arange(0)], batch_size=7, path=tmp_path)
    other = SeedsSource(Scene(seeds, [0.0]), config, device=cpu)
    with pytest.raises(UserError, match="draws others now"):
        check_drawn_again(other, triggers, batch_size=7, path=tmp_path)


def test_another_jury_than_the_run_had_is_refused(finished: CompareResult, tmp_path: Path) -> None:
    """It recognises other pictures, and lets operators go elsewhere, so that genes draw other ones."""
    run = tmp_path / "run"
    shutil.copytree(finished.run, run)
    folder = RunFolder.open(run)
    folder.save_manifest(jury={**folder.manifest["jury"], "sha256": "0" * 64})
    with pytest.raises(UserError, match=r"The jury .* is another"):
        shrink(run)
