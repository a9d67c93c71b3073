"""The whole line on real digits: what a run writes, and that it can be believed."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import torch

import diffgen
from diffgen.comparison import checkpoints
from diffgen.comparison.named_settings import stored_settings
from diffgen.comparison.stages import CompareResult
from diffgen.config import Budget, CompareConfig, from_dict, replace
from diffgen.errors import RunError, UserError
from diffgen.metrics.counting import CONFIRMED_SINGLE
from diffgen.models.loading import file_digest
from diffgen.report.reading import report_data
from diffgen.runs import cache
from diffgen.runs.folder import RunFolder
from diffgen.runs.results import FinishedRun
from diffgen.types import ImageSet
from diffgen.workflows.compare import compare
from diffgen.workflows.demo import dense_classifier, save_onnx
from diffgen.workflows.listing import draw_report
from diffgen.workflows.replay import replay
from diffgen.workflows.resume import resume
from tests.recording import Recording
from tests.workflows.breaking import Fragile


def stored_images(run: str | Path) -> np.ndarray:
    return RunFolder.open(run).read_triggers().images


def test_the_figures_agree_with_what_is_stored(finished: CompareResult) -> None:
    folder = RunFolder.open(finished.run)
    parts, verdicts, results = folder.read_triggers(), folder.read_arrays("verdicts"), folder.results()
    labels = parts.labels
    assert finished.queries == 600
    assert finished.triggers == len(labels) == len(verdicts["cells"]) > 30
    assert (labels[:, 0] != labels[:, 1]).all()
    # every trigger was asked again, one image at a time
    assert (verdicts["confirmed"] == CONFIRMED_SINGLE).all()
    valid = verdicts["rejected_by"] < 0
    assert finished.valid_triggers == valid.sum() > 0
    # a behaviour is counted among the valid triggers that repeat no other one
    repeats = verdicts["near_duplicate_of"]
    behaviours: dict[tuple[int, ...], list[int]] = {}
    for row in np.flatnonzero(valid).tolist():
        if repeats[row] == row:
            behaviours.setdefault((*labels[row].tolist(), int(verdicts["cells"][row])), []).append(row)
    assert finished.behaviours == len(behaviours) == results["behaviours"]
    assert finished.label_pairs == len({key[:2] for key in behaviours})
    assert np.sum(results["pair_counts"]) == finished.distinct_valid_triggers
    once, twice = (sum(len(rows) == times for rows in behaviours.values()) for times in (1, 2))
    assert finished.behaviours_at_least == len(behaviours) + once * (once - 1) // (2 * (twice + 1))
    new = sum(parts.query[rows[0]] > 480 for rows in behaviours.values())
    assert finished.discovery == results["discovery"]
    assert finished.discovery == {"queries": 120, "new_behaviours": new, "per_1000_queries": round(new / 0.12, 3)}
    assert results["validity"] == {"ratio": finished.valid_triggers / finished.triggers}
    assert len({image.tobytes() for image in parts.images}) == finished.triggers
    assert (np.diff(parts.query) > 0).all()
    assert parts.query.max() <= 600


def test_every_trigger_keeps_its_scores_and_the_reason(finished: CompareResult) -> None:
    folder = RunFolder.open(finished.run)
    verdicts, results = folder.read_arrays("verdicts"), folder.results()
    for index, each in enumerate(results["filters"]):
        scores = verdicts["scores"][:, index]
        rejected = verdicts["rejected_by"] == index
        assert each["rejected"] == rejected.sum()
        assert (scores[rejected] < each["threshold"]).all()
        asked = ~np.isnan(scores)
        assert (asked | ((verdicts["rejected_by"] >= 0) & (verdicts["rejected_by"] < index))).all()
    assert [each["name"] for each in results["filters"]] == ["neighbors", "jury", "ssim"]
    # what is shown has the scores of all filters
    shown = folder.read_arrays("report")
    assert np.isfinite(shown["shown_scores"]).all()
    numbers = np.concatenate([shown["shown"], shown["rejected"]])
    np.testing.assert_allclose(shown["shown_scores"][:, 0], verdicts["scores"][numbers, 0], atol=1e-4)


def test_the_thresholds_keep_the_stated_share_of_real_images(finished: CompareResult) -> None:
    folder = RunFolder.open(finished.run)
    results, scores = folder.results(), folder.read_arrays("report")["held_out_scores"]
    rejected = (scores < [each["threshold"] for each in results["filters"]]).any(axis=1).mean()
    assert rejected <= 0.05
    assert results["calibration"]["reached"] == pytest.approx(rejected, abs=1e-6)
    assert results["calibration"]["held_out"] == len(scores)


def test_near_duplicates_are_counted_once_in_the_headline(finished: CompareResult) -> None:
    folder = RunFolder.open(finished.run)
    repeats, results = folder.read_arrays("verdicts")["near_duplicate_of"], folder.results()
    valid = np.flatnonzero(repeats >= 0)
    assert len(valid) == finished.valid_triggers
    originals = valid[repeats[valid] == valid]
    assert len(originals) == finished.distinct_valid_triggers == results["distinct_valid_triggers"]
    assert set(repeats[valid].tolist()) == set(originals.tolist())
    labels = folder.read_triggers().labels
    assert (labels[valid] == labels[repeats[valid]]).all()
    text = (Path(finished.run) / "report.html").read_text(encoding="utf-8")
    assert f"<dd>{finished.distinct_valid_triggers}</dd>" in text
    # the jury may name a near-duplicate of one that it cannot name: what is shown then is that one
    judged = folder.read_judged()
    allowed = np.flatnonzero(judged.distinct | judged.recognised_distinct)
    assert set(folder.read_arrays("report")["shown"].tolist()) <= set(allowed.tolist())


def test_the_stored_latent_vectors_give_the_stored_images(gan_run: CompareResult) -> None:
    """To within float rounding: one grey level in at most 1 of 10,000 pixels; the stored bytes are the truth."""
    from diffgen.sources.gan import load

    folder = RunFolder.open(gan_run.run)
    parts, used = folder.read_triggers(), folder.manifest["gan"]
    kept = (cache.cache_folder() / "gan").glob("*.safetensors")
    checkpoint = next(file for file in kept if file_digest(file) == used)
    generator, _, _ = load(checkpoint, device=torch.device("cpu"))
    again = generator.draw(torch.from_numpy(parts.genes)).numpy().astype(int)
    difference = np.abs(again - parts.images)
    assert difference.max() <= 1 and (difference > 0).mean() <= 1e-4


def test_same_seed_same_run_and_nothing_is_trained_again(
    finished: CompareResult, model_files: dict[str, Path], small_config: CompareConfig, tmp_path: Path
) -> None:
    listener = Recording()
    again = compare(
        model_files["a"],
        model_files["b"],
        data="digits:test",
        config=small_config,
        output=tmp_path / "again",
        events=listener,
    )
    trainings = ("Training", "Learning")
    assert [stage for stage in listener.totals if stage.startswith(trainings)] == []
    assert np.array_equal(stored_images(again.run), stored_images(finished.run))
    assert replace(again, run="", seconds=0) == replace(finished, run="", seconds=0)
    # the bar counted what is counted at the end: the filters were asked in the search
    assert listener.figures["behaviours"] == finished.behaviours
    assert listener.figures["label_pairs"] == finished.label_pairs
    assert listener.figures["valid_share"] == finished.valid_triggers / finished.triggers


def test_the_run_folder_holds_what_the_house_rules_ask_for(finished: CompareResult) -> None:
    run = Path(finished.run)
    names = {path.name for path in run.iterdir()}
    assert {"config.toml", "manifest.json", "triggers", "results.json", "report.html", "summary.md", "images"} <= names
    manifest = json.loads((run / "manifest.json").read_text())
    assert manifest["status"] == "done"
    assert all(re.fullmatch(r"[0-9a-f]{64}", manifest["files"][role]["sha256"]) for role in "AB")
    config = from_dict(CompareConfig, RunFolder.open(run).config())
    assert config.seed == 3
    assert config.models[0].preprocessing.outputs == "logits"  # what was detected is recorded
    assert not list(run.rglob("*.tmp"))


def test_report_is_drawn_again_without_models_and_data(finished: CompareResult) -> None:
    page = Path(finished.run) / "report.html"
    before = page.read_bytes()
    assert draw_report(finished.run) == page
    assert page.read_bytes() == before
    data = report_data(FinishedRun.open(finished.run))
    assert sum(group.count for group in data.groups) <= data.headline_count
    assert all(picture.nearest_real is not None for group in data.groups for picture in group.pictures)
    for series in data.results.history.values():
        assert len(series) == len(data.results.history["queries"])
        assert all(a <= b for a, b in pairwise(series))
    assert data.results.history["behaviours"][-1] == data.results.behaviours


@pytest.mark.parametrize("other", ["a", "a_onnx"])
def test_a_model_against_itself_finds_nothing(
    other: str, model_files: dict[str, Path], small_config: CompareConfig, tmp_path: Path
) -> None:
    config = replace(small_config, budget=Budget(queries=300))
    result = compare(model_files["a"], model_files[other], data="digits:test", config=config, output=tmp_path / "run")
    assert (result.queries, result.triggers, result.valid_triggers) == (300, 0, 0)
    assert (tmp_path / "run" / "report.html").is_file()
    nobody = {"A": [0, 0], "B": [0, 0], "all": [0, 0]}
    replayed = {"run": result.run, "replayed": 0, "reproduced": 0, "faults": nobody}
    assert diffgen.replay(result.run).as_dict() == replayed


def test_random_latent_is_another_search_on_the_same_line(
    model_files: dict[str, Path], small_config: CompareConfig, finished: CompareResult, tmp_path: Path
) -> None:
    result = compare(
        model_files["a"],
        model_files["b"],
        data="digits:test",
        technique="random_latent",
        config=small_config,
        output=tmp_path / "run",
    )
    assert result.queries == 600
    assert result.triggers > 0
    # the search is worth something: it asks about pictures that can be counted
    assert result.distinct_valid_triggers < finished.distinct_valid_triggers


@pytest.mark.slow
def test_paper_preset_runs(model_files: dict[str, Path], small_config: CompareConfig, tmp_path: Path) -> None:
    config = replace(small_config, budget=Budget(queries=400))
    result = compare(
        model_files["a"], model_files["b"], data="digits:test", preset="paper", config=config, output=tmp_path / "run"
    )
    assert result.queries == 400
    assert result.triggers > 0


def test_callables_and_arrays_from_python(
    digits: ImageSet, small_config: CompareConfig, model_files: dict[str, Path], tmp_path: Path
) -> None:
    network = torch.jit.load(str(model_files["a"]))

    def shifted(images: np.ndarray) -> np.ndarray:
        """Model A that confuses nothing but leans towards the label 3."""
        with torch.inference_mode():
            probabilities = torch.softmax(network(torch.from_numpy(images)), dim=1)
        probabilities[:, 3] += 0.3
        return (probabilities / probabilities.sum(dim=1, keepdim=True)).numpy()

    result = diffgen.compare(
        model_files["a"],
        shifted,
        data=(digits.images, digits.labels),
        budget="300q",
        config=small_config,
        output=tmp_path / "run",
    )
    labels = RunFolder.open(result.run).read_triggers().labels
    assert set(labels[:, 1].tolist()) == {3}
    with pytest.raises(UserError, match="Python object"):
        diffgen.replay(result.run)
    again = diffgen.replay(result.run, model_files["a"], shifted)
    assert again.reproduced == again.replayed == result.triggers > 0


def test_a_model_that_fails_in_mid_run_loses_nothing(
    model_files: dict[str, Path],
    small_config: CompareConfig,
    finished: CompareResult,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    arm: Callable[[Fragile], None],
) -> None:
    """The run breaks off with exit code 3; gone on with, it ends with the same triggers as the uninterrupted one."""
    monkeypatch.setattr(checkpoints, "SECONDS", 0.0)

    def cut(images: np.ndarray) -> None:
        raise OSError("the wire is cut")

    fragile = Fragile(model_files["a"], cut, after=400)
    arm(fragile)
    with pytest.raises(RunError, match="the wire is cut"):
        compare(fragile, model_files["b"], data="digits:test", config=small_config, output=tmp_path / "run")
    folder = RunFolder.open(tmp_path / "run")
    assert folder.manifest["status"] == "running"
    assert 0 < len(folder.read_triggers().images) < finished.triggers
    with pytest.raises(UserError, match="did not come to its end"):
        draw_report(tmp_path / "run")
    result = resume(tmp_path / "run", fragile, None)
    assert result.queries == 600
    assert np.array_equal(stored_images(result.run), stored_images(finished.run))


def test_a_model_that_looks_wrongly_fed_is_warned_about(
    model_files: dict[str, Path], small_config: CompareConfig, tmp_path: Path
) -> None:
    network = torch.jit.load(str(model_files["a"]))

    def upside_down(images: np.ndarray) -> np.ndarray:
        if images.shape[2:] != (28, 28):
            raise ValueError("of no other size")
        with torch.inference_mode():
            return network(1 - torch.from_numpy(images)).numpy()

    listener = Recording()
    config = replace(small_config, budget=Budget(queries=100))
    compare(model_files["a"], upside_down, data="digits:test", config=config, output=tmp_path / "run", events=listener)
    assert len(listener.warnings) == 1
    assert "Model B" in listener.warnings[0]
    assert "pre-processing" in listener.warnings[0]


def test_real_disagreements_are_reported_apart(finished: CompareResult, digits: ImageSet) -> None:
    folder = RunFolder.open(finished.run)
    arrays, results = folder.read_arrays("report"), folder.results()
    assert results["real_disagreements"] == np.sum(results["real_matrix"]) > 0
    assert np.array_equal(arrays["real_images"], digits.images[arrays["real_rows"]])
    assert results["preflight"]["accuracy"][0] > 0.8
    assert results["preflight"]["outputs"] == ["logits", "logits"]


def test_three_models(model_files: dict[str, Path], small_config: CompareConfig, tmp_path: Path) -> None:
    """A trigger is a picture on which any two of them disagree; what works with two says so."""
    backwards = tmp_path / "c.onnx"
    torch.manual_seed(3)
    save_onnx(dense_classifier(10).eval(), backwards)
    filters = replace(small_config.filters, names=())
    config = CompareConfig(budget=Budget(queries=300), technique="real_data", filters=filters)
    paths = (model_files["a"], model_files["b"], backwards)
    result = compare(*paths, data="digits:test", config=config, output=tmp_path / "run")
    folder = RunFolder.open(result.run)
    assert sorted(folder.manifest["files"]) == ["A", "B", "C"]
    assert result.triggers > 0
    labels = folder.read_triggers().labels
    assert labels.shape[1] == 3 and (labels != labels[:, :1]).any(axis=1).all()
    assert len(folder.results()["preflight"]["accuracy"]) == 3
    assert "C says" in (Path(result.run) / "report.html").read_text(encoding="utf-8")
    assert [Path(each.path or "").name for each in stored_settings(folder).models] == [path.name for path in paths]
    again = replay(result.run)
    assert again.reproduced == again.replayed == result.triggers
    for technique in ("drfuzz", "dflare"):
        with pytest.raises(UserError, match=f"{technique} compares 2 models, not 3"):
            compare(*paths, data="digits:test", technique=technique, output=tmp_path / "other")
    with pytest.raises(UserError, match="needs two models or more, but 1 was given"):
        compare(paths[0], data="digits:test")
