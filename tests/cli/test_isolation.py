"""The process that isolates models is started before torch is imported, and not where no model will be isolated."""

import subprocess
import sys
from pathlib import Path

import pytest

from diffgen.cli import model_options
from diffgen.cli.model_options import start_isolation
from diffgen.config import ModelSpec, Opening, replace
from diffgen.models.isolation import starting
from diffgen.models.isolation.wall import Walls, walls

needs_walls = pytest.mark.skipif(walls().missing is not None, reason=f"no wall here: {walls().missing}")


@pytest.fixture
def spec(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModelSpec:
    """A model that may be isolated; nothing was started, and this machine has no GPU."""
    monkeypatch.setattr(starting, "_server", None)
    monkeypatch.setattr(model_options, "_GPUS", ())
    file = tmp_path / "net.onnx"
    file.write_bytes(b"\x08\x07")
    return ModelSpec(path=str(file))


def _started() -> bool:
    server = starting._server
    if server is not None:
        server.end()
    return server is not None


@needs_walls
@pytest.mark.parametrize("device", ["auto", "cpu"])
def test_it_is_started_for_a_file(spec: ModelSpec, device: str) -> None:
    start_isolation([ModelSpec(path="https://example.com/v2/models/net"), spec], device)
    assert _started()


@needs_walls
@pytest.mark.parametrize(("names", "torch"), [(["a.onnx", "b.TFLITE"], False), (["a.onnx", "b.pt"], True)])
def test_torch_is_imported_beside_diffgens_own_import_where_a_file_needs_it(
    spec: ModelSpec, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, names: list[str], torch: bool
) -> None:
    for name in names:
        (tmp_path / name).touch()
    said: list[bool] = []
    monkeypatch.setattr(starting, "start", lambda *, torch: said.append(torch))
    start_isolation([replace(spec, path=str(tmp_path / name)) for name in names], "cpu")
    assert said == [torch]


def test_it_is_started_for_nothing_else(spec: ModelSpec, tmp_path: Path) -> None:
    openings = [Opening(isolate="off"), Opening(allow_pickle=True), Opening(arch="nets:small")]
    others = [replace(spec, opening=opening) for opening in openings]
    # a name of 300 characters is one that no file system has
    paths = ["https://example.com/v2/models/net", str(tmp_path / "none.onnx"), str(tmp_path), "a" * 300, None]
    start_isolation([*others, *(ModelSpec(path=path) for path in paths)], "cpu")
    assert not _started()


def test_it_is_not_started_where_models_are_on_a_gpu(
    spec: ModelSpec, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    start_isolation([spec], "cuda:1")
    monkeypatch.setattr(model_options, "_GPUS", (str(tmp_path),))
    start_isolation([spec], "auto")
    assert not _started()


def test_it_is_not_started_where_there_is_no_wall(spec: ModelSpec, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("diffgen.models.isolation.wall.walls", lambda: Walls(0, "there is none"))
    start_isolation([spec], "cpu")
    assert not _started()


@pytest.mark.parametrize("verb", ["compare", "check", "inspect"])
@needs_walls
def test_it_is_started_before_torch_is_imported(verb: str, tmp_path: Path) -> None:
    (tmp_path / "a.onnx").write_bytes(b"\x08\x07")
    program = f"""
import sys
import diffgen.cli
from diffgen.models.isolation import starting

def start(**_):
    print("torch" in sys.modules)
    raise KeyboardInterrupt

starting.start = start
models = ["a.onnx"] if {verb!r} == "inspect" else ["a.onnx", "a.onnx"]
sys.exit(diffgen.cli.main([{verb!r}, *models, "--data", "digits", "--device", "cpu"]))
"""
    done = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.stdout.split() == ["False"], done.stderr
