"""The published line in one command: GAN, search, both filters, figures of the paper, selector."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from diffgen.comparison.stages import CompareResult
from diffgen.config import Budget, CompareConfig, FilterConfig, SelectorConfig, TrainGanConfig, TuningConfig, replace
from diffgen.data import load
from diffgen.errors import UserError
from diffgen.labels.store import LabelStore
from diffgen.metrics.geometric_diversity import over_equal_subsets
from diffgen.metrics.pixel_entropy import pixel_entropy
from diffgen.runs.folder import RunFolder
from diffgen.types import ImageSet
from diffgen.workflows import compare as compare_verb
from diffgen.workflows.compare import compare
from diffgen.workflows.resume import resume
from diffgen.workflows.train_gan import train_gan
from tests.recording import Recording


@pytest.fixture(scope="module", autouse=True)
def _small_forest_and_few_draws() -> Iterator[None]:
    """Forests of 30 trees, and the GAN of a trial scored on 200 pictures."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("diffgen.workflows.select.SelectorConfig", partial(SelectorConfig, trees=30))
        patch.setattr("diffgen.workflows.gan_tuning._IMAGES", 200)
        yield


@pytest.fixture(scope="module")
def line_config(gan_config: CompareConfig) -> CompareConfig:
    """The GAN of the other tests, and filters that let its pictures through, for it has learned for seconds."""
    thresholds = {"discriminator": {"threshold": -100.0}, "ssim": {"threshold": 0.1}}
    filters = FilterConfig(names=("discriminator", "ssim"), filters={**gan_config.filters.filters, **thresholds})
    return replace(gan_config, filters=filters)


