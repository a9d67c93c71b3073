"""What was reported is asked about again: in this process, in a new one, and from the picture files alone."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from diffgen.cli import main
from diffgen.comparison.stages import CompareResult
from diffgen.config import CompareConfig, replace
from diffgen.errors import UserError
from diffgen.workflows.browse import TriggerQuery, browse
from diffgen.workflows.compare import compare
from diffgen.workflows.replay import replay


@pytest.mark.parametrize("images_only", [False, True])
def test_everything_is_reproduced(finished: CompareResult, images_only: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("diffgen.workflows.replay._BATCH", 13)  # of a large run there are several batches
    result = replay(finished.run, images_only=images_only)
    assert result.reproduced == result.same_labels == result.replayed > 0
    assert result.lost == ()
    if not images_only:
        assert result.replayed == finished.triggers


def test_everything_is_reproduced_in_a_new_process(finished: CompareResult, repository: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "diffgen", "replay", finished.run, "--json", "-q"],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONPATH": str(repository)},
    )
    values = json.loads(done.stdout.splitlines()[-1])
    assert finished.faults is not None
    # as many as in the report
    counted = {name: before for name, (before, _) in values["faults"].items()}
    assert counted == {name: each["pictures"] for name, each in finished.faults.items()}
    assert sum(counted.values()) == finished.recognised_distinct_triggers > 0
    assert {name: before == now for name, (before, now) in values.pop("faults").items()} == dict.fromkeys(
        "BA", True
    ) | {"all": True}
    assert values == {"run": finished.run, "replayed": finished.triggers, "reproduced": finished.triggers}


def test_other_models_are_asked_when_named(finished: CompareResult, model_files: dict[str, Path]) -> None:
    """The same model in another format still triggers; a model against itself does not."""
    assert replay(finished.run, model_files["a_onnx"], model_files["b"]).reproduced == finished.triggers
    agreeing = replay(finished.run, model_files["a"], model_files["a_onnx"])
    assert agreeing.reproduced == 0
    assert agreeing.faults is not None and agreeing.faults["A"][1] == agreeing.faults["B"][1] == 0
    assert len(agreeing.lost) == finished.triggers


def test_a_changed_model_file_is_noticed(
    model_files: dict[str, Path], small_config: CompareConfig, tmp_path: Path
) -> None:
    copy = tmp_path / "b.onnx"
    copy.write_bytes(model_files["b"].read_bytes())
    config = replace(small_config, budget=replace(small_config.budget, queries=100))
    run = compare(model_files["a"], copy, data="digits:test", config=config, output=tmp_path / "run").run
    copy.write_bytes(model_files["a_onnx"].read_bytes())
    with pytest.raises(UserError, match="has changed since"):
        replay(run)
    copy.unlink()
    with pytest.raises(UserError, match=r"b\.onnx"):
        replay(run)


def test_a_folder_that_is_no_run(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="not a run folder"):
        replay(tmp_path)


def test_one_trigger_is_asked_about_alone(finished: CompareResult, capsys: pytest.CaptureFixture[str]) -> None:
    finds = browse(finished.run)
    wanted = finds.numbers(TriggerQuery("all"))[[7, 2]].tolist()
    assert replay(finished.run, triggers=wanted[0]).replayed == 1
    result = replay(finished.run, triggers=[*wanted, wanted[0]])
    assert (result.replayed, result.reproduced) == (2, 2)
    said = [tuple(finds.class_names[label] for label in finds.find(number).picture.labels) for number in wanted]
    assert result.said_again == tuple(said)
    assert main(["replay", finished.run, "--trigger", str(wanted[0]), "-q", "--json"]) == 0
    out = capsys.readouterr().out
    assert f"Now they say: A {said[0][0]}, B {said[0][1]}." in out
    assert json.loads(out.splitlines()[-1])["said_again"] == [[*said[0]]]


def test_a_trigger_that_was_not_reported_is_told_of(
    finished: CompareResult, told: Callable[[str, str, object], None]
) -> None:
    first = ", ".join(map(str, browse(finished.run).numbers(TriggerQuery("all"))[:3]))
    with pytest.raises(
        UserError, match=rf"reported no trigger 999999; give a number from its report, such as {first}\."
    ) as error:
        replay(finished.run, triggers=[999_999])
    told("Run folders", "`--trigger` with a number that the run did not report", error.value)
