"""``explain``: two models, a run, the sidecar; and the probable cause in ``check`` and ``compare``."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from diffgen.cli import main
from diffgen.config import Budget, CheckConfig, CompareConfig, Limits, ModelSpec, Opening, Preprocessing, RemoteConfig
from diffgen.errors import UserError
from diffgen.models import read_sidecar
from diffgen.report.from_run import write_report
from diffgen.runs.folder import RunFolder
from diffgen.types import ImageSet
from diffgen.workflows.check import check
from diffgen.workflows.compare import compare
from diffgen.workflows.explain import explain
from tests.conftest import ASSETS
from tests.models.remote.oip_server import OipServer, onnx_model

HERE = Opening(isolate="off")  # to start the process that isolates models takes most of the time
PLAIN = ModelSpec(opening=HERE), ModelSpec(opening=HERE)
INVERTED = PLAIN[0], ModelSpec(opening=HERE, preprocessing=Preprocessing(invert=True))


def test_the_sidecar_is_written(model_files: dict[str, Path], digits: ImageSet, tmp_path: Path) -> None:
    candidate = tmp_path / "candidate.onnx"
    candidate.write_bytes(model_files["a_onnx"].read_bytes())
    found = explain(model_files["a"], candidate, data=digits, options=INVERTED, write=True)
    assert found.options == "--no-b-invert" and found.written == f"{candidate}.toml"
    assert found.verdict.startswith("Model B sees black for white, and white for black. This explains 100%")
    assert read_sidecar(candidate).preprocessing.invert is None  # as is usual
    agreed = explain(model_files["a"], candidate, data=digits, options=PLAIN)
    assert not agreed.explanation.found and agreed.options == "" and agreed.written is None
    stages: list[str] = []
    with pytest.raises(UserError, match="exists; add --force"):
        explain(
            model_files["a"],
            candidate,
            data=digits,
            options=INVERTED,
            write=True,
            events=lambda event: stages.append(getattr(event, "name", "")),
        )
    assert not any(each.startswith("Looking for a fault") for each in stages)  # nothing was asked in vain


def test_labels_are_not_needed(model_files: dict[str, Path], digits: ImageSet) -> None:
    unlabelled = ImageSet(digits.images[:60], None, None, "sixty")
    found = explain(model_files["a"], model_files["a_onnx"], data=unlabelled, options=INVERTED)
    assert found.explanation.found[0].tested == 30
    json.dumps(found.as_dict())


def test_a_model_behind_an_address(model_files: dict[str, Path], digits: ImageSet) -> None:
    with OipServer({"a": onnx_model(model_files["a_onnx"])}, binary=True) as server:
        found = explain(model_files["a"], f"http://127.0.0.1:{server.port}/v2/models/a", data=digits, options=INVERTED)
        assert found.options == "--no-b-invert"
        assert server.images <= found.explanation.queries
    with OipServer({"a": onnx_model(model_files["a_onnx"])}, binary=True) as server:
        paid = PLAIN[0], replace(INVERTED[1], opening=replace(HERE, remote=RemoteConfig(query_budget=250)))
        address = f"http://127.0.0.1:{server.port}/v2/models/a"
        found = explain(model_files["a"], address, data=digits, options=paid)
        assert found.explanation.found or found.explanation.cut_short
        assert server.images <= 250


@pytest.mark.slow
def test_a_comparison_names_the_cause(
    model_files: dict[str, Path], digits: ImageSet, small_config: CompareConfig, tmp_path: Path
) -> None:
    config = replace(small_config, models=INVERTED)
    run = compare(model_files["a_onnx"], model_files["a_onnx"], data=digits, config=config, output=tmp_path / "run")
    assert run.cause.startswith("Model B sees black for white") and run.cause.endswith("Options: --no-b-invert")
    assert run.as_dict()["cause"] == run.cause
    assert "Probable cause" in (tmp_path / "run" / "report.html").read_text()


def test_other_weights_are_said_in_the_report(take: Callable[[str, Path], Path], tmp_path: Path) -> None:
    run = take("done", tmp_path / "run")
    assert "Probable cause" not in (run / "report.html").read_text()
    found = explain(run, options=PLAIN)
    assert not found.explanation.found  # a.onnx and b.onnx have other weights
    # the finds, on which nearly any change brings the models together, say nothing
    models = (ASSETS / name for name in ("a.onnx", "b.onnx"))
    assert found.verdict == explain(*models, data="digits:test", options=PLAIN).verdict
    assert "The weights differ" in (run / "report.html").read_text()
    folder, picture = RunFolder.open(run), np.zeros((1, 1, 28, 28), np.uint8)
    about = folder.read_arrays("cause")["about"]
    folder.write_arrays("cause", {"plain": picture, "changed": picture, "said": np.array([[0, 1, 99]]), "about": about})
    with pytest.raises(UserError, match="names classes that the models lack"):
        write_report(folder)


def test_a_check_names_the_cause(
    model_files: dict[str, Path],
    digits: ImageSet,
    quick: CheckConfig,
    tmp_path: Path,
) -> None:
    comparison = replace(quick.compare, models=INVERTED, budget=Budget(queries=60))
    config = replace(quick, compare=comparison, limits=Limits(max_accuracy_drop=None))
    result = check(model_files["a"], model_files["a_onnx"], data=digits, config=config, output=tmp_path / "run")
    assert result.cause.startswith("Model B sees black for white")
    junit = (tmp_path / "run" / "junit.xml").read_text()
    assert '<property name="probable cause" value="Model B sees black for white' in junit
    assert "Probable cause: Model B" in (tmp_path / "run" / "summary.md").read_text()
    page = tmp_path / "run" / "report.html"
    assert "Probable cause" in page.read_text()
    (tmp_path / "run" / "cause.npz").unlink()
    assert main(["report", str(tmp_path / "run")]) == 0
    assert "Probable cause" not in page.read_text()
    found = explain(tmp_path / "run", data=digits, options=PLAIN)
    assert found.report == str(page) and found.options == "--no-b-invert"
    assert "--no-b-invert" in page.read_text()
    clean = check(
        model_files["a"],
        model_files["a_onnx"],
        data=digits,
        config=replace(config, compare=replace(comparison, models=PLAIN)),
        output=tmp_path / "clean",
    )
    assert clean.cause == "" and "probable cause" not in (tmp_path / "clean" / "junit.xml").read_text()


def test_what_cannot_be_explained(
    model_files: dict[str, Path], digits: ImageSet, tmp_path: Path, told: Callable[[str, str, object], None]
) -> None:
    a, group = model_files["a"], "`diffgen explain`"
    table = tmp_path / "answers.npz"
    (tmp_path / "net.pt").write_bytes(a.read_bytes())
    np.savez(table, probabilities=np.full((len(digits), 10), 0.1, np.float32))
    cases = {
        "two models and no data": lambda: explain(a, a),
        "fewer queries than tell anything": lambda: explain(a, a, data=digits, options=PLAIN, queries=10),
        "a table of answers": lambda: explain(a, table, data=digits, options=PLAIN),
        "a model in place of a run": lambda: explain(tmp_path / "net.pt"),
    }
    for case, call in cases.items():
        with pytest.raises(UserError) as error:
            call()
        told(group, case, error.value)


def test_the_command(model_files: dict[str, Path], capsys: pytest.CaptureFixture[str]) -> None:
    words = [str(model_files["a"]), str(model_files["a_onnx"]), "--data", "digits:test", "-q", "--isolate", "off"]
    assert main(["explain", *words, "--b-invert", "--json"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert "options: --no-b-invert" in lines
    assert json.loads(lines[-1])["found"][0]["cause"] == "inverted"
    assert main(["explain", *words]) == 0
    assert "there is nothing to explain." in capsys.readouterr().out
    for option in (["--fit", "stretch"], ["--exif", "apply"], ["--batch-size", "8"]):
        assert main(["explain", "runs/mine", "-q", *option]) == 2
        assert f"leave {option[0]} out" in capsys.readouterr().err
