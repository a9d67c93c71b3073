"""Classes are shown by name wherever a person looks, from whatever source the names come."""

from __future__ import annotations

import csv
import html
import json
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest

from diffgen.cli.table import print_result
from diffgen.comparison.stages import CompareResult
from diffgen.config import Budget, CompareConfig, FilterConfig, GanConfig, ModelSpec, SearchConfig
from diffgen.data import load
from diffgen.models import load as load_model
from diffgen.report.markdown import escape_markdown
from diffgen.runs.folder import RunFolder
from diffgen.types import ImageSet
from diffgen.workflows.compare import compare
from diffgen.workflows.export import export
from diffgen.workflows.inspect import inspect
from diffgen.workflows.replay import replay
from diffgen.workflows.resume import resume

NAMES = ("<b>zero</b>", "one & only", "two|pipes", "=three()", "vier", "five*", "'six'", '"seven"', "huit", "[nine](x)")
SMALL = CompareConfig(
    budget=Budget(queries=200),
    device="cpu",
    gan=GanConfig(width=16, steps=20, batch_size=32, monitor_checks=0),
    search=SearchConfig(population=50),
    filters=FilterConfig(names=()),  # everything passes, fit to be seen or not
)


@pytest.fixture(params=["data", "sidecar", "ONNX metadata"])
def named(
    request: pytest.FixtureRequest, model_files: dict[str, Path], digits: ImageSet, tmp_path: Path
) -> CompareResult:
    """A run whose names come from one of the sources."""
    model = Path(shutil.copy(model_files["b"], tmp_path / "b.onnx"))
    if request.param == "sidecar":
        model.with_name("b.onnx.toml").write_text(f"class_names = {json.dumps(NAMES)}\n")
    elif request.param == "ONNX metadata":
        graph = onnx.load(model)
        graph.metadata_props.add(key="names", value=str(dict(enumerate(NAMES))))
        onnx.save(graph, model)
    names = NAMES if request.param == "data" else None
    data = ImageSet(digits.images, digits.labels, names, "digits in memory")
    return compare(model_files["a"], model, data=data, config=SMALL, output=tmp_path / "run")


def test_everywhere(
    named: CompareResult, model_files: dict[str, Path], digits: ImageSet, tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    run = Path(named.run)
    assert RunFolder.open(run).results()["class_names"] == list(NAMES)
    assert named.valid_triggers > 0
    a, b, count = named.most_frequent[0]
    assert a in NAMES and b in NAMES and count > 0
    assert resume(run).most_frequent == named.most_frequent
    print_result(named)
    assert f"most frequent                A says {a}, B says {b}: {count:,}" in capsys.readouterr().out

    page = (run / "report.html").read_text()
    assert html.escape(a, quote=False) in page or html.escape(a) in page
    for name in NAMES:
        assert name not in page or name == html.escape(name)
    summary = (run / "summary.md").read_text()
    assert f"| {escape_markdown(a)} | {escape_markdown(b)} | {count:,} |" in summary
    assert "<b>" not in summary

    export(run, tmp_path / "out", everything=True)
    with (tmp_path / "out" / "triggers.csv").open(newline="") as file:
        table = list(csv.DictReader(file))
    triggers = RunFolder.open(run).read_triggers().labels
    for row in table:
        wanted = NAMES[triggers[int(row["number"])][0]]
        assert row["name_a"] == (f"'{wanted}" if wanted.startswith("=") else wanted)
        assert (tmp_path / "out" / row["file"]).is_file()

    again = replay(run, model_files["a"], model_files["a"])
    assert len(again.lost) == named.triggers == len(again.lost_labels)
    assert {name for pair in again.lost_labels for name in pair} <= set(NAMES)


def test_inspect_names_what_a_comparison_would(model_files: dict[str, Path], tmp_path: Path) -> None:
    """The sidecar's names go before those of the file, and are kept when it is written anew."""
    model = tmp_path / "b.onnx"
    graph = onnx.load(model_files["b"])
    graph.metadata_props.add(key="names", value=str([f"file {number}" for number in range(10)]))
    onnx.save(graph, model)
    assert inspect(model, data="digits:test").class_names == tuple(f"file {number}" for number in range(10))
    model.with_name("b.onnx.toml").write_text(f"class_names = {json.dumps(NAMES)}\n")
    found = inspect(model, data="digits:test", write=True, force=True)
    assert found.class_names == NAMES == load_model(model).class_names


def test_a_label_map_by_the_names_of_the_data(model_files: dict[str, Path], tmp_path: Path) -> None:
    """A has names in its own order; B has none, and counts as the data's folders do."""
    data = load("digits:test")
    assert data.labels is not None
    order = tuple(sorted(NAMES))
    labels = np.array([order.index(NAMES[label]) for label in data.labels])
    folders = ImageSet(data.images, labels, order, "digits in folders")
    a = load_model(model_files["a"], device="cpu")
    a.prepare(data.images[:100])
    own = [NAMES.index(name) for name in order]

    def b(images: np.ndarray) -> np.ndarray:
        return a.raw_outputs(np.round(images * 255).astype(np.uint8))[:, own]

    (tmp_path / "map.json").write_text(json.dumps({name: name for name in NAMES}))
    models = (ModelSpec(class_names=NAMES), ModelSpec(label_map=str(tmp_path / "map.json")))
    config = replace(SMALL, budget=Budget(queries=50), models=models)
    result = compare(model_files["a"], b, data=folders, config=config, output=tmp_path / "run")
    results = RunFolder.open(result.run).results()
    assert results["class_names"] == list(NAMES)
    assert results["preflight"]["agreement"] == 1
    assert results["preflight"]["accuracy"][0] > 0.9


def test_a_label_map_by_name(model_files: dict[str, Path], tmp_path: Path) -> None:
    """B is A with other names in another order; in the report they are A's."""
    import torch

    class Backwards(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.network = torch.jit.load(str(model_files["a"]))

        def forward(self, pixels: torch.Tensor) -> torch.Tensor:
            return self.network(pixels).flip(1)

    torch.jit.save(torch.jit.trace(Backwards().eval(), torch.zeros(2, 1, 28, 28)), str(tmp_path / "b.pt"))
    theirs = tuple(f"klasse {number}" for number in range(9, -1, -1))
    (tmp_path / "map.json").write_text(json.dumps({f"klasse {number}": NAMES[number] for number in range(10)}))
    config = replace(
        SMALL,
        budget=Budget(queries=50),
        models=(
            ModelSpec(class_names=NAMES),
            ModelSpec(class_names=theirs, label_map=str(tmp_path / "map.json")),
        ),
    )
    data = load("digits:test")
    unnamed = ImageSet(data.images, data.labels, None, "digits in memory")
    result = compare(model_files["a"], tmp_path / "b.pt", data=unnamed, config=config, output=tmp_path / "run")
    assert result.triggers == 0
    results = RunFolder.open(result.run).results()
    assert results["class_names"] == list(NAMES)
    assert results["preflight"]["agreement"] == 1
