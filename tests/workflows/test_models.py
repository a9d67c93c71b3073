"""Models of a run: the order of classes, what is recorded, and what may run code when a run is opened again."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest
import torch

from diffgen.comparison.named_settings import stored_settings
from diffgen.config import (
    Budget,
    CompareConfig,
    GanConfig,
    ModelSpec,
    Opening,
    Preprocessing,
    SearchConfig,
    replace,
)
from diffgen.errors import UserError
from diffgen.runs.folder import RunFolder
from diffgen.workflows.compare import compare
from diffgen.workflows.replay import replay
from diffgen.workflows.resume import resume

NETS = """
import pathlib, torch
with open(pathlib.Path(__file__).with_name("imported"), "a") as file:
    file.write("x")
def build():
    return torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(784, 10))
class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = build()
    def forward(self, pixels):
        return self.layers(pixels)
"""
SMALL = CompareConfig(
    budget=Budget(queries=100),
    device="cpu",
    gan=GanConfig(width=16, steps=20, batch_size=32, monitor_checks=0),
    search=SearchConfig(population=50),
)


class Mark:
    """Makes a folder when it is unpickled."""

    def __init__(self, place: str) -> None:
        self.place = place

    def __reduce__(self) -> tuple[object, ...]:
        return (os.mkdir, (self.place,))


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The user's folder: a module, weights of its network, and a pickle of it."""
    folder = tmp_path_factory.mktemp("place")
    (folder / "workflow_nets.py").write_text(NETS)
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(folder))
        import workflow_nets

        torch.manual_seed(1)
        torch.save({"state_dict": workflow_nets.build().state_dict()}, folder / "weights.pt")
        torch.save(workflow_nets.Net().eval(), folder / "whole.pt")
    return folder


