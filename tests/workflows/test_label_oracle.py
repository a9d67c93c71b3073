"""A reference model that is one of the models under test in another format judges nothing."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from diffgen.comparison.stages import CompareResult
from diffgen.config import Budget, CompareConfig, SourceConfig, replace
from diffgen.data import load
from diffgen.errors import UserError
from diffgen.events import Message
from diffgen.models import load as load_model
from diffgen.runs.folder import RunFolder
from diffgen.workflows.compare import compare
from diffgen.workflows.label import LabelResult, label_counts, read_store, read_valid_triggers
from diffgen.workflows.label_oracle import label_oracle


def naming(run: str | Path, *, wrongly: bool = False) -> Callable[[Any], Any]:
    """A reference model that knows the real image that every find was made from, and what that shows."""
    finds = read_valid_triggers(RunFolder.open(run))
    known = finds.known.seed_labels
    assert known is not None
    shows = {image.tobytes(): label for image, label in zip(finds.images, known.tolist(), strict=True)}

    def answer(pixels: Any) -> Any:
        images = (pixels * 255).round().astype("uint8")
        return np.eye(10, dtype=np.float32)[[(shows.get(each.tobytes(), 0) + wrongly) % 10 for each in images]]

    return answer


def test_a_model_under_test_in_another_format_is_no_judge(
    finished: CompareResult, model_files: dict[str, Path], tmp_path: Path, told: Callable[[str, str, object], None]
) -> None:
    """A is TorchScript in the run and ONNX here; one that names other things may judge."""
    run = shutil.copytree(finished.run, tmp_path / "run")
    before = label_counts(run)
    with pytest.raises(UserError, match="gives the very answers of model A of the run to") as refused:
        label_oracle(run, model_files["a_onnx"])
    told("`diffgen label`", "a reference model that is model A in another format", refused.value)
    b = load_model(model_files["b"])
    b.prepare(load("digits:test").images)
    with pytest.raises(UserError, match="model B of the run"):
        label_oracle(run, lambda pixels: b.predict((pixels * 255).round().astype("uint8")))
    assert label_counts(run) == before
    events: list[object] = []
    assert label_oracle(run, naming(run), events=events.append).labelled > 0
    assert not warnings_of(events)


def test_a_reference_model_that_is_fed_wrongly_is_warned_of(finished: CompareResult, tmp_path: Path) -> None:
    """It would label hundreds of pictures, and nobody would notice before the selector is worthless."""
    run = shutil.copytree(finished.run, tmp_path / "run")
    events: list[object] = []
    label_oracle(run, naming(run, wrongly=True), events=events.append)
    warning, contradiction = warnings_of(events)
    assert "pictures that the jury recognises, the reference labels name only" in warning
    assert "pre-processing" in warning
    assert "another label than the real image has" in contradiction


@pytest.mark.parametrize("family", ["seeds", None])
def test_the_known_label_of_the_real_image_wins_where_operators_keep_it(
    family: str | None, model_files: dict[str, Path], small_config: CompareConfig, tmp_path: Path
) -> None:
    """A reference model that says 3 of everything contradicts most labels, and nobody would notice."""
    technique = {"technique": "diffgan"} if family else {"technique": "real_data"}
    config = replace(
        small_config,
        budget=Budget(queries=400),
        source=SourceConfig(family=family),
        filters=replace(small_config.filters, names=()),
        **technique,
    )
    run = compare(model_files["a"], model_files["b"], data="digits:test", config=config, output=tmp_path / "run").run
    finds = read_valid_triggers(RunFolder.open(run))
    known = finds.known.seed_labels
    assert known is not None and len(finds) > 0
    against = int((known != 3).sum())
    always: Callable[..., Any] = lambda pixels: np.eye(10, dtype=np.float32)[np.full(len(pixels), 3)]  # noqa: E731

    def labelled(**said: Any) -> tuple[LabelResult, str]:
        events: list[object] = []
        result = label_oracle(run, always, events=events.append, **said)
        (warning,) = (each for each in warnings_of(events) if "the jury" not in each)
        labels, _ = read_store(RunFolder.open(run), finds).of(finds.hashes)
        kept = family is not None and "trust_oracle" not in said
        np.testing.assert_array_equal(labels, known if kept else np.full(len(finds), 3))
        return result, warning

    result, warning = labelled()
    assert (result.contradicted, result.labelled) == (against, len(finds))
    told = f"Of {len(finds):,} pictures, the reference models give {against:,} another label than the real image has"
    assert warning.startswith(told)
    taken = "the reference models' word is taken."
    assert ("--trust-oracle" in warning, warning.endswith(taken)) == (family is not None, family is None)
    assert labelled(trust_oracle=True, force=True)[1].endswith(taken)


def warnings_of(events: list[object]) -> list[str]:
    return [event.text for event in events if isinstance(event, Message) and event.level == "warning"]
