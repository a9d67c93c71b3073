"""A comparison whose pictures a jury must recognise, on real digits."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from diffgen.comparison.opened_run import OpenedRun
from diffgen.comparison.requirements import check_settings, over_before_a_jury
from diffgen.config import Budget, CompareConfig, FilterConfig, ModelSpec, Preprocessing, SourceConfig, replace
from diffgen.data import load
from diffgen.errors import UserError
from diffgen.models.loading import load as load_model
from diffgen.runs.folder import RunFolder
from diffgen.runs.results import FinishedRun, read_finished
from diffgen.runs.triggers import AGREED, SEED, UNKNOWN_LABEL
from diffgen.types import ImageSet
from diffgen.workflows.compare import compare
from tests.recording import Recording


def changing_real_data(name: str, *, shown: int = 1_000) -> CompareConfig:
    """A short search without a generator, with one filter and a jury that was shown little."""
    return CompareConfig(
        technique="real_data",
        budget=Budget(queries=600),
        device="cpu",
        filters=FilterConfig(names=(name,), filters={"jury": {"shown": shown}}),
    )


def test_a_comparison_asks_the_jury_where_it_is_named(model_files: dict[str, Path], tmp_path: Path) -> None:
    config = changing_real_data("jury", shown=6_000)
    given = model_files["a"], model_files["b"]
    found = compare(*given, data="digits:test", config=config, output=tmp_path / "run")
    folder = RunFolder.open(tmp_path / "run")
    asked = folder.results()["filters"]
    assert [each["name"] for each in asked] == ["jury"]
    table = folder.read_judged()
    assert 0 < table.valid.sum() < len(table), "some are recognised, some are not"
    results = read_finished(folder)
    kept, seed_labels = table[table.recognised_distinct], table.known.seed_labels
    assert seed_labels is not None and table.known.named is not None
    np.testing.assert_array_equal(table.known.named[table.recognised], seed_labels[table.recognised])
    np.testing.assert_array_equal(
        table.faults[table.recognised], table.labels[table.recognised] != seed_labels[table.recognised, None]
    )
    assert results.faults is not None and list(results.faults) == ["B", "A", "all"]
    assert results.recognised_distinct_triggers == len(kept) > 0
    assert sum(each["pictures"] for each in results.faults.values()) == len(kept), "of two that differ one is wrong"
    assert results.recognised_behaviours == len({tuple(row) for row in kept.behaviours.tolist()})
    assert found.faults == results.faults and found.as_dict()["recognised_triggers"] == results.recognised_triggers
    assert results.jury is not None and not results.jury.agreed


def test_without_labels_the_models_teach_it(model_files: dict[str, Path], tmp_path: Path) -> None:
    digits = load("digits:test")
    bare = ImageSet(digits.images, None, None, "digits without labels")
    config = changing_real_data("ssim")
    said: list[object] = []
    compare(model_files["a"], model_files["b"], data=bare, config=config, output=tmp_path / "run", events=said.append)
    results = read_finished(RunFolder.open(tmp_path / "run"))
    assert results.jury is not None and results.jury.agreed and results.jury.trained_on < len(digits)
    assert any("with the labels that the models agree on" in str(each) for each in said)


def test_it_is_left_out_where_nothing_can_be_learned(model_files: dict[str, Path], tmp_path: Path) -> None:
    config = changing_real_data("ssim")
    given = model_files["a"], model_files["b"]
    digits = load("digits:test")
    few = ImageSet(digits.images[:80], None, None, "few digits")
    result = compare(*given, data=few, config=config, output=tmp_path / "run")
    results = read_finished(RunFolder.open(tmp_path / "run"))
    assert result.faults is None and results.jury is None and "nothing says who is wrong" in results.no_jury
    assert not RunFolder.open(tmp_path / "run").read_judged().recognised.any()


def test_a_search_that_is_over_before_a_jury_has_learned_has_none(model_files: dict[str, Path], tmp_path: Path) -> None:
    """Of large pictures, and again where it is gone on with: the filters are named by then."""
    digits = load("digits:test", resize=128)
    models = [ModelSpec(str(model_files[role]), Preprocessing(size=(28, 28))) for role in "ab"]
    config, heard = CompareConfig(device="cpu", budget=Budget(queries=64)), Recording()
    result = compare(*models, data=digits, config=config, output=tmp_path / "run", events=heard)
    assert "of large pictures one learns longer than a search of 64 queries takes" in result.no_jury
    assert "Training the jury" not in heard.totals
    assert result.verdicts_rest_on == {"seed": result.recognised_distinct_triggers, "agreed": 0}
    settled = OpenedRun(RunFolder.open(result.run)).config
    assert settled.filters.names == ("neighbors", "ssim") and over_before_a_jury(settled, digits.image_shape)


def test_a_jury_is_trained_where_it_is_worth_it_or_asked_for() -> None:
    short = CompareConfig(budget=Budget(queries=999), source=SourceConfig(family="seeds"))
    assert over_before_a_jury(short, (3, 224, 224)) and not over_before_a_jury(short, (3, 64, 64))
    assert not over_before_a_jury(replace(short, budget=Budget(queries=1_000)), (3, 224, 224))
    assert not over_before_a_jury(replace(short, budget=Budget(seconds=5)), (3, 224, 224))
    assert not over_before_a_jury(replace(short, filters=FilterConfig(names=("jury",))), (3, 224, 224))
    assert not over_before_a_jury(replace(short, select=True), (3, 224, 224))
    assert not over_before_a_jury(replace(short, source=SourceConfig(family="vae")), (3, 224, 224))


@pytest.mark.parametrize("labelled", [True, False])
def test_real_images_say_what_their_mild_changes_show(
    model_files: dict[str, Path], tmp_path: Path, labelled: bool
) -> None:
    digits = load("digits:test")
    assert digits.labels is not None
    few = ImageSet(digits.images[:90], digits.labels[:90] if labelled else None, None, "few digits")
    config = CompareConfig(device="cpu", budget=Budget(queries=1_000))
    heard = Recording()
    result = compare(model_files["a"], model_files["b"], data=few, config=config, output=tmp_path / "run", events=heard)
    run = FinishedRun.open(tmp_path / "run")
    assert "Learning to redraw real images" not in heard.totals  # no filter asks for it
    assert run.results.jury is None and "which mild changes keep" in run.results.no_jury
    found = run.triggers
    assert found.seeds is not None and result.recognised_triggers is not None and result.recognised_triggers > 0
    said = (few.labels if few.labels is not None else _agreed(model_files, few.images))[found.seeds]
    known = said != UNKNOWN_LABEL
    np.testing.assert_array_equal(found.recognised, known)
    np.testing.assert_array_equal(found.faults, known[:, None] & (found.labels != said[:, None]))
    basis = SEED if labelled else AGREED
    assert result.verdicts_rest_on == {SEED: 0, AGREED: 0, basis: result.recognised_distinct_triggers}
    report = (tmp_path / "run" / "report.html").read_text(encoding="utf-8")
    assert "which mild changes keep" in report and "The jury sees" not in report


def _agreed(model_files: dict[str, Path], images: np.ndarray) -> np.ndarray:
    said = []
    for name in ("a", "b"):
        model = load_model(model_files[name])
        model.prepare(images)
        said.append(model.predict(images).argmax(axis=1))
    return np.where(said[0] == said[1], said[0], UNKNOWN_LABEL)


def test_the_filter_is_refused_without_a_jury(
    model_files: dict[str, Path], tmp_path: Path, told: Callable[[str, str, object], None]
) -> None:
    config = CompareConfig(technique="real_data", device="cpu", filters=FilterConfig(names=("jury",)))
    given = model_files["a"], model_files["b"]
    digits = load("digits:test")
    assert digits.labels is not None
    fours = digits.labels == 4
    alike = ImageSet(digits.images[fours], digits.labels[fours], None, "digits of one label")
    few = ImageSet(digits.images[:79], digits.labels[:79], None, "few digits")
    for data, part, case in (
        (alike, "one label only", "the filter jury for images of one label"),
        (few, "10 classes take 100 images .* are 71 without those held out", "the filter jury for too few images"),
    ):
        heard = Recording()
        with pytest.raises(UserError, match=part) as caught:
            compare(*given, data=data, config=config, output=tmp_path / "none", events=heard)
        told("`diffgen compare`", case, caught.value)
        assert not (tmp_path / "none").exists()
        # nobody waits for it: the labels tell, before the models are asked about them
        assert "Asking the models about the real images" not in heard.totals


def test_answers_that_nothing_learns_from_are_said(told: Callable[[str, str, object], None]) -> None:
    filters = FilterConfig(names=("ssim",), learned_from="said.npz")
    with pytest.raises(UserError, match="add learned to --filters") as caught:
        check_settings(CompareConfig(technique="real_data", filters=filters))
    told("`diffgen compare`", "answers that no filter learns from", caught.value)