@pytest.fixture(scope="module")
def oracle(model_files: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Knows the digits better than A, B, for it is A that has learned from all of them."""
    from diffgen.workflows.demo import convolutional_classifier, save_onnx, train_classifier

    file = tmp_path_factory.mktemp("oracle") / "oracle.onnx"
    save_onnx(train_classifier(convolutional_classifier(10), load("digits"), seed=11, passes=6), file)
    return file


@pytest.fixture(scope="module")
def begun(model_files: dict[str, Path], line_config: CompareConfig, oracle: Path) -> Callable[[Path], CompareResult]:
    """Begins the same run in a folder."""
    given = {"data": "digits:test", "config": line_config, "preset": "diffgan", "oracle": oracle}
    return lambda folder: compare(model_files["a"], model_files["b"], output=folder, **given)


@pytest.fixture(scope="module")
def run(begun: Callable[[Path], CompareResult], tmp_path_factory: pytest.TempPathFactory) -> CompareResult:
    return begun(tmp_path_factory.mktemp("line") / "run")


def test_one_run_has_every_stage(run: CompareResult) -> None:
    folder = RunFolder.open(run.run)
    settings = folder.config()
    assert (settings["source"]["family"], settings["search"]["reducer"], settings["select"]) == ("gan", "pca", True)
    assert [each["name"] for each in folder.results()["filters"]] == ["discriminator", "ssim"]
    assert folder.manifest["status"] == "done"
    store = LabelStore.from_arrays(folder.read_arrays("labels"))
    assert set(store.sources.tolist()) == {"oracle"} and len(store) > 0
    assert run.selector is not None and run.selector["sources"]["oracle"] == run.selector["examples"] > 0
    assert folder.file("selector.onnx").is_file()
    page = folder.file("report.html").read_text(encoding="utf-8")
    for section in ("3.1, 3.2", "3.3 to 3.5", "3.6.1", "3.6.2", "5.1", "5.2", "5.3", "5.4"):
        assert f'<th scope="row">{section}</th>' in page
    assert "the published 0.4 would reject" in page and "labelled triggers (" in page and "by reference models" in page
    assert "| 5.4 | Model selection |" in folder.file("summary.md").read_text(encoding="utf-8")


def test_shannon_diversity_is_that_of_the_distinct_valid_triggers(run: CompareResult) -> None:
    folder = RunFolder.open(run.run)
    triggers, found = folder.read_judged(), folder.results()["shannon_diversity"]
    images = triggers.images[triggers.distinct]
    expected = over_equal_subsets([images], pixel_entropy, size=found["size"])
    assert found["found"]["mean"] == pytest.approx(expected.mean(), abs=1e-3)


def test_the_interval_of_the_selector_holds_its_balanced_accuracy(run: CompareResult) -> None:
    assert run.selector is not None
    judged = {each["name"]: each for each in run.selector["on_triggers"]}
    for each in judged.values():
        low, high = each["balanced_interval"]
        assert 0 <= low <= each["balanced_accuracy"] <= high <= 1


def test_a_run_that_broke_off_while_the_selector_learned_is_gone_on_with(
    run: CompareResult, begun: Callable[[Path], CompareResult], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(compare_verb, "select_after", broken)
        with pytest.raises(KeyboardInterrupt) as caught:
            begun(tmp_path / "run")
    assert any("--resume" in note for note in caught.value.__notes__)
    assert RunFolder.open(tmp_path / "run").manifest["status"] == "running"
    resumed = resume(tmp_path / "run")
    assert RunFolder.open(tmp_path / "run").manifest["status"] == "done"
    assert run.selector is not None and resumed.selector is not None
    assert resumed.selector["on_triggers"] == run.selector["on_triggers"]
    assert resume(tmp_path / "run").selector == resumed.selector  # of a run that is done, the figures are read


def test_without_a_jury_and_an_oracle_the_run_goes_on_and_says_why(
    model_files: dict[str, Path], line_config: CompareConfig, tmp_path: Path, told: Callable[..., None]
) -> None:
    said = Recording()
    all_pass = {"discriminator": {"threshold": -100.0}, "ssim": {"threshold": -1.0}}
    filters = replace(line_config.filters, filters={**line_config.filters.filters, **all_pass})
    config = replace(line_config, budget=Budget.parse("100q"), filters=filters)
    result = compare(
        model_files["a"],
        model_files["b"],
        data="digits:test",
        config=replace(config, gan=replace(config.gan, steps=10)),
        preset="diffgan",
        data_labels="ignore",
        output=tmp_path / "run",
        events=said,
    )
    assert result.selector is None
    (sentence,) = [each for each in said.warnings if "No selector was trained" in each]
    told("`compare --preset diffgan`", "nobody says what the finds show", sentence)
    folder = RunFolder.open(tmp_path / "run")
    assert folder.manifest["status"] == "done"
    assert "No selector was trained" in folder.file("report.html").read_text(encoding="utf-8")


# -- what is refused before anything is trained -----------------------------------------------------------------------


def first(images: ImageSet, count: int) -> ImageSet:
    return replace(
        images, images=images.images[:count], labels=None if images.labels is None else images.labels[:count]
    )


@pytest.mark.parametrize(
    ("case", "settings", "words"),
    [
        ("too few images for a GAN", {"preset": "diffgan"}, "a GAN takes 100 at least"),
        ("`--tune` where no GAN is trained", {"tune": 3}, "trains no GAN"),
        ("`--oracle` without `--select`", {"oracle": "oracle.onnx"}, "add --select"),
        ("the oracle is model A", {"preset": "diffgan", "oracle": "A"}, "its own judge"),
        ("no such oracle", {"preset": "diffgan", "oracle": "nowhere.onnx"}, "nowhere.onnx"),
    ],
)
def test_what_cannot_be_is_refused_before_anything_is_trained(
    case: str,
    settings: dict[str, object],
    words: str,
    model_files: dict[str, Path],
    digits: ImageSet,
    tmp_path: Path,
    told: Callable[..., None],
) -> None:
    data = first(digits, 60) if "too few" in case else digits
    named = {name: model_files["a"] if value == "A" else value for name, value in settings.items()}
    said = Recording()
    with pytest.raises(UserError, match=words) as caught:
        compare(
            model_files["a"],
            model_files["b"],
            data=data,
            output=tmp_path / "run",
            events=said,
            **named,
        )
    told("`compare --preset diffgan`", case, caught.value)
    assert not (tmp_path / "run").exists()
    assert not any("Training" in line or "Trial" in line for line in said.heard)


def test_a_gan_of_its_own_needs_as_many_images(digits: ImageSet, told: Callable[..., None]) -> None:
    with pytest.raises(UserError, match="a GAN takes 100 at least") as caught:
        train_gan(first(digits, 99))
    told("`train-gan`", "too few images", caught.value)


def test_images_of_one_class_leave_the_selector_out(
    model_files: dict[str, Path], line_config: CompareConfig, digits: ImageSet, tmp_path: Path
) -> None:
    assert digits.labels is not None
    rows = np.flatnonzero(digits.labels == 3)
    images = np.concatenate([digits.images[rows]] * 2)[:150]
    one = replace(digits, images=images, labels=np.full(len(images), 3), names=None)
    config = replace(line_config, budget=Budget.parse("60q"), gan=replace(line_config.gan, steps=10))
    result = compare(
        model_files["a"], model_files["b"], data=one, config=config, preset="diffgan", output=tmp_path / "run"
    )
    assert result.selector is None
    assert RunFolder.open(tmp_path / "run").manifest["no_selector"]


# -- a GAN that collapsed ---------------------------------------------------------------------------------------------


def test_a_gan_that_draws_one_picture_is_refused_and_a_poor_one_warned_of(
    model_files: dict[str, Path], line_config: CompareConfig, tmp_path: Path, told: Callable[..., None]
) -> None:
    """With steps of 1 for its generator the weights run away at once; with ten updates it has learned little."""
    gan = replace(line_config.gan, steps=10)
    away = replace(gan, learning_rate_generator=1.0)
    pair, data = (model_files["a"], model_files["b"]), "digits:test"

    def begin(config: CompareConfig, said: Recording) -> CompareResult:
        return compare(*pair, data=data, config=config, preset="diffgan", output=tmp_path / "run", events=said)

    said = Recording()
    with pytest.raises(UserError, match="has collapsed") as caught:
        begin(replace(line_config, gan=away), said)
    told("`compare --preset diffgan`", "the GAN collapsed", caught.value)
    assert any("Training a GAN" in line for line in said.heard) and not (tmp_path / "run").exists()
    # the training is told, too, and its file is refused before anything else is trained
    file = tmp_path / "gan.safetensors"
    asked = TrainGanConfig(gan=away, split=line_config.split, draws=1, images=200)
    kept = train_gan("digits:test", config=asked, output=file)
    assert "repeats itself" in str(kept.wrong) and kept.readings[-1]["distance"] < 0.01
    said = Recording()
    with pytest.raises(UserError, match="has collapsed"):
        begin(replace(line_config, gan_file=str(file)), said)
    assert not any("Learning" in line or "Training" in line for line in said.heard)

    poor = tmp_path / "poor.safetensors"
    train_gan("digits:test", config=replace(asked, gan=gan), output=poor)
    said = Recording()
    begin(replace(line_config, gan_file=str(poor), budget=Budget.parse("60q"), select=False), said)
    assert any("of little use" in each for each in said.warnings)
    assert "repeats itself" in (tmp_path / "run" / "report.html").read_text(encoding="utf-8")


# -- the GAN is tuned first --------------------------------------------------------------------------------------------


def test_the_tuned_gan_is_the_one_that_is_searched(
    model_files: dict[str, Path], line_config: CompareConfig, tmp_path: Path
) -> None:
    said = Recording()
    gan = replace(line_config.gan, steps=8, seed=5, width=4)
    config = replace(line_config, gan=gan, tuning=TuningConfig(trials=2), budget=Budget.parse("60q"))
    compare(
        model_files["a"],
        model_files["b"],
        data="digits:test",
        config=config,
        preset="diffgan",
        select=False,
        output=tmp_path / "run",
        events=said,
    )
    assert sum(line.startswith("Trial ") for line in said.lines) == 2
    results = json.loads((tmp_path / "run" / "results.json").read_text())
    assert results["gan"]["tuned"].startswith("best of 2 trials of Optuna: FID ")