@pytest.fixture
def fresh(place: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The same with the module forgotten, and with the user standing there."""
    monkeypatch.chdir(place)
    monkeypatch.delitem(sys.modules, "workflow_nets", raising=False)
    (place / "imported").unlink(missing_ok=True)
    return place


def test_code_is_not_run_again_without_consent(fresh: Path, tmp_path: Path) -> None:
    arch = ModelSpec(opening=Opening(arch="workflow_nets:build"))
    pickled, nothing = ModelSpec(opening=Opening(allow_pickle=True)), ModelSpec()
    config = replace(SMALL, models=(arch, pickled))
    run = compare("weights.pt", "whole.pt", data="digits:test", config=config, output=tmp_path / "run").run
    a, b = stored_settings(RunFolder.open(run)).models
    assert (a.opening.arch, a.opening.allow_pickle) == ("workflow_nets:build", False)
    assert (b.opening.arch, b.opening.allow_pickle) == (None, True)
    assert (Path(a.path).name, Path(b.path).name) == ("weights.pt", "whole.pt")
    sys.modules.pop("workflow_nets")
    (fresh / "imported").unlink()

    with pytest.raises(UserError, match=r"was built by --arch workflow_nets:build, .* add --a-arch"):
        replay(run)
    with pytest.raises(UserError, match="--a-arch"):
        replay(run, options=(nothing, pickled))
    assert not (fresh / "imported").exists()
    with pytest.raises(UserError, match="--allow-pickle, which may run any code; add --b-allow-pickle"):
        replay(run, options=(arch, nothing))
    assert "workflow_nets" in sys.modules  # model A was allowed
    result = replay(run, options=(arch, pickled))
    assert result.reproduced == result.replayed

    folder = RunFolder.open(run)
    folder.save_manifest(status="running")
    with pytest.raises(UserError, match="--a-arch"):
        resume(run)
    assert resume(run, options=(arch, pickled)).run == run


def test_a_file_that_has_changed_is_not_opened(fresh: Path, tmp_path: Path) -> None:
    """The check comes before the pickle is read, not after."""
    copy = tmp_path / "whole.pt"
    copy.write_bytes((fresh / "whole.pt").read_bytes())
    pickled = (ModelSpec(opening=Opening(allow_pickle=True)),) * 2
    config = replace(SMALL, models=pickled)
    run = compare(copy, "whole.pt", data="digits:test", config=config, output=tmp_path / "run").run
    torch.save(Mark(str(tmp_path / "mark")), copy)
    with pytest.raises(UserError, match="has changed since"):
        replay(run, options=pickled)
    assert not (tmp_path / "mark").exists()


def test_pre_processing_is_recorded_and_the_sidecar_not_read_again(
    model_files: dict[str, Path], tmp_path: Path
) -> None:
    path = tmp_path / "conv.pt"
    path.write_bytes(model_files["a"].read_bytes())
    sidecar = tmp_path / "conv.pt.toml"
    names = [f"digit {number}" for number in range(10)]
    sidecar.write_text(f"mean = [0.1]\nstd = [0.9]\nclass_names = {json.dumps(names)}\n")
    config = replace(SMALL, models=(ModelSpec(preprocessing=Preprocessing(std=(0.8,))), ModelSpec()))
    run = compare(path, model_files["b"], data="digits:test", config=config, output=tmp_path / "run").run
    stored = stored_settings(RunFolder.open(run)).models[0]
    assert (stored.preprocessing.mean, stored.preprocessing.std) == ((0.1,), (0.8,))
    assert None not in vars(stored.preprocessing).values()
    assert (stored.preprocessing.layout, stored.preprocessing.outputs) == ("nchw", "logits")
    assert stored.class_names == tuple(names)
    sidecar.write_text("nonsense")
    result = replay(run)
    assert result.reproduced == result.replayed == result.same_labels


def test_names_are_those_of_the_data_else_those_of_a_model(model_files: dict[str, Path], tmp_path: Path) -> None:
    from diffgen.data import load

    digits = load("digits:test")
    names = tuple(f"model says {number}" for number in range(10))
    config = replace(SMALL, models=(ModelSpec(), ModelSpec(class_names=names)))
    numbers, letters = tuple("0123456789"), tuple("abcdefghij")
    for class_names, wanted in ((None, names), (numbers, names), (letters, letters)):
        data = type(digits)(digits.images, digits.labels, class_names, "digits in memory")
        run = compare(
            model_files["a"], model_files["b"], data=data, config=config, output=tmp_path / "run", force=True
        ).run
        assert tuple(RunFolder.open(run).results()["class_names"]) == wanted
        assert wanted[0] in (Path(run) / "report.html").read_text()


def test_a_label_map_puts_the_classes_of_b_into_the_order_of_a(model_files: dict[str, Path], tmp_path: Path) -> None:
    """B is A with its classes in the opposite order: mapped, nothing is left to find."""
    network = torch.jit.load(str(model_files["a"]))

    class Backwards(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.network = network

        def forward(self, pixels: torch.Tensor) -> torch.Tensor:
            return self.network(pixels).flip(1)

    torch.jit.save(torch.jit.trace(Backwards().eval(), torch.zeros(2, 1, 28, 28)), str(tmp_path / "b.pt"))
    mapping = tmp_path / "map.csv"
    mapping.write_text("\n".join(f"{number},{9 - number}" for number in range(10)))
    config = replace(SMALL, models=(ModelSpec(), ModelSpec(label_map=mapping)))
    result = compare(model_files["a"], tmp_path / "b.pt", data="digits:test", config=config, output=tmp_path / "run")
    assert result.triggers == 0
    folder = RunFolder.open(result.run)
    assert folder.results()["preflight"]["agreement"] == 1
    assert stored_settings(folder).models[1].class_order == tuple(range(9, -1, -1))
    mapping.unlink()  # is not needed any more
    assert replay(result.run).replayed == 0
    with pytest.raises(UserError, match="cannot be read"):
        compare(model_files["a"], tmp_path / "b.pt", data="digits:test", config=config, output=tmp_path / "other")
    assert not (tmp_path / "other").exists()


def test_another_file_is_fed_as_its_sidecar_says(model_files: dict[str, Path], tmp_path: Path) -> None:
    run = compare(model_files["a"], model_files["b"], data="digits:test", config=SMALL, output=tmp_path / "run").run
    triggers = RunFolder.open(run).read_triggers()
    assert len(triggers.images) > 0
    network = torch.jit.load(str(model_files["a"]))

    class Inverted(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.network = network

        def forward(self, pixels: torch.Tensor) -> torch.Tensor:
            return self.network(1 - pixels.permute(0, 3, 1, 2))

    path = tmp_path / "inverted.pt"
    torch.jit.save(torch.jit.trace(Inverted().eval(), torch.zeros(2, 28, 28, 1)), str(path))
    (tmp_path / "inverted.pt.toml").write_text("invert = true")
    result = replay(run, path, model_files["b"])
    assert result.same_labels == result.replayed
    plain_a = ModelSpec(preprocessing=Preprocessing(invert=False))
    plain = replay(run, path, model_files["b"], options=(plain_a, ModelSpec()))
    assert plain.same_labels < result.same_labels
