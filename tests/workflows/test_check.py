"""The gate on real models: what it measures, what it knows, and that nothing unfinished passes."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from lxml import etree

from diffgen.comparison.stages import CompareResult
from diffgen.config import Budget, CheckConfig, CompareConfig, Limits, SourceConfig, replace
from diffgen.data import load
from diffgen.errors import UserError
from diffgen.gate.result import CheckResult
from diffgen.gate.rules import Status
from diffgen.models.loading import file_digest
from diffgen.runs.cache import cache_folder
from diffgen.runs.folder import RunFolder
from diffgen.runs.store import read_store
from diffgen.testing import assert_no_regression, failure_message
from diffgen.types import Float32Array, ImageSet
from diffgen.workflows.accept import accept
from diffgen.workflows.check import check, resume_check
from diffgen.workflows.listing import draw_report
from diffgen.workflows.replay import replay
from diffgen.workflows.resume import resume
from tests.recording import Recording
from tests.workflows.breaking import InSearch

CLASSES = 10


@pytest.fixture(scope="module")
def config(small_config: CompareConfig) -> CheckConfig:
    # the two models differ much, and so does their accuracy
    limits = Limits(max_new_behaviours=0, max_accuracy_drop=1.0, max_regression_faults=1000)
    return CheckConfig(limits=limits, random_images=300, variations=200, compare=small_config)


@pytest.fixture(scope="module")
def failed(
    model_files: dict[str, Path], config: CheckConfig, tmp_path_factory: pytest.TempPathFactory
) -> tuple[CheckResult, Path]:
    """A check of two models that differ much, and a store that is not there yet; not to be changed."""
    folder, told = tmp_path_factory.mktemp("checks"), Recording()
    limited = replace(
        config, limits=replace(config.limits, max_disagreement=0.9, max_regression_faults=0, max_shift=1.0)
    )
    store = folder / "store"
    result = check(
        model_files["a"],
        model_files["b"],
        data="digits:test",
        store=store,
        config=limited,
        output=folder / "failed",
        events=told,
    )
    assert sum(f"The store {store} holds nothing yet" in line for line in told.warnings) == 1
    return result, store


@pytest.fixture(scope="module")
def store(failed: tuple[CheckResult, Path]) -> Path:
    """The store with everything in it that the check found."""
    result, place = failed
    assert not place.exists()  # a check writes nothing into a store
    accepted = accept(result.run, place)
    assert (accepted.added, accepted.known) == (len(result.values.new), 0)
    return place


def record_of(result: CheckResult) -> dict[str, Any]:
    return json.loads((Path(result.run) / "results.json").read_text(encoding="utf-8"))["check"]


def test_values_are_what_plain_counting_gives(
    failed: tuple[CheckResult, Path], model_files: dict[str, Path], digits: ImageSet, finished: CompareResult
) -> None:
    result, _ = failed
    values, folder = result.values, RunFolder.open(result.run)
    assert digits.labels is not None
    from diffgen.models import load as load_model

    said = []
    for name in ("a", "b"):
        model = load_model(model_files[name], device="cpu")
        model.prepare(digits.images)
        said.append(model.predict(digits.images))
    a, b = (each.argmax(axis=1) for each in said)
    assert (values["disagreement_real"].count, values["disagreement_real"].of) == ((a != b).sum(), len(digits))
    assert values["regression_faults"].count == ((a == digits.labels) & (b != digits.labels)).sum()
    assert values["accuracy_drop"].share == pytest.approx((a == digits.labels).mean() - (b == digits.labels).mean())
    assert values["shift_real"].largest == pytest.approx(np.abs(said[0] - said[1]).max(), abs=1e-5)
    # the same search as compare's, and every distinct valid trigger of it is in exactly one behaviour
    assert folder.results()["triggers"] == finished.triggers
    assert sum(each.count for each in values.behaviours) == finished.distinct_valid_triggers
    assert len(values.behaviours) == folder.results()["behaviours"] == finished.behaviours
    assert values["disagreement_random"].of == 300 <= values.accepted <= values.drawn


def test_verdict_is_in_every_file(failed: tuple[CheckResult, Path]) -> None:
    result, _ = failed
    assert result.status is Status.FAIL and result.exit_code == 1
    run, record = Path(result.run), record_of(result)
    assert record["status"] == "FAIL" and record["schema_version"] == 1
    failing = {each["name"] for each in record["conditions"] if each["status"] == "FAIL"}
    assert failing == {"new_behaviours", "regression_faults"}
    cases = etree.parse(run / "junit.xml").findall(".//testcase")
    assert len(cases) == len(record["conditions"]) + len(record["behaviours"])
    assert (run / "summary.md").read_text(encoding="utf-8").startswith("## ❌ diffgen check: FAIL")
    assert 'id="gate"' in (run / "report.html").read_text(encoding="utf-8")
    # the candidate's faults first, then what is shifted most
    order = [(each["faults"] == 0, -each["shift"]) for each in record["behaviours"]]
    assert order == sorted(order) and order[0][0] is False
    # the run is an ordinary run too
    assert replay(run).reproduced == RunFolder.open(run).results()["triggers"]


def test_what_was_accepted_is_known(
    failed: tuple[CheckResult, Path], store: Path, model_files: dict[str, Path], config: CheckConfig, tmp_path: Path
) -> None:
    told = Recording()
    result = check(
        model_files["a"],
        model_files["b"],
        data="digits:test",
        store=store,
        config=config,
        output=tmp_path / "again",
        events=told,
    )
    assert not any("holds nothing yet" in line for line in told.warnings)
    assert result.status is Status.PASS
    assert result.values.new == () and len(result.values.behaviours) == len(failed[0].values.behaviours)
    pictures = sum(len(each.images) for each in read_store(store).behaviours)
    assert (result.values.replay.pictures, result.values.replay.still) == (pictures, pictures)
    # held against what was accepted, and as severe as that
    severity = {each.name: each for each in result.conditions if each.limit.find("accepted") >= 0}
    assert severity.keys() == {
        "accuracy_drop_accepted",
        "disagreement_real_accepted",
        "disagreement_random_accepted",
        "known_behaviours",
    }
    assert {each.status for each in severity.values()} == {Status.PASS}
    assert len(result.values.known) == len(read_store(store).behaviours)
    met = sum(each.pictures for each in result.values.known)
    assert met == sum(each.known for each in result.values.behaviours) > 0
    assert accept(result.run, store).added == 0
    sizes = [file.stat().st_size for file in store.rglob("*.png")]
    assert len(sizes) == pictures <= 4 * len(result.values.behaviours) and max(sizes) < 2000


def test_stored_pictures_with_other_labels_are_new(
    failed: tuple[CheckResult, Path], store: Path, model_files: dict[str, Path], config: CheckConfig, tmp_path: Path
) -> None:
    """Base and candidate changed places: every stored picture still triggers, the other way round."""
    short = replace(config, compare=replace(config.compare, budget=Budget(queries=50)))
    result = check(
        model_files["b"], model_files["a"], data="digits:test", store=store, config=short, output=tmp_path / "swapped"
    )
    behaviours = result.values.behaviours
    replayed = [each for each in behaviours if each.replayed]
    assert all(set(each.triggers) == {-1} for each in replayed)
    assert result.values.replay.changed == result.values.replay.pictures >= sum(each.count for each in replayed) > 0
    # what both the store and the search met is one behaviour
    assert len({(each.said, each.cell) for each in behaviours}) == len(behaviours)
    found = RunFolder.open(result.run).results()["distinct_valid_triggers"]
    assert sum(each.count for each in behaviours) <= result.values.replay.changed + found
    assert result.status is Status.FAIL
    added = accept(result.run, store.with_name("swapped-store")).added
    assert added == len(result.values.new) > 0
    # the search was a twelfth as long and went another way, and no rate shows it
    assert result.values["disagreement_random"] == failed[0].values["disagreement_random"]


def test_a_worse_candidate_fails_after_a_bad_one_was_accepted(
    store: Path, model_files: dict[str, Path], config: CheckConfig, tmp_path: Path
) -> None:
    """What the worse one does on bright images is not only wrong, it is sure of it."""
    from diffgen.models import load as load_model

    model = load_model(model_files["b"], device="cpu")
    model.prepare(load("digits:test").images)

    def worse(images: np.ndarray) -> Float32Array:
        said = model.predict(np.round(images * 255).astype(np.uint8))
        bright = images.mean(axis=(1, 2, 3)) > np.float32(0.33)
        said[bright] = np.eye(CLASSES, dtype=np.float32)[(said[bright].argmax(axis=1) + 1) % CLASSES]
        return said

    copy = Path(shutil.copytree(store, tmp_path / "store"))
    lenient = Limits(
        max_new_behaviours=None,
        max_accuracy_drop=1.0,
        max_class_accuracy_drop=1.0,
        max_regression_faults=10**6,
        max_variation_faults=1.0,
    )
    short = replace(config, limits=lenient, compare=replace(config.compare, budget=Budget(queries=50)))
    again = {"data": "digits:test", "store": copy, "config": short}
    result = check(model_files["a"], worse, output=tmp_path / "worse", **again)
    failing = {each.name for each in result.conditions if each.status is Status.FAIL}
    assert failing == {
        "accuracy_drop_accepted",
        "disagreement_real_accepted",
        "disagreement_random_accepted",
        "known_behaviours",
    }, (result.conditions, result.values.known)
    assert (result.status, result.exit_code) == (Status.FAIL, 1)
    run = Path(result.run)
    failures = [case.getparent().get("name") for case in etree.parse(run / "junit.xml").findall(".//failure")]
    assert "accuracy drop, against what was accepted" in failures
    for name in ("summary.md", "report.html"):
        assert "against what was accepted" in (run / name).read_text(encoding="utf-8")
    assert "more severe than accepted: base says" in (run / "report.html").read_text(encoding="utf-8")
    assert "known behaviours" in failure_message(result)
    # whoever looks at it and accepts it is not asked again
    accept(run, copy)
    assert check(model_files["a"], worse, output=tmp_path / "again", **again).status is not Status.FAIL
    # a store of an older version has pictures alone
    shutil.rmtree(copy / "accepted")
    old = check(model_files["a"], worse, output=tmp_path / "old", **again)
    assert not [each for each in old.conditions if "accepted" in each.limit]


TAMPERED: dict[str, Callable[[dict[str, Any], Path], object]] = {
    "labels that are a path": lambda check, away: check["behaviours"][0].update(said=[f"x/../../../../{away}/evil", 3]),
    "labels that are missing": lambda check, away: check["behaviours"][0].pop("said"),
    "more pictures than there are": lambda check, away: check["behaviours"][-1].update(triggers=[1] * 900),
    "a name that a terminal obeys": lambda check, away: check["behaviours"][0].update(names=["\x1b]0;evil\x07", "9"]),
    "a count that is a text": lambda check, away: check["behaviours"][0].update(pictures="many"),
    "values that are a list": lambda check, away: check.update(values=[]),
    "a rate above one": lambda check, away: check["values"]["disagreement_real"].update(count=10**6),
    "a behaviour of the store that is a path": lambda check, away: check.update(
        known=[{"stored": f"../../{away}", "names": ["1", "2"], "pictures": 1, "shift": 0.5}]
    ),
}


@pytest.mark.parametrize("how", TAMPERED)
def test_a_check_that_somebody_changed_reaches_nothing_but_the_store(
    how: str,
    failed: tuple[CheckResult, Path],
    tmp_path: Path,
    told: Callable[[str, str, object], None],
) -> None:
    away = tmp_path / "away"
    away.mkdir()
    run = Path(shutil.copytree(failed[0].run, tmp_path / "run"))
    results = json.loads((run / "results.json").read_text(encoding="utf-8"))
    TAMPERED[how](results["check"], away)
    (run / "results.json").write_text(json.dumps(results), encoding="utf-8")
    with pytest.raises(UserError, match="the run folder is damaged") as caught:
        accept(run, tmp_path / "store")
    assert not (tmp_path / "store").exists() and list(away.iterdir()) == []
    told("Regression stores", f"a check with {how}", caught.value)


def test_whoever_accepts_a_check_is_told_of_errors_too(failed: tuple[CheckResult, Path], tmp_path: Path) -> None:
    """What was measured of a model that does not answer alike twice is chance."""
    run = Path(shutil.copytree(failed[0].run, tmp_path / "run"))
    results = json.loads((run / "results.json").read_text(encoding="utf-8"))
    record = results["check"]
    next(each for each in record["conditions"] if each["name"] == "steadiness")["status"] = "ERROR"
    record["status"] = "ERROR"
    (run / "results.json").write_text(json.dumps(results), encoding="utf-8")
    accepted = accept(run, tmp_path / "store")
    assert {"numeric noise", "regression faults on real images"} <= set(accepted.failed)
    # the same check once more
    again = accept(run, tmp_path / "store")
    assert (again.added, again.known) == (0, accepted.added + accepted.known)


def test_two_commands_accept_at_once(failed: tuple[CheckResult, Path], tmp_path: Path, repository: Path) -> None:
    store = tmp_path / "store"
    command = [sys.executable, "-m", "diffgen", "check", "--accept", failed[0].run, "--store", str(store)]
    environment = {**os.environ, "PYTHONPATH": str(repository)}
    processes = [
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)
        for _ in range(2)
    ]
    said = [each.communicate(timeout=1200) for each in processes]
    assert [each.returncode for each in processes] == [0, 0], said
    added = [int(out.split()[0]) for out, _ in said]
    assert sum(added) == max(added) == len(failed[0].values.new) == len(read_store(store).behaviours)


def test_a_model_against_itself_passes_with_a_gan_from_a_file(
    gan_run: CompareResult, model_files: dict[str, Path], config: CheckConfig, tmp_path: Path
) -> None:
    used = RunFolder.open(gan_run.run).manifest["gan"]
    gan = next(file for file in (cache_folder() / "gan").glob("*.safetensors") if file_digest(file) == used)
    copy = tmp_path / "kept.safetensors"
    copy.write_bytes(gan.read_bytes())
    drawn = replace(config.compare, source=SourceConfig(family="gan"))
    limits = Limits(max_disagreement=0.02, max_accuracy_drop=0.02, max_shift=1e-4)
    limited = replace(config, limits=limits, compare=drawn)
    result = assert_no_regression(
        model_files["a"], model_files["a_onnx"], data="digits:test", gan=copy, config=limited, output=tmp_path / "same"
    )
    assert result.status is Status.PASS
    assert result.values.behaviours == ()
    assert (result.values["disagreement_real"].count, result.values["disagreement_random"].count) == (0, 0)
    assert RunFolder.open(result.run).manifest["gan"] == used


def test_a_search_that_breaks_off_is_an_error_and_is_gone_on_with(
    failed: tuple[CheckResult, Path], model_files: dict[str, Path], config: CheckConfig, tmp_path: Path
) -> None:
    def fail() -> None:
        raise ValueError("out of order")

    watch = InSearch(model_files["b"], fail)
    limited = replace(config, limits=replace(config.limits, max_disagreement=1.0, max_new_behaviours=1000))
    run = tmp_path / "broken"
    result = check(model_files["a"], watch.candidate, data="digits:test", config=limited, output=run, events=watch)
    assert (result.status, result.exit_code) == (Status.ERROR, 3)
    record = record_of(result)
    statuses = {each["name"]: each["status"] for each in record["conditions"]}
    assert statuses["search"] == statuses["new_behaviours"] == "ERROR"
    assert statuses["disagreement_real"] == "PASS"
    assert (record["status"], record["exit_code"]) == ("ERROR", 3)
    assert len(etree.parse(run / "junit.xml").findall(".//error")) == 2
    message = failure_message(result)
    assert "out of order" in message and str(run / "report.html") in message
    page = (run / "report.html").read_text(encoding="utf-8")
    assert "out of order" in page and "did not come to its end" in page
    real = RunFolder.open(run).results()["preflight"]
    assert f"{real['agreement']:.1%}" in page and "disagreement on real images" in page
    (run / "report.html").unlink()
    assert draw_report(run).read_text(encoding="utf-8") == page  # needs neither models nor data
    with pytest.raises(UserError, match="was interrupted, so its findings are incomplete"):
        accept(run, tmp_path / "store")
    with pytest.raises(UserError, match="resume_check"):
        resume(run, model_files["a"], watch.candidate)
    assert result.go_on == f'diffgen.resume_check("{run}", None, model_b)'

    again = resume_check(run, candidate=watch.candidate)
    # as without the break, under the limits that it was started with
    assert (again.status, again.values.search.queries, again.go_on) == (Status.PASS, 600, "")
    allowed = ["1,000", "100.00%", "100.00%", "100.00 points", "10.00 points by default", "1,000"]
    varied = ["15.00% by default", *["100.00 points as the accuracy on the real images"] * 2]
    assert [each.limit for each in again.conditions] == ["", "", "", "2.00 points by default", *allowed, *varied]
    whole = failed[0].values
    for name in ("disagreement_real", "disagreement_random"):
        assert again.values[name] == whole[name]
    assert [(each.said, each.cell, each.count) for each in again.values.behaviours] == [
        (each.said, each.cell, each.count) for each in whole.behaviours
    ]
    assert record_of(again)["status"] == "PASS" and again.report.name == "report.html"
    assert not etree.parse(run / "junit.xml").findall(".//error")
    # a check that is done is read, without its models
    written = (run / "results.json").stat().st_mtime_ns
    assert resume_check(run) == again
    assert (run / "results.json").stat().st_mtime_ns == written


def test_failure_message_names_the_worst_and_the_report(failed: tuple[CheckResult, Path]) -> None:
    result, _ = failed
    text = failure_message(result)
    worst = max(result.values.new, key=lambda each: (each.faults > 0, each.shift))
    assert f"base says {worst.said[0]}, candidate says {worst.said[1]} (cell {worst.cell}" in text.splitlines()[3]
    assert text.splitlines()[-1].endswith("report.html")
    assert len(text.splitlines()) <= 10


def test_a_comparison_is_no_check(finished: CompareResult, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="is no check"):
        accept(finished.run, tmp_path / "store")
    with pytest.raises(UserError, match="diffgen compare --resume"):
        resume_check(finished.run)
    assert not (tmp_path / "store").exists()
